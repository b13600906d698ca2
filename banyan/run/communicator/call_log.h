// CallLog: what this rank has called, in memory that outlives a crash of its writer, and the flight records made of it.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/record/call_counters.h"
#include "banyan/run/record/dump.h"
#include "banyan/run/record/message_book.h"
#include "banyan/run/record/rank_news.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/system/time_source.h"

namespace banyan::run {

// begin() and end_oldest() by the thread that drives; all else by any.
class CallLog {
 public:
  static constexpr size_t kMostUnderWay = 8;
  struct Options {
    std::string communicator;  // its name
    std::string id;            // tells communicators of one name apart; may be empty
    uint32_t rank = 0, size = 1;
    std::chrono::milliseconds timeout{0};         // of calls that name none
    std::function<Health(uint32_t rank)> health;  // of the other ranks, as a record should say it
    // Memory of the recorder: Recorder::kMemoryBytes that others may read. Null: the log's own memory.
    std::shared_ptr<std::byte> memory = {};
    bool records_codes = true;  // a call with a code is recorded as "float32 as int8"; if not, as "float32"
  };
  // A call that the executor has.
  struct UnderWay {
    CallNumbers numbers{};
    Recorder::Entry entry;
    std::chrono::milliseconds timeout{0};
    TimeSource::TimePoint waited_from{};  // when it first had to wait; zero if it has not

    bool has_waited() const { return waited_from != TimeSource::TimePoint(); }
  };

  CallLog(Options options, const TimeSource& time);

  const CallNumbers& begin(const Call& call);
  void end_oldest(OperationState state);
  size_t under_way() const { return under_way_; }
  // The oldest call under way. There must be one.
  UnderWay& oldest() { return calls_[oldest_]; }
  // The oldest call has to wait: it will be timed.
  void notice_wait(TimeSource::TimePoint now) {
    if (!oldest().has_waited()) oldest().waited_from = now;
  }
  // This rank has waited for `rank`, with nothing moving.
  void count_wait(uint32_t rank, std::chrono::nanoseconds time) { counters_.wait_for(rank, time.count()); }
  // Messages between two ranks, however many (MessageBook).
  MessageBook::Place begin_message(const Call& message) {
    return messages_.begin({.is_send = message.kind == OperationKind::send,
                            .type = message.type,
                            .peer = message.other,
                            .tag = message.tag,
                            .count = message.count});
  }
  void record_message_wait(MessageBook::Place place);
  void end_message(const Call& message, MessageBook::Place place, uint32_t peer, OperationState state) {
    messages_.end(place, message.kind == OperationKind::send, peer, state);
    if (state == OperationState::done) counters_.begin(message.kind, message.count * size_of(message.type));
  }
  // Any thread.
  CallTotals totals() const { return counters_.read(); }

  // "allreduce #17 of 1024 float32 sum": the oldest.
  std::string describe_oldest() const;

  // A record as it would be now. It is written nowhere.
  RankDump look() const;

  // The last calls, for peers that ask.
  RankNews news() const;

  // A call of this rank has failed: its record will bear this time. To be said before any other rank can know, so that
  // no rank that fails because of it seems to have failed before.
  void notice_failure();
  // Writes the record of the failure, which is the last one: nothing happens after it. That of a failed call stays,
  // whoever hears of the failure later (`asked`).
  void write_failure(DumpReason reason, const Error& error);
  // This rank ends the communicator by its own wish: there is no failure to record.
  void expect_no_failure() {
    has_failure_.store(true, std::memory_order_release);
    has_failed_call_.store(true, std::memory_order_release);
  }
  bool has_failure() const { return has_failure_.load(std::memory_order_acquire); }
  // True if the record says that a call of this rank has failed. Until then it says what another rank has told, and the
  // first call that fails is recorded once more.
  bool has_failed_call() const { return has_failed_call_.load(std::memory_order_acquire); }
  // Writes the record, unless a failure was recorded.
  void write_when_asked(const std::string& why);
  // The same for the wish of a peer: all of them may be asked at once, and then hear of it from each other.
  void write_for_peer(const std::string& why);

 private:
  void count_time(const UnderWay& call, int64_t nanoseconds);
  void write(DumpReason reason, const std::string& why);
  RankDump make_dump(DumpReason reason, const std::string& why) const;
  std::span<std::byte> memory() const { return {options_.memory.get(), Recorder::kMemoryBytes}; }

  const Options options_;
  const TimeSource& time_;
  Recorder recorder_;
  CallCounters counters_;
  MessageBook messages_;
  std::array<UnderWay, kMostUnderWay> calls_;  // a ring
  size_t oldest_ = 0, under_way_ = 0;

  std::atomic<bool> has_failure_{false};      // is recorded, or needs no record
  std::atomic<bool> has_failed_call_{false};  // the same of a failed call of this rank
  std::atomic<int64_t> noticed_at_{0};        // by the recorder's clock; 0: no call of this rank has failed
  std::mutex mutex_;                          // protects what follows, and writing
  TimeSource::TimePoint written_at_ = TimeSource::TimePoint::min();
  std::vector<PeerRecord> peers_at_failure_;  // empty: not noticed yet
};

}  // namespace banyan::run
