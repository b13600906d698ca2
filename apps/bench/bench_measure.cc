#include "apps/bench/bench_measure.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/run/trial/known_data.h"

namespace banyan::app {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kBlocks = 5;

// In the C interface, where a premul_sum has no number until its factor is known.
banyan_op_t op_of(element::ReduceOp op) {
  constexpr banyan_op_t kNone = -1;
  constexpr std::array<banyan_op_t, element::kReduceOps> kOps = {
      BANYAN_SUM, BANYAN_PROD, BANYAN_MIN, BANYAN_MAX, BANYAN_AVG, kNone, BANYAN_BAND, BANYAN_BOR, BANYAN_BXOR};
  const banyan_op_t found = kOps[static_cast<size_t>(op)];
  CHECK(found != kNone) << to_string(op);
  return found;
}

constexpr uint64_t kMostIterations = 1'000'000;

constexpr CollectiveTraits kSendRecvTraits{.kind = {}, .name = "sendrecv", .compact = "sendrecv"};

// Whether the call takes a count for each rank, of which there are as many as ranks in the larger buffer.
bool counts_by_rank(BenchKind kind) { return bench_traits(kind).is_sharded; }

// Where a rank's input and output lie in the whole buffer; and whose samples the output is, in equal pieces.
struct Parts {
  uint64_t input_at = 0, input = 0;
  uint64_t output_at = 0, output = 0;
  std::vector<uint32_t> owners = {};  // of pieces of the output that begin at output_at; none: a reduction
  bool pieces_repeat = false;         // every piece is of the same positions, input_at on: an all-to-all
};

Parts parts_of(const BenchCase& what, uint32_t rank, uint32_t ranks) {
  const uint64_t count = what.count, all = counts_by_rank(what.kind) ? count * ranks : count;
  const bool is_root = rank == what.root;
  std::vector<uint32_t> everybody(ranks);
  for (uint32_t i = 0; i < ranks; ++i) everybody[i] = i;
  if (what.kind == kSendRecv) return {.input = all, .output = all, .owners = {(rank + ranks - 1) % ranks}};
  switch (*what.kind) {
    case CollectiveKind::all_reduce:
      return {.input = all, .output = all};
    case CollectiveKind::reduce:
      return {.input = all, .output = is_root ? all : 0};
    case CollectiveKind::broadcast:
      return {.input = is_root ? all : 0, .output = all, .owners = {what.root}};
    case CollectiveKind::all_gather:
      return {.input_at = rank * count, .input = count, .output = all, .owners = everybody};
    case CollectiveKind::gather:
      return {.input_at = rank * count, .input = count, .output = is_root ? all : 0, .owners = everybody};
    case CollectiveKind::reduce_scatter:
      return {.input = all, .output_at = rank * count, .output = count};
    case CollectiveKind::scatter:
      return {.input = is_root ? all : 0, .output_at = rank * count, .output = count, .owners = {what.root}};
    case CollectiveKind::all_to_all:
      return {.input = all, .output = all, .owners = everybody, .pieces_repeat = true};
    case CollectiveKind::barrier:
      return {};
  }
  return {};
}

}  // namespace

const CollectiveTraits& bench_traits(BenchKind kind) { return kind ? traits_of(*kind) : kSendRecvTraits; }

double bench_busbw_factor(BenchKind kind, uint32_t ranks) { return kind ? busbw_factor(*kind, ranks) : 1; }

BenchKind parse_bench_kind(std::string_view text) {
  if (const auto kind = find_collective_kind(text)) return *kind;
  for (const std::string_view name : {"sendrecv", "SendRecv", "send-recv", "send_recv", "sendrecv_perf"}) {
    if (text == name) return kSendRecv;
  }
  NearestName meant(text);
  std::string known;
  for (const BenchKind kind : all_bench_kinds()) {
    meant.offer(bench_traits(kind).name);
    known += std::string(bench_traits(kind).name) + ", ";
  }
  throw invalid(in_quotes(text.substr(0, 60)) + " is no collective" + meant.hint() + "; known: " + known + "or all");
}

