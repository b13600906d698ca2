#include "banyan/run/record/recorder.h"

#include <algorithm>
#include <ctime>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/record/shared_word.h"

// The order of writing (testing/orders). A record's ticket is set to 0 before any other field changes and to its new
// value after all have changed. Each field is stored with release and loaded with acquire, so a reader that sees a
// field of the new operation sees the ticket 0, or the new one, when it looks at the ticket again: it finds a changed
// ticket and leaves the record out. So the ticket 0 needs no release of its own, and the last look no acquire. (On x86
// all of these are plain moves.) Later changes of one record are single words, relaxed; but `end` is written before
// `state`, which is a release, so a record that is over has its end.
namespace banyan::run {
namespace {

constexpr uint64_t kMagic = 0x31726f6365526e42;  // "BnRecor1"

template <clockid_t kClock>
int64_t read_clock() {
  timespec time{};
  clock_gettime(kClock, &time);
  return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec;
}

constexpr size_t slot_of(uint64_t ticket) { return (ticket - 1) % Recorder::kOperations; }

// Nothing, when it was being overwritten, never written, or is garbage.
std::optional<OperationRecord> read_record(const OperationRecord& shared) {
  OperationRecord copy;
  copy.ticket = load(shared.ticket);
  if (copy.ticket == 0) return std::nullopt;
  copy.state = load(shared.state);  // before `end`, see above
  copy.sequence = load(shared.sequence);
  copy.count = load(shared.count);
  copy.counts_hash = load(shared.counts_hash);
  copy.begin = load(shared.begin);
  copy.end = load(shared.end);
  copy.step = load(shared.step);
  copy.waits_for = load(shared.waits_for);
  copy.other = load(shared.other);
  copy.kind = load(shared.kind);
  copy.type = load(shared.type);
  copy.op = load(shared.op);
  const bool is_whole = load_alone(shared.ticket) == copy.ticket;
  const bool is_known =
      static_cast<size_t>(copy.kind) < kOperationKinds && codec::WireType::is_known(copy.type.number()) &&
      static_cast<size_t>(copy.op) < element::kReduceOps && static_cast<size_t>(copy.state) < kOperationStates;
  return is_whole && is_known ? std::optional(copy) : std::nullopt;
}

}  // namespace

struct alignas(64) Recorder::Header {
  uint64_t magic;
  uint64_t begun;              // ticket of the newest record
  uint64_t latest_collective;  // ticket of the newest record of a collective, 0 before the first
  int64_t wall_offset;
};

RecorderClock RecorderClock::system() {
  return {.exact = read_clock<CLOCK_MONOTONIC>,
          .coarse = read_clock<CLOCK_MONOTONIC_COARSE>,
          .wall = read_clock<CLOCK_REALTIME>};
}

Recorder::Recorder(std::span<std::byte> memory, const RecorderClock& clock) : clock_(clock) {
  static_assert(sizeof(Header) == 64);
  CHECK(memory.size() >= kMemoryBytes) << memory.size() << " of " << kMemoryBytes << " bytes";
  CHECK_EQ(reinterpret_cast<uintptr_t>(memory.data()) % alignof(Header), 0u);
  header_ = reinterpret_cast<Header*>(memory.data());
  records_ = reinterpret_cast<OperationRecord*>(memory.data() + sizeof(Header));
  store(header_->magic, uint64_t{0});
  for (size_t i = 0; i < kOperations; ++i) store(records_[i].ticket, uint64_t{0});
  store(header_->begun, uint64_t{0});
  store(header_->latest_collective, uint64_t{0});
  store(header_->wall_offset, clock_.wall() - clock_.exact());
  store(header_->magic, kMagic);
}

Recorder::Entry Recorder::begin(const Call& call) {
  const uint64_t ticket = ++begun_;
  const uint64_t sequence = is_collective(call.kind) ? ++collectives_ : ++others_;
  OperationRecord& record = records_[slot_of(ticket)];
  store_alone(record.ticket, uint64_t{0});
  store(record.sequence, sequence);
  store(record.count, call.count);
  store(record.counts_hash, call.counts_hash);
  store(record.step, uint32_t{0});
  store(record.waits_for, kNoRank);
  store(record.other, call.other);
  store(record.kind, call.kind);
  store(record.type, call.type);
  store(record.op, call.op);
  store(record.state, call.state);
  store(record.end, int64_t{0});
  const bool exact = call.count >= kExactCount || sequence % kExactEvery == 0;
  store(record.begin, exact ? clock_.exact() : clock_.coarse());
  store(record.ticket, ticket);
  store(header_->begun, ticket);
  if (is_collective(call.kind)) store(header_->latest_collective, ticket);
  return Entry(this, &record, ticket, exact);
}

bool Recorder::Entry::is_current() const { return record_ != nullptr && record_->ticket == ticket_; }

void Recorder::Entry::start() {
  if (is_current()) store_alone(record_->state, OperationState::running);
}

void Recorder::Entry::advance(uint32_t step) {
  if (is_current()) store_alone(record_->step, step);
}

void Recorder::Entry::wait_for(uint32_t rank) {
  if (!is_current()) return;
  store_alone(record_->waits_for, rank);
  is_stamped_ = true;
}

int64_t Recorder::Entry::finish(OperationState state) {
  if (!is_current()) return kUntimed;
  int64_t took = kUntimed;
  // A rank that failed shows whom it waited for.
  if (is_stamped_) {
    const int64_t end = recorder_->clock_.exact();
    store_alone(record_->end, end);
    took = is_exact_ ? end - record_->begin : kEndOnly;
    if (state == OperationState::done) store_alone(record_->waits_for, kNoRank);
  } else if (state == OperationState::failed) {
    store_alone(record_->end, recorder_->clock_.exact());
  }
  store(record_->state, state);
  return took;
}

bool Recorder::Entry::is_long() const { return is_current() && record_->count >= kExactCount; }

uint64_t Recorder::Entry::sequence() const { return is_current() ? record_->sequence : 0; }

Snapshot snapshot(std::span<const std::byte> memory) {
  const auto* header = reinterpret_cast<const Recorder::Header*>(memory.data());
  if (memory.size() < Recorder::kMemoryBytes || load(header->magic) != kMagic) {
    throw Error(ErrorCode::invalid_input, "there is no flight recorder in this memory");
  }
  const auto* records = reinterpret_cast<const OperationRecord*>(memory.data() + sizeof(Recorder::Header));
  Snapshot result{.operations = {}, .begun = load(header->begun), .torn = 0, .wall_offset = load(header->wall_offset)};
  for (size_t i = 0; i < Recorder::kOperations; ++i) {
    const std::optional<OperationRecord> record = read_record(records[i]);
    if (record && slot_of(record->ticket) == i) {
      result.operations.push_back(*record);
    } else if (i < result.begun) {
      ++result.torn;
    }
  }
  std::ranges::sort(result.operations,
                    [](const OperationRecord& a, const OperationRecord& b) { return a.ticket < b.ticket; });
  return result;
}

std::optional<OperationRecord> current_operation(std::span<const std::byte> memory) {
  const auto* header = reinterpret_cast<const Recorder::Header*>(memory.data());
  if (memory.size() < Recorder::kMemoryBytes || load(header->magic) != kMagic) return std::nullopt;
  const uint64_t ticket = load(header->latest_collective);
  if (ticket == 0) return std::nullopt;
  const auto* records = reinterpret_cast<const OperationRecord*>(memory.data() + sizeof(Recorder::Header));
  const std::optional<OperationRecord> record = read_record(records[slot_of(ticket)]);
  return record && record->ticket == ticket ? record : std::nullopt;
}

std::vector<OperationRecord> newest_operations(std::span<const std::byte> memory, size_t most) {
  const auto* header = reinterpret_cast<const Recorder::Header*>(memory.data());
  if (memory.size() < Recorder::kMemoryBytes || load(header->magic) != kMagic) return {};
  const auto* records = reinterpret_cast<const OperationRecord*>(memory.data() + sizeof(Recorder::Header));
  const uint64_t newest = load(header->begun);
  std::vector<OperationRecord> operations;
  for (uint64_t left = std::min<uint64_t>({most, newest, Recorder::kOperations}); left > 0; --left) {
    const uint64_t ticket = newest - left + 1;
    const std::optional<OperationRecord> record = read_record(records[slot_of(ticket)]);
    if (record && record->ticket == ticket) operations.push_back(*record);
  }
  return operations;
}

}  // namespace banyan::run
