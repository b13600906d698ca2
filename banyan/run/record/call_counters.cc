#include "banyan/run/record/call_counters.h"

#include <algorithm>
#include <bit>
#include <numeric>

namespace banyan::run {
namespace {

// Bounds are powers of two of a second, which are no whole numbers of nanoseconds below 2^-9; so time is compared in
// units of 2^-20 s, rounded up.
size_t bucket_of(uint64_t nanoseconds) {
  constexpr unsigned __int128 kUnits = uint64_t{1} << -CallTotals::kLeastExponent, kSecond = 1'000'000'000;
  const auto units = static_cast<uint64_t>((nanoseconds * kUnits + kSecond - 1) / kSecond);
  const size_t exponent = units <= 1 ? 0 : static_cast<size_t>(std::bit_width(units - 1));
  return std::min(exponent, CallTotals::kBuckets - 1);
}

}  // namespace

uint64_t CallTotals::OfKind::timed() const { return std::accumulate(buckets.begin(), buckets.end(), uint64_t{0}); }

CallTotals::OfKind CallTotals::all() const {
  OfKind sum;
  for (const OfKind& kind : kinds) {
    sum.calls += kind.calls;
    sum.bytes += kind.bytes;
    sum.nanoseconds += kind.nanoseconds;
    for (size_t i = 0; i < kBuckets; ++i) sum.buckets[i] += kind.buckets[i];
  }
  return sum;
}

CallTotals& CallTotals::operator+=(const CallTotals& other) {
  for (size_t kind = 0; kind < kOperationKinds; ++kind) {
    kinds[kind].calls += other.kinds[kind].calls;
    kinds[kind].bytes += other.kinds[kind].bytes;
    kinds[kind].nanoseconds += other.kinds[kind].nanoseconds;
    for (size_t i = 0; i < kBuckets; ++i) kinds[kind].buckets[i] += other.kinds[kind].buckets[i];
  }
  waited.resize(std::max(waited.size(), other.waited.size()));
  for (size_t rank = 0; rank < other.waited.size(); ++rank) waited[rank] += other.waited[rank];
  return *this;
}

void CallCounters::sample(OperationKind kind, int64_t nanoseconds, size_t under_way) {
  const OfKind& counted = kinds_[static_cast<size_t>(kind)];
  const uint64_t calls = counted.calls.load(std::memory_order_relaxed),
                 known = counted.timed.load(std::memory_order_relaxed) + under_way;
  time(kind, nanoseconds, calls > known ? calls - known : 1);
}

void CallCounters::time(OperationKind kind, int64_t nanoseconds, uint64_t calls) {
  OfKind& counted = kinds_[static_cast<size_t>(kind)];
  const uint64_t took = nanoseconds > 0 ? static_cast<uint64_t>(nanoseconds) : 0;
  add(counted.timed, calls);
  add(counted.nanoseconds, took * calls);
  add(counted.buckets[bucket_of(took)], calls);
}

CallTotals CallCounters::read() const {
  CallTotals totals;
  for (size_t i = 0; i < kOperationKinds; ++i) {
    const OfKind& counted = kinds_[i];
    CallTotals::OfKind& kind = totals.kinds[i];
    kind.calls = counted.calls.load(std::memory_order_relaxed);
    kind.bytes = counted.bytes.load(std::memory_order_relaxed);
    kind.nanoseconds = counted.nanoseconds.load(std::memory_order_relaxed);
    for (size_t bucket = 0; bucket < CallTotals::kBuckets; ++bucket) {
      kind.buckets[bucket] = counted.buckets[bucket].load(std::memory_order_relaxed);
    }
  }
  totals.waited.resize(ranks_);
  for (uint32_t rank = 0; rank < ranks_; ++rank) totals.waited[rank] = waited_[rank].load(std::memory_order_relaxed);
  return totals;
}

}  // namespace banyan::run
