// Where libmicrohttpd or libcurl was missing when Banyan was built.
#include "banyan/base/error.h"
#include "banyan/service/http/client.h"
#include "banyan/service/http/server.h"

namespace banyan::service {
namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw Error(ErrorCode::unsupported, what +
                                          " needs libmicrohttpd and libcurl (Debian: libmicrohttpd-dev, "
                                          "libcurl4-openssl-dev), without which Banyan was built");
}

}  // namespace

class HttpServer::Door {};

HttpServer::HttpServer(run::Reactor& reactor, Options options) : reactor_(reactor), options_(options) {}
HttpServer::~HttpServer() = default;

void HttpServer::serve(run::FileDescriptor, Handler) { refuse("to answer HTTP"); }

HttpResponse http_ask(const std::string&, const std::string&, const std::string&, const std::string&,
                      std::chrono::milliseconds) {
  refuse("to ask by HTTP");
}

}  // namespace banyan::service
