// banyand is upgraded while ranks of two hosts call through it. Each host is a name here (BANYAN_HOST_ID); each daemon
// and each rank is a process.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <iostream>
#include <nlohmann/json.hpp>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/http/client.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/test.h"

namespace banyan::service {

using nlohmann::json;
using run::Communicator;

inline constexpr uint32_t kHosts = 2, kRanks = 3;  // rank r on host r % 2

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

class CallingRank {
 public:
  CallingRank(uint32_t rank, const std::string& url, const std::string& meeting)
      : rank_(rank), link_(std::make_shared<ServiceLink>(url, pool_, run::Deadline::after(seconds(30)))) {
    comm_.emplace(Communicator::join(pool_, {.url = meeting, .rank = rank, .size = kRanks, .name = {}},
                                     options_by(link_, seconds(40))));
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
  // A message from a rank to the next one: the communicator stays with its daemon from then on.
  void exchange_message(Communicator& comm, uint32_t from = 0) const {
    if (rank_ != from && rank_ != from + 1) return;
    const int64_t sent = 4711;
    int64_t got = 0;
    run::Call message{.kind = run::OperationKind::send, .type = element::DataType::int64, .count = 1};
    message.other = rank_ == from ? from + 1 : from;
    message.send = reinterpret_cast<const std::byte*>(&sent);
    message.recv = reinterpret_cast<std::byte*>(&got);
    if (rank_ != from) message.kind = run::OperationKind::recv;
    comm.run(message);
    CHECK(rank_ == from || got == sent) << got;
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

class Upgrades : public ::testing::Test, protected DaemonFolder {
 protected:
  using Daemons = std::vector<std::unique_ptr<BanyandProcess>>;
  Daemons start_daemons(uint32_t hosts) const {
    Daemons daemons;
    for (uint32_t host = 0; host < hosts; ++host) {
      BanyandProcess::Options options = options_of(host, {"--operators", socket_of(host) + ".op", "--obey", "host*"});
      options.program = program_;
      daemons.push_back(std::make_unique<BanyandProcess>(std::move(options)));
    }
    return daemons;
  }
  // What a rank does while an upgrade is asked for that changes nothing.
  std::string call_and_open_another(CallingRank& rank) const {
    rank.call_until(rank.comm(), [&] { return board_->is_upgraded.load(); });
    Communicator another = rank.another();
    rank.call_until(another, [] { return true; });
    return "right";
  }
  json ask(uint32_t host, const std::string& method, const std::string& path, const std::string& body = {}) const {
    const HttpResponse answer = http_ask(url_of(host) + ".op", method, path, body, seconds(30));
    CHECK(answer.status == 200) << answer.body;
    return json::parse(answer.body);
  }
  // Of a host, by itself.
  json upgrade(uint32_t host, json body = json::object()) const {
    body["hosts"] = {name_of(host)};
    json said = ask(host, "POST", "/v1/upgrade", body.dump());
    CHECK(said["hosts"].size() == 1) << said.dump();
    return said["hosts"][0];
  }
  // Daemons are started from a copy of the program, at whose place something else may come.
  void start_from_copy() {
    program_ = folder_ + "/banyand";
    std::filesystem::copy_file(BANYAND_BINARY, program_);
  }
  // As an update of a package does: the program that runs keeps its file.
  void put_in_place(const std::string& text) const {
    const std::string path = folder_ + "/next";
    std::ofstream(path) << text;
    std::filesystem::permissions(path, std::filesystem::perms(0755));
    std::filesystem::rename(path, program_);
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
      setenv("BANYAN_HOST_ID", name_of(host).c_str(), 1);
      CallingRank rank(number, url_of(host), meeting());
      rank.call_until(rank.comm(), [] { return true; });
      ++board_->ranks_calling;
      std::string report = body(rank);
      ++board_->ranks_over;
      wait_until([&] { return board_->ranks_over == kRanks; });
      std::cout << "rank " << number << ": " << rank.calls() << " calls, the longest " << rank.longest_gap() << " ms"
                << std::endl;
      return report;
    });
    EXPECT_THAT(reports, ::testing::Each("right"));
  }

  std::string program_ = BANYAND_BINARY;
  const testing::SharedAmongProcesses<Board> board_;
};

}  // namespace banyan::service
