// Ranks on two hosts, which are network namespaces joined by a cable, and ranks of one host in namespaces of their own.
// Where those are refused, the tests are skipped, saying why.
#include <sched.h>
#include <unistd.h>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"
#include "lab/network_namespace.h"
#include "lab/tool.h"

namespace banyan::c {
namespace {

using lab::run_tool;
using Clock = std::chrono::steady_clock;
using Variables = std::vector<std::pair<std::string, std::string>>;

// Much less than the time that joining may take.
constexpr double kJoinTimeout = 100;
constexpr std::chrono::seconds kSoon{30};

// What a rank gets for its sum of many elements, or its error; "late" when that took long.
std::string end_of_sum(const std::string& url, int size, int rank) {
  constexpr size_t kCount = 100'000;
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.join_timeout = config.timeout = kJoinTimeout;
  banyan_comm_t comm = nullptr;
  const Clock::time_point began = Clock::now();
  banyan_result_t result = banyan_comm_init_url(&comm, url.c_str(), size, rank, &config);
  std::string end = result == BANYAN_SUCCESS ? "" : "joining: " + std::string(banyan_last_error(nullptr));
  if (result == BANYAN_SUCCESS) {
    std::vector<int32_t> values(kCount);
    for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int32_t>(i % 1000) * (rank + 1);
    result = banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
    end = result == BANYAN_SUCCESS ? "right" : "calling: " + std::string(banyan_last_error(comm));
    for (size_t i = 0; i < kCount && result == BANYAN_SUCCESS; ++i) {
      if (values[i] != static_cast<int32_t>(i % 1000) * size * (size + 1) / 2) end = "wrong at " + std::to_string(i);
    }
    banyan_comm_destroy(comm);
  }
  return (Clock::now() - began > kSoon ? "late: " : "") + end;
}

// ---- Two hosts ----

// Hosts a and b: 10.77.0.1 and .2, fe80::a and ::b on their interfaces cable-a and cable-b; both have a docker0 with
// 172.17.0.1.
class TwoHosts : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = lab::why_no_lab();
    if (!reason.empty()) GTEST_SKIP() << reason;
    for (const std::string host : {"a", "b"}) run_tool({"ip", "netns", "add", space(host)});
    run_tool({"ip", "link", "add", "cable-a", "netns", space("a"), "type", "veth", "peer", "name", "cable-b", "netns",
              space("b")});
    for (const std::string host : {"a", "b"}) {
      const std::string cable = "cable-" + host;
      ip(host, {"link", "set", "lo", "up"});
      ip(host, {"address", "add", host == "a" ? "10.77.0.1/24" : "10.77.0.2/24", "dev", cable});
      ip(host, {"address", "add", "fe80::" + host + "/64", "dev", cable, "nodad"});
      ip(host, {"link", "set", cable, "up"});
      ip(host, {"link", "add", "docker0", "type", "veth", "peer", "name", "docker1"});
      ip(host, {"address", "add", "172.17.0.1/16", "dev", "docker0"});
      for (const std::string end : {"docker0", "docker1"}) ip(host, {"link", "set", end, "up"});
    }
  }
  void TearDown() override {
    if (IsSkipped()) return;
    for (const std::string host : {"a", "b"}) run_tool({"ip", "netns", "delete", space(host)});
  }

  std::string space(const std::string& host) const { return "banyan-join" + std::to_string(getpid_) + host; }
  void ip(const std::string& host, std::vector<std::string> words) const {
    words.insert(words.begin(), {"ip", "-n", space(host)});
    run_tool(words);
  }

  // Rank 0 on host a, rank 1 on host b, and so on, each with variables of its own.
  std::vector<std::string> run(const std::vector<std::string>& urls, const std::vector<Variables>& variables,
                               const std::vector<std::string>& hosts = {"a", "b"}) const {
    const int size = static_cast<int>(hosts.size());
    return run_processes(size, [&](int rank) -> std::string {
      const auto own = static_cast<size_t>(rank);
      const lab::InNamespace inside(space(hosts[own]));
      setenv("BANYAN_SECRET", "00112233445566778899aabbccddeeff", 1);
      for (const auto& [name, value] : variables[own]) setenv(name.c_str(), value.c_str(), 1);
      return end_of_sum(urls[own % urls.size()], size, rank);
    });
  }

  const std::string url_ = "tcp://10.77.0.1:28888";

 private:
  const pid_t getpid_ = getpid();
};

TEST_F(TwoHosts, DoNotMindAnAddressThatBothHave) { EXPECT_THAT(run({url_}, {{}, {}}), Each("right")); }

