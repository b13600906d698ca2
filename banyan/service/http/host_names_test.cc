#include "banyan/service/http/server.h"
#include "banyan/service/http/test_server.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// A page of evil.example whose name stands for the server's address.
TEST(HostNames, OfWhoMeansAnotherHostAreAnsweredWithWhatWouldHelp) {
  HostNames names;
  names.add("node3");
  TestServer server(Family::tcp, only_for(names, [](const HttpRequest& request, const HttpServer::Reply& reply) {
                      reply({.type = "text/plain", .body = "for " + request.host});
                    }));
  const auto ask = [&](const std::string& lines) { return server.ask("GET / HTTP/1.1\r\n" + lines + "\r\n"); };
  EXPECT_EQ(ask("Host: node3:9420\r\n").body, "for node3:9420");
  EXPECT_EQ(ask("Host: 127.0.0.1\r\n").status, 200);
  const Answer refused = ask("Host: evil.example:9420\r\nOrigin: http://evil.example:9420\r\n");
  EXPECT_EQ(refused.status, 421);
  EXPECT_THAT(refused.body, HasSubstr("this host is not known to be called 'evil.example'; ask by its address, or "
                                      "start banyand with --http-host evil.example"));
  EXPECT_EQ(ask("Host: evil.example\r\nX-Forwarded-Host: localhost\r\n").status, 421);
  EXPECT_EQ(server.ask("GET / HTTP/1.0\r\n\r\n").status, 200) << "a program that names none";
}

}  // namespace
}  // namespace banyan::service
