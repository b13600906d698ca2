// Suspicion: when a rank is concluded dead, and on whose word.
//
// A broken connection is no death. The rule:
//
// 1. On one host what the kernel reports is true both ways (a pidfd): a process that has ended by its report is
//    dead, at once; one that runs is never dead, whatever happens to connections.
// 2. A rank whose connection was *closed* (not reset, not timed out), and whose port is closed then by the word of its
//    host, has ended: only a kernel that clears away after a process says both. Milliseconds.
// 3. Else it is a suspicion. This rank calls again, over every path (agent_connections.h), and asks others whether they
//    receive anything from the suspect: those on its host, whose kernel knows, and the lowest rank that lives, at once;
//    all others, some each second. A rank that is asked calls the suspect, too, and answers when something has come
//    from it since the question, when its kernel says that it runs, or when TCP has had an answer from its host for so
//    long after the question that the connection would have broken (a process may be stopped). A rank that cannot
//    answer asks others in turn, and one that knows that the suspect has ended says so.
// 4. Signs of life end the count below: a frame of the suspect, its host's word that somebody listens at its port (so a
//    process that is stopped is silent, and never dead), another rank's word that it hears it.
// 5. The suspect is concluded dead after `lost_after` in which no rank had a sign of life of it. (TCP takes a third of
//    that before to find out that a host has vanished: agent.cc.) A fifteenth is enough if its host said all that time
//    that its port is closed, since a host that speaks is not cut off: a firewall may say so for a moment, but the host
//    of a process that died says so for ever.
// 6. Time is counted in rounds of lost_after / 150, each begun when the last one was over. A process that was stopped,
//    or whose clock jumped, has missed rounds and concluded nothing. One that is fenced out itself judges nobody.
//
// Conclusions by 1 and 2 are *certain*: the process is no more. Those by 5 may be wrong, so they are made true by a
// *fence* (hub.h). For agreements (agreement.h) a host that refused all that time counts as certain, or the death of a
// process whose connection was reset, as a kernel does when there is something unread, would hold them up.
//
// Only ranks that matter here are judged: all, at the hub; the hub, and those for whom there are messages, at other
// ranks.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/run/agent/agent_connections.h"
#include "banyan/run/agent/liveness.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// On the thread of the timers.
class Suspicion {
 public:
  struct Options {
    uint32_t own = 0;             // rank
    std::vector<uint32_t> hosts;  // by rank: equal on one host
    std::chrono::milliseconds lost_after{};
  };
  enum class Reason : uint8_t { ended, refused, silent };
  struct Events {
    std::function<bool(uint32_t rank)> is_watched;  // the kernel would tell of its end
    std::function<bool(uint32_t rank)> matters;
    std::function<void(uint32_t rank, std::string why, Reason reason)> concluded;
    std::function<void(uint32_t asker, uint32_t rank)> send_gone;  // has asked for a rank that is gone
  };

  Suspicion(Timers& timers, AgentConnections& connections, const Liveness& liveness, Options options, Events events);
  Suspicion(const Suspicion&) = delete;
  Suspicion& operator=(const Suspicion&) = delete;

  // As AgentConnections::Events.
  void unreachable(uint32_t rank, std::string why, bool is_orderly);
  void refused(uint32_t rank);
  void sign_of_life(uint32_t rank);
  // The state of a rank has changed.
  void changed(uint32_t rank);
  // False when the message is of another kind. Throws Error{invalid_input}.
  bool received(uint32_t rank, const Message& message);

  // Something came from it, or from its kernel, not longer ago than `lost_after`.
  bool has_sign_of(uint32_t rank) const;
  bool is_suspect(uint32_t rank) const { return suspects_.contains(rank); }
  // The reason for a suspicion; only for a suspect.
  const std::string& why(uint32_t rank) const { return suspects_.at(rank).why; }

  static constexpr uint32_t kSilentRounds = 150, kRefusedRounds = 10;

 private:
  struct Suspect {
    std::string why;
    bool is_orderly = false;
    bool showed_life = false;                // in this round
    uint32_t rounds = 0, silent_rounds = 0;  // in all; since its last sign of life
    std::optional<uint32_t> refused_in;      // in which round its host began to say that nobody listens
    TimeSource::TimePoint refused_at;        // when it said so the last time
    uint32_t asked = 0;                      // so many of all, beginning with the next one
    Alarm timer;
  };
  std::chrono::milliseconds round() const;
  void end_round(uint32_t rank);
  void ask(uint32_t rank, uint32_t other);
  void ask_first(uint32_t rank);
  void ask_more(uint32_t rank);
  void answer(uint32_t asker, uint32_t suspect);
  void take_question(uint32_t asker, uint32_t suspect);
  void conclude(uint32_t rank, Reason reason);

  Timers& timers_;
  AgentConnections& connections_;
  const Liveness& liveness_;
  const Options options_;
  const Events events_;
  std::map<uint32_t, Suspect> suspects_;
  struct Question {
    std::set<uint32_t> askers;
    TimeSource::TimePoint since;
  };
  std::map<uint32_t, Question> asked_;                      // by suspect, until its next sign of life
  std::vector<std::optional<TimeSource::TimePoint>> last_;  // by rank: sign of life
};

}  // namespace banyan::run
