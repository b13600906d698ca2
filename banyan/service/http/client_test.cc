#include "banyan/service/http/client.h"

#include <sys/stat.h>
#include <unistd.h>

#include "banyan/service/http/test_server.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr seconds kPatience{20};

void repeat(const HttpRequest& request, const HttpServer::Reply& reply) {
  if (request.path == "/missing") return reply(http_error(404, "no such thing"));
  const auto found = request.query.find("x");
  reply({.status = 200,
         .type = "text/plain",
         .body = request.method + " " + (found == request.query.end() ? "" : found->second) + " " + request.body});
}

class HttpClientOfEachFamily : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, HttpClientOfEachFamily, ::testing::Values(Family::unix_socket, Family::tcp),
                         [](const auto& given) { return given.param == Family::tcp ? "Tcp" : "Unix"; });

TEST_P(HttpClientOfEachFamily, BringsAnyAnswer) {
  TestServer server(GetParam(), repeat);
  const HttpResponse got = http_ask(server.url(), "GET", "/?x=a%20b", "", kPatience);
  EXPECT_EQ(got.status, 200);
  EXPECT_EQ(got.type, "text/plain");
  EXPECT_EQ(got.body, "GET a b ");
  EXPECT_EQ(http_ask(server.url(), "POST", "/", "{\"a\": 1}", kPatience).body, "POST  {\"a\": 1}");
  EXPECT_EQ(http_ask(server.url(), "POST", "/", "", kPatience).body, "POST  ");
  EXPECT_EQ(http_ask(server.url(), "HEAD", "/", "", kPatience).body, "");
  const HttpResponse missing = http_ask(server.url(), "GET", "/missing", "", kPatience);
  EXPECT_EQ(missing.status, 404);
  EXPECT_EQ(missing.body, "{\"error\":\"no such thing\"}\n");
  const std::string large(size_t{1} << 20, 'x');
  EXPECT_EQ(http_ask(server.url(), "POST", "/", large, kPatience).body, "POST  " + large);
  EXPECT_EQ(http_ask(server.url(), "POST", "/", large + "x", kPatience).status, 413);
}

TEST_P(HttpClientOfEachFamily, DoesNotWaitForEver) {
  std::vector<HttpServer::Reply> kept;
  TestServer server(GetParam(), [&](const HttpRequest&, HttpServer::Reply reply) { kept.push_back(std::move(reply)); });
  EXPECT_THAT(
      testing::error_of([&] { http_ask(server.url(), "GET", "/", "", milliseconds(100)); }, ErrorCode::timed_out),
      AllOf(HasSubstr("'" + server.url() + "' has not answered within 100 ms"), HasSubstr("stopped?")));
}

TEST(HttpClient, NamesThePlaceWhereNobodyListens) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  const std::string url = "unix:" + path;
  const auto ask = [](const std::string& where) { return http_ask(where, "GET", "/", "", kPatience); };
  EXPECT_THAT(testing::error_of([&] { ask(url); }, ErrorCode::not_found),
              AllOf(HasSubstr("no daemon listens at '" + url + "'"), HasSubstr("is banyand running?")));
  listener_at(path);  // which has ended; the socket is left
  EXPECT_THAT(testing::error_of([&] { ask(url); }, ErrorCode::not_found), HasSubstr(url));
  uint16_t port = 0;
  {
    auto [listener, free_port] = listener_on_loopback();
    port = free_port;
  }
  const std::string tcp = "http://127.0.0.1:" + std::to_string(port);
  EXPECT_THAT(testing::error_of([&] { ask(tcp); }, ErrorCode::not_found), HasSubstr(tcp));
  EXPECT_THAT(testing::error_of([&] { ask("http://no-such-host.invalid:1"); }, ErrorCode::not_found),
              HasSubstr("no-such-host.invalid"));
}

TEST(HttpClient, SaysWhoMayUseASocket) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  const run::FileDescriptor listener = listener_at(path);
  ASSERT_EQ(chmod(path.c_str(), 0), 0);
  if (geteuid() != 0) {
    EXPECT_THAT(
        testing::error_of([&] { http_ask("unix:" + path, "GET", "/", "", kPatience); }, ErrorCode::invalid_usage),
        HasSubstr("this user may not use"));
    return;
  }
  // Root may use all, so somebody else asks.
  ASSERT_EQ(chmod(folder.path().c_str(), 0755), 0);
  EXPECT_EXIT(
      {
        CHECK(setuid(65534) == 0);
        const std::string text =
            testing::error_of([&] { http_ask("unix:" + path, "GET", "/", "", kPatience); }, ErrorCode::invalid_usage);
        std::fputs(text.c_str(), stderr);
        std::exit(HasFailure() ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "this user may not use .*; ask as the user that runs the daemon, or as root");
}

TEST(HttpClient, RefusesWhatIsNoPlace) {
  for (const std::string& url :
       {std::string(), std::string("unix:"), "unix:" + std::string(200, 'x'), std::string("https://node1:1"),
        std::string("node1:9420"), std::string("http://"), std::string("http://a b"), std::string("http://a/b"),
        std::string("http://user@node1"), std::string("http://node1:99999"), std::string("ftp://node1")}) {
    EXPECT_THAT(testing::error_of([&] { http_ask(url, "GET", "/", "", kPatience); }, ErrorCode::invalid_input),
                HasSubstr("write unix:PATH or http://HOST:PORT"))
        << url;
  }
}

TEST(HttpClient, SaysWhereWhoListensSpeaksNoHttp) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.path() + "/socket";
  const run::FileDescriptor listener = listener_at(path);
  std::thread stranger([&] {
    pollfd ready{.fd = listener.get(), .events = POLLIN, .revents = 0};
    CHECK(poll(&ready, 1, 20'000) == 1);
    const run::FileDescriptor socket(accept(listener.get(), nullptr, nullptr));
    // Who hangs up at once is taken for nobody.
    char request = 0;
    CHECK(read(socket.get(), &request, 1) == 1);
    CHECK(write(socket.get(), "\0\1\2 garbage\n", 12) == 12);
  });
  EXPECT_THAT(testing::error_of([&] { http_ask("unix:" + path, "GET", "/", "", kPatience); }, ErrorCode::io),
              HasSubstr("cannot ask the daemon at 'unix:" + path + "'"));
  stranger.join();
}

}  // namespace
}  // namespace banyan::service
