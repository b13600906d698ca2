// SessionCalls: the calls and messages of a session, from the client's ring to their completions.
//
// 1. A submission is copied once, checked (protocol/validate.h), held against the rules and charged to its user before
//    the executor sees it.
// 2. One that has begun stays where it is in memory until the executor has ended it, since that keeps pointers into it.
// 3. Each that has begun is completed once, and calls in the order in which they have begun.
// 4. While kMostUnread completions wait for the client, or kMostMessages are under way, nothing is taken from the ring.
//
// Throws Error{invalid_input} for a submission that is refused, Error{invalid_usage} for one that rules deny,
// Error{unsupported} for one that costs more than its user may have, and what the executor throws. The session ends by
// each of them, and uses this no more. One thread: its worker's.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/executor.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/service/protocol/validate.h"
#include "banyan/service/session/session_share.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/share/rules.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

class SessionCalls {
 public:
  using Time = std::chrono::steady_clock::duration;
  // Messages under way, and completions that the client has not read; further calls stay in the ring. Messages beyond
  // kOwnMessages are of the quota of the user (Resource::messages).
  static constexpr size_t kMostMessages = 65'536, kOwnMessages = 256, kMostUnread = 1024;

  struct Options {
    SessionRules rules;
    std::shared_ptr<const Region> memory;  // of its page; shared with the client's table
    SessionPage* page = nullptr;           // in it
    const RegionTable* regions = nullptr;  // of its client; outlives it
    // Grants of its calls; none where rules do not look at calls. Shared, since a task that brings it can be copied.
    std::shared_ptr<CallGrants> grants = {};
    std::shared_ptr<TenantAccount> account = {};  // of its user, shared with all that the user has; none: no quotas
    std::string name = {};                        // of the communicator, for the log
  };
  // `executor` and `share`, which may be null, outlive it.
  SessionCalls(Options options, run::Executor& executor, SessionShare* share);

  // Each returns whether anything has moved. Begins at most `most` submissions.
  bool take(size_t most);
  // Has the executor go on, and ends what is over.
  bool advance();
  // Writes completions into the client's ring.
  bool complete() { return rings_.flush(); }

  uint32_t rank() const { return rules_.rank; }
  bool is_empty() const { return calls_.empty() && messages_.empty() && rings_.kept() == 0; }
  bool has_messages() const { return !messages_.empty(); }
  bool has_unread() const { return rings_.kept() > 0; }
  // True if all that is to be done is for a peer, or for the client, who will ring.
  bool waits_for_others() const;
  // True if the call that has begun last is a small one: it takes less time than a long step of another session.
  bool is_quick() const { return is_quick_; }
  // They count for calls that begin from now on.
  void set_grants(std::shared_ptr<CallGrants> grants) { grants_ = std::move(grants); }
  DaemonRings& rings() { return rings_; }
  // Sets what operators see of calls. `moved`: when anything moved in the session, last.
  void describe(RankView& rank, Time moved) const;

 private:
  struct Flight {
    uint64_t sequence = 0;
    uint64_t number = 0;  // of a call, as the executor counts
    ValidCall call;
    Time begun{0};
    TenantAccount::Charge charge = {};
  };

  static Time now() { return std::chrono::steady_clock::now().time_since_epoch(); }
  bool has_room() const;
  TenantAccount::Charge charge_for(const run::Call& call) const;
  const Grant* permit(const run::Call& call);
  void begin(ValidCall call, uint64_t sequence);
  void begin_message(Flight started);
  void end(const Flight& flight, uint32_t peer);

  SessionRules rules_;
  const std::shared_ptr<const Region> memory_;  // of the page
  DaemonRings rings_;
  const RegionTable& regions_;
  std::shared_ptr<CallGrants> grants_;
  const std::shared_ptr<TenantAccount> account_;
  const std::string name_;
  run::Executor& executor_;
  SessionShare* const share_;
  std::deque<Flight> calls_;                       // the oldest first
  std::unordered_map<uint64_t, Flight> messages_;  // by ticket
  std::vector<run::Executor::MessageDone> done_;
  uint64_t begun_ = 0;  // calls
  uint64_t messages_over_ = 0, payload_bytes_ = 0;
  Time idle_since_;      // while no call is under way
  Time idle_before_{0};  // the times between calls, all together
  bool is_quick_ = true;
  bool has_taken_all_ = false;  // the last take() has found the ring empty
};

}  // namespace banyan::service
