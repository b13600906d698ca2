// MovingExecutor: the calls of one communicator, which go over from one daemon's sessions to another's while calls go
// on. So a communicator follows its service to a newer daemon (ServiceLink), and the older one can end.
//
// Its parts: ExecutorsInForce are the executors that have the calls, NextSession is the one that may get them,
// MoveAgreement what the ranks say, HeldMessages what waits meanwhile, FailureReports what peers are told.
//
// The ranks agree by run::PlanSwitch on the call from which on the next sessions have them:
//   - a rank whose daemon has been succeeded, and which has found the newer one, says so ("move"), now and then until
//     it has moved; rank 0 begins a change for all who have said so (want);
//   - in a change every rank opens a session for the same communicator at the daemon that its link has now, which for
//     hosts that are not upgraded is the daemon they have. It bears the number of the change, the generation, so that
//     sessions of both can be open at one daemon. The thread of a SessionMover opens it, and has it carry out calls of
//     the last shapes, and a barrier where none of them is one in effect: so plans, lanes and staging are there, and
//     all ranks have seen that the next sessions work, before any call needs them. Calls go on meanwhile;
//   - calls up to the agreed one end in the old sessions, later ones begin in the new. While the program makes none, an
//     earlier one is agreed on. The old session is closed when all ranks have said that their calls in it are over.
// A session that cannot be opened refuses the change: the calls stay where they are, and the next "move" tries again,
// each time after a longer pause. A rank also refuses if its daemon is succeeded while it prepares for a change that
// nobody of its host has asked for: others may have called the older daemon for its next session. A next session that
// fails once this rank was ready fails the communicator, as a daemon does that is killed; so does the old one while
// calls are in it, and until all ranks have said that theirs are over.
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

#include <atomic>
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/plan_switch.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/service/client/executors_in_force.h"
#include "banyan/service/client/move_agreement.h"
#include "banyan/service/client/move_parts.h"
#include "banyan/service/client/session_mover.h"
#include "banyan/service/client/text_box.h"

namespace banyan::service {

class MovingExecutor : public run::Executor, private run::PlanReviser {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    std::string name = "a communicator";
    bool stays = false;                                                  // never moves, and lets the others not
    std::function<void(const std::string& text)> send;                   // to receive() of all ranks, this one too
    std::function<void(const Error& error)> fail_peers;                  // of a failure that they cannot know of
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
  uint32_t generation_of_sessions() const { return executors_.generation(); }

  size_t depth() const override { return executors_.present().depth(); }
  void start(const run::Call& call, const run::CallNumbers& numbers) override;
  bool advance() override;
  void finish(run::Watch& watch) override;
  uint64_t start_message(const run::Call& call) override;
  bool advance_messages(std::vector<MessageDone>& done) override;
  uint64_t steps() const override { return executors_.steps(); }
  uint64_t progress() const override { return executors_.progress(); }
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override;
  bool notices_last_bytes() const override { return executors_.oldest()->notices_last_bytes(); }
  void sleep(const std::function<bool()>& try_again) override;
  void wake() override;
  run::BackOff back_off() const override { return executors_.present().back_off(); }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override;
  run::PlanReviser* reviser() override { return this; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override { return executors_.sent_bytes(); }

 private:
  struct WaitingCall {
    run::Call call;
    run::CallNumbers numbers;
  };
  class PumpingWatch;

  // run::PlanReviser
  void receive(const std::string& text) override;
  void poll() override { pump(); }
  // Throws Error{unsupported}: that is for operators.
  uint64_t propose(const run::PlanWish& wish) override;
  std::optional<run::WishOutcome> outcome(uint64_t /*wish*/) const override { return std::nullopt; }
  uint32_t generation() const override { return 0; }  // of its plans, the daemons know
  uint32_t reroutes() const override { return 0; }

  SessionMover::Options mover_options();
  SessionMover::Opening opening_of(uint32_t generation);
  void record_succeeded(uint32_t generation);
  bool says_wish(uint32_t generation, uint32_t tries);

  // Nothing of a change is under way.
  bool is_quiet() const { return !is_changing_ && !texts_.has_news(); }
  bool pump();
  void follow_change();
  void prepare();
  std::string refusal_of(const run::PlanSwitch::Change& change) const;
  void go_over();
  void drop_what_is_over();
  void record_refused();
  bool begin_waiting();
  void begin(const run::Call& call, const run::CallNumbers& numbers);
  void begin_held_messages();
  bool holds_messages() const;
  void record_message();
  void wait_to_begin(run::Watch& watch);

  const Options options_;
  const run::ForkGuard fork_guard_;
  TextBox texts_;                       // any thread
  std::atomic<bool> stays_;             // for ever; any thread
  std::atomic<int64_t> succeeded_{-1};  // the last generation whose daemon has been; any thread
  FailureReports failures_;             // any thread
  ExecutorsInForce executors_;
  // Used only by the thread that drives.
  MoveAgreement agreement_;
  NumberedCalls calls_;
  std::deque<WaitingCall> waiting_;  // for the agreement
  HeldMessages messages_;            // the same
  bool has_messages_ = false;        // has begun one, ever
  bool is_changing_ = false;
  std::unique_ptr<SessionMover> mover_;  // whose hooks use all of this
  NextSession next_;
};

}  // namespace banyan::service
