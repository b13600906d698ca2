#include "banyan/run/communicator/call_log.h"

#include <numeric>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/remake.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan::run {
namespace {

// A rank that is asked again so soon after it wrote a record has nothing new to tell.
constexpr std::chrono::milliseconds kPause{1000};

// Its pages come as they are used.
std::shared_ptr<std::byte> own_memory() {
  const auto pages = std::make_shared<SharedMemory>(Recorder::kMemoryBytes);
  return {pages, pages->data()};
}

OperationKind kind_of(const CallNumbers& numbers) { return record_of(numbers, 0).kind; }

}  // namespace

CallLog::CallLog(Options options, const TimeSource& time)
    : options_([&] {
        if (!options.memory) options.memory = own_memory();
        return std::move(options);
      }()),
      time_(time),
      recorder_(memory()),
      counters_(options_.size),
      messages_(options_.size) {}

const CallNumbers& CallLog::begin(const Call& call) {
  CHECK(under_way_ < kMostUnderWay) << under_way_;
  UnderWay& begun = calls_[(oldest_ + under_way_) % kMostUnderWay];
  remake(begun.numbers, [&] { return numbers_of(call); });
  uint64_t count = begun.numbers[1];
  if (call.kind == OperationKind::all_to_all_v) {
    count = std::accumulate(call.send_counts.begin(), call.send_counts.end(), uint64_t{0});
  }
  remake(begun.entry, [&] {
    return recorder_.begin({.kind = call.kind,
                            .type = options_.records_codes ? call.wire_type() : codec::WireType(call.type),
                            .op = call.op,
                            .other = is_rooted(call.kind) ? call.other : kNoRank,
                            .count = count,
                            .counts_hash = begun.numbers[2]});
  });
  begun.waited_from = {};
  begun.timeout = call.timeout.count() > 0 ? call.timeout : options_.timeout;
  ++under_way_;
  counters_.begin(call.kind, count * size_of(call.type));
  return begun.numbers;
}

// None is under way where the call failed before it was noted.
void CallLog::end_oldest(OperationState state) {
  if (under_way_ == 0) return;
  UnderWay& call = calls_[oldest_];
  const int64_t took = call.entry.finish(state);
  if (took != Recorder::kUntimed || call.has_waited()) count_time(call, took);
  oldest_ = (oldest_ + 1) % kMostUnderWay;
  --under_way_;
}

// Apart from the rest, which every call passes. Long calls are timed always, and stand for themselves; so do those that
// have waited, whose begin may be known from the coarse clock only.
[[gnu::noinline]] void CallLog::count_time(const UnderWay& call, int64_t nanoseconds) {
  const OperationKind kind = kind_of(call.numbers);
  if (nanoseconds < 0 && !call.has_waited()) return;
  if (nanoseconds < 0) nanoseconds = std::chrono::nanoseconds(time_.now() - call.waited_from).count();
  if (call.has_waited() || call.entry.is_long()) {
    counters_.time(kind, nanoseconds);
  } else {
    counters_.sample(kind, nanoseconds, under_way_ - 1);
  }
}

std::string CallLog::describe_oldest() const {
  const UnderWay& call = calls_[oldest_];
  return describe(record_of(call.numbers, call.entry.sequence()));
}

void CallLog::record_message_wait(MessageBook::Place place) {
  if (place != MessageBook::kNowhere) messages_.record_wait(place, RecorderClock::system().exact());
}

RankNews CallLog::news() const {
  const int64_t now = RecorderClock::system().exact();
  return RankNews::read(memory(), messages_, now);
}

RankDump CallLog::make_dump(DumpReason reason, const std::string& why) const {
  RankDump dump = begin_dump(memory());
  dump.messages = messages_.read(dump.time);
  dump.communicator = options_.communicator;
  dump.id = options_.id;
  dump.rank = options_.rank;
  dump.size = options_.size;
  dump.reason = reason;
  dump.message = why;
  for (uint32_t rank = 0; rank < dump.size; ++rank) {
    if (rank != dump.rank) dump.peers.push_back({.rank = rank, .health = options_.health(rank), .sequence = 0});
  }
  return dump;
}

RankDump CallLog::look() const { return make_dump(DumpReason::asked, "somebody looked"); }

// What cannot be written is lost: it must not hide the error that it is about.
void CallLog::write(DumpReason reason, const std::string& why) {
  const std::lock_guard lock(mutex_);
  // Who has heard of a failure may come to this later than a call that has failed of it.
  if (reason == DumpReason::asked && has_failed_call()) return;
  written_at_ = time_.now();
  try {
    RankDump dump = make_dump(reason, why);
    const int64_t noticed_at = noticed_at_.load(std::memory_order_acquire);
    if (noticed_at != 0) dump.time = noticed_at;
    // A failure makes peers leave. So a later record of it tells of them as they were when it was noticed.
    if (peers_at_failure_.empty()) {
      if (has_failure()) peers_at_failure_ = dump.peers;
    } else {
      dump.peers = peers_at_failure_;
    }
    const std::string path = write_dump(dump, recorder_directory());
    BANYAN_LOG(info) << "flight recorder written to " << path;
  } catch (const std::exception& error) {
    BANYAN_LOG(warning) << "the flight recorder could not be written: " << error.what();
  }
}

void CallLog::notice_failure() {
  int64_t never = 0;
  noticed_at_.compare_exchange_strong(never, RecorderClock::system().exact());
}

void CallLog::write_failure(DumpReason reason, const Error& error) {
  has_failure_.store(true, std::memory_order_release);
  if (reason != DumpReason::asked) has_failed_call_.store(true, std::memory_order_release);
  write(reason, error.what());
}

void CallLog::write_when_asked(const std::string& why) {
  if (!has_failure()) write(DumpReason::asked, why);
}

void CallLog::write_for_peer(const std::string& why) {
  if (has_failure()) return;
  {
    const std::lock_guard lock(mutex_);
    if (written_at_ != TimeSource::TimePoint::min() && time_.now() - written_at_ < kPause) return;
  }
  write(DumpReason::asked, why);
}

}  // namespace banyan::run