std::vector<BenchKind> all_bench_kinds() {
  std::vector<BenchKind> kinds;
  for (const CollectiveTraits& traits : kCollectives) kinds.push_back(traits.kind);
  kinds.push_back(kSendRecv);
  return kinds;
}

uint64_t BenchCase::bytes(uint32_t ranks) const {
  return kind == CollectiveKind::barrier ? 0 : count * size_of(type) * (counts_by_rank(kind) ? ranks : 1);
}

uint64_t BenchCase::count_of(BenchKind kind, element::DataType type, uint64_t bytes, uint32_t ranks) {
  return bytes / size_of(type) / (counts_by_rank(kind) ? ranks : 1);
}

// ---- Buffers ----

// A send and a receive buffer, or one for both.
class BenchRunner::Buffers {
 public:
  Buffers(const Parts& parts, size_t element_bytes, bool in_place, bool is_registered) : is_registered_(is_registered) {
    const size_t input = parts.input * element_bytes, output = parts.output * element_bytes;
    if (!in_place) {
      send = take(input);
      recv = take(output);
      return;
    }
    std::byte* const whole = take(std::max(input, output));
    // The smaller one is that part of the larger which it stands for.
    send = whole + (parts.input < parts.output ? parts.input_at * element_bytes : 0);
    recv = whole + (parts.output < parts.input ? parts.output_at * element_bytes : 0);
  }
  ~Buffers() {
    for (std::byte* const memory : memory_) {
      if (is_registered_) {
        banyan_mem_free(memory);
      } else {
        ::operator delete[](memory, std::align_val_t{64});
      }
    }
  }
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;

  std::byte *send = nullptr, *recv = nullptr;

 private:
  std::byte* take(size_t bytes) {
    bytes = std::max<size_t>(bytes, 64);
    void* memory = nullptr;
    if (!is_registered_) {
      memory = ::operator new[](bytes, std::align_val_t{64});
    } else if (banyan_mem_alloc(&memory, bytes) != BANYAN_SUCCESS) {
      throw Error(ErrorCode::io, banyan_last_error(nullptr));
    }
    memory_.push_back(static_cast<std::byte*>(memory));
    return memory_.back();
  }

  const bool is_registered_;
  std::vector<std::byte*> memory_;
};

// ---- Measuring ----

BenchRunner::BenchRunner(banyan_comm_t comm, BenchOptions options) : comm_(comm), options_(options) {
  int number = 0;
  expect(banyan_comm_user_rank(comm, &number));
  rank_ = static_cast<uint32_t>(number);
  expect(banyan_comm_count(comm, &number));
  ranks_ = static_cast<uint32_t>(number);
}

void BenchRunner::expect(banyan_result_t result) const {
  if (result != BANYAN_SUCCESS) throw Error(ErrorCode::aborted, banyan_last_error(comm_));
}

void BenchRunner::call(const BenchCase& what, const Buffers& buffers) const {
  const auto type = static_cast<banyan_type_t>(what.wire_type().number());
  const banyan_op_t op = op_of(what.op);
  const auto root = static_cast<int>(what.root);
  std::byte *const send = buffers.send, *const recv = buffers.recv;
  if (what.kind == kSendRecv) {
    expect(banyan_group_start());
    expect(banyan_send(send, what.count, type, static_cast<int>((rank_ + 1) % ranks_), comm_, nullptr));
    expect(banyan_recv(recv, what.count, type, static_cast<int>((rank_ + ranks_ - 1) % ranks_), comm_, nullptr));
    return expect(banyan_group_end());
  }
  switch (*what.kind) {
    case CollectiveKind::all_reduce:
      return expect(banyan_all_reduce(send, recv, what.count, type, op, comm_, nullptr));
    case CollectiveKind::reduce:
      return expect(banyan_reduce(send, recv, what.count, type, op, root, comm_, nullptr));
    case CollectiveKind::broadcast:
      return expect(banyan_broadcast(send, recv, what.count, type, root, comm_, nullptr));
    case CollectiveKind::all_gather:
      return expect(banyan_all_gather(send, recv, what.count, type, comm_, nullptr));
    case CollectiveKind::reduce_scatter:
      return expect(banyan_reduce_scatter(send, recv, what.count, type, op, comm_, nullptr));
    case CollectiveKind::all_to_all:
      return expect(banyan_all_to_all(send, recv, what.count, type, comm_, nullptr));
    case CollectiveKind::gather:
      return expect(banyan_gather(send, recv, what.count, type, root, comm_, nullptr));
    case CollectiveKind::scatter:
      return expect(banyan_scatter(send, recv, what.count, type, root, comm_, nullptr));
    case CollectiveKind::barrier:
      return expect(banyan_barrier(comm_, nullptr));
  }
}

