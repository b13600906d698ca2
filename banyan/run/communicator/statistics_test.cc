#include "banyan/run/communicator/statistics.h"

#include <unistd.h>

#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

Statistics with_reroutes(uint64_t reroutes) {
  Statistics statistics;
  statistics.reroutes = reroutes;
  return statistics;
}

TEST(StatisticsBoard, SumsCommunicatorsOfOneNameAndKeepsWhatEnded) {
  StatisticsBoard board;
  uint64_t reroutes = 1;
  const StatisticsBoard::Entry first = board.enter("world", {.rank = 5}, [&] { return with_reroutes(reroutes); });
  {
    const StatisticsBoard::Entry second = board.enter("world", {}, [] { return with_reroutes(10); });
    const StatisticsBoard::Entry other = board.enter("pipeline", {.rank = 6}, [] { return with_reroutes(100); });
    EXPECT_EQ(board.read().at("world").reroutes, 11u);
    EXPECT_EQ(board.read().at("world").living, 2u);
  }
  reroutes = 2;
  EXPECT_EQ(board.read().at("world").reroutes, 12u);
  EXPECT_EQ(board.read().at("world").living, 1u);
  EXPECT_EQ(board.read().at("pipeline").reroutes, 100u);
  EXPECT_EQ(board.read().at("pipeline").living, 0u);
  EXPECT_EQ(board.place()->rank, 6u);
}

TEST(StatisticsBoard, KeepsABoundedNumberOfNames) {
  StatisticsBoard board;
  for (int i = 0; i < 100; ++i) {
    const StatisticsBoard::Entry entry = board.enter("group " + std::to_string(i), {}, [] { return with_reroutes(1); });
  }
  const auto all = board.read();
  EXPECT_EQ(all.size(), StatisticsBoard::kMostNames + 1);
  EXPECT_EQ(all.at(StatisticsBoard::kOthers).reroutes, 100 - StatisticsBoard::kMostNames);
}

TEST(StatisticsBoard, IsEmptyInAForkedProcess) {
  StatisticsBoard& board = StatisticsBoard::of_process();
  auto* const entry = new StatisticsBoard::Entry(board.enter("parent", {}, [] { return with_reroutes(1); }));
  EXPECT_EQ(&StatisticsBoard::of_process(), &board);
  Child child([&] {
    delete entry;  // is no end of the parent's communicator
    return StatisticsBoard::of_process().read().empty() ? 0 : 1;
  });
  EXPECT_EQ(child.reap(), 0);
  EXPECT_EQ(board.read().at("parent").living, 1u);
  delete entry;
  EXPECT_EQ(board.read().at("parent").living, 0u);
}

}  // namespace
}  // namespace banyan::run
