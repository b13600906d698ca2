// The daemon of a host is upgraded while ranks of two hosts call, and the older or the newer one is killed at a moment
// drawn by chance: while the newer one starts, while next sessions are opened and tried, while the ranks agree, when
// calls have gone over, and when the old sessions are closed. Whatever happens, ranks get errors in words with their
// inputs intact, or go on; they go on by whichever daemon is there then.
//
// BANYAN_TEST_KILLS: how often, in the long test. BANYAN_TEST_SEED: who and when.
#include <signal.h>
#include <stdlib.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/banyand/test_banyand.h"
#include "apps/banyand/test_crashes.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/http/client.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using nlohmann::json;

// Throws where that does not come soon: a test that hangs says nothing.
template <typename Condition>
void wait_until(const std::string& what, const Condition& condition) {
  const auto end = std::chrono::steady_clock::now() + seconds(60);
  while (!condition()) {
    CHECK(std::chrono::steady_clock::now() < end) << "in vain for: " << what;
    std::this_thread::sleep_for(milliseconds(1));
  }
}

// What happens to host 0 in a round.
struct Round {
  bool is_newer_killed = false;
  bool is_at_once = false;  // while the upgrade is under way
  microseconds after{0};    // it was asked for, or has been done
};

class UpgradeKills : public ::testing::Test, protected DaemonFolder {
 protected:
  std::unique_ptr<BanyandProcess> start(uint32_t host) const {
    return daemon_of(host, {"--operators", socket_of(host) + ".op"});
  }
  // The newer process, or nothing where the daemon was killed meanwhile.
  std::optional<pid_t> upgrade() const {
    try {
      for (;;) {
        const HttpResponse answer =
            http_ask("unix:" + socket_of(0) + ".op", "POST", "/v1/upgrade", R"({"hosts": ["host0"]})", seconds(30));
        const json said = json::parse(answer.body)["hosts"][0];
        if (said.contains("process")) return said["process"].get<pid_t>();
        // It hears of the end of an older one soon.
        CHECK(said["error"].get<std::string>().find("upgrade again") != std::string::npos) << answer.body;
        std::this_thread::sleep_for(milliseconds(10));
      }
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  // A daemon of host 0 that has come by an upgrade, and serves. One that does not ends by itself.
  std::optional<pid_t> successor_of(pid_t older) const {
    const std::optional<pid_t> found = process_with(socket_of(0), older);
    if (!found) return std::nullopt;
    try {
      const HttpResponse answer = http_ask("unix:" + socket_of(0) + ".op", "GET", "/v1/host", {}, seconds(10));
      return answer.status == 200 ? found : std::nullopt;
    } catch (const Error&) {
      return std::nullopt;
    }
  }
  // Of all ranks, some calls more than there were.
  void expect_calls() const {
    std::array<uint64_t, kRanks> before{};
    for (uint32_t rank = 0; rank < kRanks; ++rank) before[rank] = board_->calls[rank];
    wait_until("calls of all ranks", [&] {
      for (uint32_t rank = 0; rank < kRanks; ++rank) {
        if (board_->calls[rank] < before[rank] + 10) return false;
      }
      return true;
    });
  }

  static Round round_of(std::mt19937_64& chance) {
    Round round{.is_newer_killed = chance() % 2 == 0};
    round.is_at_once = !round.is_newer_killed && chance() % 3 == 0;
    // Most changes take some milliseconds, some a second, where a try has failed.
    const int most = chance() % 4 == 0 ? 1'200'000 : 60'000;
    round.after = microseconds(std::uniform_int_distribution<int>(0, most)(chance));
    return round;
  }

  // Of host 0, whose daemon is that process at first and at last.
  pid_t go_through(const Round& round, pid_t older, std::vector<std::unique_ptr<BanyandProcess>>& fresh) const {
    std::optional<pid_t> newer;
    if (round.is_at_once) {
      std::thread killer([&] {
        std::this_thread::sleep_for(round.after);
        kill(older, SIGKILL);
      });
      newer = upgrade();
      killer.join();
    } else {
      newer = upgrade();
      CHECK(newer) << "the upgrade has failed";
      std::this_thread::sleep_for(round.after);
      kill(round.is_newer_killed ? *newer : older, SIGKILL);
    }
    board_->note_kill(0);
    if (newer && !round.is_newer_killed) {
      wait_until("the end of the older daemon", [&] { return has_ended(older); });
      return *newer;
    }
    if (newer) wait_until("the end of the newer daemon", [&] { return has_ended(*newer); });
    // One that was killed while it was upgraded could not say that the newer one serves.
    std::optional<pid_t> serving;
    wait_until("a daemon that serves", [&] {
      if (!newer) serving = successor_of(older);
      if (serving) return true;
      try {
        fresh.push_back(start(0));
        serving = fresh.back()->id();
        return true;
      } catch (const Error&) {
        return false;
      }
    });
    expect_calls();
    // What had not gone over goes to the one that has come.
    wait_until("the end of the older daemon", [&] { return has_ended(older); });
    return *serving;
  }

  std::string keep_daemons(uint32_t kills, uint64_t seed) const {
    std::mt19937_64 chance(seed);
    std::vector<std::unique_ptr<BanyandProcess>> daemons;
    for (uint32_t host = 0; host < kHosts; ++host) daemons.push_back(start(host));
    std::filesystem::create_directory(folder_ + "/up");
    pid_t daemon = daemons[0]->id();
    for (uint32_t kill = 0; kill < kills; ++kill) {
      expect_calls();
      const Round round = round_of(chance);
      std::ostringstream line;
      line << "round " << kill << ": the " << (round.is_newer_killed ? "newer" : "older") << " daemon is killed "
           << static_cast<double>(round.after.count()) / 1e3 << " ms after the upgrade "
           << (round.is_at_once ? "was asked for\n" : "was done\n");
      std::cout << line.str() << std::flush;
      daemon = go_through(round, daemon, daemons);
    }
    expect_calls();
    const EndOf last(daemon);
    board_->is_over = true;
    wait_until("the ends of the ranks", [&] { return std::filesystem::exists(folder_ + "/over"); });
    return "right";
  }

  std::string be_rank(uint32_t rank) const {
    wait_until("daemons", [&] { return std::filesystem::exists(folder_ + "/up"); });
    const uint32_t host = rank % kHosts;
    setenv("BANYAN_HOST_ID", name_of(host).c_str(), 1);
    const std::string report = RecoveringRank(*board_, rank, url_of(host), meeting()).run();
    std::filesystem::create_directory(folder_ + "/over" + std::to_string(rank));
    // The daemons last until all ranks are done.
    for (uint32_t other = 0; rank == 0 && other < kRanks; ++other) {
      wait_until("other ranks", [&] { return std::filesystem::exists(folder_ + "/over" + std::to_string(other)); });
    }
    if (rank == 0) std::filesystem::create_directory(folder_ + "/over");
    std::cout << "rank " + std::to_string(rank) +
                     ", errors and calls: " + report.substr(0, report.find(' ', report.find(' ') + 1)) + "\n"
              << std::flush;
    return "right";
  }

  void go_through_all(uint32_t kills, seconds at_most) {
    const uint64_t seed = seed_of_test();
    const std::vector<std::string> reports = run::run_processes(1 + kRanks, at_most, [&](uint32_t number) {
      return number == kRanks ? keep_daemons(kills, seed) : be_rank(number);
    });
    EXPECT_THAT(reports, ::testing::Each("right"));
  }

  const testing::SharedAmongProcesses<CrashBoard> board_;
};

TEST_F(UpgradeKills, CostProgramsTheCallsUnderWayAndNothingElse) { go_through_all(6, seconds(100)); }

TEST_F(UpgradeKills, ManyCostProgramsTheCallsUnderWayAndNothingElse) {
  go_through_all(number_from("BANYAN_TEST_KILLS", 150), seconds(850));
}

}  // namespace
}  // namespace banyan::service
