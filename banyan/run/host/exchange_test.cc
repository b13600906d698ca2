// All ranks of a host in one thread, advanced in an order that a seed decides; and one of them stops at every possible
// step. Nothing may hang unseen: whoever does not finish must be waiting, directly or through others, for the one that
// stopped; whoever finishes must have the right answer.
#include "banyan/run/host/exchange.h"

#include <unistd.h>

#include "banyan/run/host/test_tasks.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr std::array kKinds = {OperationKind::all_reduce, OperationKind::reduce,         OperationKind::broadcast,
                               OperationKind::all_gather, OperationKind::reduce_scatter, OperationKind::all_to_all,
                               OperationKind::gather,     OperationKind::scatter,        OperationKind::barrier};

struct Scene {
  uint32_t ranks = 2;
  bool regions = false, attach = false;
  std::vector<std::pair<OperationKind, uint64_t>> operations = {};  // with a count
  uint64_t seed = 1;
  std::optional<uint32_t> victim = {};
  uint64_t victim_steps = 0;  // advances that it makes before it stops
};

int32_t value(size_t operation, uint32_t rank, uint64_t position) {
  return static_cast<int32_t>(operation * 1000 + rank * 77 + position * 3);
}

class Stage {
 public:
  explicit Stage(const Scene& scene)
      : scene_(scene), segment_(Segment::make({.ranks = scene.ranks, .block_bytes = 4096})), random_(scene.seed) {
    for (uint32_t rank = 0; rank < scene.ranks; ++rank) {
      std::vector<std::unique_ptr<PeerRegions>> peers(scene.ranks);
      for (auto& peer : peers) peer = std::make_unique<PeerRegions>(getpid(), pool_.directory_fd());
      Actor& actor = actors_.emplace_back();
      actor.exchange =
          std::make_unique<Exchange>(segment_, Exchange::Options{.rank = rank,
                                                                 .own_regions = &pool_,
                                                                 .peers = std::move(peers),
                                                                 .may_attach = scene.attach,
                                                                 .tuning = {.everybody_reduces = 400,
                                                                            .everybody_reduces_views = 2000,
                                                                            .least_viewed = 64,
                                                                            .most_staged = 600,
                                                                            .least_block = 128,
                                                                            .least_attached_sum = 100,
                                                                            .least_attached_move = 100,
                                                                            .least_split = 300}});
      actor.input = buffer();
      actor.output = buffer();
    }
  }
  ~Stage() {
    for (Actor& actor : actors_) {
      release(actor.input);
      release(actor.output);
    }
  }

  // Returns how many advances the victim (or rank 0) made in all, were it to go on.
  uint64_t play() {
    uint64_t advances = 0, idle = 0;
    while (idle < 50 * scene_.ranks) {
      const uint32_t rank = static_cast<uint32_t>(random_() % scene_.ranks);
      Actor& actor = actors_[rank];
      const bool is_victim = rank == scene_.victim.value_or(0);
      if (actor.operation == scene_.operations.size()) {
        ++idle;
        continue;
      }
      if (scene_.victim == rank && advances >= scene_.victim_steps) {
        ++idle;
        continue;
      }
      const uint64_t before = actor.exchange->steps();
      advances += is_victim ? 1 : 0;
      if (!actor.is_started) begin(rank);
      if (actor.exchange->advance()) {
        expect_right(rank);
        actor.is_started = false;
        ++actor.operation;
      }
      idle = actor.exchange->steps() == before ? idle + 1 : 0;
    }
    return advances;
  }

  void expect_all_done() const {
    for (const Actor& actor : actors_) EXPECT_EQ(actor.operation, scene_.operations.size()) << describe();
  }

  void expect_waiting_for_the_victim() const {
    for (uint32_t rank = 0; rank < scene_.ranks; ++rank) {
      uint32_t at = rank;
      for (uint32_t hops = 0; hops <= scene_.ranks && at != *scene_.victim; ++hops) {
        if (actors_[at].operation == scene_.operations.size()) break;
        at = actors_[at].exchange->waiting_for();
      }
      const bool is_done = actors_[rank].operation == scene_.operations.size();
      EXPECT_TRUE(is_done || at == *scene_.victim) << "rank " << rank << " waits for nobody; " << describe();
    }
  }

 private:
  static constexpr size_t kBufferBytes = 64 << 10;

  struct Actor {
    std::unique_ptr<Exchange> exchange;
    HostTask task = {};  // of the operation
    TaskLists lists = {};
    size_t operation = 0;
    bool is_started = false;
    std::byte *input = nullptr, *output = nullptr;
  };

