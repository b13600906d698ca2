// For tests that kill daemons while ranks of two hosts call: a rank that looks whether all is as it should be, and goes
// on. Each host is a name here (BANYAN_HOST_ID).
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/communicator/communicator.h"

namespace banyan::service {

inline constexpr uint32_t kHosts = 2, kRanks = 3;
inline constexpr size_t kMostKills = 4096;

inline int64_t now() { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

// What the processes of a run see of each other, in shared memory.
struct CrashBoard {
  std::atomic<uint32_t> kills[kHosts];
  std::atomic<int64_t> killed_at[kHosts][kMostKills];
  std::atomic<uint64_t> calls[kRanks];  // that are over, by rank
  std::atomic<bool> is_over;

  void note_kill(uint32_t host) {
    const uint32_t number = kills[host].load();
    killed_at[host][number].store(now());
    kills[host].store(number + 1);
  }
  // The first kill of any daemon after a moment.
  std::optional<int64_t> first_kill(int64_t after) const {
    std::optional<int64_t> first;
    for (uint32_t host = 0; host < kHosts; ++host) {
      for (uint32_t number = 0; number < kills[host].load(); ++number) {
        const int64_t at = killed_at[host][number].load();
        if (at >= after) first = std::min(first.value_or(at), at);
      }
    }
    return first;
  }
};

inline int64_t value_of(uint32_t rank, uint64_t step, size_t position) {
  return int64_t{rank} * 1'000'003 + static_cast<int64_t>(step * 7919 + position);
}

// One rank: calls, and where its daemon or another one has gone, looks whether all is as it should be, shrinks and goes
// on. Its report is empty, or what was wrong; `late_` is how long after a kill its errors came.
class RecoveringRank {
 public:
  RecoveringRank(CrashBoard& board, uint32_t rank, std::string url, std::string meeting)
      : board_(board),
        rank_(rank),
        url_(std::move(url)),
        link_(std::make_shared<ServiceLink>(url_, pool_, run::Deadline::after(std::chrono::seconds(30)))),
        meeting_(std::move(meeting)) {}

  // "<errors> <calls> <milliseconds of each error...>", which are negative where another rank has told of it.
  std::string run() {
    join();
    while (go_on()) continue;
    comm_.reset();
    std::string report = std::to_string(errors_) + " " + std::to_string(calls_);
    for (const double each : late_) report += " " + std::to_string(each);
    return report;
  }

 private:
  static constexpr size_t kMostElements = 60'000;

  void join() {
    comm_.emplace(run::Communicator::join(pool_, {.url = meeting_, .rank = rank_, .size = kRanks, .name = {}},
                                          options_by(link_, std::chrono::seconds(40))));
    began_ = now();
    shared_ = reinterpret_cast<int64_t*>(pool_.allocate(2 * kMostElements * sizeof(int64_t)));
  }

  // False at the end, which one rank tells all.
  bool go_on() {
    try {
      const std::vector<int64_t> own = {static_cast<int64_t>(step_), board_.is_over ? 0 : 1};
      std::vector<int64_t> all(2);
      CHECK(comm_->size() == kRanks) << "somebody is missing";
      comm_->all_reduce<int64_t>(own, all, element::ReduceOp::min);
      step_ = static_cast<uint64_t>(all[0]);
      if (all[1] == 0) return false;
      call();
      ++step_;
      ++calls_;
      board_.calls[rank_] = calls_;
    } catch (const Error& error) {
      recover(error);
    }
    return true;
  }

  // Sums in ordinary memory, in memory that the daemon sees, and in place there.
  void call() {
    const size_t count = 1 + (step_ * 7'001) % kMostElements;
    std::vector<int64_t> ordinary(2 * kMostElements);
    int64_t* const send = step_ % 3 == 0 ? ordinary.data() : shared_;
    int64_t* const recv = step_ % 3 == 2 ? send : send + kMostElements;
    for (size_t i = 0; i < count; ++i) send[i] = value_of(rank_, step_, i);
    try {
      comm_->all_reduce<int64_t>({send, count}, {recv, count});
    } catch (const Error&) {
      for (size_t i = 0; i < count; ++i) {
        CHECK(send[i] == value_of(rank_, step_, i)) << "input " << i << " of step " << step_ << " is " << send[i];
      }
      throw;
    }
    for (size_t i = 0; i < count; ++i) {
      int64_t sum = 0;
      for (uint32_t rank = 0; rank < kRanks; ++rank) sum += value_of(rank, step_, i);
      CHECK(recv[i] == sum) << "element " << i << " of step " << step_ << " is " << recv[i];
    }
  }

  void recover(const Error& error) {
    ++errors_;
    const std::string text = error.what();
    const bool is_own = text.find("the service has gone (" + url_ + ")") != std::string::npos;
    const bool is_other = text.find("the service of rank ") != std::string::npos ||
                          text.find("shrinks the communicator") != std::string::npos;
    CHECK((error.code() == ErrorCode::peer_lost || error.code() == ErrorCode::aborted) && (is_own || is_other)) << text;
    // Where a daemon was killed before the communicator began, its end was told late, or found by a call.
    const std::optional<int64_t> killed = board_.first_kill(began_);
    if (killed) late_.push_back((is_own ? 1 : -1) * static_cast<double>(now() - *killed) / 1e6);
    run::Communicator::Options options = comm_->options();
    options.joins_by.reset();
    run::Communicator rest = comm_->shrink({}, std::chrono::seconds(15), std::move(options));
    comm_.emplace(std::move(rest));
    began_ = now();
  }

  CrashBoard& board_;
  const uint32_t rank_;
  const std::string url_;
  run::RegionPool pool_;
  const std::shared_ptr<ServiceLink> link_;
  const std::string meeting_;
  std::optional<run::Communicator> comm_;
  int64_t* shared_ = nullptr;
  int64_t began_ = 0;
  uint64_t step_ = 0, errors_ = 0, calls_ = 0;
  std::vector<double> late_;
};

}  // namespace banyan::service
