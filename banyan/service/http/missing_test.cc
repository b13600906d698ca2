#include "banyan/service/http/client.h"
#include "banyan/service/http/server.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(HttpMissing, SaysWhichLibraryIsMissing) {
  run::Reactor reactor;
  HttpServer server(reactor);
  EXPECT_THAT(testing::error_of([&] { server.serve(run::FileDescriptor(), nullptr); }, ErrorCode::unsupported),
              HasSubstr("libmicrohttpd-dev"));
  EXPECT_THAT(
      testing::error_of([&] { http_ask("unix:/x", "GET", "/", "", std::chrono::seconds(1)); }, ErrorCode::unsupported),
      HasSubstr("libcurl4-openssl-dev"));
}

}  // namespace
}  // namespace banyan::service
