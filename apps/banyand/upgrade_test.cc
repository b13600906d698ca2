// banyand is upgraded while ranks of two hosts call through it. Each host is a name here (BANYAN_HOST_ID); each daemon
// and each rank is a process.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/client/service_executors.h"
#include "banyan/service/http/client.h"

namespace banyan::service {
namespace {

using nlohmann::json;
using run::Communicator;
using std::chrono::milliseconds;
using std::chrono::seconds;
using ::testing::Each;
using ::testing::HasSubstr;

constexpr uint32_t kHosts = 2, kRanks = 3;  // rank r on host r % 2

// What the processes of a run tell each other, in shared memory.
struct Board {
  std::atomic<bool> has_daemons;
  std::atomic<uint32_t> ranks_calling, ranks_with_new, ranks_over;
  std::atomic<bool> is_upgraded, has_old_ended;
  std::atomic<uint32_t> upgrades;  // that have been asked for, and whose old daemon has ended
  std::atomic<uint32_t> ranks_failed;
};

template <typename Condition>
void wait_until(const Condition& condition) {
  while (!condition()) std::this_thread::sleep_for(milliseconds(1));
}

// Ends a process that is nobody's child.
class EndOf {
 public:
  explicit EndOf(pid_t process) : process_(process) {}
  ~EndOf() { kill(process_, SIGKILL); }
  EndOf(const EndOf&) = delete;
  EndOf& operator=(const EndOf&) = delete;
  pid_t process() const { return process_; }

 private:
  const pid_t process_;
};

class CallingRank {
 public:
  CallingRank(uint32_t rank, const std::string& url, const std::string& meeting)
      : rank_(rank), link_(std::make_shared<ServiceLink>(url, pool_, run::Deadline::after(seconds(30)))) {
    Communicator::Options options{.timeout = seconds(40), .join_timeout = seconds(40)};
    options.extras[ServiceExecutors::kExtra] = ServiceExecutors::extra_of(*link_);
    options.executors = [link = link_](std::shared_ptr<run::JoinedProcesses> job, const Communicator::Options& own) {
      return std::make_unique<ServiceExecutors>(link, std::move(job), own);
    };
    comm_.emplace(
        Communicator::join(pool_, {.url = meeting, .rank = rank, .size = kRanks, .name = {}}, std::move(options)));
  }

  // Calls until all ranks have found `is_over` and some calls more.
  void call_until(Communicator& comm, const std::function<bool()>& is_over) {
    constexpr int kMore = 50;
    for (int more = 0; more < kMore;) more += call(comm, is_over()) ? 1 : 0;
  }
  Communicator& comm() { return *comm_; }
  Communicator another() { return *comm_->split(0, static_cast<int>(rank_), comm_->options()); }
  void drop_first() {
    comm_->finalize();
    comm_.reset();
  }
  double longest_gap() const { return longest_ / 1e6; }  // milliseconds that a call took at most
  void forget_longest() { longest_ = 0; }
  void set_count(size_t count) { count_ = count; }
  // A message from rank 0 to rank 1.
  void exchange_message() {
    const int64_t sent = 4711;
    int64_t got = 0;
    run::Call message{.kind = run::OperationKind::send, .type = element::DataType::int64, .count = 1};
    message.other = 1 - rank_;
    message.send = reinterpret_cast<const std::byte*>(&sent);
    message.recv = reinterpret_cast<std::byte*>(&got);
    if (rank_ == 1) message.kind = run::OperationKind::recv;
    if (rank_ < 2) comm_->run(message);
    CHECK(rank_ != 1 || got == sent) << got;
  }
  uint64_t calls() const { return step_; }

 private:
  // Whether all ranks say so.
  bool call(Communicator& comm, bool is_over) {
    std::vector<int64_t> input(count_), output(count_);
    for (size_t i = 0; i < count_; ++i) input[i] = static_cast<int64_t>(step_ + rank_ + i * (rank_ + 1));
    input.back() = is_over ? 1 : 0;
    const auto began = std::chrono::steady_clock::now();
    comm.all_reduce<int64_t>(input, output);
    longest_ = std::max<double>(longest_, static_cast<double>((std::chrono::steady_clock::now() - began).count()));
    for (size_t i = 0; i + 1 < count_; ++i) {
      CHECK(output[i] == static_cast<int64_t>(kRanks * step_ + 0 + 1 + 2 + i * 6)) << "element " << i;
    }
    ++step_;
    return output.back() == kRanks;
  }

