// Slices that are fewer bytes on the wire than the plan says.

#include "banyan/run/engine/engine.h"
#include "banyan/run/engine/message.h"
#include "banyan/run/engine/test_fleet.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::run {
namespace {

// Zeroes by their number: a 0 and how many more follow; all other bytes as they are. Nothing but zeroes is no bytes.
class ZeroRuns : public SliceCodec {
 public:
  size_t most_bytes(element::DataType type, size_t elements) const override { return 2 * elements * size_of(type); }

  size_t encode(const Slice& slice, std::span<std::byte> coded) override {
    const std::span<const std::byte> plain = slice.plain;
    plain_bytes += plain.size();
    if (std::all_of(plain.begin(), plain.end(), [](std::byte each) { return each == std::byte{0}; })) return 0;
    size_t size = 0;
    for (size_t i = 0; i < plain.size(); ++i) {
      coded[size++] = plain[i];
      if (plain[i] != std::byte{0}) continue;
      size_t more = 0;
      while (more < 255 && i + 1 < plain.size() && plain[i + 1] == std::byte{0}) ++more, ++i;
      coded[size++] = static_cast<std::byte>(more);
    }
    coded_bytes += size;
    return size;
  }

  void decode(element::DataType, std::span<const std::byte> coded, std::span<std::byte> plain, float) override {
    size_t at = 0;
    const auto put = [&](std::byte value) {
      if (at == plain.size()) throw Error(ErrorCode::invalid_input, "a slice decodes to too many bytes");
      plain[at++] = value;
    };
    for (size_t i = 0; i < coded.size(); ++i) {
      put(coded[i]);
      if (coded[i] != std::byte{0}) continue;
      if (++i == coded.size()) throw Error(ErrorCode::invalid_input, "a run of zeroes has no length");
      for (size_t more = std::to_integer<size_t>(coded[i]); more > 0; --more) put(std::byte{0});
    }
    if (coded.empty()) std::fill(plain.begin(), plain.end(), std::byte{0});
    if (!coded.empty() && at < plain.size()) throw Error(ErrorCode::invalid_input, "a slice decodes to too few bytes");
  }

  size_t plain_bytes = 0, coded_bytes = 0;
};

// Adds operations to a world.
using Draw = std::function<void(RandomWorld& world)>;

void add_coded(RandomWorld& world, SliceCodec* codec) {
  world.add([&](TestOperation::Options& options) {
    options.is_confirmed = true;
    options.codec = codec;
  });
}

void expect_right_in_any_world(uint32_t most_ranks, const Draw& draw) {
  for (uint64_t seed = 1; seed <= 1000; ++seed) {
    RandomWorld world(seed, most_ranks);
    draw(world);
    if (world.below(2) == 0) world.step_budget = 1 + world.below(100);
    ASSERT_EQ(world.fault(), "");
  }
}

// Three operations at a time, whose lanes are lost by chance.
void expect_right_after_losses(uint64_t seeds, const Draw& draw) {
  uint32_t losses = 0;
  for (uint64_t seed = 1; seed <= seeds; ++seed) {
    RandomWorld world(seed);
    world.engine = {.slice_bytes = 64, .can_rewind = true};
    for (int i = 0; i < 3; ++i) draw(world);
    ASSERT_EQ(world.fault(200), "");
    losses += world.losses;
  }
  EXPECT_GT(losses, 50u);
}

TEST(EngineCodec, GivesTheSameResultsInAnyWorld) {
  ZeroRuns codec;
  expect_right_in_any_world(6, [&](RandomWorld& world) {
    add_coded(world, &codec);
    add_coded(world, nullptr);
  });
}

// A result is encoded once, whoever it is sent to: here by each rank, to three others.
TEST(EngineCodec, SendsTheBytesThatItWroteAndNoMore) {
  ZeroRuns codec;
  std::vector<TestOperation> operations;
  operations.push_back(TestOperation({.kind = OperationKind::all_gather,
                                      .ranks = 4,
                                      .type = element::DataType::int64,
                                      .elements = 1000,
                                      .shape = testing::TreeShape::star,
                                      .codec = &codec}));
  Fleet fleet(4, {.slice_bytes = 256}, {.ranks = 4, .seed = 3});
  ASSERT_TRUE(fleet.run(operations));
  EXPECT_EQ(operations[0].wrong_elements(), 0u);
  uint64_t written = 0, messages = 0;
  for (uint32_t rank = 0; rank < 4; ++rank) {
    written += fleet.world().bytes_written(rank);
    messages += fleet.engine(rank).messages_sent();
  }
  EXPECT_EQ(written, 3 * codec.coded_bytes + messages * sizeof(MessageHeader) + 4 * 3 * sizeof(Opening));
}

TEST(EngineCodec, RepeatsSlicesAfterALoss) {
  ZeroRuns codec;
  expect_right_after_losses(100, [&](RandomWorld& world) { add_coded(world, &codec); });
}

// Whole numbers to the next multiple of 16, in two bytes, in blocks of 8 elements whose coded form has a byte more. Not
// a projection: what it decodes would be encoded differently, so that a result that is encoded twice is found out.
class Sixteens : public SliceCodec {
 public:
  bool is_lossy() const override { return true; }
  uint64_t block_elements() const override { return 8; }
  size_t most_bytes(element::DataType, size_t elements) const override { return 2 * elements + (elements + 7) / 8; }

