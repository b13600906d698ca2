// Inside of banyan/element: the loops of one machine, made of reduce_lanes.h, and the table of them.
#pragma once

#include "banyan/element/reduce_kernels.h"
#include "banyan/element/reduce_lanes.h"

namespace banyan::element::internal {
namespace {

// From here on a result begins at a multiple of a vector, so that no store touches two cache lines.
constexpr size_t kWorthAligning = 1024;

// Bytes before the first multiple of kWidth in `result`; 0 when elements lie across it.
template <size_t kWidth, size_t kElement>
size_t bytes_before_alignment(const std::byte* result) {
  const size_t bytes = -reinterpret_cast<uintptr_t>(result) % kWidth;
  return bytes % kElement == 0 ? bytes : 0;
}

// Stands first in every function of the table. Code that was compiled for a lesser machine runs at a fraction of its
// speed while upper halves of registers are in use, and the compiler forgets to clear them before some calls.
template <typename Machine>
struct Visit {
  Visit() = default;
  ~Visit() { Machine::leave(); }
  Visit(const Visit&) = delete;
  Visit& operator=(const Visit&) = delete;
};

// The destination of results, and the second one if there is one.
template <typename Machine>
class Sink {
 public:
  using Bytes = Vector<uint8_t, Machine::kWidth>;

  Sink(std::byte* result, std::byte* second, bool streaming)
      : result_(result), second_(second), streaming_(streaming) {}
  ~Sink() {
    if (streaming_) Machine::fence();
  }
  Sink(const Sink&) = delete;
  Sink& operator=(const Sink&) = delete;

  [[gnu::always_inline]] void put(size_t at, const Bytes& bytes) const {
    if (streaming_) {
      Machine::stream(result_ + at, bytes);
    } else {
      store(result_ + at, bytes);
    }
    if (second_ != nullptr) store(second_ + at, bytes);
  }
  [[gnu::always_inline]] void put_part(size_t at, const Bytes& bytes, size_t part) const {
    Machine::store_part(result_ + at, bytes, part);
    if (second_ != nullptr) Machine::store_part(second_ + at, bytes, part);
  }

 private:
  std::byte* result_;
  std::byte* second_;
  bool streaming_;
};

// Splits `total` bytes into a part up to the first aligned vector of the result, whole vectors, and a part that
// remains.
template <typename Machine, typename T>
struct Split {
  [[gnu::always_inline]] explicit Split(const ReduceJob& job)
      : total(job.count * kElementBytes<T>),
        head(job.streaming || total >= kWorthAligning
                 ? bytes_before_alignment<Machine::kWidth, kElementBytes<T>>(job.result)
                 : 0) {
    if (head > total) head = 0;
    streams = job.streaming && reinterpret_cast<uintptr_t>(job.result + head) % Machine::kWidth == 0;
  }

  size_t total, head;
  bool streams;
};

// Few sources: one pass, each vector of the result made in registers. Sources that are the result are read before it is
// written, vector by vector.
template <typename Machine, typename T, typename Op, size_t kSources>
class OnePass {
  using L = Lanes<Machine, T>;
  using Bytes = typename L::Bytes;
  static constexpr size_t kWidth = Machine::kWidth;

 public:
  explicit OnePass(const ReduceJob& job) {
    for (size_t k = 0; k < kSources; ++k) sources_[k] = job.sources[k];
  }

  void run(const ReduceJob& job) const {
    const Split<Machine, T> split(job);
    if (job.second == nullptr && !split.streams) {
      run_into(Sink<Machine>(job.result, nullptr, false), split.head, split.total);
    } else {
      run_into(Sink<Machine>(job.result, job.second, split.streams), split.head, split.total);
    }
  }

 private:
  [[gnu::always_inline]] void run_into(const Sink<Machine>& sink, size_t head, size_t total) const {
    if (head > 0) sink.put_part(0, part_at(0, head), head);
    size_t at = head;
    for (; total - at >= kWidth; at += kWidth) {
      sink.put(at, made_of([&](const std::byte* source) { return load<Bytes>(source + at); }));
    }
    if (at < total) sink.put_part(at, part_at(at, total - at), total - at);
  }

  [[gnu::always_inline]] Bytes part_at(size_t at, size_t bytes) const {
    return made_of([&](const std::byte* source) { return Machine::load_part(source + at, bytes); });
  }

  template <typename Load>
  [[gnu::always_inline]] Bytes made_of(const Load& load_from) const {
    auto sum = L::widen(load_from(sources_[0]));
    for (size_t k = 1; k < kSources; ++k) sum = L::template apply<Op>(sum, L::widen(load_from(sources_[k])));
    return L::narrow(sum);
  }

  const std::byte* sources_[kSources];
};

// Many sources, or a division: a block of accumulators stays in the first cache while sources pass by, two at a time.
// More streams at once would contend for the same sets of the caches.
template <typename Machine, typename T, typename Op>
class InBlocks {
  using L = Lanes<Machine, T>;
  using Bytes = typename L::Bytes;
  using Accumulator = typename L::Accumulator;
  static constexpr size_t kWidth = Machine::kWidth;
  static constexpr size_t kVectors = 8192 / sizeof(Accumulator);

