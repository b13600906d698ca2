#include "banyan/run/agent/hooks.h"

#include <unistd.h>

#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr size_t kMaxUnheard = 64;
constexpr size_t kMaxState = size_t{64} << 10;

}  // namespace

HookRegistration HookBoard::attach(uint64_t communicator, CommunicatorHooks hooks) {
  const std::lock_guard lock(mutex_);
  const auto [place, is_new] = hooks_.emplace(communicator, std::move(hooks));
  CHECK(is_new) << "communicator " << communicator << " is attached twice";
  for (const auto& [known, text] : unheard_) {
    if (known == communicator && place->second.broadcast) place->second.broadcast(text);
  }
  std::erase_if(unheard_, [&](const auto& each) { return each.first == communicator; });
  return HookRegistration(
      std::shared_ptr<void>(nullptr, [board = shared_from_this(), communicator, pid = getpid()](void*) {
        // A fork may have copied the lock while it was held.
        if (pid == getpid()) board->detach(communicator);
      }));
}

std::optional<std::string> HookBoard::state(uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  const auto found = hooks_.find(communicator);
  if (found == hooks_.end()) return {};
  return found->second.state ? found->second.state().substr(0, kMaxState) : "";
}

void HookBoard::broadcast(uint64_t communicator, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  const auto found = hooks_.find(communicator);
  if (found != hooks_.end()) {
    if (found->second.broadcast) found->second.broadcast(reason);
    return;
  }
  unheard_.emplace_back(communicator, reason);
  if (unheard_.size() > kMaxUnheard) unheard_.pop_front();
}

void HookBoard::liveness_changed() {
  const std::lock_guard lock(mutex_);
  for (const auto& [communicator, hooks] : hooks_) {
    if (hooks.liveness_changed) hooks.liveness_changed();
  }
}

void HookBoard::detach(uint64_t communicator) {
  const std::lock_guard lock(mutex_);
  hooks_.erase(communicator);
}

}  // namespace banyan::run
