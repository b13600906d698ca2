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

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/system/event_source.h"
#include "banyan/service/daemon/session_share.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/service/protocol/validate.h"

namespace banyan::service {

class Session : public run::EventSource {
 public:
  static constexpr size_t kMostMessages = 65'536;  // under way; further ones stay in the ring

  struct Options {
    SessionRules rules;
    std::shared_ptr<const Region> memory;  // of its page; shared with the client's table
    SessionPage* page = nullptr;           // in it
    const RegionTable* regions = nullptr;  // of its client; outlives it
    std::unique_ptr<run::Executor> executor;
    std::unique_ptr<SessionShare> share = {};        // none where nobody knows the network
    std::function<void(const Error& error)> failed;  // once
  };
  explicit Session(Options options);
  virtual ~Session() = default;

  // Takes at most `most` submissions, and moves what can be moved. Whether anything happened.
  bool step(size_t most);
  // Whether there is anything to do before the client rings again.
  bool is_busy() const {
    const bool has_work = is_addressed_ || !calls_.empty() || !messages_.empty() || !unsaid_.empty();
    return !has_failed_ && (has_work || (share_ && share_->is_active()));
  }
  void fail(const Error& error);
  // As the steward says: bytes per second on the busiest link of a call; 0: no limit.
  void set_rate(uint64_t rate);
  void set_terms(double weight, ShareClass share_class, double cap);  // as SessionShare
  // What the session of another rank, or this one, has told all.
  void hear(const std::string& text);
  // Asks all ranks to plan for this, too. Throws Error{unsupported} where plans cannot be revised.
  void propose(const run::FabricUpdate& wish);

 private:
  struct Flight {
    uint64_t sequence = 0;
    uint64_t ticket = 0;  // of a message
    uint64_t number = 0;  // of a call, as the executor counts
    ValidCall call;
  };

  void prepare(run::WaitSet& set) override;
  bool react(std::span<const pollfd> polled) override;
  bool take(size_t most);
  void begin(ValidCall call, uint64_t sequence);
  bool move();
  void attend();
  uint32_t generation();
  void complete(uint64_t sequence, uint32_t peer);
  bool say();
  void show();

  SessionRules rules_;
  const std::shared_ptr<const Region> memory_;
  DaemonRings rings_;
  const RegionTable& regions_;
  const std::unique_ptr<run::Executor> executor_;
  const std::unique_ptr<SessionShare> share_;
  const std::function<void(const Error& error)> failed_;
  std::deque<Flight> calls_;       // the oldest first; a deque, since executors keep pointers into them
  std::deque<Flight> messages_;    // in any order
  std::deque<Completion> unsaid_;  // for which the ring had no room
  std::vector<run::MessageExecutor::MessageDone> done_;
  uint64_t started_ = 0;  // calls
  bool has_failed_ = false;
  bool is_addressed_ = false;  // a text is to be answered, whether there are calls or not
};

}  // namespace banyan::service