 public:
  explicit InBlocks(const ReduceJob& job) : job_(job) {}

  void run() {
    const Split<Machine, T> split(job_);
    const Sink<Machine> sink(job_.result, job_.second, split.streams);
    for (size_t at = 0; at < split.total;) {
      const size_t left = split.total - at;
      const size_t most = at < split.head ? split.head : kVectors * kWidth;
      const size_t bytes = left < most ? left : most;
      fill(at, bytes);
      drain(sink, at, bytes);
      at += bytes;
    }
  }

 private:
  void fill(size_t at, size_t bytes) {
    size_t done = 0;
    for (; job_.source_count - done >= 2; done += 2) fold<2>(job_.sources + done, at, bytes, done == 0);
    if (done < job_.source_count) fold<1>(job_.sources + done, at, bytes, done == 0);
  }

  template <size_t kSources>
  void fold(const std::byte* const* sources, size_t at, size_t bytes, bool is_first) {
    const std::byte* const left = sources[0] + at;
    const std::byte* const right = sources[kSources - 1] + at;
    const auto folded = [&](const Accumulator& before, const auto& load_from) {
      const Accumulator first = L::widen(load_from(left));
      const Accumulator sum = is_first ? first : L::template apply<Op>(before, first);
      if constexpr (kSources == 1) return sum;
      return L::template apply<Op>(sum, L::widen(load_from(right)));
    };
    const size_t whole = bytes / kWidth, part = bytes % kWidth;
    for (size_t v = 0; v < whole; ++v) {
      block_[v] = folded(block_[v], [&](const std::byte* source) { return load<Bytes>(source + v * kWidth); });
    }
    if (part == 0) return;
    block_[whole] = folded(block_[whole],
                           [&](const std::byte* source) { return Machine::load_part(source + whole * kWidth, part); });
  }

  void drain(const Sink<Machine>& sink, size_t at, size_t bytes) {
    const size_t whole = bytes / kWidth, part = bytes % kWidth;
    if constexpr (Op::kDivides) {
      const Divisor<typename L::Number> divisor(job_.divisor);
      for (size_t v = 0; v < whole + (part > 0 ? 1 : 0); ++v) block_[v] = L::divide(block_[v], divisor);
    }
    for (size_t v = 0; v < whole; ++v) sink.put(at + v * kWidth, L::narrow(block_[v]));
    if (part > 0) sink.put_part(at + whole * kWidth, L::narrow(block_[whole]), part);
  }