TEST_F(TwoHosts, AreToldWhenBothAreToBeReachedAtOneAddress) {
  const Variables docker{{"BANYAN_ADDRESS", "docker0"}};
  EXPECT_THAT(run({url_}, {docker, docker}),
              Each(AllOf(HasSubstr("joining: "), HasSubstr("rank 0 (process "),
                         HasSubstr("says that it is reached at 172.17.0.1, which rank 1 (process "),
                         HasSubstr("on another host, has, too; set BANYAN_ADDRESS"))));
}

// Rank 0 would call its own host, and believe it that rank 1 is no more.
TEST_F(TwoHosts, AreToldWhenOneIsToBeReachedAtAnAddressThatTheOtherHas) {
  const Variables cable{{"BANYAN_ADDRESS", "cable-a"}}, docker{{"BANYAN_ADDRESS", "docker0"}};
  EXPECT_THAT(run({url_}, {cable, docker}),
              Each(AllOf(HasSubstr("joining: "), HasSubstr("rank 1 (process "),
                         HasSubstr("says that it is reached at 172.17.0.1, which rank 0 (process "))));
}

TEST_F(TwoHosts, MeetByAddressesThatAreValidOnTheirLinkOnly) {
  for (const std::string host : {"a", "b"}) ip(host, {"address", "flush", "dev", "cable-" + host, "scope", "global"});
  EXPECT_THAT(run({"tcp://[fe80::a%cable-a]:28888", "tcp://[fe80::a%cable-b]:28888"}, {{}, {}}), Each("right"));
  const Variables a{{"BANYAN_ADDRESS", "fe80::a%cable-a"}}, b{{"BANYAN_ADDRESS", "fe80::b%cable-b"}};
  EXPECT_THAT(run({"tcp://[fe80::a%cable-a]:28888", "tcp://[fe80::a%cable-b]:28888"}, {a, b}), Each("right"));
}

TEST_F(TwoHosts, AreToldThatALoopbackIsDown) {
  ip("b", {"link", "set", "lo", "down"});
  const std::string where = "its loopback is down (ip link set lo up)";
  EXPECT_THAT(run({url_}, {{}, {}, {}}, {"a", "b", "b"}),
              Each(AllOf(HasSubstr("joining: "), HasSubstr("rank 1 (process "), HasSubstr("and rank 2 are on one host"),
                         HasSubstr(where))));
  EXPECT_THAT(run({url_}, {{}, {}}), Each("right")) << "one rank is on that host";
  EXPECT_THAT(run({"tcp://10.77.0.2:28888"}, {{}}, {"b"}),
              Each(HasSubstr("rank 0 cannot join: the loopback is down, by which processes of one host meet")));
}

// Firewalls let in what belongs to connections from inside, and drop what begins from outside.
class FirewallBetweenHosts : public TwoHosts {
 protected:
  void SetUp() override {
    TwoHosts::SetUp();
    if (IsSkipped()) return;
    try {
      run_tool({"nft", "--version"});
    } catch (const Error& error) {
      TwoHosts::TearDown();
      GTEST_SKIP() << error.what();
    }
  }

  // At host `host` new connections to ports other than `allowed` are dropped.
  void drop_calls_to(const std::string& host, const std::string& allowed = "0") const {
    run_tool({"ip", "netns", "exec", space(host), "nft", "-f", "-"},
             "table inet wall { chain input { type filter hook input priority 0; iifname \"cable-" + host +
                 "\" tcp dport != " + allowed + " tcp flags & (syn | ack) == syn drop; }; }\n");
  }
};

TEST_F(FirewallBetweenHosts, IsNamedToAllWhereItDropsWhatALowerRankSendsToAHigherOne) {
  drop_calls_to("b");
  const MeetingPlace place;
  const std::string log = place.folder() + "/log";
  const auto ends = run({url_}, {{{"BANYAN_LOG_FILE", log}}, {}});
  const auto names_it = AllOf(HasSubstr("rank 0 (process "), HasSubstr("cannot call rank 1 (process "),
                              HasSubstr("which can call it (10.77.0.2:"), HasSubstr(": it does not answer)"),
                              HasSubstr("a firewall drops what the first host sends to ports of the second"));
  EXPECT_THAT(ends, Each(AllOf(HasSubstr("calling: "), names_it)));
  EXPECT_THAT(read_file(log), AllOf(HasSubstr("rank 0 warning: "), names_it));
}

// Joining and data go the other way.
TEST_F(FirewallBetweenHosts, DoesNoHarmWhereOnlyThePlaceIsOpen) {
  drop_calls_to("a", "28888");
  EXPECT_THAT(run({url_}, {{}, {}}), Each("right"));
}

// ---- What joining costs ----

// Of this network namespace, since it was made; calls that were refused count, too.
int connections_made() {
  std::ifstream file("/proc/net/snmp");
  std::string names, numbers, name, number;
  while (std::getline(file, names) && std::getline(file, numbers)) {
    std::istringstream of_names(names), of_numbers(numbers);
    while (of_names >> name && of_numbers >> number) {
      if (name == "ActiveOpens") return std::stoi(number);
    }
  }
  return -1;
}

