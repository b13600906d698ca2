// SessionPage: the memory in which the calls of one session (tenant, communicator, rank) go to the daemon and back. And
// the doorbell, by which the daemon learns of them.
//
// A page has two rings with one writer and one reader each: submissions from the client, completions from the daemon;
// and a status that the daemon writes. It lies in a region of the client (sealed, so that it cannot be made shorter
// under the daemon). Neither side believes the other: each keeps its own position to itself and only writes it to the
// page; a position of the other side that is impossible is Error{invalid_input}, and ends the connection, not the
// process. So neither can be made to read outside the rings, nor to loop.
//
// Sleeping and waking. A side that finds nothing, or no room, says in the page that it sleeps, looks once more, and
// then sleeps on a descriptor (the daemon: one for all of its clients) or on the word itself (the client: a futex). A
// side that writes something, or makes room, looks at that word afterwards, and wakes the other side if it sleeps. The
// waker of a client clears its word first, so that the client does not fall asleep on it a moment later. A client that
// never wakes the daemon only makes itself wait.
//
// Orders (testing/orders). Positions are stored with release and loaded with acquire, since entries go with them. If a
// side stores one word and then looks at another, which the other side stores before it looks at the first, all four
// accesses are sequentially consistent (Dekker), so that no wake-up is lost. These words are positions (but for
// `submitted`, after which the doorbell is rung) and the words that say who sleeps; and `groups` and `daemon_sleeps` of
// the doorbell. The words that say who sleeps are cleared relaxed, since nothing goes with that. A session is set in
// the doorbell with release and taken with acquire, and so is its group taken: what was submitted goes with them. A
// status is relaxed, each number for itself.
//
// One thread for each side.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include "banyan/run/system/futex.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

// The state of a session, for the client's watch over its calls. Written by the daemon, each number for itself.
struct SessionStatus {
  std::atomic<uint64_t> steps{0};        // grows whenever something moves (Executor::steps)
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
  // 1: sleeps on this word, and wants to be woken at the next completion; 2: when there is room again, too. Cleared by
  // who wakes it.
  std::atomic<uint32_t> client_sleeps;
  // Written by the daemon.
  alignas(64) std::atomic<uint64_t> completed;  // how many completions were ever written
  std::atomic<uint64_t> consumed;               // how many submissions the daemon has copied
  std::atomic<uint32_t> daemon_waits;           // 1: wants to be rung when there is room. Cleared by who rings.
  alignas(64) SessionStatus status;
  alignas(64) Submission submissions[kSubmissions];
  alignas(64) Completion completions[kCompletions];
};
static_assert(sizeof(SessionPage) <= 4096 && std::atomic<uint64_t>::is_always_lock_free);

// The client's side.
class ClientRings {
 public:
  explicit ClientRings(SessionPage& page) : page_(&page) {}

  // True if submit() would find room: the daemon has copied enough of what was submitted. Throws Error{invalid_input}
  // when its position is impossible. (Completions need no room: the daemon keeps those that the ring cannot take, as
  // many as it lets calls be under way.)
  bool has_room();
  // There is room, as has_room() has said and CHECK demands. Gives it the next sequence, which it returns.
  uint64_t submit(const Submission& submission);
  // The next completion. Throws Error{invalid_input} when the daemon's position is impossible, or the sequence is of no
  // submission.
  std::optional<Completion> take();
  // True if take() would give something.
  bool has_completion() const;
  // True if the daemon keeps completions that found no room, and take() has made some: then the doorbell is to be rung.
  // To be called after the last take().
  bool is_awaited();

  // Sleeps until there is a completion, or room where has_room() found none, wake() is called, or `at_most` is over.
  // Calls `try_again` once no wake-up can be missed any more, and returns at once when that returns true. Throws as
  // has_room().
  template <typename TryAgain>
  void sleep(const TryAgain& try_again, std::chrono::milliseconds at_most);
  // Ends a sleep. Any thread of the client.
  void wake();

 private:
  SessionPage* page_;
  uint64_t submitted_ = 0, taken_ = 0;
  uint64_t consumed_ = 0;  // by the daemon, when has_room() looked last
};

