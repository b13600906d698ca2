// HeldMessages: messages between two ranks that are begun while their communicator may go over to next sessions. They
// wait here until it is known which sessions have them; their callers know them by tickets of this object.
//
// One thread at a time.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "banyan/run/execute/executor.h"

namespace banyan::service {

class HeldMessages {
 public:
  // Returns its ticket, which no executor gives.
  uint64_t hold(const run::Call& call);
  bool is_empty() const { return held_.empty(); }
  // Gives all that are held to this executor, in their order. Throws what it throws.
  void begin(run::Executor& executor);
  // Looks at the messages from place `from` on, which an executor has just said to be over: those that were held get
  // their tickets.
  void rename(std::vector<run::Executor::MessageDone>& done, size_t from);

 private:
  struct Held {
    run::Call call;
    uint64_t ticket = 0;
  };
  std::vector<Held> held_;
  std::unordered_map<uint64_t, uint64_t> begun_;  // tickets, by those of the executor
  uint64_t count_ = 0;
};

}  // namespace banyan::service
