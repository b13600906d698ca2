// banyand is upgraded: what goes over to the newer daemon, what stays, and what an upgrade that fails leaves as it was.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>

#include "apps/banyand/test_upgrades.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST_F(Upgrades, FailNoCallAndTheOldDaemonEndsWhileItsCommunicatorsAreOpenAndCall) {
  const auto body = [&](CallingRank& rank) -> std::string {
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    Communicator another = rank.another();
    rank.call_until(another, [] { return true; });
    rank.call_until(rank.comm(), [&] { return board_->has_old_ended.load(); });
    rank.drop_first();
    rank.call_until(another, [] { return true; });
    another.finalize();
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    const json said = upgrade(0);
    if (said.contains("error")) return said.dump();
    const EndOf end(said["process"].get<pid_t>());
    if (said["process"] == daemons[0]->id()) return "it is the same process";
    if (said["sessions"] != 2) return "sessions: " + said.dump();
    board_->is_upgraded = true;
    wait_until([&] { return daemons[0]->has_ended(); });
    board_->has_old_ended = true;
    wait_until([&] { return board_->ranks_over == kRanks; });
    return daemons[1]->has_ended() ? "the other host's daemon has ended" : "right";
  });
}

// Both hosts, the second one while the first one may have two daemons; then the first one once more.
TEST_F(Upgrades, FollowEachOtherWhileTheSameCommunicatorCalls) {
  const auto body = [&](CallingRank& rank) -> std::string {
    rank.call_until(rank.comm(), [&] { return board_->has_old_ended.load(); });
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    std::vector<std::unique_ptr<EndOf>> ends;
    std::vector<pid_t> newer;
    for (const uint32_t host : {0, 1}) {
      const json said = upgrade(host);
      if (said.contains("error")) return said.dump();
      newer.push_back(said["process"].get<pid_t>());
      ends.push_back(std::make_unique<EndOf>(newer.back()));
    }
    wait_until([&] { return daemons[0]->has_ended() && daemons[1]->has_ended(); });
    json said;
    // The new daemon hears of the end of the old one soon.
    wait_until([&] { return !(said = upgrade(0)).contains("error"); });
    ends.push_back(std::make_unique<EndOf>(said["process"].get<pid_t>()));
    wait_until([&] { return has_ended(newer[0]); });
    board_->has_old_ended = true;
    wait_until([&] { return board_->ranks_over == kRanks; });
    return has_ended(newer[1]) ? "the other host's daemon has ended" : "right";
  });
}

TEST_F(Upgrades, AreFollowedByIdleCommunicators) {
  const auto body = [&](CallingRank& rank) -> std::string {
    wait_until([&] { return board_->has_old_ended.load(); });
    rank.call_until(rank.comm(), [] { return true; });
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    const json said = upgrade(0);
    if (said.contains("error")) return said.dump();
    const EndOf end(said["process"].get<pid_t>());
    wait_until([&] { return daemons[0]->has_ended(); });
    board_->has_old_ended = true;
    wait_until([&] { return board_->ranks_over == kRanks; });
    return "right";
  });
}

TEST_F(Upgrades, LeaveCommunicatorsThatHaveSentMessagesWithTheOldDaemon) {
  const auto body = [&](CallingRank& rank) -> std::string {
    rank.exchange_message(rank.comm());
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    Communicator another = rank.another();
    rank.call_until(another, [] { return true; });
    rank.exchange_message(rank.comm());
    rank.call_until(rank.comm(), [] { return true; });
    ++board_->upgrades;
    wait_until([&] { return board_->has_old_ended.load(); });
    rank.drop_first();
    rank.call_until(another, [] { return true; });
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    const json said = upgrade(0);
    if (said.contains("error")) return said.dump();
    const EndOf end(said["process"].get<pid_t>());
    board_->is_upgraded = true;
    wait_until([&] { return board_->upgrades == kRanks; });
    // It looks once a second whether it is idle.
    std::this_thread::sleep_for(milliseconds(1500));
    if (daemons[0]->has_ended()) return "the old daemon has ended before its communicator";
    board_->has_old_ended = true;
    wait_until([&] { return daemons[0]->has_ended(); });
    wait_until([&] { return board_->ranks_over == kRanks; });
    return "right";
  });
}

