#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/json_line.h"
#include "banyan/service/http/server.h"

namespace banyan::service {
namespace {

int status_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_input:
      return 400;
    case ErrorCode::not_found:
      return 404;
    case ErrorCode::invalid_usage:
      return 403;
    default:
      return 500;
  }
}

}  // namespace

HttpResponse http_error(int status, const std::string& words) {
  return {.status = status, .type = "application/json", .body = JsonLine().add("error", words).take() + "\n"};
}

HttpResponse http_error(const Error& error) { return http_error(status_of(error.code()), error.what()); }

HttpServer::Handler only_for(HostNames names, HttpServer::Handler handler) {
  return [names = std::move(names), handler = std::move(handler)](const HttpRequest& request, HttpServer::Reply reply) {
    if (request.host.empty() || names.has(request.host)) return handler(request, std::move(reply));
    reply(http_error(run::kMisdirected, run::misdirected(request.host, "start banyand with --http-host")));
  };
}

}  // namespace banyan::service
