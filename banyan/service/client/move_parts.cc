#include "banyan/service/client/move_parts.h"

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

void FailureReports::record(uint32_t generation, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (generation > in_force_) {
      if (!early_ || early_->first <= generation) early_.emplace(generation, error);
      return;
    }
    if (reported_ == error.message()) return;
    reported_ = error.message();
  }
  if (fail_peers_) fail_peers_(error);
}

void FailureReports::go_over(uint32_t generation) {
  std::optional<Error> failure;
  {
    const std::lock_guard lock(mutex_);
    in_force_ = generation;
    if (early_ && early_->first == generation) failure = std::move(early_->second);
    early_.reset();
  }
  if (failure) record(generation, *failure);
}

}  // namespace banyan::service