  std::byte* buffer() { return scene_.regions ? pool_.allocate(kBufferBytes) : new std::byte[kBufferBytes]; }
  void release(std::byte* data) {
    if (scene_.regions) {
      pool_.free(data);
    } else {
      delete[] data;
    }
  }

  void begin(uint32_t rank) {
    Actor& actor = actors_[rank];
    const testing::CallShape shape = shape_of(actor.operation);
    auto* const in = reinterpret_cast<int32_t*>(actor.input);
    for (uint64_t i = 0; i < shape.sent(rank); ++i) in[i] = value(actor.operation, rank, i);
    const HostCall call{.rank = rank,
                        .ranks = scene_.ranks,
                        .signature = actor.operation,
                        .record = {},
                        .element_bytes = 4,
                        .send = actor.input,
                        .recv = actor.output};
    actor.task = task_of(shape, call, actor.lists);
    actor.exchange->start(actor.task);
    actor.is_started = true;
  }

  testing::CallShape shape_of(size_t operation) const {
    const auto [kind, count] = scene_.operations[operation];
    return {
        .kind = kind, .ranks = scene_.ranks, .count = count, .root = static_cast<uint32_t>(operation) % scene_.ranks};
  }

  void expect_right(uint32_t rank) {
    const size_t operation = actors_[rank].operation;
    const auto* const out = reinterpret_cast<const int32_t*>(actors_[rank].output);
    for (const testing::CallShape::Piece& piece : shape_of(operation).pieces(rank)) {
      for (uint64_t i = 0; i < piece.count; ++i) {
        int32_t expected = 0;
        for (uint32_t other = 0; other < scene_.ranks; ++other) {
          if (!piece.from || piece.from == other) expected += value(operation, other, piece.there + i);
        }
        ASSERT_EQ(out[piece.here + i], expected)
            << "operation " << operation << ", rank " << rank << ", element " << piece.here + i << "; " << describe();
      }
    }
  }

  std::string describe() const {
    std::string text = std::to_string(scene_.ranks) + " ranks, seed " + std::to_string(scene_.seed);
    if (scene_.victim) {
      text += ", rank " + std::to_string(*scene_.victim) + " stops after " + std::to_string(scene_.victim_steps);
    }
    for (const auto& [kind, count] : scene_.operations) {
      text += " " + std::string(to_string(kind)) + " x " + std::to_string(count);
    }
    return text + (scene_.regions ? ", regions" : "") + (scene_.attach ? ", attached" : "");
  }

  const Scene scene_;
  RegionPool pool_;
  Segment segment_;
  std::mt19937_64 random_;
  std::vector<Actor> actors_;
};

std::vector<std::pair<OperationKind, uint64_t>> random_operations(std::mt19937_64& random) {
  std::vector<std::pair<OperationKind, uint64_t>> operations;
  for (int i = 0; i < 8; ++i) {
    const uint64_t count = random() % (random() % 2 == 0 ? 20 : 1500);
    operations.emplace_back(kKinds[random() % kKinds.size()], count);
  }
  return operations;
}

TEST(Exchange, IsRightInEveryOrderOfEvents) {
  for (uint64_t seed = 1; seed <= 600; ++seed) {
    std::mt19937_64 random(seed);
    Scene scene{
        .ranks = 2 + static_cast<uint32_t>(random() % 3), .regions = random() % 2 == 0, .attach = random() % 2 == 0};
    scene.operations = random_operations(random);
    scene.seed = seed;
    Stage stage(scene);
    stage.play();
    stage.expect_all_done();
    if (HasFailure()) return;
  }
}

// Every kind, way and victim, and every step at which it can stop.
TEST(Exchange, ARankThatStopsAtAnyStepIsWaitedForAndNobodyHangsUnseen) {
  uint64_t stops = 0;
  for (const OperationKind kind : kKinds) {
    for (const uint64_t count : {uint64_t{3}, uint64_t{100}, uint64_t{900}}) {
      for (uint32_t ranks = 2; ranks <= 4; ++ranks) {
        for (const int memory : {0, 1, 2}) {
          Scene scene{.ranks = ranks, .regions = memory == 1, .attach = memory == 2};
          scene.operations = {{kind, count}, {OperationKind::all_reduce, 2}, {kind, count}};
          scene.victim = static_cast<uint32_t>((count + ranks) % ranks);
          scene.victim_steps = UINT64_MAX;
          const uint64_t steps = Stage(scene).play();
          for (scene.victim_steps = 0; scene.victim_steps < steps; scene.victim_steps += 1 + steps / 40) {
            Stage stage(scene);
            stage.play();
            stage.expect_waiting_for_the_victim();
            ++stops;
            if (HasFailure()) return;
          }
        }
      }
    }
  }
  RecordProperty("stops", static_cast<int>(stops));
  EXPECT_GT(stops, 2000u);
}

