#include "banyan/service/protocol/rings.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::service {
namespace {

[[noreturn]] void refuse(const std::string& claim, uint64_t position, uint64_t least, uint64_t most) {
  throw invalid(claim + std::to_string(position) + ", where it can be " + std::to_string(least) + " to " +
                std::to_string(most));
}

// A copy that the compiler cannot make by looking at the page again later, when the other side may have written there.
template <typename Entry>
Entry copied_once(const Entry& entry) {
  const Entry copy = entry;
  std::atomic_signal_fence(std::memory_order_seq_cst);
  return copy;
}

bool wake_client(SessionPage& page) {
  // Zero, so that a client which is about to sleep on the word does not. Most clients do not: they are only looked at.
  if (page.client_sleeps.load() == 0 || page.client_sleeps.exchange(0, std::memory_order_relaxed) == 0) return false;
  run::futex_wake_all(page.client_sleeps);
  return true;
}

}  // namespace

// ---- The client ----

bool ClientRings::has_room() {
  const uint64_t consumed = page_->consumed.load();
  if (consumed - consumed_ > submitted_ - consumed_) {
    refuse("the service says that it has taken submission ", consumed, consumed_, submitted_);
  }
  consumed_ = consumed;
  return submitted_ - consumed_ < SessionPage::kSubmissions;
}

uint64_t ClientRings::submit(const Submission& submission) {
  CHECK(submitted_ - consumed_ < SessionPage::kSubmissions) << submitted_ << " after " << consumed_;
  Submission& entry = page_->submissions[submitted_ % SessionPage::kSubmissions];
  entry = submission;
  entry.sequence = ++submitted_;
  page_->submitted.store(submitted_, std::memory_order_release);
  return submitted_;
}

std::optional<Completion> ClientRings::take() {
  const uint64_t completed = page_->completed.load(std::memory_order_acquire);
  if (completed == taken_) return std::nullopt;
  const uint64_t most = std::min<uint64_t>(submitted_ - taken_, SessionPage::kCompletions);
  if (completed - taken_ > most)
    refuse("the service says that its last completion is ", completed, taken_, taken_ + most);
  const Completion completion = copied_once(page_->completions[taken_ % SessionPage::kCompletions]);
  if (completion.sequence == 0 || completion.sequence > submitted_ || completion.zero != 0) {
    throw invalid("the service completes submission " + std::to_string(completion.sequence) + ", where " +
                  std::to_string(submitted_) + " were made");
  }
  page_->taken.store(++taken_);
  return completion;
}

bool ClientRings::is_awaited() {
  return page_->daemon_waits.load() != 0 && page_->daemon_waits.exchange(0, std::memory_order_relaxed) != 0;
}

bool ClientRings::has_completion() const { return page_->completed.load() != taken_; }

void ClientRings::wake() { wake_client(*page_); }

// ---- The daemon ----

std::optional<Submission> DaemonRings::take() {
  const uint64_t submitted = page_->submitted.load(std::memory_order_acquire);
  if (submitted == consumed_) return std::nullopt;
  if (submitted - consumed_ > SessionPage::kSubmissions) {
    refuse("the client says that its last submission is ", submitted, consumed_, consumed_ + SessionPage::kSubmissions);
  }
  const Submission submission = copied_once(page_->submissions[consumed_ % SessionPage::kSubmissions]);
  page_->consumed.store(++consumed_);
  if (page_->client_sleeps.load() == 2) wake_client(*page_);
  return submission;
}

bool DaemonRings::has_room() {
  look_for_room();
  if (completed_ - taken_ < SessionPage::kCompletions) return true;
  page_->daemon_waits.store(1);
  look_for_room();
  return completed_ - taken_ < SessionPage::kCompletions;
}

void DaemonRings::look_for_room() {
  const uint64_t taken = page_->taken.load();
  if (taken - taken_ > completed_ - taken_)
    refuse("the client says that it has read completion ", taken, taken_, completed_);
  taken_ = taken;
}

bool DaemonRings::complete(const Completion& completion) {
  CHECK(completed_ < consumed_ && completed_ - taken_ < SessionPage::kCompletions)
      << completed_ << " after " << consumed_ << " and " << taken_;
  page_->completions[completed_ % SessionPage::kCompletions] = completion;
  page_->completed.store(++completed_);
  return wake_client(*page_);
}

bool DaemonRings::flush() {
  bool moved = false;
  for (; !kept_.empty() && has_room(); kept_.pop_front()) {
    has_woken_ |= complete(kept_.front());
    moved = true;
  }
  return moved;
}

// ---- The doorbell ----

bool ring(DoorbellPage& page, uint32_t session) {
  CHECK(session < DoorbellPage::kSessions) << session;
  const uint32_t group = session / 64;
  // The session first: who sees the group finds it.
  page.sessions[group].fetch_or(uint64_t{1} << session % 64, std::memory_order_release);
  page.groups.fetch_or(uint64_t{1} << group);
  return page.daemon_sleeps.load() != 0;
}

}  // namespace banyan::service
