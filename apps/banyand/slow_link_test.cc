// A link of an emulated cluster has a tenth of its rate: daemons name it, whatever the size of the calls that it makes
// slow, and where rules let them, they have calls planned around it. Skipped by name where there can be no lab.
//
// BANYAN_TEST_SECONDS: for how long nothing is wrong, in the long test (60).
#include <stdlib.h>

#include <cstdio>

#include "apps/banyand/test_lab_daemons.h"
#include "banyan/base/check.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"
#include "lab/host_programs.h"
#include "lab/link_queue.h"
#include "lab/test_real_lab.h"

namespace banyan::service {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t kRanks = 2;
constexpr uint64_t kRate = 25'000'000;  // bytes per second of each link
constexpr std::array<size_t, 4> kSizes = {4'000, 40'000, 400'000, 4'000'000};
// Two ways between two hosts.
constexpr const char* kNetwork = "leaf-spine:leaves=2,hosts=1,spines=2@200Mb/s";
constexpr std::array<const char*, kRanks> kHosts = {"gpu0", "gpu1"};

constexpr const char* kAllWell =
    R"({"communicator": "*", "bandwidth": {"leaf0-spine0": "200Mb/s", "leaf1-spine0": "200Mb/s"}})";

struct Board {
  std::atomic<uint64_t> bytes{kSizes[0]};  // of each call; 0: no more calls
  std::atomic<uint64_t> calls{0};          // that are over at rank 0
};

class SlowLinkInALab : public LabDaemons {
 protected:
  std::string daemon(const lab::Lab& lab, const std::string& rules) const {
    std::ofstream(folder_ + "/rules.json") << rules;
    return LabDaemons::daemon("--node $BANYAN_LAB_HOST --fabric '" + std::string(kNetwork) + "' --routes " +
                              lab.folder() + "/routes.json --rules " + folder_ + "/rules.json");
  }

  // Sums until there are no more calls, of which rank 0 tells all.
  std::string be_rank(const lab::Lab& lab, uint32_t rank) const {
    const lab::InNamespace inside(lab.namespace_of(lab.plan().fabric().at(kHosts.at(rank))));
    run::RegionPool pool;
    run::Communicator comm = join(lab, {.host = kHosts.at(rank), .tenant = "t", .rank = rank, .size = kRanks}, pool);
    std::vector<int64_t> output(kSizes.back() / sizeof(int64_t));
    std::vector<int64_t> input = values_of(rank, output.size());
    // All ranks change to another size at the same call: the last element says so, of the sum before.
    uint64_t bytes = board_->bytes;
    for (;;) {
      const size_t count = bytes / sizeof(int64_t);
      const uint64_t next = board_->bytes;
      const int64_t before = std::exchange(input[count - 1], rank == 0 ? static_cast<int64_t>(next) : 0);
      comm.run(call_of<int64_t>(run::OperationKind::all_reduce, std::span<const int64_t>(input.data(), count),
                                std::span<int64_t>(output.data(), count), count));
      input[count - 1] = before;
      for (size_t i = 0; i + 1 < count; i += 997) {
        if (output[i] != value_of(0, i) + value_of(1, i)) return "element " + std::to_string(i) + " is wrong";
      }
      bytes = static_cast<uint64_t>(output[count - 1]);
      if (rank == 0) ++board_->calls;
      if (bytes == 0) break;
    }
    comm.finalize();
    return "right";
  }

  static void carry(const lab::Lab& lab, uint64_t bytes_per_second) {
    const std::string interface = "cable" + std::to_string(lab.find_cable("leaf0-spine0"));
    lab::run_tool({"tc", "-n", lab.namespace_of(lab.plan().fabric().at("leaf0")), "-batch", "-"},
                  lab::queue_commands(interface, {.bytes_per_second = bytes_per_second}));
  }

  ClusterView cluster() const {
    return cluster_view_from(http_ask(operators("gpu0"), "GET", "/v1/cluster", "", seconds(20)).body);
  }
  // What is found of this kind, a line each.
  std::string found(const std::string& kind) const {
    std::string all;
    for (const FindingView& each : cluster().findings) {
      if (each.kind == kind) all += each.words + "\n";
    }
    return all;
  }
  // That threads of the daemons wait for a core, the longest mean.
  double wake() const {
    double longest = 0;
    for (const char* host : kHosts) {
      for (const WayView& each :
           host_view_from(http_ask(operators(host), "GET", "/v1/host", "", seconds(20)).body).ways) {
        longest = std::max(longest, each.wake_seconds);
      }
    }
    return longest;
  }
  // When it comes true, or nothing.
  template <typename Condition>
  static std::optional<double> time_until(const Condition& condition, seconds at_most) {
    const auto begin = Clock::now();
    while (Clock::now() - begin < at_most) {
      if (condition()) return std::chrono::duration<double>(Clock::now() - begin).count();
      std::this_thread::sleep_for(milliseconds(20));
    }
    return std::nullopt;
  }
  double calls_per_second(milliseconds time) const {
    const uint64_t before = board_->calls;
    const auto begin = Clock::now();
    std::this_thread::sleep_for(time);
    return static_cast<double>(board_->calls - before) / std::chrono::duration<double>(Clock::now() - begin).count();
  }
  void use(size_t bytes) const {
    board_->bytes = bytes;
    const uint64_t before = board_->calls;
    CHECK(time_until([&] { return board_->calls > before + 3; }, seconds(60))) << "no calls";
  }

  // Ranks call while `body` looks.
  void run(const lab::Lab& lab, const std::function<void()>& body, seconds at_most = seconds(100)) const {
    const auto reports = run::run_processes(kRanks + 1, at_most, [&](uint32_t number) {
      if (number < kRanks) return be_rank(lab, number);
      CHECK(time_until([&] { return board_->calls > 10; }, seconds(60))) << "no calls";
      body();
      board_->bytes = 0;
      return std::string(::testing::Test::HasFailure() ? "see above" : "right");
    });
    EXPECT_THAT(reports, Each("right"));
  }

  const testing::SharedAmongProcesses<Board> board_;
};

TEST_F(SlowLinkInALab, IsNamedByCallsOf4kBTo4MB) {
  const lab::Lab lab = up(kNetwork);
  const lab::HostPrograms daemons(lab, daemon(lab, R"({"version": 1, "rules": []})"));
  run(lab, [&] {
    for (const size_t bytes : kSizes) {
      use(bytes);
      const double before = calls_per_second(seconds(1));
      carry(lab, kRate / 10);
      const auto named =
          time_until([&] { return found("slow link").find("leaf0->spine0") != std::string::npos; }, seconds(20));
      const double slow = calls_per_second(seconds(1));
      std::printf("%7zu B: named after %.2f s: %s  %.0f calls/s, %.0f before; threads wait %.0f us for a core\n", bytes,
                  named.value_or(-1), found("slow link").c_str(), slow, before, 1e6 * wake());
      std::fflush(stdout);
      // Where compilers have the cores, small calls are slow by that, and nothing is said of links.
      const bool is_starved = bytes < kSizes[2] && (slow > before / 1.5 || wake() > 50e-6);
      EXPECT_TRUE(named || is_starved) << bytes << " B; found: " << found("slow link");
      EXPECT_TRUE(slow < before / 1.5 || is_starved) << "it was to make these calls slow";
      carry(lab, kRate);
      EXPECT_TRUE(time_until([&] { return found("slow link").empty(); }, seconds(20))) << found("slow link");
    }
  });
  EXPECT_TRUE(daemons.failures().empty());
}

TEST_F(SlowLinkInALab, IsPlannedAroundByTheServiceItselfWhereRulesLetIt) {
  const lab::Lab lab = up(kNetwork);
  const lab::HostPrograms daemons(lab, daemon(lab, R"({"version": 1, "on_slow_link": "replan", "rules": []})"));
  run(lab, [&] {
    use(400'000);
    const double before = calls_per_second(seconds(1));
    EXPECT_EQ(found("planned around"), "");
    carry(lab, kRate / 10);
    const auto acted = time_until([&] { return !found("planned around").empty(); }, seconds(20));
    ASSERT_TRUE(acted) << found("slow link");
    std::this_thread::sleep_for(seconds(1));  // calls go over to the other plans
    const double around = calls_per_second(seconds(2));
    std::printf("planned around after %.2f s: %s%.0f calls/s, %.0f before\n", *acted, found("planned around").c_str(),
                around, before);
    std::fflush(stdout);
    // Half of the ways carry less; else it would be a fifth of the calls.
    EXPECT_GT(around, before / 3);
    EXPECT_NE(found("planned around").find("the service itself"), std::string::npos);
    const std::vector<EventView> events = cluster().events;
    EXPECT_TRUE(std::any_of(events.begin(), events.end(), [](const EventView& event) {
      return event.words.find("the service plans around leaf0->spine0 by itself") != std::string::npos;
    }));
    // What an operator says counts from then on.
    const HttpResponse said = http_ask(operators("gpu1"), "POST", "/v1/replan", kAllWell, seconds(20));
    EXPECT_EQ(said.body.find("\"error\""), std::string::npos) << said.body;
    EXPECT_TRUE(time_until([&] { return found("planned around").empty(); }, seconds(10)));
  });
  EXPECT_TRUE(daemons.failures().empty());
}

TEST_F(SlowLinkInALab, NamesNoneInManySecondsInWhichAllAreWell) {
  const char* const asked = std::getenv("BANYAN_TEST_SECONDS");
  const double time = asked == nullptr ? 60 : std::stod(asked);
  const lab::Lab lab = up(kNetwork);
  const lab::HostPrograms daemons(lab, daemon(lab, R"({"version": 1, "rules": []})"));
  run(
      lab,
      [&] {
        int looks = 0, wrong = 0;
        std::string words;
        for (const size_t bytes : kSizes) {
          use(bytes);
          const auto end = Clock::now() + std::chrono::duration<double>(time / kSizes.size());
          for (; Clock::now() < end; ++looks, std::this_thread::sleep_for(milliseconds(100))) {
            const std::string found_now = found("slow link");
            if (found_now.empty()) continue;
            ++wrong;
            words = std::to_string(bytes) + " B: " + found_now;
          }
        }
        std::printf("%d looks in %.0f s, %d of them wrong %s\n", looks, time, wrong, words.c_str());
        std::fflush(stdout);
        EXPECT_EQ(wrong, 0) << words;
      },
      std::chrono::ceil<seconds>(std::chrono::duration<double>(time + 100)));
  EXPECT_TRUE(daemons.failures().empty());
}

}  // namespace
}  // namespace banyan::service
