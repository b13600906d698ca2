// SessionPage: the memory in which the calls of one session (tenant, communicator, rank) go to the daemon and back. And
// the doorbell, by which the daemon learns of them.
//
// A page has two rings with one writer and one reader each: submissions from the client, completions from the daemon;
// and a status that the daemon writes. It lies in a region of the client (sealed, so that it cannot be made shorter
// under the daemon). Neither side believes the other: each keeps its own position to itself and only writes it to the
// page; a position of the other side that is impossible is Error{invalid_input}, and ends the connection, not the
// process. So neither can be made to read outside the rings, nor to loop.
//
// Sleeping and waking. A side that finds nothing says in the page that it sleeps, looks once more, and then sleeps on
// its descriptor; who writes something looks at that word afterwards, and sets the descriptor if it says so. The order
// of store and look is kept by sequentially consistent operations (Dekker), so no wake-up is lost. A client that never
// wakes the daemon only makes itself wait.
//
// One thread for each side.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "banyan/service/protocol/submission.h"

namespace banyan::service {

// How a session does, for the client's watch over its calls. Written by the daemon, each number for itself.
struct SessionStatus {
  std::atomic<uint64_t> steps{0};        // grows whenever something moves (ProgressView::steps)
  std::atomic<uint64_t> progress{0};     // and whenever something comes nearer to its end
  std::atomic<uint32_t> waiting_for{0};  // a rank
  std::atomic<uint32_t> generation{0}, reroutes{0};
  std::atomic<uint32_t> flags{0};  // kIsUnsettled, kNoticesLastBytes
  std::atomic<uint64_t> sent_tcp{0}, sent_shared_memory{0};
  static constexpr uint32_t kIsUnsettled = 1, kNoticesLastBytes = 2;
};

// As it lies in memory. Zeroed memory is a page of empty rings.
struct SessionPage {
  static constexpr uint32_t kSubmissions = 16, kCompletions = 32;  // powers of two

  // Written by the client.
  alignas(64) std::atomic<uint64_t> submitted;  // how many submissions were ever written
  std::atomic<uint64_t> taken;                  // how many completions the client has read
  std::atomic<uint32_t> client_sleeps;          // 1: wants its descriptor set at the next completion
  // Written by the daemon.
  alignas(64) std::atomic<uint64_t> completed;  // how many completions were ever written
  std::atomic<uint64_t> consumed;               // how many submissions the daemon has copied
  alignas(64) SessionStatus status;
  alignas(64) Submission submissions[kSubmissions];
  alignas(64) Completion completions[kCompletions];
};
static_assert(sizeof(SessionPage) <= 4096 && std::atomic<uint64_t>::is_always_lock_free);

// The client's side.
class ClientRings {
 public:
  explicit ClientRings(SessionPage& page) : page_(&page) {}

  // Whether submit() would find room: both in the ring and for the completion, which is thereby reserved. At most
  // kSubmissions are under way.
  bool has_room() const { return submitted_ - done_ < SessionPage::kSubmissions; }
  // There is room, as CHECK demands. Gives it the next sequence, which it returns.
  uint64_t submit(Submission submission);
  // The next completion. Throws Error{invalid_input} when the daemon's position is impossible.
  std::optional<Completion> take();
  // Whether take() would give something.
  bool has_completion() const;

  // Before sleeping; then has_completion() has to be asked once more.
  void say_asleep();
  void say_awake();

 private:
  SessionPage* page_;
  uint64_t submitted_ = 0, done_ = 0;
};

// The daemon's side.
class DaemonRings {
 public:
  explicit DaemonRings(SessionPage& page) : page_(&page) {}

  // A copy of the next submission. Throws Error{invalid_input} when the client's position is impossible. Whether the
  // submission makes sense, validate.h says.
  std::optional<Submission> take();
  // There is room for it as long as no more was completed than taken.
  // Whether the client sleeps, so that its descriptor is to be set.
  bool complete(const Completion& completion);
  SessionStatus& status() { return page_->status; }

 private:
  SessionPage* page_;
  uint64_t consumed_ = 0, completed_ = 0;
};

// In memory of the client, one for all of its sessions: which of them have something for the daemon.
struct DoorbellPage {
  static constexpr uint32_t kSessions = 4096;

  // 1: the daemon sleeps and wants its descriptor set. Written by the daemon, into each page of its clients.
  alignas(64) std::atomic<uint32_t> daemon_sleeps;
  alignas(64) std::atomic<uint64_t> groups;  // bit g: some of sessions [64 g, 64 g + 64) have rung
  alignas(64) std::atomic<uint64_t> sessions[kSessions / 64];
};

// Any thread of the client. Whether the daemon sleeps, so that its descriptor is to be set.
bool ring(DoorbellPage& page, uint32_t session);
// Calls `rang(session)` for those that have rung since the last time, each once; whatever the client has written there,
// at most kSessions calls. Whether there were any.
template <typename Rang>
bool answer(DoorbellPage& page, const Rang& rang);

// ---- Inside ----

template <typename Rang>
bool answer(DoorbellPage& page, const Rang& rang) {
  uint64_t groups = page.groups.load(std::memory_order_relaxed);
  if (groups == 0) return false;
  groups = page.groups.exchange(0);
  for (; groups != 0; groups &= groups - 1) {
    const auto group = static_cast<uint32_t>(__builtin_ctzll(groups));
    uint64_t sessions = page.sessions[group].exchange(0);
    for (; sessions != 0; sessions &= sessions - 1) {
      rang(group * 64 + static_cast<uint32_t>(__builtin_ctzll(sessions)));
    }
  }
  return true;
}

}  // namespace banyan::service
