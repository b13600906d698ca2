// The inside of a Communicator: known to core.cc and communicator.cc only.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/base/hash.h"
#include "banyan/run/communicator/call_log.h"
#include "banyan/run/communicator/call_watch.h"
#include "banyan/run/communicator/communicator.h"
#include "banyan/run/communicator/driver.h"
#include "banyan/run/communicator/first_error.h"
#include "banyan/run/communicator/patience.h"
#include "banyan/run/communicator/peers.h"
#include "banyan/run/communicator/regrouping.h"
#include "banyan/run/communicator/statistics.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/record/dump_signal.h"
#include "banyan/run/system/fork_guard.h"

namespace banyan::run {

// Owns what a communicator is made of, and lets its parts know of each other: the Driver moves operations by the
// executor, the CallWatch decides whether to wait on, the CallLog records. Here is how they begin, fail and end.
class Communicator::Impl : public Driver::Owner, public std::enable_shared_from_this<Impl> {
 public:
  Impl(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members, Options options);
  ~Impl() override;

  uint32_t rank() const { return rank_; }
  const std::vector<uint32_t>& members() const { return members_; }
  const Options& options() const { return options_; }
  const std::shared_ptr<JoinedProcesses>& job() const { return job_; }
  bool is_on_one_host() const { return is_on_one_host_; }
  int32_t next_child() { return ++children_; }
  uint64_t child_id(int32_t child, uint64_t salt) const { return mix(mix(id_, static_cast<uint64_t>(child)), salt); }

  void run(const Call& call);
  std::vector<std::shared_ptr<Operation>> start(std::span<const Call> calls);
  void finalize();
  bool has_failed_operations() const { return driver_->has_failed(); }
  void drain(std::chrono::milliseconds at_most) { driver_->wait_for_calls(at_most); }
  void abort(const std::string& why);
  void close() noexcept;
  void dump(const std::string& why);
  std::optional<Error> first_error() const;
  uint32_t reroutes() const;
  Statistics statistics() const;
  void revise(const PlanWish& wish);
  uint32_t generation() const;
  Agreed agree(int32_t flag, std::chrono::milliseconds at_most);
  Communicator shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience, Options options);

 private:
  // Driver::Owner
  void begin(const Call& call) override { executor_->start(call, log_->begin(call)); }
  void end_oldest(OperationState state) override { log_->end_oldest(state); }
  MessageBook::Place begin_message(const Call& message) override { return log_->begin_message(message); }
  void record_wait(MessageBook::Place message) override { log_->record_message_wait(message); }
  void end_message(const Call& message, MessageBook::Place place, uint32_t peer, OperationState state) override {
    log_->end_message(message, place, peer, state);
  }
  void restart_watch() override { watch_->restart(); }
  void waiting_for(uint32_t rank) override;
  void woke() override { watch_->woke(); }
  Error cause_of(const Error& error) override;
  void fail(const Error& error) noexcept override;
  const Error& error() const override { return first_error_.get(); }
  Error error_of(const Call& call) noexcept override;
  std::shared_ptr<void> keep() override { return shared_from_this(); }

  std::unique_ptr<Executor> make_executor(ExecutorFactory& factory);
  JobPlace place() const;
  std::string words_of_part(const Call& call) const;
  void send_failure(const Error& error);
  void receive(const std::string& text);
  void receive_failure(const std::string& reason);
  void fail_without_agent(const Error& error) noexcept;
  void receive_error(const Error& error);
  void check_fence();
  void end(const Error& error);
  void end_as_closed(bool has_calls) noexcept;
  bool break_with(const Error& error);
  void expect_usable();
  void expect_own_process() const;

  const std::shared_ptr<JoinedProcesses> job_;  // shared with the other communicators of the process
  const uint64_t id_;
  const std::vector<uint32_t> members_;
  const Options options_;
  const ForkGuard fork_guard_;
  uint32_t rank_ = 0;
  bool is_on_one_host_ = false;
  std::atomic<int32_t> children_{0};

  FirstError first_error_;
  std::atomic<int> failure_{-1};  // the code of the error that was no wish of this rank; -1: none
  AgentPeers peers_;
  Regrouping regrouping_;
  // In the order in which they need each other.
  Patience patience_;
  std::unique_ptr<CallLog> log_;
  std::unique_ptr<CallWatch> watch_;
  std::unique_ptr<Executor> executor_;
  std::unique_ptr<Driver> driver_;
  HookRegistration hooks_;
  DumpRegistration signal_;
  StatisticsBoard::Entry statistics_;
};

}  // namespace banyan::run
