// The operations of two ranks of a host, by each way in which data is offered, and messages between them.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "banyan/element/reduce.h"
#include "banyan/run/host/calls.h"
#include "banyan/run/host/exchange.h"
#include "banyan/run/host/regions.h"
#include "banyan/testing/orders/explorer.h"
#include "banyan/testing/orders/hooks.h"
#include "banyan/testing/orders/test_segment.h"

// The kernels are not compiled for the explorer: what they read and write is said here (by the linker's --wrap).
namespace banyan::element {

void real_copy(std::byte* to, const std::byte* from, size_t bytes,
               bool streaming) asm("__real__ZN6banyan7element4copyEPSt4bytePKS1_mb");
void wrapped_copy(std::byte* to, const std::byte* from, size_t bytes,
                  bool streaming) asm("__wrap__ZN6banyan7element4copyEPSt4bytePKS1_mb");
void wrapped_copy(std::byte* to, const std::byte* from, size_t bytes, bool streaming) {
  testing::orders::access(from, bytes, false);
  testing::orders::access(to, bytes, true);
  real_copy(to, from, bytes, streaming);
}

#define BANYAN_REDUCE "_ZN6banyan7element6reduceERKNS0_10ReduceTaskEPSt4byteS5_St4spanIKPKS4_Lm18446744073709551615EEm"
using Sources = std::span<const std::byte* const>;
void real_reduce(const ReduceTask& task, std::byte* result, std::byte* second, Sources sources,
                 size_t count) asm("__real_" BANYAN_REDUCE);
void wrapped_reduce(const ReduceTask& task, std::byte* result, std::byte* second, Sources sources,
                    size_t count) asm("__wrap_" BANYAN_REDUCE);
void wrapped_reduce(const ReduceTask& task, std::byte* result, std::byte* second, Sources sources, size_t count) {
  const size_t bytes = count * size_of(task.type);
  for (const std::byte* source : sources) testing::orders::access(source, bytes, false);
  testing::orders::access(result, bytes, true);
  if (second != nullptr) testing::orders::access(second, bytes, true);
  real_reduce(task, result, second, sources, count);
}

}  // namespace banyan::element

namespace banyan::testing::orders {
namespace {

using run::Exchange;
using run::HostTask;
using run::PeerRegions;
using run::RegionPool;
using run::Segment;

constexpr element::ReduceTask kSum{.type = element::DataType::int32, .op = element::ReduceOp::sum};
constexpr size_t kMost = 160;  // elements of a buffer

// A rank with buffers that lie in a region, or not.
struct Rank {
  std::unique_ptr<RegionPool> pool;
  std::unique_ptr<Exchange> exchange;
  int32_t* input = nullptr;
  int32_t* output = nullptr;
  HostTask task;
};

class Host {
 public:
  explicit Host(Trial& trial, bool are_regions = false) : trial_(trial), host_(trial, 2, false) {
    for (Rank& rank : ranks_) rank.pool = are_regions ? std::make_unique<RegionPool>() : nullptr;
    for (const uint32_t rank : {0u, 1u}) {
      std::vector<std::unique_ptr<PeerRegions>> peers(2);
      if (are_regions) peers[1 - rank] = std::make_unique<PeerRegions>(0, ranks_[1 - rank].pool->directory_fd());
      Exchange::Options options{
          .rank = rank,
          .own_regions = ranks_[rank].pool.get(),
          .peers = std::move(peers),
          .may_attach = false,
          .tuning = {.everybody_reduces = 8, .least_viewed = 8, .most_staged = 256, .least_block = 64}};
      Rank& self = ranks_[rank];
      self.exchange = std::make_unique<Exchange>(host_.segment(rank), std::move(options));
      for (int32_t** const buffer : {&self.input, &self.output}) {
        *buffer = are_regions ? reinterpret_cast<int32_t*>(self.pool->allocate(sizeof(int32_t) * kMost))
                              : new int32_t[kMost]{};
      }
      trial.name(self.input, rank == 0 ? "the input of rank 0" : "the input of rank 1");
      trial.name(self.output, rank == 0 ? "the output of rank 0" : "the output of rank 1");
    }
  }

  Rank& operator[](uint32_t rank) { return ranks_[rank]; }
  Trial& trial() { return trial_; }

