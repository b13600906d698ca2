#include "banyan/service/client/message_flights.h"

#include <string>

#include "banyan/run/call/call.h"

namespace banyan::service {

uint64_t MessageFlights::add(uint32_t peer, Staging::Staged staged) {
  waiting_.push_back({.ticket = ++tickets_, .peer = peer, .staged = std::move(staged)});
  if (peer != run::kAnyRank) ++with_.at(peer);
  return tickets_;
}

void MessageFlights::submit_next(ClientRings& rings) {
  Flight flight = std::move(waiting_.front());
  waiting_.pop_front();
  const uint64_t sequence = rings.submit(flight.staged.submission);
  under_way_.emplace(sequence, std::move(flight));
}

StagedCall MessageFlights::end(const Completion& completion) {
  const auto message = under_way_.find(completion.sequence);
  if (message == under_way_.end()) {
    throw invalid("the service completes submission " + std::to_string(completion.sequence) +
                  ", which is not under way or not the next");
  }
  Flight& flight = message->second;
  const bool is_from_any = flight.peer == run::kAnyRank;
  if (is_from_any ? completion.peer >= with_.size() : completion.peer != flight.peer) {
    throw invalid("the service completes a message with rank " + std::to_string(completion.peer) +
                  ", which it was not for");
  }
  done_.push_back({.ticket = flight.ticket, .peer = completion.peer});
  if (!is_from_any) --with_[flight.peer];
  StagedCall staged = std::move(flight.staged.call);
  under_way_.erase(message);
  return staged;
}

void MessageFlights::take_done(std::vector<Done>& done) {
  done.insert(done.end(), done_.begin(), done_.end());
  done_.clear();
}

}  // namespace banyan::service
