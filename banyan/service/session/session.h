// Session: one rank of one communicator of a tenant, whose calls the daemon carries out.
//
// It copies submissions out of the client's page, checks them (protocol/validate.h), has the executor carry them out,
// and writes completions. The first error ends it: nothing is completed afterwards, and the client is told why by the
// control connection. So a session costs nobody but its own communicator anything.
//
// As an event source it is what its executor waits for; what that throws ends the session and not the sleep of others.
//
// One thread: its worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/system/event_source.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/service/protocol/validate.h"
#include "banyan/service/session/session_share.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/share/call_grants.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

class Session : public run::EventSource {
 public:
  using Clock = std::chrono::steady_clock;
  // Messages under way, and completions that the client has not read; further calls stay in the ring. Messages beyond
  // kOwnMessages are of the quota of the user (Resource::messages).
  static constexpr size_t kMostMessages = 65'536, kOwnMessages = 256, kMostUnsaid = 1024;
  // As an event source it has work after this time at most: not all that plans are revised by is an event.
  static constexpr std::chrono::milliseconds kLongestWait{100};

  struct Options {
    SessionRules rules;
    std::shared_ptr<const Region> memory;  // of its page; shared with the client's table
    SessionPage* page = nullptr;           // in it
    const RegionTable* regions = nullptr;  // of its client; outlives it
    std::unique_ptr<run::Executor> executor;
    std::shared_ptr<SessionShare> share = {};  // shared with the executor; none where nobody knows the network
    CommunicatorView about = {};               // what does not change, with one rank
    Grant grant = {};                          // of the communicator
    // Grants of its calls; none where rules do not look at calls. Shared, since a task that brings it can be copied.
    std::shared_ptr<CallGrants> calls = {};
    std::shared_ptr<TenantAccount> account = {};      // of its user, shared with all that the user has; none: no quotas
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
    const bool has_work = is_addressed_ || !calls_.empty() || !messages_.empty() || !unsaid_.empty();
    return !has_failed_ && (has_work || (share_ && share_->is_active()));
  }
  // It is not busy, but is to have a step at this moment: peers may want something of calls that are over here.
  std::optional<Clock::time_point> attend_at() const;
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
  bool is_quick() const { return is_quick_; }
  // True if its client was woken since this was called last.
  bool take_woken() { return std::exchange(has_woken_, false); }
  // Its step has taken so long.
  void bill(std::chrono::nanoseconds time) { billed_ += time; }
  void fail(const Error& error);
  // As the steward says: bytes per second on the busiest link of a call; 0: no limit.
  void set_rate(uint64_t rate);
  // Sets what the rules grant now. `calls`: as in Options. A call that has begun keeps a grant of its own.
  void set_terms(const Grant& grant, std::shared_ptr<CallGrants> calls);
  // Receives a text that the session of another rank, or this one, has sent to all.
  void hear(const std::string& text);
  // For operators; names of links and hosts are those that it was made with.
  CommunicatorView view() const;
  // Asks all ranks to plan for this, too. Returns the number of the wish. Throws Error{unsupported} where plans cannot
  // be revised.
  uint64_t propose(const run::PlanWish& wish);
  // In the session of rank 0: what has come of it; nothing: it has still to be decided.
  std::optional<run::WishOutcome> outcome(uint64_t wish) const;
  // The last call that followed a plan; nothing: there was none, or nobody knows the network.
  std::optional<PlannedCall> planned() const;

 private:
  using Time = Clock::duration;

  static Time now() { return Clock::now().time_since_epoch(); }
  struct Flight {
    uint64_t sequence = 0;
    uint64_t number = 0;  // of a call, as the executor counts
    ValidCall call;
    Time begun{0};
    TenantAccount::Charge charge = {};
  };

  void prepare(run::WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool step_on(size_t most);
  bool take(size_t most);
  bool has_room_for_calls() const;
  TenantAccount::Charge charge_for(const run::Call& call) const;
  void begin(ValidCall call, uint64_t sequence);
  const Grant* permit(const run::Call& call);
  void follow(const std::string& plan);
  void mark_lanes();
  bool move();
  bool attend();
  void complete(const Flight& flight, uint32_t peer);
  bool say();
  bool waits_for_others() const;
  void show();
  void show_flags();

  SessionRules rules_;
  const std::shared_ptr<const Region> memory_;
  DaemonRings rings_;
  const RegionTable& regions_;
  const std::unique_ptr<run::Executor> executor_;
  const std::shared_ptr<SessionShare> share_;
  const std::function<run::FabricUpdate()> adopted_;
  const std::function<void(ShareClass)> mark_;
  const std::function<void(const Error& error)> failed_;
  std::shared_ptr<CallGrants> grants_;
  const std::shared_ptr<TenantAccount> account_;
  std::string plan_;                               // that rank 0 has asked all to follow
  std::deque<Flight> calls_;                       // the oldest first; a deque, since executors keep pointers into them
  std::unordered_map<uint64_t, Flight> messages_;  // by ticket
  std::deque<Completion> unsaid_;                  // for which the ring had no room
  std::vector<run::MessageExecutor::MessageDone> done_;
  uint64_t started_ = 0;    // calls
  CommunicatorView about_;  // counters and times are brought up to date as they change
  Time moved_{0};           // when anything did, last
  Time idle_since_{0};      // while no call is under way
  Time idle_before_{0};     // the times between calls, all together
  Time waits_until_{0};     // as an event source
  std::chrono::nanoseconds billed_{0};
  uint32_t vain_steps_ = 0;
  bool has_failed_ = false, may_move_ = false, has_stepped_ = false;
  bool has_woken_ = false;  // its client
  bool is_quick_ = true;
  bool has_taken_all_ = false;  // that the client had submitted
  bool is_addressed_ = false;   // a text is to be answered, whether there are calls or not
};

}  // namespace banyan::service
