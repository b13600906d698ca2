#include "banyan/service/client/held_messages.h"

#include <utility>

namespace banyan::service {
namespace {

constexpr uint64_t kHeld = uint64_t{1} << 63;  // more than any executor gives

}  // namespace

uint64_t HeldMessages::hold(const run::Call& call) {
  held_.push_back({.call = call, .ticket = kHeld | ++count_});
  return held_.back().ticket;
}

void HeldMessages::begin(run::Executor& executor) {
  for (const Held& each : std::exchange(held_, {})) begun_.emplace(executor.start_message(each.call), each.ticket);
}

void HeldMessages::rename(std::vector<run::Executor::MessageDone>& done, size_t from) {
  if (begun_.empty()) return;
  for (size_t i = from; i < done.size(); ++i) {
    const auto held = begun_.find(done[i].ticket);
    if (held == begun_.end()) continue;
    done[i].ticket = held->second;
    begun_.erase(held);
  }
}

}  // namespace banyan::service
