// SessionSlots: numbers and pages for the sessions of an attachment. Number n always has the n-th page; pages lie 64 to
// a region, so that few regions are offered.
//
// A session ends when the daemon hears that it does. Until then the daemon may write to its page, so the slot rests
// until the daemon is known to have heard: by its answer to a later wish.
//
// Any thread.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <utility>
#include <vector>

#include "banyan/service/client/attachment.h"
#include "banyan/service/protocol/rings.h"

namespace banyan::service {

class SessionSlots {
 public:
  static constexpr size_t kPageBytes = 4096, kPagesPerRegion = 64;

  using Allocate = std::function<Attachment::Memory(size_t bytes)>;
  explicit SessionSlots(Allocate allocate) : allocate_(std::move(allocate)) {}
  SessionSlots(const SessionSlots&) = delete;
  SessionSlots& operator=(const SessionSlots&) = delete;

  struct Slot {
    uint32_t number = 0;
    SessionPage* page = nullptr;
    BufferName name;  // of the page
  };
  // With a zeroed page. `granted`: the number of the last wish that the daemon has granted. Throws what `allocate`
  // throws; Error{unsupported} when all are in use.
  Slot take(uint64_t granted);
  // The daemon never used it.
  void give_back(uint32_t number);
  // The daemon was told that its session ends, after wish `sent_after`.
  void retire(uint32_t number, uint64_t sent_after);

 private:
  struct Resting {
    uint32_t number = 0;
    uint64_t sent_after = 0;
  };
  // All under the mutex.
  Slot slot(uint32_t number) const;
  bool is_full() const { return regions_.size() == DoorbellPage::kSessions / kPagesPerRegion; }
  void end_rests(uint64_t granted);
  void add(Attachment::Memory memory);

  const Allocate allocate_;
  std::mutex mutex_;  // protects what follows
  std::vector<Attachment::Memory> regions_;
  std::vector<uint32_t> free_;
  std::deque<Resting> resting_;  // the oldest first
};

}  // namespace banyan::service
