#include "banyan/run/agent/hooks.h"

#include <unistd.h>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr size_t kMaxUndelivered = 64;
constexpr size_t kMaxState = size_t{64} << 10;

template <typename Hook>
void guard(const CommunicatorHooks& hooks, const Hook& hook) noexcept {
  try {
    hook();
  } catch (...) {
    if (hooks.failed) hooks.failed(current_error());
  }
}

}  // namespace

HookRegistration HookBoard::attach(uint64_t communicator, CommunicatorHooks hooks) {
  HookRegistration registration(this, [board = shared_from_this(), communicator, pid = getpid()](void*) {
    // A fork may have copied the lock while it was held.
    if (pid == getpid()) board->detach(communicator);
  });
  const std::lock_guard lock(mutex_);
  if (failure_) throw Error(*failure_);
  const auto [place, is_new] = hooks_.emplace(communicator, std::move(hooks));
  CHECK(is_new) << "communicator " << communicator << " is attached twice";
  const CommunicatorHooks& own = place->second;
  for (const auto& kept : undelivered_) {
    if (kept.first == communicator && own.broadcast) guard(own, [&] { own.broadcast(kept.second); });
  }
  std::erase_if(undelivered_, [&](const auto& each) { return each.first == communicator; });
  return registration;
}

void HookBoard::show_by(ShowProcess show) {
  const std::lock_guard lock(mutex_);
  show_ = std::move(show);
}

std::string HookBoard::show() const {
  std::vector<CommunicatorView> communicators;
  for (const auto& each : hooks_) {
    const CommunicatorHooks& hooks = each.second;
    if (hooks.look) guard(hooks, [&] { communicators.push_back(hooks.look()); });
  }
  return show_(std::move(communicators));
}

std::optional<std::string> HookBoard::state(uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  if (communicator == kWholeProcess && show_) return show();
  const auto found = hooks_.find(communicator);
  if (found == hooks_.end()) return {};
  std::string state;
  if (found->second.state) guard(found->second, [&] { state = found->second.state().substr(0, kMaxState); });
  return state;
}

void HookBoard::broadcast(uint64_t communicator, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const auto found = hooks_.find(communicator);
  if (found != hooks_.end()) {
    if (found->second.broadcast) guard(found->second, [&] { found->second.broadcast(reason); });
    return;
  }
  undelivered_.emplace_back(communicator, reason);
  if (undelivered_.size() > kMaxUndelivered) undelivered_.pop_front();
}

void HookBoard::liveness_changed() {
  const std::lock_guard lock(mutex_);
  for (const auto& [communicator, hooks] : hooks_) {
    if (hooks.liveness_changed) guard(hooks, hooks.liveness_changed);
  }
}

void HookBoard::fail(const Error& error) noexcept {
  const std::lock_guard lock(mutex_);
  failure_ = error;
  for (const auto& [communicator, hooks] : hooks_) {
    if (hooks.failed) hooks.failed(error);
  }
}

void HookBoard::detach(uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  hooks_.erase(communicator);
}

}  // namespace banyan::run