  const ReduceJob& job_;
  Accumulator block_[kVectors];
};

// Not a part of its caller, which would have to make room for the block on its way to a small sum.
template <typename Machine, typename T, typename Op>
[[gnu::noinline]] void reduce_in_blocks(const ReduceJob& job) {
  InBlocks<Machine, T, Op>(job).run();
}

template <typename Machine, typename T, typename Op>
void reduce_as(const ReduceJob& job) {
  const Visit<Machine> visit;
  if constexpr (!Op::kDivides) {
    if (job.source_count == 2) return OnePass<Machine, T, Op, 2>(job).run(job);
    if (job.source_count == 3) return OnePass<Machine, T, Op, 3>(job).run(job);
    if (job.source_count == 4) return OnePass<Machine, T, Op, 4>(job).run(job);
  }
  reduce_in_blocks<Machine, T, Op>(job);
}

template <typename Machine, typename T>
void scale_by(std::byte* to, const std::byte* from, size_t count, double factor) {
  const Visit<Machine> visit;
  using L = Lanes<Machine, T>;
  using Bytes = typename L::Bytes;
  using Number = typename L::Number;
  Number number;
  if constexpr (std::is_integral_v<Number>) {
    number = static_cast<Number>(static_cast<int64_t>(factor));
  } else {
    number = static_cast<Number>(factor);
  }
  const Vector<Number, Machine::kWidth> all = Vector<Number, Machine::kWidth>{} + number;
  typename L::Accumulator by;
  if constexpr (sizeof by > sizeof all) {
    by = {all, all};
  } else {
    by = all;
  }
  const auto scaled = [&](const Bytes& bytes) { return L::narrow(L::template apply<Prod>(L::widen(bytes), by)); };
  const size_t total = count * kElementBytes<T>;
  size_t at = 0;
  for (; total - at >= Machine::kWidth; at += Machine::kWidth) store(to + at, scaled(load<Bytes>(from + at)));
  if (at < total) Machine::store_part(to + at, scaled(Machine::load_part(from + at, total - at)), total - at);
}

template <typename Machine>
void stream_copy(std::byte* to, const std::byte* from, size_t bytes) {
  const Visit<Machine> visit;
  using Bytes = Vector<uint8_t, Machine::kWidth>;
  size_t head = bytes_before_alignment<Machine::kWidth, 1>(to);
  if (head > bytes) head = bytes;
  if (head > 0) Machine::store_part(to, Machine::load_part(from, head), head);
  size_t at = head;
  for (; bytes - at >= Machine::kWidth; at += Machine::kWidth) Machine::stream(to + at, load<Bytes>(from + at));
  if (at < bytes) Machine::store_part(to + at, Machine::load_part(from + at, bytes - at), bytes - at);
  Machine::fence();
}

// Elements of 16 bits to float32 and back, in the order of memory.
template <typename Machine, typename T>
void widen_to_float(float* to, const std::byte* from, size_t count) {
  const Visit<Machine> visit;
  using Halves = Vector<uint8_t, Machine::kWidth>;
  constexpr size_t kElements = Machine::kWidth / 2;
  const auto widened = [](const Halves& halves) {
    return Lanes<Machine, T>::to_order(Lanes<Machine, T>::widen(halves));
  };
  size_t i = 0;
  for (; count - i >= kElements; i += kElements) store(to + i, widened(load<Halves>(from + 2 * i)));
  if (i == count) return;
  float floats[kElements];
  store(floats, widened(Machine::load_part(from + 2 * i, 2 * (count - i))));
  for (size_t k = 0; i + k < count; ++k) to[i + k] = floats[k];
}

template <typename Machine, typename T>
void narrow_to_half(std::byte* to, const float* from, size_t count, uint32_t divisor) {
  const Visit<Machine> visit;
  using L = Lanes<Machine, T>;
  using Floats = FloatPair<Machine::kWidth>;
  constexpr size_t kElements = Machine::kWidth / 2;
  const Divisor<float> by(divisor);
  const auto narrowed = [&](const Floats& floats) { return L::narrow(L::divide(L::from_order(floats), by)); };
  size_t i = 0;
  for (; count - i >= kElements; i += kElements) store(to + 2 * i, narrowed(load<Floats>(from + i)));
  if (i == count) return;
  float floats[kElements] = {};
  for (size_t k = 0; i + k < count; ++k) floats[k] = from[i + k];
  Machine::store_part(to + 2 * i, narrowed(load<Floats>(floats)), 2 * (count - i));
}

// Sums and products of signed integers are those of unsigned ones.
template <typename Op, typename T>
using Taken = std::conditional_t<Op::kWraps && !Op::kDivides, std::make_unsigned_t<T>, T>;

template <typename Machine, typename Op>
constexpr void fill_row(Kernels::Reduce (&row)[kDataTypes]) {
  const Kernels::Reduce all[kDataTypes] = {reduce_as<Machine, Taken<Op, int8_t>, Op>,
                                           reduce_as<Machine, Taken<Op, int16_t>, Op>,
                                           reduce_as<Machine, Taken<Op, int32_t>, Op>,
                                           reduce_as<Machine, Taken<Op, int64_t>, Op>,
                                           reduce_as<Machine, uint8_t, Op>,
                                           reduce_as<Machine, uint16_t, Op>,
                                           reduce_as<Machine, uint32_t, Op>,
                                           reduce_as<Machine, uint64_t, Op>,
                                           reduce_as<Machine, Half, Op>,
                                           reduce_as<Machine, BrainHalf, Op>,
                                           reduce_as<Machine, float, Op>,
                                           reduce_as<Machine, double, Op>};
  for (size_t type = 0; type < kDataTypes; ++type) row[type] = all[type];
}

template <typename Machine>
constexpr Kernels kernels_of() {
  // In the order of their enumerators.
  Kernels kernels = {.reduce = {},
                     .reduce_bits = {reduce_as<Machine, uint8_t, And>, reduce_as<Machine, uint8_t, Or>,
                                     reduce_as<Machine, uint8_t, Xor>},
                     .scale = {scale_by<Machine, uint8_t>, scale_by<Machine, uint16_t>, scale_by<Machine, uint32_t>,
                               scale_by<Machine, uint64_t>, scale_by<Machine, uint8_t>, scale_by<Machine, uint16_t>,
                               scale_by<Machine, uint32_t>, scale_by<Machine, uint64_t>, scale_by<Machine, Half>,
                               scale_by<Machine, BrainHalf>, scale_by<Machine, float>, scale_by<Machine, double>},
                     .stream = stream_copy<Machine>,
                     .widen = {widen_to_float<Machine, Half>, widen_to_float<Machine, BrainHalf>},
                     .narrow = {narrow_to_half<Machine, Half>, narrow_to_half<Machine, BrainHalf>}};
  fill_row<Machine, Sum>(kernels.reduce[static_cast<size_t>(ReduceOp::sum)]);
  fill_row<Machine, Prod>(kernels.reduce[static_cast<size_t>(ReduceOp::prod)]);
  fill_row<Machine, Min>(kernels.reduce[static_cast<size_t>(ReduceOp::min)]);
  fill_row<Machine, Max>(kernels.reduce[static_cast<size_t>(ReduceOp::max)]);
  fill_row<Machine, Avg>(kernels.reduce[static_cast<size_t>(ReduceOp::avg)]);
  return kernels;
}

}  // namespace
}  // namespace banyan::element::internal
