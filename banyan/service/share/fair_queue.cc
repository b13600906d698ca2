#include "banyan/service/share/fair_queue.h"

#include <algorithm>
#include <cmath>

#include "banyan/base/check.h"

namespace banyan::service {
namespace {
// So no tag is above the sum of so many pieces, and a double tells tags apart that differ by 2^-32 of the largest one.
constexpr uint32_t kServedBetween = 1 << 20;
}  // namespace

FairQueue::FairQueue(double credit) : credit_(credit) {
  CHECK(credit >= 0 && std::isfinite(credit)) << "a credit of " << credit;
}

FairQueue::State& FairQueue::known(Client client) {
  const auto at = clients_.find(client);
  CHECK(at != clients_.end()) << "client " << client << " was never given a weight";
  return at->second;
}

void FairQueue::set_weight(Client client, double weight) {
  CHECK(weight > 0 && std::isfinite(weight)) << "client " << client << " gets weight " << weight;
  const auto [at, is_new] = clients_.try_emplace(client);
  at->second.weight = weight;
  // A new client begins at the virtual time, without a claim or a debt.
  if (is_new) at->second.finish = virtual_time_;
}

void FairQueue::remove(Client client) {
  const auto at = clients_.find(client);
  if (at == clients_.end()) return;
  if (at->second.is_waiting) stop_waiting(client, at->second);
  clients_.erase(at);
}

void FairQueue::stop_waiting(Client client, const State& state) {
  // If nobody waits any more, V becomes the largest finish tag: the next client neither owes nor has anything.
  waiting_.erase({state.finish, client});
  if (waiting_.empty()) virtual_time_ = last_finish_;
}

void FairQueue::set_waiting(Client client, bool is_waiting) {
  State& state = known(client);
  if (state.is_waiting == is_waiting) return;
  state.is_waiting = is_waiting;
  if (!is_waiting) {
    stop_waiting(client, state);
    return;
  }
  // The start tag of its next piece: idle time is neither saved up, beyond the credit, nor paid for.
  state.finish = std::max(state.finish, virtual_time_ - credit_);
  waiting_.emplace(state.finish, client);
}

bool FairQueue::is_waiting(Client client) const {
  const auto at = clients_.find(client);
  return at != clients_.end() && at->second.is_waiting;
}

std::optional<FairQueue::Client> FairQueue::next() const {
  if (waiting_.empty()) return std::nullopt;
  return waiting_.begin()->second;
}

void FairQueue::serve(Client client, double cost) {
  State& state = known(client);
  CHECK(state.is_waiting) << "client " << client << " has no work";
  CHECK(cost >= 0 && std::isfinite(cost)) << "client " << client << " got " << cost;
  // V goes on with the client whose turn it is. If another one is served, V stands still and the next one keeps its
  // claim.
  if (waiting_.begin()->second == client) virtual_time_ = std::max(virtual_time_, state.finish);
  auto tag = waiting_.extract({state.finish, client});
  // F = S + cost / weight; it is the start tag of the client's next piece.
  state.finish += cost / state.weight;
  last_finish_ = std::max(last_finish_, state.finish);
  tag.value().first = state.finish;
  waiting_.insert(std::move(tag));
  if (++served_ == kServedBetween) bring_tags_near_zero();
}

void FairQueue::bring_tags_near_zero() {
  served_ = 0;
  // All tags fall alike, so their order stays; only what virtual_time() tells must know of it.
  passed_ += virtual_time_;
  waiting_.clear();
  for (auto& [client, state] : clients_) {
    state.finish -= virtual_time_;
    if (state.is_waiting) waiting_.emplace(state.finish, client);
  }
  last_finish_ -= virtual_time_;
  virtual_time_ = 0;
}

double FairQueue::lead(Client client) const {
  const auto at = clients_.find(client);
  CHECK(at != clients_.end()) << "client " << client << " was never given a weight";
  return at->second.finish - virtual_time_;
}

}  // namespace banyan::service
