#include "banyan/run/record/message_book.h"

#include <algorithm>
#include <new>

#include "banyan/run/record/shared_word.h"

namespace banyan::run {
namespace {

// Not fetch_add, which would lock the bus: nobody else writes.
template <typename T>
void add_one(std::atomic<T>& word) {
  word.store(word.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
}

}  // namespace

MessageBook::~MessageBook() { delete pages_.load(); }

// Apart from the rest, which every message passes. Null where there is no memory.
[[gnu::noinline]] MessageBook::Pages* MessageBook::take_pages() noexcept {
  try {
    auto pages = std::make_unique<Pages>();
    pages->counts = std::make_unique<Counts[]>(ranks_);
    for (size_t i = 0; i < kPlaces; ++i) pages->over[i] = static_cast<Place>(i);
    pages_.store(pages.get(), std::memory_order_release);
    return pages.release();
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
}

MessageBook::Place MessageBook::begin(const Message& message) {
  Pages* pages = pages_.load(std::memory_order_relaxed);
  if (pages == nullptr) pages = take_pages();
  if (pages == nullptr) return kNowhere;
  add_one(pages->begun);
  if (message.is_send && message.peer < ranks_) {
    add_one(pages->counts[message.peer].sent);
    pages->counts[message.peer].last_tag.store(message.tag, std::memory_order_relaxed);
  }
  if (pages->over_count == 0) return kNowhere;
  const Place place = pages->over[pages->oldest];
  pages->oldest = (pages->oldest + 1) % kPlaces;
  --pages->over_count;
  // As in recorder.cc: its number is 0 while any other field changes.
  MessageRecord& record = pages->slots[place].record;
  store_alone(record.number, uint64_t{0});
  store(record.count, message.count);
  store(record.awaited_since, int64_t{0});
  store(record.peer, message.peer);
  store(record.tag, message.tag);
  store(record.is_send, message.is_send);
  store(record.type, message.type);
  store(record.state, OperationState::running);
  store(record.number, pages->begun.load(std::memory_order_relaxed));
  return place;
}

void MessageBook::record_wait(Place place, int64_t now) {
  if (place == kNowhere) return;
  Slot& slot = pages_.load(std::memory_order_relaxed)->slots[place];
  const bool goes_on = slot.record.awaited_since != 0 && now - slot.looked_at <= kLongestGap;
  store_alone(slot.looked_at, now);
  if (!goes_on) store_alone(slot.record.awaited_since, now);
}

void MessageBook::end(Place place, bool is_send, uint32_t peer, OperationState state) {
  Pages* const pages = pages_.load(std::memory_order_relaxed);
  if (pages == nullptr) return;
  if (!is_send && state == OperationState::done && peer < ranks_) add_one(pages->counts[peer].received);
  if (place == kNowhere) return;
  MessageRecord& record = pages->slots[place].record;
  if (state == OperationState::done) store(record.peer, peer);
  store(record.state, state);
  pages->over[(pages->oldest + pages->over_count) % kPlaces] = place;
  ++pages->over_count;
}

MessageRecords MessageBook::read(int64_t now) const {
  MessageRecords records;
  const Pages* const pages = pages_.load(std::memory_order_acquire);
  if (pages == nullptr) return records;
  records.begun = pages->begun.load(std::memory_order_relaxed);
  for (const Slot& slot : pages->slots) {
    MessageRecord copy;
    copy.number = load(slot.record.number);
    if (copy.number == 0) continue;
    copy.count = load(slot.record.count);
    copy.awaited_since = load(slot.record.awaited_since);
    copy.peer = load(slot.record.peer);
    copy.tag = load(slot.record.tag);
    copy.is_send = load(slot.record.is_send);
    copy.type = load(slot.record.type);
    copy.state = load(slot.record.state);
    const bool gave_up = copy.state == OperationState::running && now - load_alone(slot.looked_at) > kLongestGap;
    if (copy.state == OperationState::done || gave_up) copy.awaited_since = 0;
    if (load_alone(slot.record.number) == copy.number) records.messages.push_back(copy);
  }
  std::ranges::sort(records.messages,
                    [](const MessageRecord& a, const MessageRecord& b) { return a.number < b.number; });
  for (uint32_t rank = 0; rank < ranks_; ++rank) {
    const MessagePair pair{.rank = rank,
                           .sent = pages->counts[rank].sent.load(std::memory_order_relaxed),
                           .received = pages->counts[rank].received.load(std::memory_order_relaxed),
                           .last_tag = pages->counts[rank].last_tag.load(std::memory_order_relaxed)};
    if (pair.sent > 0 || pair.received > 0) records.pairs.push_back(pair);
  }
  return records;
}

}  // namespace banyan::run
