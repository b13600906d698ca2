// MessageBook: what a rank knows of the messages between it and others: those that are under way, the last ones that
// are over, and how many there have been with each rank. It is for messages what the Recorder is for calls of all
// ranks, and apart from it, since thousands of messages may lie between two calls.
//
// A message costs about a hundred plain instructions, and no clock is read for it. Only a thread that waits for one in
// vain says so again and again (record_wait), with the time. Nothing is locked; a reader leaves out what is just being
// written.
//
// The memory is this process's own, and is taken by the first message. It holds kPlaces messages: those that are under
// way keep their place, and those that ended first lose theirs first. If more are under way, the rest is counted, but
// not shown. Nothing is recorded if there is no memory.
//
// Threads: one writes at a time; any reads. Orders (testing/orders): those of a message are as those of a record
// (recorder.cc), its number being the ticket; the two times of a wait are relaxed, since a reader that misses one of
// them takes nobody to wait yet. The pages are stored with release once they are made. Counts are relaxed, each for
// itself.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/element/data_type.h"
#include "banyan/run/call/message.h"

namespace banyan::run {

// Messages with one other rank: the number that have begun to be sent, and that have been received; the tag of the last
// one that was sent.
struct MessagePair {
  uint32_t rank = 0;
  uint64_t sent = 0, received = 0;
  uint32_t last_tag = 0;
  friend bool operator==(const MessagePair&, const MessagePair&) = default;
};

struct MessageRecords {
  std::vector<MessageRecord> messages;  // by their numbers
  std::vector<MessagePair> pairs;       // by rank; only of those with whom there were any
  uint64_t begun = 0;
  friend bool operator==(const MessageRecords&, const MessageRecords&) = default;
};

class MessageBook {
 public:
  static constexpr size_t kPlaces = 256;
  // A waiting thread looks more often than this; after a longer time nobody waits any more.
  static constexpr int64_t kLongestGap = 1'000'000'000;
  using Place = uint16_t;
  static constexpr Place kNowhere = kPlaces;

  explicit MessageBook(uint32_t ranks) : ranks_(ranks) {}
  ~MessageBook();
  MessageBook(const MessageBook&) = delete;
  MessageBook& operator=(const MessageBook&) = delete;

  struct Message {
    bool is_send = false;
    element::DataType type = element::DataType::uint8;
    uint32_t peer = kNoRank, tag = 0;
    uint64_t count = 0;
  };
  Place begin(const Message& message);
  // Somebody waits for it, and nothing has moved; `now` on CLOCK_MONOTONIC.
  void record_wait(Place place, int64_t now);
  // `peer`: where it went, or came from. `state`: done or failed.
  void end(Place place, bool is_send, uint32_t peer, OperationState state);

  // As of `now`. Any thread.
  MessageRecords read(int64_t now) const;

 private:
  struct Slot {
    MessageRecord record;  // number 0: nothing is there, or it is being written
    int64_t looked_at = 0;
  };
  struct Counts {
    std::atomic<uint64_t> sent{0}, received{0};
    std::atomic<uint32_t> last_tag{0};
  };
  struct Pages {
    std::array<Slot, kPlaces> slots;
    std::atomic<uint64_t> begun{0};
    // A ring of the places of those that are over, in the order of their end; of the thread that writes.
    std::array<Place, kPlaces> over{};
    size_t oldest = 0, over_count = kPlaces;
    std::unique_ptr<Counts[]> counts;  // by rank
  };
  Pages* take_pages() noexcept;

  const uint32_t ranks_;
  std::atomic<Pages*> pages_{nullptr};  // owned; set once
};

}  // namespace banyan::run
