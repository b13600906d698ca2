// What the engine does when ranks disagree, and when a lane is lost.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/message.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// ---- Ranks that disagree ----

constexpr uint64_t kSequence = 7, kSignature = 0xABCD;

Opening opening(uint64_t sequence = kSequence, uint64_t signature = kSignature) {
  return {.header = {.number = sequence}, .signature = {signature}};
}

std::vector<std::byte> bytes_of(const auto&... parts) {
  std::vector<std::byte> bytes((sizeof parts + ...));
  size_t at = 0;
  const auto put = [&](const auto& part) {
    std::memcpy(bytes.data() + at, &part, sizeof part);
    at += sizeof part;
  };
  (put(parts), ...);
  return bytes;
}

// What a rank of a reduction of 100 floats along a star of three says when another sends it this. Rank 0 is the root,
// and adds what comes from rank 2 first.
std::string refusal_of(uint32_t rank, uint32_t sender, std::span<const std::byte> sent) {
  const Schedule schedule = testing::sample_forest(
      {.kind = CollectiveKind::reduce, .ranks = 3, .trees_per_root = 1, .shape = testing::TreeShape::star});
  testing::SimulatedWorld world({.ranks = 3, .least_capacity = 300});
  Engine engine(world.transport(rank), {.slice_bytes = 4, .window = 2});
  std::vector<std::byte> input(400), output(rank == 0 ? 400 : 0);
  engine.start({.plan = std::make_shared<RankPlan>(make_rank_plan(schedule, 100, rank)),
                .sequence = kSequence,
                .signature = {kSignature},
                .input = input,
                .output = output});
  for (int i = 0; i < 100; ++i) engine.progress();  // what it may send without credit
  world.inject(sender, rank, sent);
  try {
    for (int i = 0; i < 1000; ++i) {
      world.deliver_some();
      engine.progress();
    }
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::mismatch);
    EXPECT_THROW(engine.progress(), Error) << "and again";
    return error.what();
  }
  return "nothing was refused";
}

MessageHeader slice(uint64_t number, uint32_t stream = 0) {
  if (number == 0) return {.stream = stream, .kind = MessageKind::first_slice, .number = 100, .length = 4};
  return {.stream = stream, .kind = MessageKind::slice, .number = number, .length = 4};
}

TEST(EngineFailure, RefusesSlicesWithoutCredit) {
  const float element = 1;
  const auto two = bytes_of(opening(), slice(0), element, slice(1), element);
  EXPECT_EQ(refusal_of(0, 1, two), "nothing was refused");
  const auto three = bytes_of(opening(), slice(0), element, slice(1), element, slice(2), element);
  EXPECT_THAT(refusal_of(0, 1, three), HasSubstr("slice 2 of stream 0"));
}

TEST(EngineFailure, RefusesWhatItsPlanDoesNotExpect) {
  const auto credit = [](uint64_t number, uint32_t stream = 0) {
    return MessageHeader{.stream = stream, .kind = MessageKind::credit, .number = number};
  };
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), slice(0, 9))),
              HasSubstr("rank 1 follows another plan: it sent slice 0 of stream 9"));
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), slice(3))), HasSubstr("slice 3 of stream 0"));
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), credit(3))), HasSubstr("credit for slice 3 of stream 0"));
  EXPECT_THAT(refusal_of(1, 0, bytes_of(opening(), credit(2))), HasSubstr("credit for slice 2"));
  EXPECT_EQ(refusal_of(1, 0, bytes_of(opening(), credit(3))), "nothing was refused");
  EXPECT_THAT(refusal_of(1, 0, bytes_of(opening(), credit(90))), HasSubstr("credit for slice 90"));
  EXPECT_THAT(refusal_of(1, 0, bytes_of(opening(), credit(3, 5))), HasSubstr("of stream 5"));
  EXPECT_THAT(refusal_of(0, 1, std::vector<std::byte>(sizeof(MessageHeader), std::byte{0x55})),
              HasSubstr("rank 1 sent what is no message"));
}

