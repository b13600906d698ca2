#include "banyan/testing/device_memory.h"

#include "banyan/testing/test.h"

namespace banyan::testing {
namespace {

// One actor does everything in order, so that nothing races.
class Caller {
 public:
  Caller(const MemoryShape& shape, const RankArrays& inputs)
      : memory_(
            shape, inputs, [](uint32_t) { return std::string("the test"); }, ""),
        clock_(1) {}

  DeviceMemory::Values read(const DeviceMemory::Cell& cell) { return memory_.read(cell, next(), clock_); }
  void write(const DeviceMemory::Cell& cell, const DeviceMemory::Values& values) {
    memory_.write(cell, values, next(), clock_);
  }
  RankArrays outputs() const { return memory_.outputs(); }

 private:
  Touch next() {
    clock_.advance(0, ++time_);
    return {.actor = 0, .time = time_};
  }
  DeviceMemory memory_;
  VectorClock clock_;
  uint32_t time_ = 0;
};

MemoryShape shape_of(CollectiveKind kind, bool in_place) {
  return {.kind = kind,
          .ranks = 2,
          .root = 1,
          .total_chunks = 2,
          .scratch_chunks = {1, 1},
          .chunk_elements = 1,
          .in_place = in_place};
}

TEST(CollectiveData, IsWhatEachCollectivePromises) {
  const RankArrays whole = {{1, 2}, {10, 20}}, shards = {{1}, {10}};
  EXPECT_EQ(outputs_for(shape_of(CollectiveKind::all_gather, false), shards), (RankArrays{{1, 10}, {1, 10}}));
  EXPECT_EQ(outputs_for(shape_of(CollectiveKind::reduce_scatter, false), whole), (RankArrays{{11}, {22}}));
  EXPECT_EQ(outputs_for(shape_of(CollectiveKind::all_reduce, false), whole), (RankArrays{{11, 22}, {11, 22}}));
  EXPECT_EQ(outputs_for(shape_of(CollectiveKind::broadcast, false), whole), (RankArrays{{10, 20}, {10, 20}}));
  EXPECT_EQ(outputs_for(shape_of(CollectiveKind::reduce, false), whole), (RankArrays{{}, {11, 22}}));
}

TEST(CollectiveData, DependsOnRankAndPosition) {
  const RankArrays inputs = inputs_for(shape_of(CollectiveKind::all_reduce, false), 1);
  ASSERT_EQ(inputs[0].size(), 2u);
  EXPECT_NE(inputs[0][0], inputs[0][1]);
  EXPECT_NE(inputs[0][0], inputs[1][0]);
  EXPECT_NE(inputs, inputs_for(shape_of(CollectiveKind::all_reduce, false), 2));
}

TEST(CollectiveData, NamesTheFirstElementThatIsWrong) {
  const MemoryShape shape = shape_of(CollectiveKind::all_reduce, false);
  EXPECT_THAT(testing::error_of(
                  [&] {
                    expect_outputs(shape, {{11, 22}, {11, 23}}, {{11, 22}, {11, 22}});
                  },
                  ErrorCode::mismatch),
              HasSubstr("gpu 1 output chunk 1 element 0 is 23, not 22 as the allreduce promises"));
}

TEST(DeviceMemory, KeepsInputAndOutputApartOutOfPlace) {
  Caller caller(shape_of(CollectiveKind::all_reduce, false), {{1, 2}, {10, 20}});
  caller.write({0, BufferKind::output, 0}, {7});
  EXPECT_EQ(caller.read({0, BufferKind::input, 0}), DeviceMemory::Values{1});
  EXPECT_THROW(caller.write({0, BufferKind::input, 0}, {7}), Error);
}

TEST(DeviceMemory, PutsTheShardOfAnAllgatherWhereItBelongs) {
  Caller caller(shape_of(CollectiveKind::all_gather, true), {{1}, {10}});
  EXPECT_EQ(caller.read({0, BufferKind::output, 0}), DeviceMemory::Values{1});
  EXPECT_EQ(caller.read({1, BufferKind::output, 1}), DeviceMemory::Values{10});
  EXPECT_THROW(caller.read({1, BufferKind::output, 0}), Error);
  caller.write({0, BufferKind::output, 1}, {10});
  caller.write({1, BufferKind::output, 0}, {1});
  EXPECT_EQ(caller.outputs(), (RankArrays{{1, 10}, {1, 10}}));
}

TEST(DeviceMemory, TakesTheOutputOfAReduceScatterFromItsInput) {
  Caller caller(shape_of(CollectiveKind::reduce_scatter, true), {{1, 2}, {10, 20}});
  EXPECT_EQ(caller.read({1, BufferKind::output, 0}), DeviceMemory::Values{20});
  caller.write({1, BufferKind::input, 1}, {22});  // the same place
  EXPECT_EQ(caller.read({1, BufferKind::output, 0}), DeviceMemory::Values{22});
  EXPECT_THROW(caller.write({1, BufferKind::input, 0}, {7}), Error);
}

TEST(DeviceMemory, KnowsWhoseBuffersCountInRootedCollectives) {
  Caller reduce(shape_of(CollectiveKind::reduce, true), {{1, 2}, {10, 20}});
  EXPECT_NO_THROW(reduce.write({1, BufferKind::output, 0}, {11}));
  EXPECT_THROW(reduce.write({0, BufferKind::output, 0}, {11}), Error);
  Caller broadcast(shape_of(CollectiveKind::broadcast, false), {{1, 2}, {10, 20}});
  EXPECT_EQ(broadcast.read({1, BufferKind::input, 0}), DeviceMemory::Values{10});
  EXPECT_THROW(broadcast.read({0, BufferKind::input, 0}), Error);
  EXPECT_THROW(broadcast.outputs(), Error);
}

TEST(DeviceMemory, CutsChunksIntoSlicesWithoutGaps) {
  MemoryShape shape = shape_of(CollectiveKind::all_reduce, true);
  shape.chunk_elements = 5;
  shape.slices = 3;
  const RankArrays inputs = inputs_for(shape, 1);
  Caller caller(shape, inputs);
  DeviceMemory::Values joined;
  for (uint32_t slice = 0; slice < 3; ++slice) {
    for (const uint64_t value : caller.read({0, BufferKind::input, 1, slice})) joined.push_back(value);
  }
  ASSERT_EQ(joined.size(), 5u);
  for (size_t i = 0; i < 5; ++i) EXPECT_EQ(static_cast<int64_t>(joined[i]), inputs[0][5 + i]);
}

}  // namespace
}  // namespace banyan::testing
