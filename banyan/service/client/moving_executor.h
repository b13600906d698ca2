// MovingExecutor: the calls of one communicator, which go over from one daemon's sessions to another's while calls go
// on. So a communicator follows its service to a newer daemon (ServiceLink), and the older one can end.
//
// It holds the executor that has the calls at present; during a change, also the next one, and then the one before. The
// ranks agree by run::PlanSwitch on the call from which on the next sessions have them:
//   - a rank whose daemon has been succeeded, and which has found the newer one, says so ("move"), now and then until
//     it has moved; rank 0 begins a change for all who have said so (want);
//   - in a change every rank opens a session for the same communicator at the daemon that its link has now, which for
//     hosts that are not upgraded is the daemon they have. It bears the number of the change, the generation, so that
//     sessions of both can be open at one daemon. The thread of a SessionMover opens it, and has it carry out calls of
//     the last shapes and a barrier: so plans, lanes and staging are there, and all ranks have seen that the next
//     sessions work, before any call needs them. Calls go on meanwhile;
//   - calls up to the agreed one end in the old sessions, later ones begin in the new. The old session is closed when
//     all ranks have said that theirs are over.
// A session that cannot be opened refuses the change: the calls stay where they are, and the next "move" tries again,
// each time after a longer pause. So does a rank whose daemon is succeeded while it prepares for a change that nobody
// of its host has asked for: others may have called the older daemon for its next session. Where the next session fails
// once this rank was ready, it fails the communicator as a daemon does that is killed; so does the old one while calls
// are in it, and until all ranks have said that theirs are over.
//
// Messages between two ranks have no numbers that all ranks share: a communicator in which a rank has ever begun one
// stays with its daemon until it ends. One that is begun between a rank's consent and its change waits for the change.
// A communicator that nobody drives between its calls (Progress::by_nobody) stays, too: others would wait for it.
//
// Source: MCCS (SIGCOMM'24) 4.2 for sequence numbers at which ranks change over; Snap (SOSP'19) 4 for upgrades with old
// and new side by side.
//
// One thread at a time, but for what run::Executor says of any thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/plan_switch.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/service/client/session_mover.h"

namespace banyan::service {

class MovingExecutor : public run::Executor, private run::PlanReviser {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    std::string name = "a communicator";
    bool stays = false;                                                  // never moves, and lets the others not
    std::function<void(const std::string& text)> tell;                   // to hear() of all ranks, this one too
    std::function<void(const Error& error)> tell_peers;                  // of a failure that they cannot know of
    std::function<bool(uint32_t rank)> is_gone = {};                     // dead, or has left
    std::vector<uint32_t> host_of_rank = {};                             // numbers; empty: each has its own
    SessionMover::Find find = {};                                        // see there
    SessionMover::Open open;                                             // see there; generation 0 at first
    std::chrono::milliseconds opening_time{30'000};                      // of a next session, and its barrier
    std::chrono::milliseconds first_pause{1000}, longest_pause{60'000};  // between two tries
  };
  // Opens the session of generation 0. Throws what `open` throws.
  MovingExecutor(Options options, const run::Deadline& deadline);
  ~MovingExecutor() override;

  // Any thread.
  uint32_t generation_of_sessions() const { return in_force_.load(std::memory_order_acquire); }

  size_t depth() const override { return present_->executor->depth(); }
  void start(const run::Call& call, const run::CallNumbers& numbers) override;
  bool advance() override;
  void finish(run::Watch& watch) override;
  uint64_t start_message(const run::Call& call) override;
  bool advance_messages(std::vector<MessageDone>& done) override;
  uint64_t steps() const override;
  uint64_t progress() const override;
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override;
  bool notices_last_bytes() const override;
  void sleep(const std::function<bool()>& try_again) override;
  void wake() override;
  run::BackOff back_off() const override { return present_->executor->back_off(); }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override;
  run::PlanReviser* reviser() override { return this; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override;

 private:
  using Carrier = SessionMover::Carrier;
  struct WaitingCall {
    run::Call call;
    run::CallNumbers numbers;
  };
  struct HeldMessage {
    run::Call call;
    uint64_t ticket = 0;
  };
  class PumpingWatch;

  // run::PlanReviser
  void hear(const std::string& text) override;
  void attend() override { pump(); }
  // Throws Error{unsupported}: that is for operators.
  void propose(const run::FabricUpdate& wish) override;
  uint32_t generation() const override { return 0; }  // of its plans, the daemons know
  uint32_t reroutes() const override { return 0; }

  SessionMover::Opening opening_of(uint32_t generation);
  bool says_wish(uint32_t generation, uint32_t tries);
  void tell_failure(uint32_t generation, const Error& error);

  // Nothing of a change is under way.
  bool is_quiet() const { return !is_changing_ && !has_news_.load(std::memory_order_acquire); }
  bool pump();
  void hear_now(const std::string& text);
  void hear_wish(uint32_t rank, uint32_t generation, uint32_t tries);
  void begin_change();
  void follow_change();
  void prepare();
  std::string refusal_of(const run::PlanSwitch::Change& change) const;
  void go_over();
  void drop_what_is_over();
  bool begin_waiting();
  void begin(const run::Call& call, const run::CallNumbers& numbers);
  void begin_held_messages();
  bool holds_messages() const;
  void note_settled();
  uint64_t limit() const;
  void say();
  void wait_to_begin(run::Watch& watch);
  // That has the oldest call.
  const std::shared_ptr<Carrier>& oldest() const { return before_calls_ > 0 ? before_ : present_; }

  const Options options_;
  const run::ForkGuard fork_guard_;
  std::atomic<bool> has_news_{false};   // for pump(), from other threads
  std::atomic<uint32_t> in_force_{0};   // the generation of present_; changed under the mutex
  std::atomic<bool> stays_;             // for ever
  std::atomic<int64_t> succeeded_{-1};  // the last generation whose daemon has been

  // Of the thread that drives, which alone changes the pointers; others read them under the mutex.
  std::shared_ptr<Carrier> present_, next_, before_;  // shared with who asks them something at the moment
  size_t present_calls_ = 0, before_calls_ = 0;       // in flight
  uint64_t begun_ = 0;                                // calls
  std::array<run::CallShape, 4> recent_;              // of the last calls
  uint64_t begun_when_ready_ = 0;
  bool is_changing_ = false, has_messages_ = false;
  run::PlanSwitch switch_;
  // Of rank 0: the text of the change under way; the ranks that want to leave a session, and of which generation.
  std::string prepare_text_;
  std::map<uint32_t, uint32_t> wishes_;
  bool is_asked_ = false;  // for a change, since the last began
  uint64_t wants_ = 0;
  std::optional<uint32_t> opening_;
  std::deque<WaitingCall> waiting_;                      // for the agreement
  std::vector<HeldMessage> held_messages_;               // the same
  std::unordered_map<uint64_t, uint64_t> held_tickets_;  // of those, by the ticket of the executor
  uint64_t held_ = 0;
  uint64_t steps_before_ = 0, progress_before_ = 0;  // of executors that are no more

  mutable std::mutex mutex_;  // protects what follows, and who reads the pointers above
  std::vector<std::string> heard_;
  std::optional<std::pair<uint32_t, Error>> early_failure_;  // of a next executor, by its generation
  std::optional<std::string> told_;                          // to the peers, the last
  run::SentBytes sent_before_;                               // by executors that are no more
  std::unique_ptr<SessionMover> mover_;
};

}  // namespace banyan::service