  const uint32_t rank_;
  run::RegionPool pool_;
  const std::shared_ptr<ServiceLink> link_;
  std::optional<Communicator> comm_;
  uint64_t step_ = 0;
  size_t count_ = 5000;
  double longest_ = 0;
};

class Upgrades : public ::testing::Test {
 protected:
  Upgrades() : folder_(std::filesystem::temp_directory_path() / "banyan-test-XXXXXX") {
    CHECK(mkdtemp(folder_.data()) != nullptr) << folder_;
    setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1);
    void* const memory = mmap(nullptr, sizeof(Board), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    board_ = new (memory) Board();
  }
  ~Upgrades() override {
    munmap(board_, sizeof(Board));
    std::filesystem::remove_all(folder_);
  }

  std::string socket_of(uint32_t host) const { return folder_ + "/daemon" + std::to_string(host); }
  using Daemons = std::vector<std::unique_ptr<BanyandProcess>>;
  Daemons start_daemons(uint32_t hosts) const {
    Daemons daemons;
    for (uint32_t host = 0; host < hosts; ++host) {
      daemons.push_back(
          std::make_unique<BanyandProcess>(BanyandProcess::Options{.socket = socket_of(host),
                                                                   .world = "file://" + folder_ + "/world",
                                                                   .host = "host" + std::to_string(host),
                                                                   .more = {"--operators", socket_of(host) + ".op"}}));
    }
    return daemons;
  }
  // Of the host that is asked.
  // What a rank does while an upgrade is asked for that changes nothing.
  std::string call_and_open_another(CallingRank& rank) const {
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    Communicator another = rank.another();
    rank.call_until(another, [] { return true; });
    return "right";
  }
  json upgrade(uint32_t host, const json& body) const {
    const HttpResponse answer =
        http_ask("unix:" + socket_of(host) + ".op", "POST", "/v1/upgrade", body.dump(), seconds(30));
    CHECK(answer.status == 200) << answer.body;
    json hosts = json::parse(answer.body)["hosts"];
    CHECK(hosts.size() == 1) << answer.body;
    return hosts[0];
  }
  std::string program(const std::string& name, const std::string& text) const {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    return path;
  }

  std::string keep_daemons(const std::function<std::string(Daemons& daemons)>& act) {
    Daemons daemons = start_daemons(kHosts);
    board_->has_daemons = true;
    wait_until([&] { return board_->ranks_calling == kRanks; });
    return act(daemons);
  }
  // `body` on each rank, `act` where the daemons are.
  void run(const std::function<std::string(CallingRank& rank)>& body,
           const std::function<std::string(Daemons& daemons)>& act) {
    const std::vector<std::string> reports = run::run_processes(1 + kRanks, seconds(100), [&](uint32_t number) {
      if (number == kRanks) return keep_daemons(act);
      wait_until([&] { return board_->has_daemons.load(); });
      const uint32_t host = number % kHosts;
      setenv("BANYAN_HOST_ID", ("host" + std::to_string(host)).c_str(), 1);
      CallingRank rank(number, "unix:" + socket_of(host), "file://" + folder_ + "/meeting");
      rank.call_until(rank.comm(), [] { return true; });
      ++board_->ranks_calling;
      std::string report = body(rank);
      ++board_->ranks_over;
      wait_until([&] { return board_->ranks_over == kRanks; });
      std::cout << "rank " << number << ": " << rank.calls() << " calls, the longest " << rank.longest_gap() << " ms"
                << std::endl;
      return report;
    });
    EXPECT_THAT(reports, Each("right"));
  }

