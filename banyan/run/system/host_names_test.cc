#include "banyan/run/system/host_names.h"

#include <unistd.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

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

TEST(HostNames, AreThoseOfThisMachine) {
  std::string name(256, '\0');
  ASSERT_EQ(gethostname(name.data(), name.size() - 1), 0);
  name.resize(name.find('\0'));
  EXPECT_EQ(host_name(), name);
  EXPECT_EQ(host_name_or("unknown"), name);
  HostNames names;
  names.add_own();
  EXPECT_TRUE(names.has(name + ":9400"));
  EXPECT_TRUE(names.has(name.substr(0, name.find('.'))));
  EXPECT_FALSE(names.has(name + ".evil.example"));
}

}  // namespace
}  // namespace banyan::run
