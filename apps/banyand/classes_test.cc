// Classes of tenants in switches: what daemons send of each bears the code point of its class, and goes through the
// queue of that class. In an emulated cluster, and skipped by name where there can be none.
#include <unistd.h>

#include <cstdio>

#include "apps/banyand/test_lab_daemons.h"
#include "banyan/base/check.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"
#include "lab/host_programs.h"
#include "lab/test_real_lab.h"

namespace banyan::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kTenants = 2, kRanks = 4, kCalls = 20;
constexpr size_t kElements = size_t{128} << 10;  // 1 MiB

// Ranks 0 and 1 of tenant a, and of tenant b; no two on one host, but all share the link between the switches.
constexpr const char* kNetwork =
    "a0 <-> sw0 200Mb/s; b0 <-> sw0 200Mb/s; sw0 <-> sw1 200Mb/s; a1 <-> sw1 200Mb/s; b1 <-> sw1 200Mb/s";
constexpr std::array<const char*, kRanks> kHosts = {"a0", "a1", "b0", "b1"};

struct Board {
  std::atomic<uint32_t> round{0}, over{0};
  std::array<std::atomic<int64_t>, kTenants> milliseconds_of{};
};

class ClassesInSwitches : public LabDaemons {
 protected:
  // A rank, which carries out kCalls in each round until there are no more. The communicator stays the same.
  std::string be_rank(const lab::Lab& lab, uint32_t number) const {
    const lab::InNamespace inside(lab.namespace_of(lab.plan().fabric().at(kHosts.at(number))));
    const uint32_t tenant = number / 2, rank = number % 2;
    run::RegionPool pool;
    run::Communicator comm =
        join(lab, {.host = kHosts.at(number), .tenant = tenant == 0 ? "a" : "b", .rank = rank, .size = 2}, pool);
    const std::vector<int64_t> input = values_of(rank, kElements);
    std::vector<int64_t> output(kElements);
    for (uint32_t round = 1;; ++round) {
      while (board_->round < round) std::this_thread::sleep_for(milliseconds(1));
      if (board_->round == UINT32_MAX) break;
      const auto begin = Clock::now();
      for (uint32_t call = 0; call < kCalls; ++call) {
        if (std::string report = check_sum(comm, input, output); report != "right") return report;
      }
      board_->milliseconds_of.at(tenant) = std::chrono::round<milliseconds>(Clock::now() - begin).count();
      ++board_->over;
    }
    comm.finalize();
    return "right";
  }

  // Bytes that have gone through each queue of the link from sw0 to sw1, by class.
  static std::map<ShareClass, uint64_t> bytes_sent(const lab::Lab& lab) {
    const std::string interface = "cable" + std::to_string(lab.find_cable("sw0-sw1"));
    std::istringstream told(lab::run_tool(
        {"tc", "-n", lab.namespace_of(lab.plan().fabric().at("sw0")), "-s", "class", "show", "dev", interface}));
    const std::map<std::string, ShareClass> classes = {
        {"1:10", ShareClass::high}, {"1:20", ShareClass::normal}, {"1:30", ShareClass::low}};
    std::map<ShareClass, uint64_t> sent;
    std::optional<ShareClass> current;
    for (std::string word; told >> word;) {
      if (word == "htb") {
        told >> word;
        const auto known = classes.find(word);
        current = known == classes.end() ? std::nullopt : std::optional(known->second);
      } else if (word == "Sent" && current) {
        told >> sent[*current];
      }
    }
    return sent;
  }

  // All ranks carry out their calls. What has gone through each queue meanwhile, in calls of one tenant, with headers
  // and acknowledgements.
  std::map<ShareClass, double> round(const lab::Lab& lab) const {
    std::map<ShareClass, uint64_t> before = bytes_sent(lab);
    const uint32_t over = board_->over + kRanks;
    ++board_->round;
    while (board_->over < over) std::this_thread::sleep_for(milliseconds(1));
    std::map<ShareClass, double> calls;
    for (const auto& [share_class, bytes] : bytes_sent(lab)) {
      const auto more = static_cast<double>(bytes - before[share_class]);
      calls[share_class] = more / static_cast<double>(kElements * sizeof(int64_t));
    }
    std::printf("calls of 1 MiB in the high queue %.2f, normal %.2f, low %.2f; a took %d ms, b %d ms\n",
                calls[ShareClass::high], calls[ShareClass::normal], calls[ShareClass::low],
                static_cast<int>(board_->milliseconds_of[0]), static_cast<int>(board_->milliseconds_of[1]));
    std::fflush(stdout);  // this process may end without
    return calls;
  }

  // Of `tenants` in this queue all calls, with what they cost beside payload, and no more.
  static void expect_calls(double calls, uint32_t tenants) {
    EXPECT_GE(calls, kCalls * tenants);
    EXPECT_LE(calls, kCalls * tenants * 1.12 + 0.2);
  }