// Rank 2 is killed soon after the upgrade was asked for, whatever has happened by then.
TEST_F(Upgrades, DuringWhichARankIsKilledEndItsCommunicatorByName) {
  const auto call = [&](uint32_t number) -> std::string {
    wait_until([&] { return board_->has_daemons.load(); });
    const uint32_t host = number % kHosts;
    setenv("BANYAN_HOST_ID", name_of(host).c_str(), 1);
    CallingRank rank(number, url_of(host), meeting());
    rank.call_until(rank.comm(), [] { return true; });
    ++board_->ranks_calling;
    try {
      rank.call_until(rank.comm(), [&] {
        if (number == 2 && board_->is_upgraded) raise(SIGKILL);
        return false;
      });
    } catch (const Error& error) {
      ++board_->ranks_failed;
      wait_until([&] { return board_->ranks_failed == kRanks - 1; });
      const std::string words = error.what();
      return words.find("rank 2") == std::string::npos ? words : "right";
    }
    return "it went on without rank 2";
  };
  const std::vector<std::string> reports = run::run_processes(1 + kRanks, seconds(100), [&](uint32_t number) {
    if (number < 2) return call(number);
    if (number == 2) {
      run::Child child([&] {
        call(2);
        return 1;
      });
      return std::string(WIFSIGNALED(child.reap()) ? "right" : "it was not killed");
    }
    return keep_daemons([&](Daemons& daemons) -> std::string {
      std::thread soon([&] { board_->is_upgraded = true; });
      const json said = upgrade(0);
      soon.join();
      if (said.contains("error")) return said.dump();
      const EndOf end(said["process"].get<pid_t>());
      wait_until([&] { return daemons[0]->has_ended(); });
      return "right";
    });
  });
  EXPECT_THAT(reports, Each("right"));
}

// Prints the longest call of each upgrade beside that of a second without one, of 16 bytes and of 1 MiB in turn.
TEST_F(Upgrades, ManyInARowFailNoCall) {
  constexpr uint32_t kUpgrades = 12;
  const auto body = [&](CallingRank& rank) -> std::string {
    std::map<std::pair<size_t, std::string>, std::vector<double>> longest;
    for (uint32_t done = 0; done < kUpgrades; ++done) {
      const size_t count = done % 2 == 0 ? 2 : (1 << 20) / sizeof(int64_t);
      rank.set_count(count);
      const auto measure = [&](const std::string& when, const std::function<bool()>& is_over) {
        rank.forget_longest();
        rank.call_until(rank.comm(), is_over);
        longest[{count * sizeof(int64_t), when}].push_back(rank.longest_gap());
      };
      rank.call_until(rank.comm(), [] { return true; });
      const auto end = std::chrono::steady_clock::now() + seconds(1);
      measure("of a second without an upgrade", [&] { return std::chrono::steady_clock::now() > end; });
      ++board_->ranks_over;
      measure("of an upgrade", [&] { return board_->upgrades > done; });
    }
    for (auto& [what, times] : longest) {
      std::sort(times.begin(), times.end());
      std::ostringstream line;
      line << what.first << " B: the longest call " << what.second << ", " << times.size() << " times: median "
           << times[times.size() / 2] << " ms, worst " << times.back() << " ms\n";
      std::cout << line.str() << std::flush;
    }
    return "right";
  };
  const std::vector<std::string> reports = run::run_processes(1 + kRanks, seconds(100), [&](uint32_t number) {
    if (number == kRanks) {
      return keep_daemons([&](Daemons& daemons) -> std::string {
        std::unique_ptr<EndOf> end;
        for (uint32_t done = 0; done < kUpgrades; ++done) {
          wait_until([&] { return board_->ranks_over == kRanks * (done + 1); });
          const pid_t old = end ? end->process() : daemons[0]->id();
          json said;
          wait_until([&] { return !(said = upgrade(0)).contains("error"); });
          auto next = std::make_unique<EndOf>(said["process"].get<pid_t>());
          if (end) {
            wait_until([&] { return has_ended(old); });
          } else {
            wait_until([&] { return daemons[0]->has_ended(); });
          }
          end = std::move(next);
          ++board_->upgrades;
        }
        wait_until([&] { return board_->ranks_failed == kRanks; });
        return "right";
      });
    }
    wait_until([&] { return board_->has_daemons.load(); });
    const uint32_t host = number % kHosts;
    setenv("BANYAN_HOST_ID", name_of(host).c_str(), 1);
    CallingRank rank(number, url_of(host), meeting());
    ++board_->ranks_calling;
    std::string report = body(rank);
    ++board_->ranks_failed;
    return report;
  });
  EXPECT_THAT(reports, Each("right"));
}

