// Membership: the agreements of an agent, one for each epoch, fed with messages, news of who lives, and time.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "banyan/base/error.h"
#include "banyan/run/agent/agent_connections.h"
#include "banyan/run/agent/agreement.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/agent/survivors.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// On the thread of the timers.
class Membership {
 public:
  // One of the two is there.
  struct Outcome {
    std::optional<Survivors> survivors;
    std::optional<Error> failure;
  };
  using Done = std::function<void(Outcome)>;

  Membership(Timers& timers, AgentConnections& connections, const Liveness& liveness, uint32_t own)
      : timers_(timers), connections_(connections), liveness_(liveness), own_(own) {}
  Membership(const Membership&) = delete;
  Membership& operator=(const Membership&) = delete;

  // `done` is called once, perhaps before agree() returns.
  void agree(SurvivorQuestion question, Done done);
  // The state of a rank has changed, this one's own fence included.
  void changed(uint32_t rank);
  // False when the message is of another kind. Throws Error{invalid_input}.
  bool received(uint32_t rank, const Message& message);

  // Late ranks may ask for what was agreed on. So many epochs are kept, whether this rank has called in them or not.
  static constexpr size_t kEpochsKept = 64;

 private:
  struct Entry {
    explicit Entry(uint32_t own) : agreement(own) {}
    Agreement agreement;
    Done done;  // while the application waits
    Alarm timer;
  };
  Entry& entry(uint64_t epoch);
  // Sends, answers, and sets the timer: after anything has happened.
  void follow_up(uint64_t epoch, Entry& entry);

  Timers& timers_;
  AgentConnections& connections_;
  const Liveness& liveness_;
  uint32_t own_;
  std::map<uint64_t, Entry> entries_;
  std::deque<uint64_t> order_;  // of epochs, the oldest first
};

}  // namespace banyan::run
