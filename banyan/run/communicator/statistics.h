// Statistics: what communicators of this process have done, for those who show it to a person or to a program.
//
// The board of the process holds the communicators that live, which it asks when it is read, and the sums of those that
// have ended. So a counter of the process never falls.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/record/call_counters.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

// Counts of one communicator, or the sums of several of one name.
struct Statistics {
  CallTotals calls;
  SentBytes sent;
  uint64_t reroutes = 0;
  uint64_t revisions = 0;                       // generation of the plans: also of wishes that were refused
  uint64_t lost_peers = 0;                      // that died
  std::map<ErrorCode, uint64_t> failures = {};  // communicators that have failed
  uint64_t living = 1;                          // communicators that have not ended

  Statistics& operator+=(const Statistics& other);
};

// The place of a process in its job.
struct JobPlace {
  uint32_t rank = 0, size = 1;
  uint32_t rank_on_host = 0;
};

// Any thread.
class StatisticsBoard {
 public:
  // Beyond so many names of communicators, those that end are summed under the name "others".
  static constexpr size_t kMostNames = 32;
  static constexpr const char* kOthers = "others";

  // The board of this process; a forked one has a board of its own.
  static StatisticsBoard& of_process();

  StatisticsBoard() = default;
  StatisticsBoard(const StatisticsBoard&) = delete;
  StatisticsBoard& operator=(const StatisticsBoard&) = delete;

  // Somebody who is told, outside of the board's lock. Throws nothing.
  class Listener {
   public:
    virtual ~Listener() = default;
    virtual void began(const JobPlace& place) = 0;
    // A communicator has ended: the board's present counts are its last.
    virtual void ended() = 0;
  };
  // Sets the listener of all boards, for ever. `listener` is never freed.
  static void set_listener(Listener* listener);

  // Membership of a living communicator. Its end reads the communicator once more; not in a forked process, which has
  // no part in it.
  using Entry = std::shared_ptr<void>;
  [[nodiscard]] Entry enter(const std::string& name, const JobPlace& place, std::function<Statistics()> read);

  // Statistics by the name of the communicators.
  std::map<std::string, Statistics> read() const;
  // The place that the last communicator to come gave; empty before the first.
  std::optional<JobPlace> place() const;

 private:
  struct Living {
    std::string name;
    std::function<Statistics()> read;
  };
  void leave(std::list<Living>::iterator living) noexcept;
  void add_to_ended(const std::string& name, Statistics last);

  const ForkGuard fork_guard_;
  mutable std::mutex mutex_;  // protects what follows; held while communicators are read
  std::list<Living> living_;
  std::map<std::string, Statistics> ended_;
  std::optional<JobPlace> place_;
};

}  // namespace banyan::run