TEST(EngineFailure, NamesWhoIsAtAnotherOperation) {
  EXPECT_THAT(refusal_of(0, 2, bytes_of(opening(kSequence, 0x12))),
              AllOf(HasSubstr("rank 2 is at operation 7 (signature 0000000000000012-"),
                    HasSubstr("where this rank is at operation 7 (signature 000000000000abcd-")));
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(9))), HasSubstr("rank 1 is at operation 9"));
  const float element = 1;
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), slice(0), element, opening(8, 3))),
              HasSubstr("rank 1 is at operation 8 (signature 0000000000000003-"));
  EXPECT_THAT(refusal_of(0, 1, bytes_of(slice(4))),
              HasSubstr("rank 1 sends more than this rank expects of the operation before number 7"));
}

TEST(EngineFailure, NamesWhoSendsAnotherLength) {
  EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), MessageHeader{.kind = MessageKind::first_slice, .number = 99})),
              HasSubstr("rank 1 sends 99 elements where rank 0 expects 100"));
}

TEST(EngineFailure, RefusesSlicesOfAnotherLengthThanThePlanSays) {
  for (const uint64_t length : {uint64_t{0}, uint64_t{3}, uint64_t{5}, uint64_t{1} << 40}) {
    MessageHeader header = slice(0);
    header.length = length;
    EXPECT_THAT(refusal_of(0, 1, bytes_of(opening(), header)),
                HasSubstr("rank 1 sends a slice of " + std::to_string(length) + " bytes where rank 0 expects 4"));
  }
  MessageHeader credit{.kind = MessageKind::credit, .number = 3, .length = 8};
  EXPECT_THAT(refusal_of(1, 0, bytes_of(opening(), credit)), HasSubstr("rank 0 sent what is no message"));
}

// Two ranks call this and that: at least one hears of it, and none waits for ever without one that has.
TEST(EngineFailure, FindsOutWhenCallsCross) {
  const auto kinds = {OperationKind::all_reduce, OperationKind::all_gather, OperationKind::all_to_all,
                      OperationKind::barrier, OperationKind::all_to_all_v};
  uint64_t seed = 0;
  for (const OperationKind one : kinds) {
    for (const OperationKind other : kinds) {
      for (const uint64_t elements : {40, 41}) {
        if (one == other && (elements == 40 || one == OperationKind::barrier || one == OperationKind::all_to_all_v))
          continue;
        ++seed;
        TestOperation mine({.kind = one, .ranks = 4, .elements = 40});
        TestOperation theirs({.kind = other, .ranks = 4, .elements = elements, .seed = 2});
        testing::SimulatedWorld world({.ranks = 4, .seed = seed});
        std::vector<std::unique_ptr<Engine>> engines;
        for (uint32_t rank = 0; rank < 4; ++rank) {
          engines.push_back(std::make_unique<Engine>(world.transport(rank), EngineOptions{.slice_bytes = 64}));
          engines[rank]->start((rank == 2 ? mine : theirs).command(rank, 1));
        }
        std::string refusal;
        for (int i = 0; i < 5000 && refusal.empty(); ++i) {
          world.deliver_some();
          try {
            engines[world.draw(4)]->progress();
          } catch (const Error& error) {
            EXPECT_EQ(error.code(), ErrorCode::mismatch);
            refusal = error.what();
          }
        }
        EXPECT_THAT(refusal, HasSubstr("rank ")) << mine.words() << " against " << theirs.words();
      }
    }
  }
}

TEST(EngineFailure, GivesBothSidesOfAMismatch) {
  testing::SimulatedWorld world({.ranks = 2});
  Engine first(world.transport(0), {}), second(world.transport(1), {});
  const auto barrier = [](uint32_t rank) { return std::make_shared<RankPlan>(make_barrier_plan({rank, 2})); };
  first.start({.plan = barrier(0), .sequence = 5, .signature = {1}});
  second.start({.plan = barrier(1), .sequence = 5, .signature = {2}});
  try {
    for (int i = 0; i < 1000; ++i) {
      world.deliver_some();
      second.progress();
      first.progress();
    }
    ADD_FAILURE() << "nobody noticed";
  } catch (const MismatchError& error) {
    EXPECT_EQ(error.peer(), 1u);
    EXPECT_EQ(error.own().signature[0], 1u);
    EXPECT_EQ(error.others().signature[0], 2u);
    EXPECT_EQ(error.others().sequence, 5u);
  }
}

