// HostExecutor: carries out the calls of a communicator whose ranks are all on this host. Ranks read each other's
// memory, so nothing goes in a code: calls with one lose nothing.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/run/execute/call_messages.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/host/calls.h"
#include "banyan/run/host/host_group.h"
#include "banyan/run/host/mailboxes.h"

namespace banyan::run {

class HostExecutor : public Executor {
 public:
  HostExecutor(std::unique_ptr<HostGroup> group, RegionPool& pool);

  size_t depth() const override { return 1; }
  void start(const Call& call, const CallNumbers& numbers) override;
  bool advance() override;
  void finish(Watch& watch) override;
  uint64_t start_message(const Call& call) override { return start_message_in(mailboxes_, call); }
  bool advance_messages(std::vector<MessageDone>& done) override;
  void sleep(const std::function<bool()>& try_again) override { group_->nap(try_again); }
  void wake() override { group_->segment().ring(group_->rank()); }
  BackOff back_off() const override { return BackOff(group_->is_oversubscribed()); }
  uint32_t waiting_for() const override;
  bool can_do_without(uint32_t rank) const override {
    return !group_->exchange().is_busy() && mailboxes_.can_do_without(rank);
  }
  std::optional<Arriving> arriving_from(uint32_t rank) const override { return arriving_in(mailboxes_, rank); }
  uint64_t steps() const override { return group_->exchange().steps() + message_steps_; }
  void break_with(const Error& error) override { group_->break_with(error); }
  std::optional<Error> broken() const override;
  PlanReviser* reviser() override { return nullptr; }
  EventSource* events() override { return nullptr; }

 private:
  bool is_as_before(const Call& call, const CallNumbers& numbers) const;
  HostTask task_of(const Call& call, const CallNumbers& numbers);
  [[noreturn]] void explain(const Error& error);

  std::unique_ptr<HostGroup> group_;
  Mailboxes mailboxes_;
  uint64_t message_steps_ = 0;
  HostTask task_;                  // of the call under way, or of the last one
  bool is_reusable_ = false;       // the task says all of its call, which had no counts, factor or residual
  std::vector<Piece> pieces_;      // of its task
  std::vector<std::byte> scaled_;  // the input of a premul_sum, scaled; of a sum with a residual, with that
};

}  // namespace banyan::run