  size_t encode(const Slice& slice, std::span<std::byte> coded) override {
    const auto* const plain = reinterpret_cast<const float*>(slice.plain.data());
    const size_t count = slice.plain.size() / sizeof(float);
    for (size_t i = 0; i < count; ++i) {
      float value = plain[i];
      if (slice.residual != nullptr) value += reinterpret_cast<const float*>(slice.residual)[i];
      const auto code = static_cast<int16_t>(std::floor(value / 16));
      std::memcpy(coded.data() + 2 * i, &code, 2);
      if (slice.lost != nullptr) reinterpret_cast<float*>(slice.lost)[i] = value - decoded(code);
    }
    std::fill(coded.begin() + static_cast<ptrdiff_t>(2 * count), coded.end(), std::byte{0xC0});
    encodings += count;
    return most_bytes(slice.type, count);
  }

  void decode(element::DataType, std::span<const std::byte> coded, std::span<std::byte> plain, float factor) override {
    for (size_t i = 0; i < plain.size() / sizeof(float); ++i) {
      int16_t code;
      std::memcpy(&code, coded.data() + 2 * i, 2);
      reinterpret_cast<float*>(plain.data())[i] = decoded(code) * factor;
    }
  }

  size_t encodings = 0;  // elements

 private:
  static float decoded(int16_t code) { return 16.0F * code - 3; }
};

constexpr std::array kLossyKinds = {OperationKind::all_gather,   OperationKind::reduce_scatter,
                                    OperationKind::all_reduce,   OperationKind::broadcast,
                                    OperationKind::reduce,       OperationKind::all_gather_v,
                                    OperationKind::all_to_all_v, OperationKind::reduce_scatter_v};

void add_lossy(RandomWorld& world, SliceCodec* codec) {
  world.add([&](TestOperation::Options& options) {
    options.kind = kLossyKinds[world.below(kLossyKinds.size())];
    options.type = element::DataType::float32;
    options.op = world.below(2) == 0 ? element::ReduceOp::sum : element::ReduceOp::avg;
    options.is_confirmed = true;
    options.codec = codec;
    options.has_residual = true;
  });
}

// The law of lossy codecs: what ranks had is in the result or in what they keep.
TEST(EngineCodec, LosesNothingThatIsNotKept) {
  Sixteens codec;
  expect_right_in_any_world(7, [&](RandomWorld& world) {
    for (int i = 0; i < 2; ++i) add_lossy(world, &codec);
  });
}

TEST(EngineCodec, LosesNothingThatIsNotKeptAfterALossOfLanes) {
  Sixteens codec;
  expect_right_after_losses(200, [&](RandomWorld& world) { add_lossy(world, &codec); });
}

// A rank encodes each of its contributions once, and a root each result: of n ranks that is n for each element.
TEST(EngineCodec, EncodesEachElementOnceAtEachRank) {
  Sixteens codec;
  std::vector<TestOperation> operations;
  operations.push_back(TestOperation({.ranks = 5, .elements = 1000, .codec = &codec, .has_residual = true}));
  Fleet fleet(5, {.slice_bytes = 256}, {.ranks = 5, .seed = 4});
  ASSERT_TRUE(fleet.run(operations));
  EXPECT_EQ(operations[0].wrong_elements(), 0u);
  EXPECT_EQ(codec.encodings, 5u * 1000);
}

// A slice has as many bytes on the wire with a codec as without: 4 KiB of floats, or 240 blocks of 17 bytes.
TEST(EngineCodec, FillsSlicesOnTheWire) {
  const auto messages = [](SliceCodec* codec, size_t elements) {
    std::vector<TestOperation> operations;
    operations.push_back(TestOperation({.kind = OperationKind::broadcast,
                                        .ranks = 2,
                                        .elements = elements,
                                        .trees_per_root = 1,
                                        .codec = codec,
                                        .has_residual = codec != nullptr}));
    Fleet fleet(2, {.slice_bytes = 4096, .window = 1000}, {.ranks = 2, .seed = 6});
    EXPECT_TRUE(fleet.run(operations));
    EXPECT_EQ(operations[0].wrong_elements(), 0u);
    return fleet.engine(0).messages_sent();
  };
  Sixteens codec;
  constexpr size_t kBlocks = 4096 / 17;
  EXPECT_EQ(messages(&codec, 5 * kBlocks * 8), messages(nullptr, 5 * 1024));
  EXPECT_EQ(messages(&codec, 5 * kBlocks * 8 + 1), messages(nullptr, 5 * 1024) + 1);
}

// What rank 1 of a broadcast of 10 floats from rank 0 says when it gets these bytes as its only slice.
std::string refusal_of(std::span<const std::byte> body, uint64_t length) {
  const Schedule schedule =
      testing::sample_forest({.kind = CollectiveKind::broadcast, .ranks = 2, .trees_per_root = 1});
  testing::SimulatedWorld world({.ranks = 2, .least_capacity = 300});
  ZeroRuns codec;
  Engine engine(world.transport(1), {});
  std::vector<std::byte> output(40);
  engine.start({.plan = std::make_shared<RankPlan>(make_rank_plan(schedule, 10, 1)),
                .sequence = 1,
                .output = output,
                .codec = &codec});
  struct {
    Opening opening{.header = {.number = 1, .length = 32}};
    MessageHeader slice{.kind = MessageKind::first_slice, .number = 10};
  } head;
  head.slice.length = length;
  world.inject(0, 1, std::as_bytes(std::span(&head, 1)));
  world.inject(0, 1, body);
  try {
    for (int i = 0; i < 1000; ++i) {
      world.deliver_some();
      engine.progress();
    }
  } catch (const Error& error) {
    return error.what();
  }
  return engine.is_idle() ? "nothing was refused" : "it waits for more";
}

TEST(EngineCodec, RefusesSlicesThatAreTooLongOrDoNotDecode) {
  const auto bytes = [](std::vector<uint8_t> values) {
    std::vector<std::byte> made;
    for (const uint8_t value : values) made.push_back(std::byte{value});
    return made;
  };
  EXPECT_EQ(refusal_of({}, 0), "nothing was refused");
  EXPECT_EQ(refusal_of(bytes({0, 38, 1}), 3), "nothing was refused");
  EXPECT_THAT(refusal_of({}, 81), HasSubstr("rank 0 sends a slice of 81 bytes where rank 1 expects at most 80"));
  EXPECT_THAT(refusal_of({}, uint64_t{1} << 60), HasSubstr("expects at most 80"));
  EXPECT_THAT(refusal_of(bytes({0, 40}), 2), HasSubstr("too many bytes"));
  EXPECT_THAT(refusal_of(bytes({0, 38}), 2), HasSubstr("too few bytes"));
  EXPECT_THAT(refusal_of(bytes({7, 0}), 2), HasSubstr("has no length"));
}

}  // namespace
}  // namespace banyan::run
