#include "banyan/service/http/host_names.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.h"
#include "banyan/service/http/test_server.h"

namespace banyan::service {
namespace {

using ::testing::HasSubstr;

TEST(HostNames, AreAddressesAndTheLocalHostWithAnyPort) {
  const HostNames names;
  for (const char* host : {"localhost", "LocalHost:9420", "localhost.", "127.0.0.1", "127.0.0.1:9420", "10.1.2.3:80",
                           "[::1]", "[::1]:9420", "[fe80::1]:80", "[::ffff:10.1.2.3]:80"}) {
    EXPECT_TRUE(names.has(host)) << host;
  }
}

TEST(HostNames, AreNoOthersThanWereAdded) {
  HostNames names;
  names.add("Node3");
  names.add("login.cluster");
  for (const char* host : {"node3", "NODE3:9420", "node3.", "login.cluster:9420"}) EXPECT_TRUE(names.has(host)) << host;
  for (const char* host : {"evil.example", "node3.evil.example", "localhost.evil.example", "127.0.0.1.evil.example",
                           "evil-localhost", "", ":9420", "[", "[]", "127.1", "a.login.cluster", "cluster"}) {
    EXPECT_FALSE(names.has(host)) << host;
  }
}

TEST(HostNames, WithADotInFrontStandForAllThatEndSo) {
  HostNames names;
  names.add(".Cluster.example");
  for (const char* host : {"cluster.example", "node3.cluster.example:80", "a.b.CLUSTER.example."}) {
    EXPECT_TRUE(names.has(host)) << host;
  }
  for (const char* host : {"evilcluster.example", "example", "cluster.example.evil"}) {
    EXPECT_FALSE(names.has(host)) << host;
  }
}

TEST(HostNames, RefuseWhatIsNone) {
  for (const char* wrong : {"", ".", "http://node3", "node3:9420", "*.cluster", "a b", "[::1]"}) {
    HostNames names;
    try {
      names.add(wrong);
      ADD_FAILURE() << wrong;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.what(), HasSubstr("'" + std::string(wrong) + "' is no name of a host; give one such as"));
    }
  }
}

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