bool listens(int port) {
  std::ifstream v4("/proc/net/tcp"), v6("/proc/net/tcp6");
  std::ostringstream all, wanted;
  all << v4.rdbuf() << v6.rdbuf();
  wanted << ":" << std::hex << std::uppercase << port << " ";
  return all.str().find(wanted.str()) != std::string::npos;
}

// One to the place and one to rank 0 for each, as there were before hosts were looked at more closely.
TEST_F(TwoHosts, OrOneAreJoinedByTwoConnectionsForEachRank) {
  constexpr int kSize = 64;
  std::atomic<int>& has_counted = shared_counter();
  const auto reports = run_processes(kSize, [&](int rank) -> std::string {
    const lab::InNamespace inside(space("a"));
    setenv("BANYAN_SECRET", "00112233445566778899aabbccddeeff", 1);
    setenv("BANYAN_ADDRESS", "cable-a", 1);  // else there are more, a moment later: one for each address
    while (rank != 0 && !listens(28888)) usleep(1000);
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.join_timeout = kJoinTimeout;
    banyan_comm_t comm = nullptr;
    require(banyan_comm_init_url(&comm, url_.c_str(), kSize, rank, &config));
    banyan_barrier(comm, nullptr);
    const std::string made = rank == 0 ? std::to_string(connections_made()) : "";
    if (rank == 0) has_counted = 1;
    wait_until(has_counted, 1);  // who leaves may be asked for by others
    banyan_comm_destroy(comm);
    return made;
  });
  ASSERT_THAT(reports[0], ::testing::MatchesRegex("[0-9]+"));
  std::printf("%s connections for %d ranks\n", reports[0].c_str(), kSize);
  EXPECT_LE(std::stoi(reports[0]), 2 * kSize - 1);
}

// ---- User namespaces ----

// As rootless containers are: this user is root in there, and nobody elsewhere. Why not, if so.
std::string enter_user_namespace() {
  const std::string user = std::to_string(geteuid()), group = std::to_string(getegid());
  if (unshare(CLONE_NEWUSER) != 0) return std::string("user namespaces are refused here: ") + std::strerror(errno);
  std::ofstream("/proc/self/setgroups") << "deny";
  std::ofstream("/proc/self/uid_map") << "0 " + user + " 1";
  std::ofstream("/proc/self/gid_map") << "0 " + group + " 1";
  return {};
}

class UserNamespaces : public ::testing::Test {
 protected:
  void SetUp() override {
    const std::string reason = run_processes(1, [](int) { return enter_user_namespace(); }).front();
    if (!reason.empty()) GTEST_SKIP() << reason;
  }

  // Ranks of which some are in namespaces of their own.
  std::vector<std::string> run(const std::vector<bool>& is_apart, const Variables& variables = {}) const {
    const int size = static_cast<int>(is_apart.size());
    return run_processes(size, [&](int rank) -> std::string {
      setenv("BANYAN_SECRET", "00112233445566778899aabbccddeeff", 1);
      setenv("BANYAN_LOG_FILE", log(rank).c_str(), 1);
      for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
      if (is_apart[static_cast<size_t>(rank)]) {
        if (const std::string reason = enter_user_namespace(); !reason.empty()) return reason;
      }
      return end_of_sum(place_.url(), size, rank);
    });
  }
  std::string log(int rank) const { return place_.folder() + "/log" + std::to_string(rank); }

 private:
  const MeetingPlace place_;
};

TEST_F(UserNamespaces, OfTheirOwnDoNotKeepRanksApart) {
  EXPECT_THAT(run({true, true, true, true}), Each("right"));
  EXPECT_THAT(read_file(log(0)), HasSubstr("warning: ranks 0-3 are on one host and may not open each other's memory, "
                                           "since ranks 0 and 1 have different user namespaces: where it is closed to "
                                           "them, they use TCP"));
  for (int rank = 1; rank < 4; ++rank) EXPECT_EQ(read_file(log(rank)), "") << "told once";
}

TEST_F(UserNamespaces, OfOneRankDoesNotKeepItApart) {
  EXPECT_THAT(run({false, false, true}), Each("right"));
  EXPECT_THAT(read_file(log(0)), HasSubstr("since ranks 0 and 2 have different user namespaces"));
}

TEST_F(UserNamespaces, AreNamedWhereSharedMemoryIsAskedFor) {
  EXPECT_THAT(run({true, true}, {{"BANYAN_TRANSPORT", "shm"}}),
              Each(AllOf(HasSubstr("joining: "), HasSubstr("may not open each other's memory"),
                         HasSubstr("use transport tcp or auto"))));
}

}  // namespace
}  // namespace banyan::c
