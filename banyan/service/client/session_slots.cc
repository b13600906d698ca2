#include "banyan/service/client/session_slots.h"

#include <cstring>
#include <string>

#include "banyan/base/error.h"

namespace banyan::service {

static_assert(sizeof(SessionPage) <= SessionSlots::kPageBytes);

SessionSlots::Slot SessionSlots::slot(uint32_t number) const {
  const Attachment::Memory& region = regions_[number / kPagesPerRegion];
  const size_t offset = number % kPagesPerRegion * kPageBytes;
  BufferName name = region.name;
  name.offset += offset;
  return {.number = number, .page = reinterpret_cast<SessionPage*>(region.data + offset), .name = name};
}

SessionSlots::Slot SessionSlots::take(uint64_t granted) {
  std::unique_lock lock(mutex_);
  end_rests(granted);
  if (free_.empty() && !is_full()) {
    lock.unlock();  // while the daemon is asked
    Attachment::Memory memory = allocate_(kPagesPerRegion * kPageBytes);
    lock.lock();
    if (!is_full()) add(std::move(memory));
  } else if (free_.empty() && !resting_.empty()) {
    const uint64_t sent_after = resting_.front().sent_after;
    lock.unlock();
    allocate_(kPageBytes);  // a wish by whose answer the oldest has rested long enough
    lock.lock();
    end_rests(sent_after + 1);
  }
  if (free_.empty()) {
    throw Error(ErrorCode::unsupported, "at most " + std::to_string(DoorbellPage::kSessions) +
                                            " communicators of a process can use a service at a time");
  }
  const Slot taken = slot(free_.back());
  free_.pop_back();
  std::memset(static_cast<void*>(taken.page), 0, kPageBytes);
  return taken;
}

void SessionSlots::end_rests(uint64_t granted) {
  for (; !resting_.empty() && resting_.front().sent_after < granted; resting_.pop_front()) {
    free_.push_back(resting_.front().number);
  }
}

void SessionSlots::add(Attachment::Memory memory) {
  const auto first = static_cast<uint32_t>(regions_.size() * kPagesPerRegion);
  regions_.push_back(std::move(memory));
  for (uint32_t i = kPagesPerRegion; i > 0; --i) free_.push_back(first + i - 1);
}

void SessionSlots::give_back(uint32_t number) {
  const std::lock_guard lock(mutex_);
  free_.push_back(number);
}

void SessionSlots::retire(uint32_t number, uint64_t sent_after) {
  const std::lock_guard lock(mutex_);
  resting_.push_back({.number = number, .sent_after = sent_after});
}

}  // namespace banyan::service
