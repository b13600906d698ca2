#include "banyan/service/http/host_names.h"

#include <utility>

namespace banyan::service {

HttpServer::Handler only_for(HostNames names, HttpServer::Handler handler) {
  return [names = std::move(names), handler = std::move(handler)](const HttpRequest& request, HttpServer::Reply reply) {
    if (request.host.empty() || names.has(request.host)) return handler(request, std::move(reply));
    reply(http_error(run::kMisdirected, run::misdirected(request.host, "start banyand with --http-host")));
  };
}

}  // namespace banyan::service