// ---- Ranks that are late ----

TEST(EngineFailure, SaysWhomItWaitsFor) {
  // A chain of three: 0 is the root, 1 in the middle.
  const Schedule schedule = testing::sample_forest(
      {.kind = CollectiveKind::reduce, .ranks = 3, .trees_per_root = 1, .shape = testing::TreeShape::path, .seed = 2});
  testing::SimulatedWorld world({.ranks = 3, .least_capacity = 5000, .most_capacity = 5000});
  std::vector<std::unique_ptr<Engine>> engines;
  std::vector<std::vector<std::byte>> buffers(3, std::vector<std::byte>(40));
  std::vector<uint32_t> below(3, 3), above(3, 3);  // by rank, who is there in the chain; 3 is nobody
  for (uint32_t rank = 0; rank < 3; ++rank) {
    engines.push_back(std::make_unique<Engine>(world.transport(rank), EngineOptions{.slice_bytes = 8, .window = 2}));
    const RankPlan plan = make_rank_plan(schedule, 10, rank);
    if (plan.roles[0].in_parent) above[rank] = plan.roles[0].in_parent->peer;
    if (!plan.roles[0].in_children.empty()) below[rank] = plan.roles[0].in_children[0].peer;
  }
  const auto start = [&](uint32_t rank) {
    const RankPlan plan = make_rank_plan(schedule, 10, rank);
    engines[rank]->start({.plan = std::make_shared<RankPlan>(plan),
                          .sequence = 3,
                          .input = buffers[rank],
                          .output = std::span(buffers[rank]).first(plan.output_elements * 4)});
  };
  const auto work = [&](uint32_t rank) {
    for (int i = 0; i < 500; ++i) {
      while (world.deliver_some()) {
      }
      engines[rank]->progress();
    }
  };
  ASSERT_EQ(above[0], 3u);
  const uint32_t middle = below[0], leaf = below[middle];
  start(0);
  start(leaf);
  work(leaf);
  work(0);
  ASSERT_EQ(engines[0]->waiting_for().size(), 1u);
  EXPECT_THAT(engines[0]->waiting_for()[0].peers, ElementsAre(middle));
  EXPECT_EQ(engines[0]->waiting_for()[0].sequence, 3u);
  // The leaf has sent a window of two slices, and waits for credit.
  EXPECT_THAT(engines[leaf]->waiting_for()[0].peers, ElementsAre(middle));
  EXPECT_EQ(world.bytes_written(leaf), sizeof(Opening) + 2 * (sizeof(MessageHeader) + 8));
  start(middle);
  for (int i = 0; i < 20; ++i) {
    for (uint32_t rank = 0; rank < 3; ++rank) work(rank);
  }
  for (const auto& engine : engines) EXPECT_TRUE(engine->waiting_for().empty() && engine->is_idle());
}

// ---- Lanes that are lost ----

TEST(EngineFailure, RepeatsOnOtherLanesWhereverOneIsLost) {
  uint64_t losses = 0;
  for (uint64_t seed = 1; seed <= 2000; ++seed) {
    RandomWorld world(seed, 6);
    world.engine = {.slice_bytes = 1 + world.below(100), .can_rewind = true};
    for (uint64_t i = 0; i < 1 + seed % 4; ++i) {
      world.add([](TestOperation::Options& options) { options.is_confirmed = true; });
    }
    ASSERT_EQ(world.fault(1 + world.below(400)), "");
    losses += world.losses;
  }
  EXPECT_GT(losses, 2000u) << "lanes were lost";
}

}  // namespace
}  // namespace banyan::run
