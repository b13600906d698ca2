// Patience: how to wait for another process without being late and without wasting a core.
//
// A rank that waits for a peer looks again and again. At first it only looks, since a peer on another core answers
// within a hundred nanoseconds; then it rests between looks, then it lets others run, and at last it should sleep.
// Where ranks outnumber cores the peer may be waiting for this very core, so it is given up at once.
#pragma once

#include <cstdint>

namespace banyan {

// Whether `processes` on this host have to share the cores that this process may use.
bool is_crowded(uint32_t processes);

class Patience {
 public:
  explicit Patience(bool is_crowded) : crowded_(is_crowded) {}

  // To be called after a look in vain. False when it is time to sleep.
  bool pause() {
    if (++looks_ < (crowded_ ? kCrowdedLooks : kLooks)) return true;
    return rest();
  }
  // Something came: the next wait begins anew.
  void renew() { looks_ = 0; }
  // After a sleep in vain: a few looks, then sleep again.
  void tire() { looks_ = kEnd - 4; }

 private:
  bool rest();

  static constexpr uint32_t kLooks = 300, kCrowdedLooks = 10;
  static constexpr uint32_t kRests = 2000;        // until then a pause instruction between looks, some 50 ns
  static constexpr uint32_t kEnd = kRests + 300;  // until then others run between looks, a microsecond or more
  uint32_t looks_ = 0;
  bool crowded_;
};

}  // namespace banyan
