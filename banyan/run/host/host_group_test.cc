// Every collective against a serial answer, on threads that take the parts of processes: each maps the shared memory at
// an address of its own.
#include "banyan/run/host/host_group.h"

#include <unistd.h>

#include "banyan/run/host/test_tasks.h"
#include "banyan/run/system/cores.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

class NoWatch : public Watch {
 public:
  void waiting_for(uint32_t) override {}
};

// How the buffers of a rank come about.
enum class Memory { ordinary, region, mixed, attached };

struct Setting {
  uint32_t ranks = 2;
  Memory memory = Memory::ordinary;
  bool in_place = false;
  size_t block_bytes = 4096;
  ExchangeTuning tuning = {};
};

class Host {
 public:
  explicit Host(const Setting& setting)
      : setting_(setting), segment_(Segment::make({.ranks = setting.ranks, .block_bytes = setting.block_bytes})) {}

  const Setting& setting() const { return setting_; }

  void run(const std::function<void(HostGroup&)>& body) {
    std::vector<std::thread> threads;
    for (uint32_t rank = 0; rank < setting_.ranks; ++rank) {
      threads.emplace_back([&, rank] {
        std::vector<std::unique_ptr<PeerRegions>> regions(setting_.ranks);
        for (uint32_t peer = 0; peer < setting_.ranks; ++peer) {
          if (peer != rank) regions[peer] = std::make_unique<PeerRegions>(getpid(), pool_.directory_fd());
        }
        HostGroup group(
            Segment::attach(getpid(), segment_.fd(), {.ranks = setting_.ranks, .block_bytes = setting_.block_bytes}),
            {.rank = rank,
             .own_regions = &pool_,
             .peers = std::move(regions),
             .may_attach = setting_.memory == Memory::attached,
             .tuning = setting_.tuning},
            are_oversubscribed(std::vector<Cores>(setting_.ranks, own_cores())));
        body(group);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }

  // A buffer that frees itself, in a region or not as the setting says.
  using Buffer = std::unique_ptr<std::byte, std::function<void(std::byte*)>>;
  Buffer buffer(uint32_t rank, size_t bytes) {
    const bool in_region = setting_.memory == Memory::region || (setting_.memory == Memory::mixed && rank % 2 == 0);
    if (in_region) return {pool_.allocate(bytes), [this](std::byte* data) { pool_.free(data); }};
    return {new std::byte[bytes + 1], [](std::byte* data) { delete[] data; }};
  }

 private:
  Setting setting_;
  RegionPool pool_;
  Segment segment_;
};

// Depends on operation, rank and position; small, so that sums are exact.
int32_t sample(uint64_t operation, uint32_t rank, uint64_t position) {
  return static_cast<int32_t>((operation * 7 + rank * 1009 + position * 31 + position / 61) % 1021);
}

int32_t sum_of(uint64_t operation, uint32_t ranks, uint64_t position) {
  int32_t sum = 0;
  for (uint32_t rank = 0; rank < ranks; ++rank) sum += sample(operation, rank, position);
  return sum;
}

// One rank's part of one operation: makes buffers, calls, compares.
class Actor {
 public:
  Actor(Host& host, HostGroup& group) : host_(host), group_(group), ranks_(group.ranks()), rank_(group.rank()) {}

  // Pieces of an all-to-allv have gaps between them.
  void call(OperationKind kind, uint64_t operation, uint64_t count, uint32_t root = 0) {
    const testing::CallShape shape{.kind = kind,
                                   .ranks = ranks_,
                                   .count = count,
                                   .root = root,
                                   .parts = testing::uneven_parts(ranks_, count),
                                   .gap = 3};
    prepare(shape, operation);
    group_.run(task_of(shape,
                       {.rank = rank_,
                        .ranks = ranks_,
                        .signature = 1234,
                        .element_bytes = 4,
                        .send = reinterpret_cast<std::byte*>(send_),
                        .recv = reinterpret_cast<std::byte*>(recv_)},
                       lists_),
               watch_);
    for (const testing::CallShape::Piece& piece : shape.pieces(rank_)) {
      for (uint64_t i = 0; i < piece.count; ++i) {
        const int32_t due =
            piece.from ? sample(operation, *piece.from, piece.there + i) : sum_of(operation, ranks_, piece.there + i);
        wrong_ += recv_[piece.here + i] != due ? 1 : 0;
      }
    }
  }

  uint64_t wrong() const { return wrong_; }

 private:
  void prepare(const testing::CallShape& shape, uint64_t operation) {
    const bool in_place = host_.setting().in_place;
    const uint64_t sent = shape.sent(rank_), received = shape.received(rank_);
    const uint64_t send_at = in_place ? shape.send_place(rank_) : 0, recv_at = in_place ? shape.recv_place(rank_) : 0;
    input_ = host_.buffer(rank_, 4 * (in_place ? std::max(sent + send_at, received + recv_at) : sent));
    if (!in_place) output_ = host_.buffer(rank_, 4 * received);
    send_ = reinterpret_cast<int32_t*>(input_.get()) + send_at;
    recv_ = reinterpret_cast<int32_t*>(in_place ? input_.get() : output_.get()) + recv_at;
    for (uint64_t i = 0; i < sent; ++i) send_[i] = sample(operation, rank_, i);
    if (!in_place) std::fill_n(recv_, received, -1);
  }

  Host& host_;
  HostGroup& group_;
  const uint32_t ranks_, rank_;
  NoWatch watch_;
  Host::Buffer input_, output_;
  int32_t *send_ = nullptr, *recv_ = nullptr;
  TaskLists lists_;
  uint64_t wrong_ = 0;
};

std::string name_of(const Setting& setting) {
  const char* const memories[] = {"ordinary", "region", "mixed", "attached"};
  return std::to_string(setting.ranks) + "_ranks_" + memories[static_cast<int>(setting.memory)] +
         (setting.in_place ? "_in_place" : "");
}

class Collectives : public ::testing::TestWithParam<Setting> {};

std::vector<Setting> settings() {
  std::vector<Setting> settings;
  for (const uint32_t ranks : {1u, 2u, 3u, 4u, 7u, 8u}) {
    for (const Memory memory : {Memory::ordinary, Memory::region, Memory::mixed, Memory::attached}) {
      for (const bool in_place : {false, true}) {
        // Small blocks and thresholds, so that few elements already take every path.
        settings.push_back({.ranks = ranks,
                            .memory = memory,
                            .in_place = in_place,
                            .block_bytes = 4096,
                            .tuning = {.everybody_reduces = 1000,
                                       .everybody_reduces_views = 4000,
                                       .least_viewed = 128,
                                       .most_staged = 1024,
                                       .least_block = 128,
                                       .least_attached_sum = 200,
                                       .most_attached_sum = 3000,
                                       .least_attached_move = 100,
                                       .most_attached_move = 3000,
                                       .least_split = 1000,
                                       .streaming_stores = 20'000}});
      }
    }
  }
  return settings;
}
INSTANTIATE_TEST_SUITE_P(Host, Collectives, ::testing::ValuesIn(settings()),
                         [](const auto& test) { return name_of(test.param); });

constexpr std::array kEqualKinds = {OperationKind::all_reduce, OperationKind::reduce,         OperationKind::broadcast,
                                    OperationKind::all_gather, OperationKind::reduce_scatter, OperationKind::all_to_all,
                                    OperationKind::gather,     OperationKind::scatter};

TEST_P(Collectives, AreRightAtEverySizeWithNoBarrierBetween) {
  Host host(GetParam());
  host.run([&](HostGroup& group) {
    Actor actor(host, group);
    uint64_t operation = 0;
    for (const uint64_t count : {0u, 1u, 2u, 5u, 10u, 25u, 26u, 27u, 64u, 127u, 250u, 251u, 500u, 1021u, 4099u}) {
      const uint32_t root = static_cast<uint32_t>(count % group.ranks());
      for (const OperationKind kind : kEqualKinds) actor.call(kind, ++operation, count, root);
      actor.call(OperationKind::barrier, ++operation, 0);
      actor.call(OperationKind::all_gather_v, ++operation, count / 2);
      actor.call(OperationKind::reduce_scatter_v, ++operation, count / 2);
      if (!GetParam().in_place) actor.call(OperationKind::all_to_all_v, ++operation, count);
      ASSERT_EQ(actor.wrong(), 0u) << count << " elements, rank " << group.rank();
    }
  });
}

// Ranks of rooted operations run ahead of each other as far as they may.
TEST_P(Collectives, AreRightInRandomOrder) {
  Host host(GetParam());
  constexpr uint64_t kSeed = 20261121;
  host.run([&](HostGroup& group) {
    std::mt19937_64 random(kSeed);  // the same on all ranks
    Actor actor(host, group);
    for (uint64_t operation = 1; operation <= 400; ++operation) {
      const uint64_t count = random() % (random() % 4 == 0 ? 3000 : 40);
      const uint32_t root = static_cast<uint32_t>(random() % group.ranks());
      const uint64_t drawn = random() % (kEqualKinds.size() + 1);
      const bool is_equal = drawn < kEqualKinds.size();
      actor.call(is_equal ? kEqualKinds[drawn] : OperationKind::all_gather_v, operation, count, root);
      ASSERT_EQ(actor.wrong(), 0u) << "operation " << operation << ", rank " << group.rank() << ", seed " << kSeed;
    }
  });
}

// The order of additions is that of the ranks, whatever the path: so bits do not depend on size, memory or place.
TEST(HostGroup, GivesTheSameBitsOnEveryPath) {
  const auto element = [](uint32_t rank, uint64_t i) {
    std::mt19937 random(static_cast<uint32_t>(rank * 7919 + i));
    return static_cast<float>(random()) * std::ldexp(1.0f, static_cast<int>(random() % 40) - 20);
  };
  constexpr uint64_t kMost = 6000;
  for (const uint32_t ranks : {3u, 4u, 7u}) {
    std::vector<float> expected(kMost);
    for (uint64_t i = 0; i < kMost; ++i) {
      for (uint32_t rank = 0; rank < ranks; ++rank)
        expected[i] = rank == 0 ? element(0, i) : expected[i] + element(rank, i);
    }
    for (const Memory memory : {Memory::ordinary, Memory::region, Memory::mixed}) {
      Host host(
          {.ranks = ranks,
           .memory = memory,
           .tuning = {
               .everybody_reduces = 1000, .everybody_reduces_views = 8000, .least_viewed = 64, .least_block = 256}});
      host.run([&](HostGroup& group) {
        NoWatch watch;
        for (const uint64_t count : {uint64_t{3}, uint64_t{40}, uint64_t{500}, kMost}) {
          const auto send = host.buffer(group.rank(), 4 * count), recv = host.buffer(group.rank(), 4 * count);
          auto* const values = reinterpret_cast<float*>(send.get());
          for (uint64_t i = 0; i < count; ++i) values[i] = element(group.rank(), i);
          group.run(
              all_reduce_task(
                  {.rank = group.rank(), .ranks = ranks, .element_bytes = 4, .send = send.get(), .recv = recv.get()},
                  count, {.type = element::DataType::float32, .op = element::ReduceOp::sum}),
              watch);
          EXPECT_EQ(std::memcmp(recv.get(), expected.data(), 4 * count), 0)
              << count << " elements, " << ranks << " ranks";
        }
      });
    }
  }
}

TEST(HostGroup, NamesTheRankThatCalledSomethingElse) {
  Host host({.ranks = 3});
  std::array<std::string, 3> errors;
  host.run([&](HostGroup& group) {
    NoWatch watch;
    int32_t value = 1;
    HostCall call{.rank = group.rank(), .ranks = 3, .signature = group.rank() == 2 ? 8u : 7u, .element_bytes = 4};
    call.send = call.recv = reinterpret_cast<std::byte*>(&value);
    try {
      group.run(all_reduce_task(call, 1, kTestSum), watch);
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::mismatch);
      group.break_with(error);
      errors[group.rank()] = error.what();
    }
  });
  for (const std::string& error : errors) EXPECT_NE(error.find("called something else"), std::string::npos) << error;
}

TEST(HostGroup, EndsEverybodysOperationWhenOneBreaksIt) {
  Host host({.ranks = 4});
  host.run([&](HostGroup& group) {
    NoWatch watch;
    if (group.rank() == 2) {
      group.break_with(Error(ErrorCode::peer_lost, "rank 9 has gone fishing"));
      return;
    }
    EXPECT_EQ(testing::error_of([&] { group.run(barrier_task({.rank = group.rank(), .ranks = 4}), watch); },
                                ErrorCode::peer_lost),
              "rank 9 has gone fishing");
  });
}

class ImpatientWatch : public Watch {
 public:
  void waiting_for(uint32_t rank) override {
    if (++questions_ > 20) throw Error(ErrorCode::timed_out, "rank " + std::to_string(rank) + " is late");
  }

 private:
  int questions_ = 0;
};

TEST(HostGroup, AsksTheWatchWhomItWaitsFor) {
  Host host({.ranks = 3});
  host.run([&](HostGroup& group) {
    if (group.rank() == 1) return;
    ImpatientWatch watch;
    EXPECT_EQ(testing::error_of([&] { group.run(barrier_task({.rank = group.rank(), .ranks = 3}), watch); }),
              "rank 1 is late");
  });
}

}  // namespace
}  // namespace banyan::run
