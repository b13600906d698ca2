// What one execution costs, all ranks in one thread over rings in memory: the work that is done for it, and no waiting.
// Arguments: ranks, bytes. Checks every answer.
#include <benchmark/benchmark.h>

#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/engine/engine.h"
#include "banyan/run/transport/byte_ring.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

constexpr size_t kRingBytes = size_t{1} << 20;

// A ring in each direction between each two ranks.
class Rings {
 public:
  explicit Rings(uint32_t ranks) : ranks_(ranks) {
    for (uint32_t i = 0; i < ranks * ranks; ++i) {
      memory_.push_back(std::make_unique<Line[]>(ByteRing::memory_bytes(kRingBytes) / sizeof(Line) + 1));
      auto* const bytes = reinterpret_cast<std::byte*>(memory_.back().get());
      ByteRing::create(bytes);
      rings_.emplace_back(bytes, kRingBytes);
    }
  }
  ByteRing& between(uint32_t from, uint32_t to) { return rings_[from * ranks_ + to]; }

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  uint32_t ranks_;
  std::vector<std::unique_ptr<Line[]>> memory_;
  std::vector<ByteRing> rings_;
};

class RingTransport : public Transport {
 public:
  RingTransport(Rings& rings, uint32_t rank) : rings_(rings), rank_(rank) {}
  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) override {
    return rings_.between(rank_, peer).write(head, body);
  }
  std::span<const std::byte> peek(uint32_t peer) override { return rings_.between(peer, rank_).peek(); }
  void consume(uint32_t peer, size_t count) override { rings_.between(peer, rank_).consume(count); }
  size_t read(uint32_t peer, std::span<std::byte> into) override { return rings_.between(peer, rank_).read(into); }
  void wait(std::chrono::milliseconds) override { CHECK(false) << "nobody sleeps here"; }

 private:
  Rings& rings_;
  const uint32_t rank_;
};

struct Rank {
  Rank(Rings& rings, const Schedule& schedule, uint32_t number, uint64_t elements)
      : transport(rings, number), engine(transport, {.slice_bytes = 64 << 10}) {
    plan = std::make_shared<RankPlan>(make_rank_plan(schedule, elements, number));
    input.resize(plan->input_elements);
    output.resize(plan->output_elements);
    for (size_t i = 0; i < input.size(); ++i) input[i] = static_cast<int32_t>(i * 3 + number);
  }
  RingTransport transport;
  Engine engine;
  std::shared_ptr<RankPlan> plan;
  std::vector<int32_t> input, output;
};

void all_reduce(benchmark::State& state) {
  const auto count = static_cast<uint32_t>(state.range(0));
  const uint64_t elements = static_cast<uint64_t>(state.range(1)) / sizeof(int32_t);
  const Schedule schedule = testing::sample_forest({.ranks = count, .trees_per_root = 1, .seed = 7});
  Rings rings(count);
  std::vector<std::unique_ptr<Rank>> ranks;
  for (uint32_t i = 0; i < count; ++i) ranks.push_back(std::make_unique<Rank>(rings, schedule, i, elements));
  uint64_t sequence = 0;
  for (auto _ : state) {
    ++sequence;
    for (const auto& rank : ranks) {
      rank->engine.start({.plan = rank->plan,
                          .task = {.type = element::DataType::int32, .op = element::ReduceOp::sum},
                          .sequence = sequence,
                          .input = std::as_bytes(std::span(rank->input)),
                          .output = std::as_writable_bytes(std::span(rank->output))});
    }
    bool is_over = false;
    while (!is_over) {
      is_over = true;
      for (const auto& rank : ranks) {
        rank->engine.progress();
        is_over &= rank->engine.is_idle();
      }
    }
  }
  const auto ranks_sum = static_cast<int32_t>(count * (count - 1) / 2);
  for (const auto& rank : ranks) {
    for (size_t i = 0; i < rank->output.size(); ++i) {
      if (rank->output[i] != static_cast<int32_t>(count * i * 3) + ranks_sum) return state.SkipWithError("wrong sums");
    }
  }
  state.SetBytesProcessed(state.iterations() * state.range(1));
}
BENCHMARK(all_reduce)
    ->ArgNames({"ranks", "bytes"})
    ->ArgsProduct({{2, 4, 8}, {64, 8 << 10, 1 << 20, 8 << 20}})
    ->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace banyan::run

BENCHMARK_MAIN();