uint64_t calls_that_fill(double seconds, const std::function<double(uint64_t)>& seconds_of) {
  constexpr double kGoodPart = 0.25, kFastestGrowth = 10;
  const auto clamped = [](double calls) {
    return static_cast<uint64_t>(std::clamp(calls, 1.0, static_cast<double>(kMostIterations)));
  };
  for (uint64_t calls = 1;;) {
    // A pause of the machine may stretch one trial; it rarely stretches two.
    const double took = std::max(1e-9, std::min(seconds_of(calls), seconds_of(calls)));
    const auto done = static_cast<double>(calls);
    if (took >= kGoodPart * seconds || calls == kMostIterations) return clamped(done * seconds / took);
    calls = clamped(done * std::clamp(seconds / took, 2.0, kFastestGrowth));
  }
}

double BenchRunner::slowest(double seconds) const {
  expect(banyan_all_reduce(&seconds, &seconds, 1, BANYAN_FLOAT64, BANYAN_MAX, comm_, nullptr));
  return seconds;
}

// Calls of each block.
std::vector<uint64_t> BenchRunner::blocks(const std::function<double(uint64_t)>& seconds_of) const {
  if (!options_.iterations) {
    return std::vector<uint64_t>(kBlocks, calls_that_fill(options_.min_seconds / kBlocks, seconds_of));
  }
  const uint64_t all = *options_.iterations, count = std::min<uint64_t>(all, kBlocks);
  std::vector<uint64_t> sizes(count, all / count);
  for (uint64_t i = 0; i < all % count; ++i) ++sizes[i];
  return sizes;
}

BenchCell BenchRunner::measure(const BenchCase& what, bool in_place) {
  constexpr double kMostTimes = 3;  // of min_seconds: then later blocks are left out
  Buffers buffers(parts_of(what, rank_, ranks_), size_of(what.type), in_place, options_.is_registered);
  const auto seconds_of = [&](uint64_t calls) {
    expect(banyan_barrier(comm_, nullptr));
    const Clock::time_point begin = Clock::now();
    for (uint64_t i = 0; i < calls; ++i) call(what, buffers);
    return slowest(std::chrono::duration<double>(Clock::now() - begin).count());
  };
  BenchCell cell;
  // First, because repeated sums in place grow beyond what the type can hold.
  for (uint64_t i = 0; i < options_.checks && what.kind != CollectiveKind::barrier; ++i) {
    cell.wrong = cell.wrong.value_or(0) +
                 (what.codec ? count_wrong_codes(what, in_place) : count_wrong(what, in_place, buffers));
  }
  for (uint64_t i = 0; i < options_.warmup; ++i) call(what, buffers);
  std::vector<double> seconds_of_one;
  double total = 0;
  for (const uint64_t calls : blocks(seconds_of)) {
    const double took = seconds_of(calls);
    seconds_of_one.push_back(took / static_cast<double>(calls));
    total += took;
    if (!options_.iterations && total > kMostTimes * options_.min_seconds) break;
  }
  std::sort(seconds_of_one.begin(), seconds_of_one.end());
  const double one = seconds_of_one[seconds_of_one.size() / 2];
  cell.microseconds = one * 1e6;
  cell.algbw = one > 0 ? static_cast<double>(what.bytes(ranks_)) / one * 1e-9 : 0;
  cell.busbw = cell.algbw * bench_busbw_factor(what.kind, ranks_);
  return cell;
}