// Two ranks that can attach to each other, and what they copy into shared memory.
class Pair {
 public:
  explicit Pair(uint64_t bytes) : buffers_(2, std::vector<std::byte>(bytes)), results_(buffers_) {
    for (uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<std::unique_ptr<PeerRegions>> peers(2);
      peers[1 - rank] = std::make_unique<PeerRegions>(getpid(), pool_.directory_fd());
      exchanges_[rank] = std::make_unique<Exchange>(
          segment_, Exchange::Options{.rank = rank, .peers = std::move(peers), .may_attach = true});
      for (uint64_t i = 0; i < bytes / 4; ++i) {
        const int32_t number = value(1, rank, i);
        std::memcpy(buffers_[rank].data() + 4 * i, &number, 4);
      }
    }
  }
  HostCall call(uint32_t rank) {
    return {.rank = rank, .ranks = 2, .element_bytes = 4, .send = buffers_[rank].data(), .recv = results_[rank].data()};
  }
  void play(const std::array<HostTask, 2>& tasks) {
    for (uint32_t rank = 0; rank < 2; ++rank) exchanges_[rank]->start(tasks[rank]);
    std::array<bool, 2> are_over{};
    for (int looks = 0; looks < 100 && !(are_over[0] && are_over[1]); ++looks) {
      for (uint32_t rank = 0; rank < 2; ++rank) are_over[rank] = are_over[rank] || exchanges_[rank]->advance();
    }
    ASSERT_TRUE(are_over[0] && are_over[1]);
  }
  int32_t result(uint32_t rank, uint64_t i) const {
    int32_t number = 0;
    std::memcpy(&number, results_[rank].data() + 4 * i, 4);
    return number;
  }
  // That a rank has written into, of the one operation.
  uint64_t staged_blocks(uint32_t rank) const { return blocks(segment_.staged(rank)); }

 private:
  static uint64_t blocks(const Counter& counter) { return counter.value.load() % (1 << Segment::kBlockBits); }

  RegionPool pool_;
  Segment segment_ = Segment::make({.ranks = 2});
  std::vector<std::vector<std::byte>> buffers_, results_;
  std::array<std::unique_ptr<Exchange>, 2> exchanges_;
};

// The root copies a quarter, and its peer takes the rest by a system call meanwhile.
TEST(Exchange, ARootOfTwoStagesTheLastQuarterOfABroadcast) {
  constexpr uint64_t kCount = 16 << 10, kBlock = 8 << 10;
  Pair pair(4 * kCount);
  pair.play({broadcast_task(pair.call(0), kCount, 0), broadcast_task(pair.call(1), kCount, 0)});
  EXPECT_EQ(pair.staged_blocks(0), 4 * kCount / 4 / kBlock);
  for (uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(pair.result(1, i), value(1, 0, i)) << i;
}

// Who has nothing to offer may run far ahead of those who still read what it offered before.
TEST(Exchange, CallsOfNoBytesSpoilNoEarlierOffer) {
  constexpr size_t kCount = 100;
  const Segment segment = Segment::make({.ranks = 2, .block_bytes = 4096});
  Exchange root(segment, {.rank = 0}), late(segment, {.rank = 1});
  std::vector<uint64_t> sent(kCount), received(kCount);
  for (size_t i = 0; i < kCount; ++i) sent[i] = 1000 + i;
  const HostCall call{.rank = 0,
                      .ranks = 2,
                      .element_bytes = 8,
                      .send = reinterpret_cast<const std::byte*>(sent.data()),
                      .recv = reinterpret_cast<std::byte*>(sent.data())};
  const HostTask first = broadcast_task(call, kCount, 0);
  root.start(first);
  ASSERT_TRUE(root.advance());
  const std::vector<size_t> none(2);
  std::vector<Piece> pieces;
  for (uint64_t ahead = 1; ahead < Segment::kPosts - 1; ++ahead) {
    pieces.clear();
    const HostTask next = reduce_scatter_v_task(call, none, kTestSum, pieces);
    root.start(next);
    ASSERT_TRUE(root.advance()) << ahead;
  }
  const HostTask same = broadcast_task(
      {.rank = 1, .ranks = 2, .element_bytes = 8, .recv = reinterpret_cast<std::byte*>(received.data())}, kCount, 0);
  late.start(same);
  ASSERT_TRUE(late.advance());
  EXPECT_EQ(received, sent);
}

}  // namespace
}  // namespace banyan::run