  // The next operation of a rank, with other data each time.
  template <typename MakeTask>
  void begin(uint32_t rank, const MakeTask& make, size_t count) {
    Rank& self = ranks_[rank];
    const auto operation = static_cast<int32_t>(self.exchange->operation() + 1);
    for (size_t i = 0; i < count; ++i) self.input[i] = value(operation, rank, i);
    self.task = make({.rank = rank,
                      .ranks = 2,
                      .signature = 7,
                      .element_bytes = sizeof(int32_t),
                      .send = reinterpret_cast<const std::byte*>(self.input),
                      .recv = reinterpret_cast<std::byte*>(self.output)});
    self.exchange->start(self.task);
  }
  void finish(uint32_t rank) {
    trial_.await([&] { return ranks_[rank].exchange->advance(); });
  }
  static int32_t value(int32_t operation, uint32_t rank, size_t position) {
    return operation * 1000 + static_cast<int32_t>(rank * 300 + position);
  }

  // Both ranks, so many times: a broadcast by rank 0, of which `root_ahead` operations are over there already, and the
  // next has gone as far as it can. After the last one the buffers are written once more.
  void broadcast(size_t count, uint32_t operations, uint32_t root_ahead = 0) {
    const auto make = [count](const run::HostCall& call) { return run::broadcast_task(call, count, 0); };
    for (uint32_t i = 0; i < root_ahead; ++i) {
      begin(0, make, count);
      ranks_[0].exchange->advance();
    }
    begin(0, make, count);
    ranks_[0].exchange->advance();
    trial_.thread("rank 0", [this, count] {
      finish(0);
      std::fill_n(ranks_[0].input, count, 0);
    });
    trial_.thread("rank 1", [this, make, count, operations] {
      for (uint32_t i = 0; i < operations; ++i) {
        begin(1, make, 0);
        finish(1);
        const auto operation = static_cast<int32_t>(i + 1);
        const std::array at{size_t{0}, count - 1};
        for (const size_t position : at) {
          trial_.expect(ranks_[1].output[position] == value(operation, 0, position), "another value");
        }
      }
    });
  }

  // The same of a sum.
  void all_reduce(size_t count, uint32_t operations) {
    for (const uint32_t rank : {0u, 1u}) {
      trial_.thread(rank == 0 ? "rank 0" : "rank 1", [this, rank, count, operations] {
        const auto make = [count](const run::HostCall& call) { return run::all_reduce_task(call, count, kSum); };
        for (uint32_t i = 1; i <= operations; ++i) {
          begin(rank, make, count);
          finish(rank);
          const auto operation = static_cast<int32_t>(i);
          const std::array at{size_t{0}, count - 1};
          for (const size_t position : at) {
            const int32_t sum = value(operation, 0, position) + value(operation, 1, position);
            trial_.expect(ranks_[rank].output[position] == sum, "another sum");
          }
        }
        std::fill_n(ranks_[rank].input, count, 0);
      });
    }
  }

 private:
  Trial& trial_;
  TestHost host_;
  std::array<Rank, 2> ranks_;
};

// In the post, which every operation writes anew.
void a_sum_lies_in_posts(Trial& trial) { (new Host(trial))->all_reduce(2, 2); }
// The root is as many operations ahead as it can be: its next post takes the place of one that is still read.
void posts_come_round(Trial& trial) { (new Host(trial))->broadcast(1, Segment::kPosts, Segment::kPosts - 1); }
// The same of slots.
void slots_come_round(Trial& trial) { (new Host(trial))->broadcast(32, Segment::kSlots, Segment::kSlots - 1); }
// Five blocks, one more than there are places.
void blocks_come_round(Trial& trial) { (new Host(trial))->broadcast(80, 1); }
// Shares that each rank reduces and the other takes, from blocks of results.
void shares_are_streamed(Trial& trial) { (new Host(trial))->all_reduce(32, 1); }
// Who has been read in place writes there again.
void buffers_are_viewed(Trial& trial) { (new Host(trial, true))->broadcast(32, 1); }

TEST(ExchangeOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"exchange.cc"}, {a_sum_lies_in_posts, posts_come_round, slots_come_round,
                                                 blocks_come_round, shares_are_streamed, buffers_are_viewed}),
            "");
}

}  // namespace
}  // namespace banyan::testing::orders
