// UnconfirmedCalls: small calls that are over here and may not be over elsewhere, with copies of their results, which
// other ranks may want while the calls are not confirmed (revision.h). Their buffers are their callers' again. It also
// times their confirmations, if no further call takes them along.
//
// One thread at a time.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/engine/engine.h"
#include "banyan/run/message/tag_matcher.h"

namespace banyan::run {

class UnconfirmedCalls {
 public:
  using Clock = std::chrono::steady_clock;
  // Bytes of a result; calls; and how long they wait for the next call with their confirmations.
  static constexpr size_t kMostBytes = size_t{64} << 10, kMostCalls = 4;
  static constexpr std::chrono::microseconds kConfirmAfter{100};

  struct Kept {
    uint64_t number = 0;
    Engine::Ticket ticket = {};
    Call call = {};
    CallNumbers numbers{};
    std::vector<std::byte> result = {};
    std::vector<std::byte> unused = {};  // output, when the result goes to others
  };

  // `keeper` gives room for results; empty: there is always room.
  explicit UnconfirmedCalls(MemoryKeeper keeper) : keeper_(std::move(keeper)) {}

  // True if one more result can be kept. If not, its call is over when it is confirmed.
  bool has_room_for(size_t bytes);
  // Later calls after earlier ones.
  void keep(Kept call);
  // Forgets the first of them if it is confirmed, and says which it was.
  std::optional<uint64_t> forget_confirmed(const Engine& engine);
  // Gives the room for results back, when none is kept.
  void give_room_back();

  bool is_empty() const { return calls_.empty(); }
  size_t size() const { return calls_.size(); }
  // The number of the oldest; not when there is none.
  uint64_t first() const { return calls_.front().number; }
  // True if one of them has this number or a later one, so that this call is over here, too.
  bool reaches(uint64_t number) const { return !calls_.empty() && number <= calls_.back().number; }
  Kept* find(uint64_t number);

  // The time from which confirmations wait no longer for a call to go with; settle() has them go at once, until another
  // call is kept.
  Clock::time_point settles_at() const { return settles_at_; }
  bool is_due() const { return Clock::now() >= settles_at_; }
  bool is_settling() const { return is_settling_; }
  void settle() { is_settling_ = true; }

 private:
  const MemoryKeeper keeper_;
  std::deque<Kept> calls_;
  std::shared_ptr<void> room_;
  size_t bytes_ = 0, room_bytes_ = 0;  // of results; for which there is room
  Clock::time_point settles_at_;
  bool is_settling_ = false;
};

}  // namespace banyan::run