  void tell(const std::string& path, const std::string& body) const {
    const HttpResponse said = http_ask(operators("a0"), "POST", path, body, seconds(20));
    CHECK(said.status == 200 && said.body.find("\"error\"") == std::string::npos) << said.body;
  }
  void set(const std::string& tenant, const std::string& share_class) const {
    tell("/v1/set", R"({"tenant": ")" + tenant + R"(", "class": ")" + share_class + R"("})");
  }
  static void reset_connections(const lab::Lab& lab, const std::string& host) {
    lab::run_tool({"ip", "netns", "exec", lab.namespace_of(lab.plan().fabric().at(host)), "ss", "-K", "-t"});
  }
  // How often calls of any rank were begun again.
  uint32_t reroutes() const {
    const HttpResponse said = http_ask(operators("a0"), "GET", "/v1/cluster", "", seconds(20));
    uint32_t sum = 0;
    for (const CommunicatorView& communicator : cluster_view_from(said.body).communicators) {
      for (const RankView& rank : communicator.ranks) sum += rank.reroutes;
    }
    return sum;
  }
  void let_ranks_end() const { board_->round = UINT32_MAX; }

  const testing::SharedAmongProcesses<Board> board_;
};

std::string rules() {
  return R"({"version": 1, "rules": [
      {"name": "first", "match": {"tenant": ")" +
         std::to_string(getuid()) + R"(/a"}, "then": {"class": "high"}},
      {"name": "last", "match": {"tenant": "*/b"}, "then": {"class": "low"}}]})";
}

TEST_F(ClassesInSwitches, CarryWhatEachTenantSendsInTheQueueOfItsClassAlsoWhenThatChanges) {
  const lab::Lab lab = up(kNetwork, {.classes = 3});
  std::ofstream(folder_ + "/rules.json") << rules();
  const lab::HostPrograms daemons(lab, daemon("--ds-field high=AF41,low=CS1 --rules " + folder_ + "/rules.json"));
  const auto reports = run::run_processes(kRanks + 1, seconds(100), [&](uint32_t number) {
    if (number < kRanks) return be_rank(lab, number);
    const std::string user = std::to_string(getuid());
    std::map<ShareClass, double> calls = round(lab);
    expect_calls(calls[ShareClass::high], 1);
    expect_calls(calls[ShareClass::low], 1);
    expect_calls(calls[ShareClass::normal], 0);
    EXPECT_LT(board_->milliseconds_of[0], board_->milliseconds_of[1]);

    set(user + "/a", "low");
    set(user + "/b", "high");
    calls = round(lab);
    expect_calls(calls[ShareClass::high], 1);
    expect_calls(calls[ShareClass::low], 1);
    expect_calls(calls[ShareClass::normal], 0);
    EXPECT_GT(board_->milliseconds_of[0], board_->milliseconds_of[1]);

    reset_connections(lab, "a0");
    calls = round(lab);
    EXPECT_GE(calls[ShareClass::low], kCalls);
    expect_calls(calls[ShareClass::high], 1);
    expect_calls(calls[ShareClass::normal], 0);
    EXPECT_GT(reroutes(), 0u) << "lanes were to be made anew";

    for (const char* tenant : {"/a", "/b"}) tell("/v1/set", R"({"tenant": ")" + user + tenant + R"(", "reset": true})");
    tell("/v1/rules", R"({"text": "{\"version\": 2, \"rules\": []}"})");
    calls = round(lab);
    expect_calls(calls[ShareClass::high], 0);
    expect_calls(calls[ShareClass::low], 0);
    expect_calls(calls[ShareClass::normal], 2);
    let_ranks_end();
    return std::string(::testing::Test::HasFailure() ? "see above" : "right");
  });
  EXPECT_THAT(reports, ::testing::Each("right"));
  EXPECT_TRUE(daemons.failures().empty());
}

TEST_F(ClassesInSwitches, AreNoMatterOfDaemonsThatAreNotToldOfCodePoints) {
  const lab::Lab lab = up(kNetwork, {.classes = 3});
  std::ofstream(folder_ + "/rules.json") << rules();
  const lab::HostPrograms daemons(lab, daemon("--rules " + folder_ + "/rules.json"));
  const auto reports = run::run_processes(kRanks + 1, seconds(100), [&](uint32_t number) {
    if (number < kRanks) return be_rank(lab, number);
    std::map<ShareClass, double> calls = round(lab);
    EXPECT_EQ(calls[ShareClass::high], 0);
    EXPECT_EQ(calls[ShareClass::low], 0);
    expect_calls(calls[ShareClass::normal], 2);
    let_ranks_end();
    return std::string(::testing::Test::HasFailure() ? "see above" : "right");
  });
  EXPECT_THAT(reports, ::testing::Each("right"));
}

}  // namespace
}  // namespace banyan::service
