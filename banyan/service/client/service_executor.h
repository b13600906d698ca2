// ServiceExecutor: has the daemon of this host carry out the calls of a communicator.
//
// A call becomes a submission (protocol/submission.h). Buffers in memory of the process's RegionPool are named; others
// are copied: what is sent, before the call, and what comes, when it is over, piece by piece where the call leaves gaps.
// For that there is memory that the daemon has mapped (staging.h), taken when it is first needed and used again.
//
// Messages between two ranks may be more than the ring holds: they wait here until the daemon has taken others.
//
// One thread at a time, but for wake(), break_with() and broken().
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "banyan/run/execute/executor.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/client/staging.h"

namespace banyan::service {

class ServiceExecutor : public run::Executor {
 public:
  struct Options {
    uint32_t rank = 0, size = 1;
    bool is_oversubscribed = false;
    std::function<void(const Error&)> tell_peers;         // of a failure that only this rank's daemon knows of
    std::function<bool(uint32_t rank)> is_gone;           // dead, or has left
    const std::atomic<uint32_t>* gone_changes = nullptr;  // grows when is_gone() may say something else
  };
  // Opens a session; `wish` as Attachment::open wants it. Throws what that throws.
  ServiceExecutor(std::shared_ptr<Attachment> attachment, OpenSession wish, Options options,
                  const run::Deadline& deadline);
  ~ServiceExecutor() override;

  const std::string& means() const;

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
  run::BackOff back_off() const override { return run::BackOff(options_.is_oversubscribed); }
  void break_with(const Error& error) override;
  std::optional<Error> broken() const override;
  run::PlanReviser* reviser() override { return nullptr; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override;

 private:
  static constexpr size_t kDepth = 8;
  // What becomes of a call's buffers when it is over.
  struct Flight {
    uint64_t sequence = 0;
    Submission submission;  // before it is submitted
    bool is_message = false;
    uint32_t peer = 0;  // of a message; kAnyRank: from any
    StagedCall staged;
  };

  void submit_waiting();
  void take_completions();
  void expect_whole() const;

  const Options options_;
  const std::shared_ptr<Attachment> attachment_;  // shared with the other communicators of the process
  Staging staging_;
  mutable std::mutex mutex_;  // protects failure_
  std::optional<Error> failure_;
  std::atomic<bool> has_failed_{false};
  std::unique_ptr<Attachment::Session> session_;  // its hooks use what is above
  ClientRings rings_;
  std::deque<Flight> calls_, messages_;  // under way, or waiting for room; calls in their order
  std::vector<MessageDone> done_;        // messages, not yet asked for
  uint64_t calls_done_ = 0;              // of those at the front of calls_
  uint32_t gone_seen_ = 0;
};

}  // namespace banyan::service
