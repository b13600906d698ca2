// Running many small state machines in any order, and proving that no order matters.
//
// The interpreters of GPU programs need three things: an Interleaver that drives the blocks of all GPUs one step at a
// time in an order that depends on a seed, VectorClocks that know what must have happened before a step whatever the
// order, and a RaceDetector that refuses two touches of one place, one of them a write, that no clock orders.
// The detector needs no luck: it compares clocks, not the order that happened. (Flanagan and Freund, FastTrack,
// PLDI 2009, keeps the last write as one epoch as we do; reads stay a list, since here they are few.)
#pragma once

#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <unordered_map>
#include <vector>

namespace banyan::testing {

// A touch of memory: by whom (a component of the clocks), at which of its own times, in which step of the program.
struct Touch {
  uint32_t actor = 0;
  uint32_t time = 0;  // 0 is before everything
  uint32_t step = 0;  // what a message names; touches of one step are never in each other's way
};

class VectorClock {
 public:
  explicit VectorClock(size_t actors) : times_(actors, 0) {}

  uint32_t at(uint32_t actor) const { return times_[actor]; }
  void advance(uint32_t actor, uint32_t time);  // never backwards
  void join(const VectorClock& other) { join_first(other, times_.size()); }
  void join_first(const VectorClock& other, size_t actors);  // only what is known of actors below this number
  bool has_seen(const Touch& touch) const { return times_[touch.actor] >= touch.time; }

 private:
  std::vector<uint32_t> times_;
};

class RaceDetector {
 public:
  struct Names {
    std::function<std::string(uint32_t step)> step;
    std::function<std::string(uint32_t place)> place;
    std::string mend;  // what usually helps, put at the end of the message; may be empty
  };
  RaceDetector(size_t places, Names names);

  // Both throw Error{invalid_input} naming both steps and the place when an earlier touch is not ordered before
  // `clock`.
  void read(uint32_t place, const Touch& touch, const VectorClock& clock);
  void write(uint32_t place, const Touch& touch, const VectorClock& clock);

 private:
  struct History {
    Touch write;
    std::vector<Touch> reads;  // since that write
  };
  void expect_ordered(uint32_t place, const Touch& earlier, const char* did, const Touch& later, const char* does,
                      const VectorClock& clock) const;

  std::vector<History> history_;
  Names names_;
};

class Interleaver {
 public:
  struct Attempt {
    enum class Outcome { moved, waits, finished };
    Outcome outcome = Outcome::moved;
    uint64_t key = 0;  // waits: to be tried again only after wake(key)
  };
  static Attempt moved() { return {}; }
  static Attempt waits_for(uint64_t key) { return {Attempt::Outcome::waits, key}; }
  static Attempt finished() { return {Attempt::Outcome::finished, 0}; }

  // Seeds choose the order and also how long one machine tends to stay on: from strict alternation to long runs.
  Interleaver(uint32_t machines, uint64_t seed);

  // Steps machines until none can move; returns those that wait for ever, ascending: empty when all have finished.
  std::vector<uint32_t> run(const std::function<Attempt(uint32_t machine)>& attempt);
  // To be called from within `attempt` when what others may wait for has come. Waking too often does no harm.
  void wake(uint64_t key);

 private:
  std::mt19937_64 random_;
  uint64_t stay_of_64_;  // chance to stay with the machine that has just moved
  std::vector<uint32_t> ready_;
  std::unordered_map<uint64_t, std::vector<uint32_t>> waiting_;
};

// What a deadlock message says: the first few of the waits, and how many there are.
std::string describe_deadlock(const std::vector<uint32_t>& stuck, const std::function<std::string(uint32_t)>& wait_of);

}  // namespace banyan::testing
