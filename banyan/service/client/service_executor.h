// ServiceExecutor: has the daemon of this host carry out the calls of a communicator.
//
// A call becomes a submission (protocol/submission.h). Buffers in memory of the process's RegionPool are named; others
// are copied (staging.h).
//
// Messages between two ranks may be more than the ring holds: they wait here until the daemon has taken others. Calls
// for all ranks are few, and go before them.
//
// The first error stays: the daemon has told of it, or has gone, or break_with() was called. Every call throws it from
// then on; what was completed before is over all the same, and the inputs of the rest are as they were (staging.h).
// That the daemon has gone, the other ranks hear with the name of this one: "the service of rank 1 has gone
// (unix:...)". The daemon is not believed: what it cannot mean fails the communicator, not the process.
//
// A small call is over before the daemon knows that it is over at all ranks, and the daemon keeps what they may want of
// it (run/execute/revision.h). So its end waits until nobody wants anything, unless the communicator has failed: some
// 0.2 ms after the last call, and as long as it takes to do without a link that was lost then, but no longer than
// kLongestSettling.
//
// One thread at a time, but for wake(), break_with(), broken() and sent_bytes().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/communicator/first_error.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/client/message_flights.h"
#include "banyan/service/client/staging.h"

namespace banyan::service {

class ServiceExecutor : public run::Executor {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    bool is_oversubscribed = false;
    std::string own_name = "a rank";                      // of this rank, in errors of others
    std::function<void(const Error&)> fail_peers = {};    // of a failure that they cannot know of
    std::function<void()> succeeded = {};                 // Attachment::Hooks
    std::function<bool(uint32_t rank)> is_gone = {};      // dead, or has left
    const std::atomic<uint32_t>* gone_changes = nullptr;  // grows when is_gone() may say something else
  };
  // Opens a session; `wish` as Attachment::open wants it. Throws what that throws.
  ServiceExecutor(std::shared_ptr<Attachment> attachment, OpenSession wish, Options options,
                  const run::Deadline& deadline);
  ~ServiceExecutor() override;

  const std::string& means() const { return session_->means(); }

  size_t depth() const override { return kDepth; }
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
  run::BackOff back_off() const override {
    const run::BackOff back_off(options_.is_oversubscribed || attachment_->is_crowded());
    return attachment_->is_crowded() ? back_off.sleeping() : back_off;
  }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override;
  run::PlanReviser* reviser() override { return nullptr; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override;

 private:
  static constexpr size_t kDepth = 8;
  static constexpr std::chrono::seconds kLongestSettling{5};
  struct Flight {
    uint64_t sequence = 0;  // once it is submitted
    Staging::Staged staged;
  };

  void fail_here(const Error& error) noexcept;
  void fail_peers(const Error& error);
  void expect_own_process() const;
  template <typename Body>
  auto guarded(Body body);
  bool move();
  bool take_completions();
  void complete(const Completion& completion);
  bool submit_waiting();
  void look_for_gone();
  void wait_until_settled() const;
  const SessionStatus& status() const { return session_->page().status; }

  const Options options_;
  const run::ForkGuard fork_guard_;
  const std::shared_ptr<Attachment> attachment_;  // shared with the other communicators of the process
  Staging staging_;
  run::BackOff back_off_;  // of finish(): it learns
  // The first `submitted_` of calls_ are under way, of which the first `done_calls_` are over and not asked for.
  std::deque<Flight> calls_;
  size_t submitted_ = 0, done_calls_ = 0;
  MessageFlights messages_;
  uint64_t own_steps_ = 0;
  uint32_t gone_seen_ = 0;
  std::vector<bool> is_reported_gone_;  // by rank

  run::FirstError failure_;
  std::atomic<bool> is_broken_{false};  // by break_with()
  std::atomic<bool> is_woken_{false};   // by wake(), and no sleep has ended of it
  std::atomic<bool> can_sleep_{false};  // rings_ is there
  std::unique_ptr<Attachment::Session> session_;
  ClientRings rings_;
};

}  // namespace banyan::service
