// Session: one rank of one communicator of a tenant, whose calls the daemon carries out.
//
// 1. The first error ends it, whatever has thrown it: nothing is completed afterwards, no call is begun or moved any
//    more, and `failed` is called once, so that the client is told why by the control connection. So a session costs
//    nobody but its own communicator anything.
// 2. As an event source it is what its executor waits for; an error there ends the session and not the sleep of others.
// 3. The client can read in its page whether peers still want something (SessionStatus) before it reads that a call is
//    over.
//
// Its calls are in session_calls.h, changes of its plans in session_plans.h, its rate in session_share.h.
//
// One thread: its worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "banyan/run/execute/executor.h"
#include "banyan/run/system/event_source.h"
#include "banyan/service/session/session_calls.h"
#include "banyan/service/session/session_plans.h"
#include "banyan/service/session/session_share.h"
#include "banyan/service/share/rules.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

class Session : public run::EventSource {
 public:
  using Clock = std::chrono::steady_clock;
  // As an event source it has work after this time at most: not all that plans are revised by is an event.
  static constexpr std::chrono::milliseconds kLongestWait{100};

  struct Options {
    SessionCalls::Options calls;
    std::unique_ptr<run::Executor> executor;
    std::shared_ptr<SessionShare> share = {};         // shared with the executor; none where nobody knows the network
    CommunicatorView about = {};                      // what does not change, with one rank
    Grant grant = {};                                 // of the communicator
    std::function<run::FabricUpdate()> adopted = {};  // that the executor plans for
    // Has the packets of its lanes bear the code point of a class; none: they bear none.
    std::function<void(ShareClass)> mark = {};
    std::function<void(const Error& error)> failed;  // once
  };
  explicit Session(Options options);
  virtual ~Session() = default;

  // Takes at most `most` submissions, and moves what can be moved. True if anything happened.
  bool step(size_t most);
  // True if there is anything to do before the client rings again.
  bool is_busy() const {
    const bool has_work = plans_.has_work() || !calls_.is_empty();
    return !has_failed_ && (has_work || (share_ && share_->is_active()));
  }
  // It is not busy, but is to have a step at this moment: peers may want something of calls that are over here.
  std::optional<Clock::time_point> poll_at() const { return has_failed_ ? std::nullopt : plans_.poll_at(); }
  // Something may have come for it, which the next step finds.
  void expect_step() {
    may_move_ = true;
    has_stepped_ = false;
  }
  bool has_stepped() const { return has_stepped_; }  // since one was expected last
  // True if a step may find something to do: a step was expected and has not been made yet, or the last one moved
  // something and left more to do than to wait for a peer or the client.
  bool may_move() const { return may_move_; }
  // The number of latest steps, in a row, that ended with nothing to do.
  uint32_t vain_steps() const { return vain_steps_; }
  const std::string& tenant() const { return about_.tenant; }
  const CommunicatorView& about() const { return about_; }  // what does not change is right
  const std::string& sharer() const { return about_.sharer; }
  double weight() const { return about_.weight; }  // of the sharer
  // True if the call that has begun last is a small one: it takes less time than a long step of another session.
  bool is_quick() const { return calls_.is_quick(); }
  // True if its client was woken since this was called last.
  bool take_woken() { return calls_.rings().take_woken(); }
  // Its step has taken so long.
  void bill(std::chrono::nanoseconds time) { billed_ += time; }
  void fail(const Error& error);
  // As the steward says: bytes per second on the busiest link of a call; 0: no limit.
  void set_rate(uint64_t rate);
  // Sets what the rules grant now. `calls`: as SessionCalls::Options::grants. A call that has begun keeps a grant of
  // its own.
  void set_terms(const Grant& grant, std::shared_ptr<CallGrants> calls);
  // Receives a text that the session of another rank, or this one, has sent to all.
  void receive(const std::string& text) {
    if (!has_failed_) plans_.receive(text);
  }
  // For operators; names of links and hosts are those that it was made with.
  CommunicatorView view() const;
  // Asks all ranks to plan for this, too. Returns the number of the wish. Throws Error{unsupported} where plans cannot
  // be revised.
  uint64_t propose(const run::PlanWish& wish) { return plans_.propose(wish); }
  // In the session of rank 0: what has come of it; nothing: it has still to be decided.
  std::optional<run::WishOutcome> outcome(uint64_t wish) const { return plans_.outcome(wish); }
  // The last call that followed a plan; nothing: there was none, or nobody knows the network.
  std::optional<PlannedCall> planned() const;

 private:
  using Time = Clock::duration;

  static Time now() { return Clock::now().time_since_epoch(); }
  void prepare(run::WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool step_on(size_t most);
  bool poll();
  void mark_lanes();
  void show();
  void show_flags();

  const std::unique_ptr<run::Executor> executor_;
  const std::shared_ptr<SessionShare> share_;
  SessionCalls calls_;
  SessionPlans plans_;
  const std::function<run::FabricUpdate()> adopted_;
  const std::function<void(ShareClass)> mark_;
  const std::function<void(const Error& error)> failed_;
  CommunicatorView about_;  // without counters and times
  Time moved_{0};           // when anything did, last
  Time waits_until_{0};     // as an event source
  std::chrono::nanoseconds billed_{0};
  uint32_t vain_steps_ = 0;
  bool has_failed_ = false, may_move_ = false, has_stepped_ = false;
};

}  // namespace banyan::service