BenchRow BenchRunner::measure(const BenchCase& what) {
  BenchRow row{.what = what, .bytes = what.bytes(ranks_), .out_of_place = {}, .in_place = {}};
  const bool can_be_in_place = what.kind != kSendRecv && what.kind != CollectiveKind::barrier;
  if (options_.out_of_place || !can_be_in_place) row.out_of_place = measure(what, false);
  if (options_.in_place && can_be_in_place) row.in_place = measure(what, true);
  return row;
}

// Over all ranks, after one call on data that depends on rank and position.
uint64_t BenchRunner::count_wrong(const BenchCase& what, bool in_place, Buffers& buffers) const {
  const Parts parts = parts_of(what, rank_, ranks_);
  const size_t size = size_of(what.type);
  const run::KnownData samples(
      {.ranks = ranks_, .reduces = bench_traits(what.kind).reduces, .reduction = {.type = what.type, .op = what.op}});
  const std::span<std::byte> input(buffers.send, parts.input * size), output(buffers.recv, parts.output * size);
  if (!in_place || output.size() > input.size()) samples.spoil(output);
  samples.fill(input, rank_, parts.input_at, parts.input_at + parts.input);
  call(what, buffers);
  uint64_t wrong = 0;
  if (parts.owners.empty()) {
    wrong = samples.compare(output, 0, parts.output_at, parts.output_at + parts.output).wrong;
  } else if (parts.output > 0) {
    const uint64_t piece = parts.output / parts.owners.size();
    for (size_t i = 0; i < parts.owners.size(); ++i) {
      const uint64_t begin = parts.pieces_repeat ? rank_ * piece : parts.output_at + i * piece;
      wrong +=
          samples.compare(output.subspan(i * piece * size, piece * size), parts.owners[i], begin, begin + piece).wrong;
    }
  }
  expect(banyan_all_reduce(&wrong, &wrong, 1, BANYAN_UINT64, BANYAN_SUM, comm_, nullptr));
  return wrong;
}

// By the same call without a code.
uint64_t BenchRunner::count_wrong_codes(const BenchCase& what, bool in_place) const {
  const Parts parts = parts_of(what, rank_, ranks_);
  const run::KnownData samples(
      {.ranks = ranks_, .reduces = bench_traits(what.kind).reduces, .reduction = {.type = what.type, .op = what.op}});
  const auto result_of = [&](const std::optional<codec::Codec>& codec) {
    Buffers buffers(parts, sizeof(float), in_place, options_.is_registered);
    samples.fill({buffers.send, parts.input * sizeof(float)}, rank_, parts.input_at, parts.input_at + parts.input);
    BenchCase with = what;
    with.codec = codec;
    call(with, buffers);
    std::vector<float> result(parts.output);
    std::memcpy(result.data(), buffers.recv, parts.output * sizeof(float));
    return result;
  };
  const std::vector<float> exact = result_of(std::nullopt), coded = result_of(what.codec);
  uint64_t wrong = 0;
  for (size_t i = 0; i < exact.size(); i += 64) {
    float largest = 0;
    for (size_t near = i > 512 ? i - 512 : 0; near < std::min(exact.size(), i + 512); ++near)
      largest = std::max(largest, std::abs(exact[near]));
    wrong += std::abs(coded[i] - exact[i]) <= largest ? 0 : 1;
  }
  const bool is_same_on_all = what.kind == CollectiveKind::all_reduce || what.kind == CollectiveKind::all_gather ||
                              what.kind == CollectiveKind::broadcast;
  if (is_same_on_all) {
    std::vector<float> of_first = coded;
    expect(banyan_broadcast(of_first.data(), of_first.data(), coded.size(), BANYAN_FLOAT32, 0, comm_, nullptr));
    for (size_t i = 0; i < coded.size(); ++i) wrong += std::memcmp(&coded[i], &of_first[i], sizeof(float)) == 0 ? 0 : 1;
  }
  expect(banyan_all_reduce(&wrong, &wrong, 1, BANYAN_UINT64, BANYAN_SUM, comm_, nullptr));
  return wrong;
}

}  // namespace banyan::app
