// Hub: spreads the news of which ranks live, over a star whose centre is the lowest rank that lives.
//
// Every rank reports to the hub what it saw itself: a process that ended, a rank that gives nobody a sign of life
// (suspicion.h). The hub passes it on. A rank that leaves in peace reports this to the hub, and goes when the hub has
// confirmed it; since the hub reads the report before the end of the connection, it always knows whether a rank has
// left or died. A rank that sees the process of another end therefore asks the hub first, and draws its own conclusion
// when it has no answer soon.
//
// Fences. Every conclusion is for ever. One that is not certain may be wrong, so it is made true: no rank that knows of
// it takes anything from the excluded rank any more, no message, no connection for agents, none for transports. The
// excluded rank is told so by every rank that it calls, and by the hub, which goes on calling it, with the list of the
// ranks on whose side the fence was put up. It then knows that it is fenced out (Liveness::fence), and its operations
// end. The two sides of a network that was cut do this to each other; when they meet again the larger side stays, or,
// of two that are as large, the one with the lowest rank. Two ranks that have fences against each other compare the
// sides of these, so that one of them gives way whatever both have learned since. The same rule decides when a rank
// reports to the hub the death of a rank that the hub still receives from. The application chooses whether a side may
// found a new group meanwhile (survivors.h): with `majority` at most one can.
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
#include "banyan/run/agent/suspicion.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

// On the thread of the timers.
class Hub {
 public:
  struct Options {
    uint32_t own = 0;  // rank
    std::chrono::milliseconds heartbeat{1000};
    std::chrono::milliseconds silent_after{5000};
    std::chrono::milliseconds lost_after{30'000};
  };
  struct Events {
    std::function<void(uint32_t rank)> changed;             // after its state has
    std::function<bool(uint32_t rank)> process_is_watched;  // its end would be told to process_ended() too
    // Something shows that it lives, or nothing that it does not.
    std::function<bool(uint32_t rank)> seems_to_live;
  };

  // `names`: "process 4711 on node7", by rank.
  Hub(Timers& timers, AgentConnections& connections, Liveness& liveness, Options options,
      std::vector<std::string> names, Events events);
  Hub(const Hub&) = delete;
  Hub& operator=(const Hub&) = delete;

  // Connects to all when this rank is the hub; else waits for the hub's call, and calls it after a second.
  void start();
  uint32_t rank() const { return hub_; }
  bool is_own() const { return hub_ == options_.own; }
  // It can be asked, as far as is known.
  bool answers() const { return is_own() || liveness_.state(hub_) == Health::alive; }
  bool is_joined() const { return is_own() || connections_.is_connected(hub_); }

  void connected(uint32_t rank);
  // An event of AgentConnections, as the next.
  void lost(uint32_t rank, const std::string& why);
  void noticed(uint32_t rank, const std::string& notice);
  // An event of Suspicion: the rank is dead by its rule.
  void suspicion_concluded(uint32_t rank, const std::string& why, Suspicion::Reason reason);
  void send_gone(uint32_t to, uint32_t rank);
  void process_ended(uint32_t rank);
  // Any message is a sign of life.
  void take_sign_of_life(uint32_t rank);
  // False when the message is of a kind that is not for the hub. Throws Error{invalid_input}.
  bool received(uint32_t rank, const Message& message);

  void expect(bool on);
  // Calls `done` when all ranks that must know of it have confirmed it, perhaps before it returns.
  void leave(std::function<void()> done);

 private:
  using TimePoint = TimeSource::TimePoint;

  // That a rank is gone.
  struct Conclusion {
    Health health = Health::dead;
    std::string why;
    bool is_certain = true;
    std::vector<uint32_t> side{};  // of a fence: the ranks on whose side it is; empty: none
  };

  bool is_leaving() const { return static_cast<bool>(left_); }
  static Message gone_message(uint32_t rank, const Conclusion& conclusion);
  std::vector<uint32_t> own_side() const;
  static bool gives_way(const std::vector<uint32_t>& side, const std::vector<uint32_t>& other);
  std::vector<uint32_t> larger_own_side(uint32_t rank, const std::vector<uint32_t>& side) const;
  void add_own_side(std::vector<uint32_t>& side, uint32_t gone) const;
  void put_up_fence(uint32_t rank, const std::string& taken_for_dead, std::vector<uint32_t> side);
  std::string notice_of(const Conclusion& conclusion) const;
  void be_fenced(uint32_t by, const std::vector<uint32_t>& side, const std::string& time);
  void conclude(uint32_t rank, Conclusion conclusion, std::optional<uint32_t> source);
  void conclude_later(uint32_t rank, std::chrono::milliseconds delay);
  void received_gone(uint32_t rank, const Message& message);
  void received_ended(uint32_t rank, const Message& message);
  void received_silence(const Message& message);
  void spread_news(const Message& message, std::optional<uint32_t> source);
  void take_over();
  void send_news_to(uint32_t rank);
  Message left_message(uint32_t leaver) const;
  void announce_leave();
  void relay_leave(uint32_t leaver);
  void leave_confirmed(uint32_t leaver, uint32_t by);
  void adjust_heartbeat();
  void send_heartbeat(TimePoint due);
  void check_heartbeat(uint32_t rank, TimePoint now, bool was_asleep);
  uint32_t checked(uint32_t rank) const;

  Timers& timers_;
  AgentConnections& connections_;
  Liveness& liveness_;
  Options options_;
  std::vector<std::string> names_;
  Events events_;
  uint32_t hub_ = 0;
  std::vector<std::string> ending_reasons_;       // by rank: why it is believed to have ended, or empty
  std::map<uint32_t, Conclusion> gone_;           // by rank
  std::vector<std::optional<TimePoint>> pinged_;  // by rank, while it has not answered
  std::map<uint32_t, Alarm> conclusions_;         // by rank: it has ended, and may have left before
  std::set<uint32_t> expecting_;                  // ranks that wait for something, this one too
  Alarm heartbeat_, roll_call_;
  std::function<void()> left_;                     // while leaving, and after
  bool may_leave_ = false;                         // all have noted it
  std::map<uint32_t, std::set<uint32_t>> leaves_;  // by who leaves: those who have not noted it yet
};

}  // namespace banyan::run
