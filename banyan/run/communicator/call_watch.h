// CallWatch: decides whether a rank waits in vain, and says why.
//
// While nothing moves it looks, in turn, whether a rank is dead or has left; whether the ranks have called different
// things, by asking them; whether this rank has waited (patience.h) for as long as the timeout. Long before that it
// warns, and names the rank for which all wait. From the same knowledge it finds the cause of an error, which this rank
// may have seen the consequences of only.
//
// It knows other ranks as Peers, and time as a TimeSource: a test has both simulated.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/communicator/call_log.h"
#include "banyan/run/communicator/first_error.h"
#include "banyan/run/communicator/patience.h"
#include "banyan/run/communicator/peers.h"
#include "banyan/run/record/rank_news.h"
#include "banyan/run/system/time_source.h"

namespace banyan::run {

// Used by the thread that drives, but for health_of().
class CallWatch {
 public:
  struct Options {
    std::string communicator;  // its name
    uint32_t rank = 0;
  };
  CallWatch(Options options, const TimeSource& time, Patience& patience, Peers& peers, CallLog& log,
            FirstError& first_error);
  CallWatch(const CallWatch&) = delete;
  CallWatch& operator=(const CallWatch&) = delete;

  // The time without a move begins with the next look.
  void restart() { steps_seen_ = kUnknown; }
  // State of a driver that sees nothing move.
  struct Look {
    uint32_t rank = 0;   // that it waits for; its own where it knows of none
    uint64_t steps = 0;  // a number that grows whenever something comes nearer to its end
    std::chrono::milliseconds timeout{0};
    bool can_do_without = false;      // what is under way can end without `rank`, if that has left
    bool notices_last_bytes = false;  // the executor fails by itself when nothing more can come from it
  };
  // Throws the Error with which waiting ends.
  void look(const Look& look);
  // The wait that the last look saw went on until now.
  void woke() { count_wait(time_.now()); }
  // The error of an operation, once what is known of it elsewhere has been waited for.
  Error cause_of(const Error& error);

  // One judgement for the words of errors and for records: a rank that has not answered is as silent as one that gives
  // no heartbeat. Any thread.
  Health health_of(uint32_t rank) const;

 private:
  // The state that a look sees. Two equal ones in a row: this rank has looked at its own work between them.
  struct Sight {
    uint32_t changes = 0, rank = 0;  // of liveness; whom this rank waits for
    uint64_t steps = 0;
    bool has_left = false, is_anybody_dead = false;
    friend bool operator==(const Sight&, const Sight&) = default;
  };

  using TimePoint = TimeSource::TimePoint;
  static constexpr uint64_t kUnknown = UINT64_MAX;
  struct Answer {
    RankNews news;
    Health health = Health::unknown;
  };
  using Answers = std::vector<Answer>;  // by rank; of this one too

  void look_at_ranks(const Look& look);
  void restart_at(TimePoint now, const Look& look);
  void count_wait(TimePoint now);
  void look_at_time(const Look& look);
  void warn(const Look& look);
  std::string awaited(uint32_t rank) const;
  std::string own_wait(uint32_t rank) const;
  void compare_calls(std::chrono::milliseconds timeout);
  std::chrono::milliseconds left_of(std::chrono::milliseconds timeout) const;
  void expect_nobody_dead() const;
  void expect_present(const Look& look) const;
  Answers ask_ranks(std::chrono::milliseconds at_most);
  Answers ask_about_timeout();
  Error cause_of_loss(const Error& error);
  Error explained(const Error& error);

  const Options options_;
  const TimeSource& time_;
  Patience& patience_;  // shared with the driver, which says who waits
  Peers& peers_;
  CallLog& log_;
  FirstError& first_error_;
  // Indexed by rank: true if it left this rank's last question without an answer. Written by the thread that drives.
  const std::unique_ptr<std::atomic<bool>[]> is_mute_;

  // Results of the last look.
  Sight last_sight_;
  TimePoint left_at_;             // when rank `last_sight_.rank` was first seen to have left
  uint32_t changes_settled_ = 0;  // of liveness, up to which nobody is dead

  TimePoint looked_at_;           // or woken up at, after it
  uint32_t waits_for_ = kNoRank;  // as the last look saw it

  // Since something moved.
  uint64_t steps_seen_ = kUnknown;
  std::shared_ptr<void> silence_watch_;
  std::chrono::milliseconds compare_after_{0};
  std::chrono::milliseconds warn_after_{0};
  bool has_asked_last_ = false;  // before the timeout
  Answers last_answers_;         // to the last comparison
};

}  // namespace banyan::run
