// SessionRings: the daemon's side of a session's page (protocol/rings.h), where completions may wait for room.
//
// 1. Completions reach the client in the order in which complete() had them, each once.
// 2. One waits here only while the ring has no room for it, or until flush().
// 3. The memory of the page stays as long as this does.
//
// Throws Error{invalid_input} when a position that the client has written is impossible. One thread: the worker's.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <utility>

#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

class SessionRings {
 public:
  // `memory`: of the page; shared with the client's table.
  SessionRings(std::shared_ptr<const Region> memory, SessionPage& page) : memory_(std::move(memory)), rings_(page) {}

  // A copy of the next submission, if there is one.
  std::optional<Submission> take() { return rings_.take(); }
  void complete(const Completion& completion) { waiting_.push_back(completion); }
  // Writes completions that wait, as many as find room. True if there were any.
  bool flush() {
    bool moved = false;
    for (; !waiting_.empty() && rings_.has_room(); waiting_.pop_front()) {
      has_woken_ |= rings_.complete(waiting_.front());
      moved = true;
    }
    return moved;
  }
  size_t waiting() const { return waiting_.size(); }  // completions
  // True if the client was woken since this was called last.
  bool take_woken() { return std::exchange(has_woken_, false); }
  SessionStatus& status() { return rings_.status(); }

 private:
  const std::shared_ptr<const Region> memory_;
  DaemonRings rings_;
  std::deque<Completion> waiting_;
  bool has_woken_ = false;
};

}  // namespace banyan::service
