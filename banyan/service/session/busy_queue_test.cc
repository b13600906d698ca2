#include "banyan/service/session/busy_queue.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using Queue = BusyQueue<int>;

// One round that has so many steps, at most, which go to those that were offered first.
struct Round {
  std::vector<int> offered, stepped;
  bool others_wait = false;

  template <typename After>
  Round(Queue& queue, size_t steps, const After& after) {
    others_wait = queue.offer([&](int item) { offered.push_back(item); });
    stepped.assign(offered.begin(), offered.begin() + static_cast<ptrdiff_t>(std::min(steps, offered.size())));
    queue.settle([&](int item) {
      const bool has_stepped = std::find(stepped.begin(), stepped.end(), item) != stepped.end();
      return has_stepped ? after(item) : AfterTurn::stays;
    });
  }
};

TEST(BusyQueue, OffersThoseThatHaveWaitedLongest) {
  Queue queue;
  EXPECT_TRUE(queue.is_empty());
  for (int item = 0; item < 4; ++item) queue.add(item);
  const auto once_more_but_2 = [](int item) { return item == 2 ? AfterTurn::leaves : AfterTurn::waits_again; };
  EXPECT_THAT(Round(queue, 1, once_more_but_2).offered, ::testing::ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(Round(queue, 2, once_more_but_2).offered, ::testing::ElementsAre(1, 2, 3, 0));
  EXPECT_THAT(Round(queue, 3, once_more_but_2).offered, ::testing::ElementsAre(3, 0, 1));
  const auto place = queue.add(9);
  queue.add(8);
  queue.remove(place);
  EXPECT_THAT(Round(queue, 9, [](int) { return AfterTurn::leaves; }).offered, ::testing::ElementsAre(3, 0, 1, 8));
  EXPECT_TRUE(queue.is_empty());
}

// A user rings for all of its sessions, and none has anything.
TEST(BusyQueue, OffersRingsForNothingSoOftenAsTheyAreManyAndNotTheSquareOfThat) {
  constexpr int kRings = 100'000;
  constexpr size_t kSteps = 8;  // of a round
  Queue queue;
  for (int item = 0; item < kRings; ++item) queue.add(item);
  size_t offered = 0, rounds = 0;
  for (; !queue.is_empty(); ++rounds) {
    const Round round(queue, kSteps, [](int) { return AfterTurn::leaves; });
    ASSERT_EQ(round.others_wait, rounds < (kRings - Queue::kMostAtOnce) / kSteps) << "round " << rounds;
    offered += round.offered.size();
  }
  EXPECT_EQ(rounds, kRings / kSteps);
  EXPECT_LE(offered, kRings * Queue::kMostAtOnce / kSteps);
}

TEST(BusyQueue, GivesManyThatAlwaysHaveWorkTheSameTurns) {
  constexpr int kItems = 1000;
  Queue queue;
  for (int item = 0; item < kItems; ++item) queue.add(item);
  std::map<int, int> turns;
  for (int rounds = 0; rounds < 7 * kItems; ++rounds) {
    for (const int item : Round(queue, 3, [](int) { return AfterTurn::waits_again; }).stepped) ++turns[item];
  }
  for (int item = 0; item < kItems; ++item) EXPECT_EQ(turns[item], 21) << item;
}

}  // namespace
}  // namespace banyan::service