// Whoever may use the operators' socket need not be the user of the daemon, as whom the program would run.
TEST_F(Upgrades, StartNoProgramThatAnOperatorNames) {
  start_from_copy();
  const std::string proof = folder_ + "/proof", named = folder_ + "/named";
  std::ofstream(named) << "#!/bin/sh\ntouch " + proof + "\n";
  std::filesystem::permissions(named, std::filesystem::perms(0755));
  const Daemons daemons = start_daemons(1);
  wait_until([&] {  // it listens
    try {
      upgrade(0, {{"unknown", 1}});
      return true;
    } catch (const Error&) {
      return false;
    }
  });
  const json said = upgrade(0, {{"binary", named}});
  EXPECT_THAT(said.value("error", ""), HasSubstr("binary")) << said.dump();
  EXPECT_FALSE(std::filesystem::exists(proof));
  EXPECT_FALSE(daemons[0]->has_ended());
}

TEST_F(Upgrades, ToWhatIsNoDaemonChangeNothing) {
  start_from_copy();
  run([this](CallingRank& rank) { return call_and_open_another(rank); },
      [&](Daemons& daemons) -> std::string {
        const std::vector<std::pair<std::string, std::string>> wrong = {
            {"#!/bin/sh\nexit 7\n", "has ended with exit code 7"},
            {"#!/bin/sh\nexec sleep 100\n", "has not said within 5 s"},
            {std::string("#!/bin/sh\nexec ") + BANYAND_BINARY + " --rules /none \"$@\"\n", "/none"}};
        for (const auto& [text, words] : wrong) {
          put_in_place(text);
          const json said = upgrade(0);
          const std::string why = said.value("error", "");
          if (why.find(words) == std::string::npos || why.find('\n') != std::string::npos) return text + said.dump();
        }
        std::filesystem::remove(program_);
        const json said = upgrade(0);
        if (said.dump().find("No such file") == std::string::npos) return said.dump();
        board_->is_upgraded = true;
        wait_until([&] { return board_->ranks_over == kRanks; });
        return daemons[0]->has_ended() ? "the daemon has ended" : "right";
      });
}

// It takes the sockets, and dies.
TEST_F(Upgrades, ThatFailAfterTheSocketsWereHandedOverAreTakenBack) {
  start_from_copy();
  run([this](CallingRank& rank) { return call_and_open_another(rank); },
      [&](Daemons& daemons) -> std::string {
        put_in_place(R"(#!/usr/bin/python3
import os, socket, struct, sys
older = socket.socket(fileno=int(sys.argv[sys.argv.index("--upgrade-from") + 1]))
older.setblocking(True)
older.send(struct.pack("<I", 5) + b"ready" + struct.pack("<I", 3))
while b"take" not in older.recv(100000):
    pass
os._exit(9)
)");
        const json said = upgrade(0);
        const bool is_told = said.value("error", "").find("has ended with exit code 9") != std::string::npos;
        board_->is_upgraded = true;
        wait_until([&] { return board_->ranks_over == kRanks; });
        if (!is_told) return said.dump();
        return daemons[0]->has_ended() ? "the daemon has ended" : "right";
      });
}

}  // namespace
}  // namespace banyan::service