// The daemon's side, where completions may wait for room.
//
// 1. Completions reach the client in the order in which keep() had them, each once. One of complete() goes before them.
// 2. One that is kept waits only while the ring has no room for it, or until flush().
class DaemonRings {
 public:
  explicit DaemonRings(SessionPage& page) : page_(&page) {}

  // A copy of the next submission, which validate.h checks. Throws Error{invalid_input} when the client's position is
  // impossible.
  std::optional<Submission> take();
  // True if complete() would find room: the client has read enough of what was completed. Throws Error{invalid_input}
  // when its position is impossible. The client rings when there is room again.
  bool has_room();
  // There is room, as has_room() has said and CHECK demands, whatever the client writes meanwhile. Wakes the client if
  // it sleeps; then returns true.
  bool complete(const Completion& completion);
  SessionStatus& status() { return page_->status; }

  // Keeps a completion until flush() finds room for it.
  void keep(const Completion& completion) { kept_.push_back(completion); }
  size_t kept() const { return kept_.size(); }
  // Writes completions that are kept, as many as find room. True if there were any. Throws as has_room().
  bool flush();
  // True if the client was woken by flush() since this was called last.
  bool take_woken() { return std::exchange(has_woken_, false); }

 private:
  void look_for_room();

  SessionPage* page_;
  uint64_t consumed_ = 0, completed_ = 0;
  uint64_t taken_ = 0;  // by the client, when has_room() looked last
  std::deque<Completion> kept_;
  bool has_woken_ = false;
};

// In memory of the client, one for all of its sessions: which of them have something for the daemon.
struct DoorbellPage {
  static constexpr uint32_t kSessions = 4096;

  // 1: the daemon sleeps and wants its descriptor set. Written by the daemon, into each page of its clients.
  alignas(64) std::atomic<uint32_t> daemon_sleeps;
  alignas(64) std::atomic<uint64_t> groups;  // bit g: some of sessions [64 g, 64 g + 64) have rung
  alignas(64) std::atomic<uint64_t> sessions[kSessions / 64];
};

// Any thread of the client. True if the daemon sleeps, so that its descriptor is to be set.
bool ring(DoorbellPage& page, uint32_t session);
// Calls `rang(session)` for those that have rung since the last time, each once; whatever the client has written there,
// at most kSessions calls. True if there were any.
template <typename Rang>
bool answer(DoorbellPage& page, const Rang& rang);
// The same of one group after the other, until this costs `most` or no group is left. `groups`: the caller's, 0 at
// first; has those that were taken from the page and whose turn comes next time. Returns the cost: 1 for each group and
// for each call, so less than `most` + 65; 0: none had rung.
template <typename Rang>
size_t answer(DoorbellPage& page, uint64_t& groups, size_t most, const Rang& rang);

// ---- Inside ----

template <typename TryAgain>
void ClientRings::sleep(const TryAgain& try_again, std::chrono::milliseconds at_most) {
  const bool wants_room = submitted_ - consumed_ == SessionPage::kSubmissions;
  const uint32_t sleeps = wants_room ? 2 : 1;
  page_->client_sleeps.store(sleeps);
  const bool has_woken = has_completion() || (wants_room && has_room()) || try_again();
  if (!has_woken) run::futex_wait(page_->client_sleeps, sleeps, at_most);
  page_->client_sleeps.store(0, std::memory_order_relaxed);
}

template <typename Rang>
bool answer(DoorbellPage& page, const Rang& rang) {
  uint64_t groups = 0;
  return answer(page, groups, SIZE_MAX, rang) > 0;
}

template <typename Rang>
size_t answer(DoorbellPage& page, uint64_t& groups, size_t most, const Rang& rang) {
  // Sequentially consistent, since the daemon asks after it has said that it sleeps.
  if (groups == 0 && page.groups.load() != 0) groups = page.groups.exchange(0, std::memory_order_acquire);
  size_t cost = 0;
  for (; groups != 0 && cost < most; groups &= groups - 1) {
    const auto group = static_cast<uint32_t>(__builtin_ctzll(groups));
    uint64_t sessions = page.sessions[group].exchange(0, std::memory_order_acquire);
    for (++cost; sessions != 0; sessions &= sessions - 1, ++cost) {
      rang(group * 64 + static_cast<uint32_t>(__builtin_ctzll(sessions)));
    }
  }
  return cost;
}

}  // namespace banyan::service
