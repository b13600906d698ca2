// MessageFlights: the messages of one communicator through the service, from their start until the program asks.
//
// 1. A message has a ticket, from 1 on. Messages are submitted in the order of their tickets, and each ends once.
// 2. needs(rank) holds while a message with that very rank has not ended.
// 3. The daemon is not believed: a completion that it cannot mean is Error{invalid_input}, and changes nothing.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <deque>
#include <unordered_map>
#include <vector>

#include "banyan/run/execute/executor.h"
#include "banyan/service/client/staging.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

class MessageFlights {
 public:
  using Done = run::Executor::MessageDone;
  explicit MessageFlights(uint32_t ranks) : with_(ranks) {}

  // It waits for room. Returns its ticket. `peer`: kAnyRank: from any.
  uint64_t add(uint32_t peer, Staging::Staged staged);
  bool has_waiting() const { return !waiting_.empty(); }
  // Submits the first that waits. There is room.
  void submit_next(ClientRings& rings);
  // The message of the completion has ended. Returns what is to be done with its buffers.
  StagedCall end(const Completion& completion);
  // Appends those that have ended since this was called last.
  void take_done(std::vector<Done>& done);
  bool has_done() const { return !done_.empty(); }
  bool is_empty() const { return waiting_.empty() && under_way_.empty() && done_.empty(); }
  bool needs(uint32_t rank) const { return with_.at(rank) > 0; }

 private:
  struct Flight {
    uint64_t ticket = 0;
    uint32_t peer = 0;
    Staging::Staged staged;
  };

  std::deque<Flight> waiting_;
  std::unordered_map<uint64_t, Flight> under_way_;  // by the sequence of their submission
  std::vector<uint32_t> with_;                      // by rank: messages that have not ended
  std::vector<Done> done_;                          // not asked for
  uint64_t tickets_ = 0;
};

}  // namespace banyan::service
