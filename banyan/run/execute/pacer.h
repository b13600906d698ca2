// Pacer: has lanes send as fast as the plans of their calls say, and no faster, since more would only fill the queues
// of switches until packets are lost. It holds no slice back itself; the transport spreads them over time.
//
// Calls have their turns on a channel, so what counts there is the rate of the call whose slice leaves next, however
// many are in flight. A call that is late when its time is nearly over hurries: it is paced no more.
//
// One thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <vector>

#include "banyan/run/engine/slice_gate.h"

namespace banyan::run {

class Pacer : public SliceGate {
 public:
  using Clock = std::chrono::steady_clock;
  // Sets the rate of a channel of the transport from now on; 0: as fast as it goes.
  using SetRate = std::function<void(uint32_t channel, uint64_t bytes_per_second)>;
  using Now = std::function<Clock::time_point()>;
  // `outer`: a gate that slices have to pass first; the caller's; null: none.
  explicit Pacer(
      SetRate set_rate, Now now = [] { return Clock::now(); }, SliceGate* outer = nullptr)
      : set_rate_(std::move(set_rate)), now_(std::move(now)), outer_(outer) {}

  bool admit(const SliceOffer& offer) override;
  // Paces no more what is late. To be called now and then.
  void look_at_clock();
  // The call is over.
  void end(uint64_t sequence);
  // All calls begin again, on other channels.
  void forget_all();

 private:
  struct Timed {
    uint64_t sequence = 0;
    Clock::time_point until;  // then it hurries
  };
  struct Channel {
    uint64_t sequence = 0;  // whose turn it is
    uint64_t rate = 0;      // bytes per second; 0: any
  };

  void begin_turn(Channel& channel, const SliceOffer& offer);
  bool is_late(const SliceOffer& offer);
  void set(uint32_t number, uint64_t rate);

  const SetRate set_rate_;
  const Now now_;
  SliceGate* const outer_;
  std::vector<Channel> channels_;  // by number
  std::vector<Timed> timed_;       // paced, in the order of their first turns
  std::vector<uint64_t> late_;     // sequences
  Clock::time_point last_until_;
};

}  // namespace banyan::run
