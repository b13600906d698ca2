// TransferEngine: carries out TransferGraphs, any number of them at once, on a network that they may share with others.
//
// A *run* is one graph under way. The engine knows which slice may leave when (transfer_graph.h) and has no network:
// whoever has one, the *carrier*, starts a flow for each message that the engine hands it, and says when that has
// ended; it owns the clock, and asks when slices that only the latency of links still delays will arrive. So the
// simulation of a schedule (schedule_simulation.h) and that of jobs (simulation/transfers.h) carry messages each in its
// own way, and agree to a picosecond on when they leave.
//
// Deterministic: messages leave in the order of the graph at the beginning, and of what lets them leave later. One
// thread. O(log n) a message, and O(needs) where several have to come together. Memory: 20 bytes a transfer until the
// run ends.
#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/predict/collective/transfer_graph.h"

namespace banyan::predict {

class TransferEngine {
 public:
  // A transfer has at most one that leaves at a time.
  struct Message {
    uint32_t run = 0, transfer = 0;
  };
  class Carrier {
   public:
    virtual ~Carrier() = default;
    // Starts a flow now of the transfer's bytes along its hops, after its alpha. Calls back with sent(), later.
    virtual void carry(Message message) = 0;
  };

  explicit TransferEngine(Carrier& carrier) : carrier_(carrier) {}  // which outlives it

  // A new run, which `graph` outlives. Returns its number, which is used again when it has ended or stopped.
  uint32_t add(const TransferGraph& graph);
  // Sends what can be sent at once.
  void begin(uint32_t run);
  // The last byte of a message has left.
  void sent(Message message, Picoseconds now);
  // The arrival time of the next slice that only the latency of links still delays; kNever (fluid_network.h) if there
  // is none.
  Picoseconds next() const;
  // Lets the slices arrive that do so at `now`, which is not after next().
  void advance(Picoseconds now);
  // Forgets a run, whose messages will not end.
  void stop(uint32_t run);

  // Runs that have ended since this was last asked, in the order in which they did.
  std::vector<uint32_t> take_ended();

  // The number of messages of all runs that have arrived.
  uint64_t messages_done() const { return messages_done_; }

 private:
  struct State {
    uint32_t sent = 0;     // slices that have left, or are leaving
    uint32_t arrived = 0;  // slices that are there
    uint32_t ready = 0;    // slices that may be sent
    uint32_t missing = 0;  // of those it needs, how many have not delivered slice `ready`
    bool is_sending = false;
  };
  struct Run {
    const TransferGraph* graph = nullptr;
    std::vector<State> states;
    uint64_t slices_left = 0;
  };

  void go_on(uint32_t run, uint32_t transfer);
  void arrive(uint32_t run, uint32_t transfer);
  static void make_ready(Run& run, uint32_t transfer);
  void release(uint32_t run);

  Carrier& carrier_;
  std::vector<Run> runs_;
  std::vector<uint32_t> free_, ended_;
  std::vector<std::tuple<Picoseconds, uint32_t, uint32_t>> arrivals_;  // a heap: when, run, transfer
  uint64_t messages_done_ = 0;
};

}  // namespace banyan::predict
