// Hooks: the functions of this process's communicators that the agent calls.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/agent/process_view.h"
#include "banyan/run/record/health.h"

namespace banyan::run {

// Called on the agent's thread; they must not block, nor call the agent or destroy their registration. All may be
// empty. An error that one of them throws goes to `failed` of the same communicator, and to nobody else.
struct CommunicatorHooks {
  std::function<std::string()> state;                      // its answer to a state query; at most 64 KiB
  std::function<void(const std::string& text)> broadcast;  // a text of any rank to all ranks, the sender included
  std::function<void()> liveness_changed;                  // after Liveness::changes() has grown
  // The communicator gets no more news of others: a hook has thrown this, or the agent has ended. Throws nothing.
  std::function<void(const Error& error)> failed = {};
  std::function<CommunicatorView()> look = {};  // for who looks in from outside
};

// The reply of a rank to a state query.
struct PeerReport {
  // alive: it has answered. unknown: it lives, and knows no such communicator (any more). silent: it has not answered
  // until the deadline, or not even before the question.
  Health health = Health::silent;
  std::string text;  // what its state hook said; of the silent, the left and the dead, why, if that is known
};

// Takes its hooks back at its end: none runs after that. May outlive the agent.
using HookRegistration = std::shared_ptr<void>;

// The number of no communicator: a state query about it is answered by a view of the whole process.
constexpr uint64_t kWholeProcess = 0;

// All hooks of a process. Any thread.
class HookBoard : public std::enable_shared_from_this<HookBoard> {
 public:
  // One set for each communicator. Broadcasts that came before are delivered now, on this thread: other ranks may be
  // ahead of this one. Throws the error that fail() was given.
  [[nodiscard]] HookRegistration attach(uint64_t communicator, CommunicatorHooks hooks);

  // Sets the function that makes the answer to queries about the whole process from the views of its communicators. It
  // runs on the agent's thread.
  using ShowProcess = std::function<std::string(std::vector<CommunicatorView> communicators)>;
  void show_by(ShowProcess show);

  // Nothing when the communicator is not known here.
  std::optional<std::string> state(uint64_t communicator);
  void broadcast(uint64_t communicator, const std::string& reason);
  void liveness_changed();
  // Calls the `failed` hook of all. From then on attach() throws this error.
  void fail(const Error& error) noexcept;

 private:
  void detach(uint64_t communicator);
  std::string show() const;

  // Held while a hook runs, so that detach() waits for it.
  std::mutex mutex_;
  std::optional<Error> failure_;
  ShowProcess show_;
  std::map<uint64_t, CommunicatorHooks> hooks_;
  std::deque<std::pair<uint64_t, std::string>>
      undelivered_;  // broadcasts to communicators that are not attached; the last ones
};

}  // namespace banyan::run