  std::string folder_;
  Board* board_ = nullptr;
};

// A process that is nobody's child: that it has ended may be all that is known of it.
bool has_ended(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string number, name, state;
  return !(file >> number >> name >> state) || state == "Z";
}

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
    const json said = upgrade(0, {{"hosts", {"host0"}}});
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
      const json said = upgrade(host, {{"hosts", {"host" + std::to_string(host)}}});
      if (said.contains("error")) return said.dump();
      newer.push_back(said["process"].get<pid_t>());
      ends.push_back(std::make_unique<EndOf>(newer.back()));
    }
    wait_until([&] { return daemons[0]->has_ended() && daemons[1]->has_ended(); });
    json said;
    // The new daemon hears of the end of the old one soon.
    wait_until([&] { return !(said = upgrade(0, {{"hosts", {"host0"}}})).contains("error"); });
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
    const json said = upgrade(0, {{"hosts", {"host0"}}});
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
    rank.exchange_message();
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    Communicator another = rank.another();
    rank.call_until(another, [] { return true; });
    rank.exchange_message();
    rank.call_until(rank.comm(), [] { return true; });
    ++board_->upgrades;
    wait_until([&] { return board_->has_old_ended.load(); });
    rank.drop_first();
    rank.call_until(another, [] { return true; });
    return "right";
  };
  run(body, [&](Daemons& daemons) -> std::string {
    const json said = upgrade(0, {{"hosts", {"host0"}}});
    if (said.contains("error")) return said.dump();
    const EndOf end(said["process"].get<pid_t>());
    board_->is_upgraded = true;
    wait_until([&] { return board_->upgrades == kRanks; });
    // It looks once a second whether it is idle.
    std::this_thread::sleep_for(milliseconds(1500));
    if (daemons[0]->has_ended()) return "the old daemon has ended before its communicator";
    const json early = upgrade(0, {{"hosts", {"host0"}}});
    if (early.dump().find("still has communicators") == std::string::npos) return early.dump();
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
    setenv("BANYAN_HOST_ID", ("host" + std::to_string(host)).c_str(), 1);
    CallingRank rank(number, "unix:" + socket_of(host), "file://" + folder_ + "/meeting");
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
      const pid_t child = fork();
      if (child == 0) call(2), _exit(1);
      int status = 0;
      waitpid(child, &status, 0);
      return std::string(WIFSIGNALED(status) ? "right" : "it was not killed");
    }
    return keep_daemons([&](Daemons& daemons) -> std::string {
      std::thread soon([&] { board_->is_upgraded = true; });
      const json said = upgrade(0, {{"hosts", {"host0"}}});
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
          wait_until([&] { return !(said = upgrade(0, {{"hosts", {"host0"}}})).contains("error"); });
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
    setenv("BANYAN_HOST_ID", ("host" + std::to_string(host)).c_str(), 1);
    CallingRank rank(number, "unix:" + socket_of(host), "file://" + folder_ + "/meeting");
    ++board_->ranks_calling;
    std::string report = body(rank);
    ++board_->ranks_failed;
    return report;
  });
  EXPECT_THAT(reports, Each("right"));
}

TEST_F(Upgrades, ToWhatIsNoDaemonChangeNothing) {
  run([this](CallingRank& rank) { return call_and_open_another(rank); },
      [&](Daemons& daemons) -> std::string {
        const std::vector<std::pair<std::string, std::string>> wrong = {
            {folder_ + "/none", "No such file"},
            {"banyand", "no absolute path"},
            {program("quits", "#!/bin/sh\nexit 7\n"), "has ended with exit code 7"},
            {program("hangs", "#!/bin/sh\nexec sleep 100\n"), "has not said within 5 s"},
            {program("fails", std::string("#!/bin/sh\nexec ") + BANYAND_BINARY + " --rules /none \"$@\"\n"), "/none"}};
        for (const auto& [binary, words] : wrong) {
          const json said = upgrade(0, {{"hosts", {"host0"}}, {"binary", binary}});
          const std::string why = said.value("error", "");
          if (why.find(words) == std::string::npos || why.find('\n') != std::string::npos)
            return binary + ": " + said.dump();
        }
        const std::string open_to_all = program("open", "#!/bin/sh\n");
        std::filesystem::permissions(open_to_all, std::filesystem::perms(0777));
        const json said = upgrade(0, {{"hosts", {"host0"}}, {"binary", open_to_all}});
        if (said.dump().find("can be written by others") == std::string::npos) return said.dump();
        board_->is_upgraded = true;
        wait_until([&] { return board_->ranks_over == kRanks; });
        return daemons[0]->has_ended() ? "the daemon has ended" : "right";
      });
}

// It takes the sockets, and dies.
TEST_F(Upgrades, ThatFailAfterTheSocketsWereHandedOverAreTakenBack) {
  run([this](CallingRank& rank) { return call_and_open_another(rank); },
      [&](Daemons& daemons) -> std::string {
        const std::string binary = program("dies", R"(#!/usr/bin/python3
import os, socket, struct, sys
older = socket.socket(fileno=int(sys.argv[sys.argv.index("--upgrade-from") + 1]))
older.setblocking(True)
older.send(struct.pack("<I", 5) + b"ready" + struct.pack("<I", 1))
while b"take" not in older.recv(100000):
    pass
os._exit(9)
)");
        const json said = upgrade(0, {{"hosts", {"host0"}}, {"binary", binary}});
        const bool is_told = said.value("error", "").find("has ended with exit code 9") != std::string::npos;
        board_->is_upgraded = true;
        wait_until([&] { return board_->ranks_over == kRanks; });
        if (!is_told) return said.dump();
        return daemons[0]->has_ended() ? "the daemon has ended" : "right";
      });
}

}  // namespace
}  // namespace banyan::service
