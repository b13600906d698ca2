#include "banyan/run/host/offer.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSlot = 64 << 10, kBlock = 256 << 10;

OfferChoice choice(uint32_t rank, uint32_t ranks, bool may_attach = false) {
  return OfferChoice(
      {.rank = rank, .ranks = ranks, .block_bytes = kBlock, .slot_bytes = kSlot, .may_attach = may_attach});
}

HostTask all_reduce(uint64_t bytes, uint32_t ranks) {
  HostTask task;
  task.kind = HostTask::Kind::all_reduce;
  task.input_bytes = task.output_bytes = bytes;
  task.offered = task.taken = Pieces::even((bytes + ranks - 1) / ranks, bytes);
  task.share_takers = HostTask::kAll;
  return task;
}

HostTask broadcast(uint32_t root, uint32_t rank, uint64_t bytes) {
  HostTask task;
  task.kind = HostTask::Kind::move;
  task.input_bytes = rank == root ? bytes : 0;
  if (rank == root) task.offered = Pieces::same(bytes);
  task.taken = Pieces::only(root, bytes);
  return task;
}

Offer chosen(const OfferChoice& choice, const HostTask& task) {
  Offer offer;
  choice.choose(task, choice.everybody_reduces(task), offer);
  return offer;
}

TEST(Offer, OfASmallAllReduceIsAllOfItForEverybody) {
  const OfferChoice four = choice(1, 4);
  const HostTask task = all_reduce(8 << 10, 4);
  ASSERT_TRUE(four.everybody_reduces(task));
  const Offer offer = chosen(four, task);
  EXPECT_EQ(offer.kind, OfferKind::staged);
  EXPECT_TRUE(offer.pieces.is_for_all());
  EXPECT_EQ(offer.largest, 8u << 10);
}

TEST(Offer, OfFewBytesLiesInThePost) {
  EXPECT_EQ(chosen(choice(0, 4), all_reduce(8, 4)).kind, OfferKind::inline_);
  EXPECT_EQ(chosen(choice(2, 4), broadcast(2, 2, 16)).kind, OfferKind::inline_);
}

TEST(Offer, OfALargeAllReduceIsStreamedByShares) {
  const OfferChoice four = choice(3, 4);
  const HostTask task = all_reduce(1 << 20, 4);
  EXPECT_FALSE(four.everybody_reduces(task));
  const Offer offer = chosen(four, task);
  EXPECT_EQ(offer.kind, OfferKind::streamed);
  EXPECT_EQ(offer.largest, 256u << 10);
}

TEST(Offer, IsAttachedToBetweenTheSizesWhereThatIsQuicker) {
  const ExchangeTuning tuning;
  const OfferChoice two = choice(0, 2, true);
  EXPECT_EQ(chosen(two, all_reduce(tuning.least_attached_sum - 128, 2)).kind, OfferKind::staged);
  EXPECT_EQ(chosen(two, all_reduce(4 * tuning.most_attached_sum, 2)).kind, OfferKind::streamed);
  EXPECT_EQ(chosen(two, all_reduce(1 << 20, 2)).kind, OfferKind::attached);
}

TEST(Offer, OfABroadcastBetweenTwoIsAttachedToAndStreamed) {
  const ExchangeTuning tuning;
  const uint64_t bytes = 2 * tuning.least_split;
  const Offer split = chosen(choice(0, 2, true), broadcast(0, 0, bytes));
  EXPECT_EQ(split.kind, OfferKind::streamed);
  EXPECT_EQ(split.front, bytes / 4 * 3);
  const Offer small = chosen(choice(0, 2, true), broadcast(0, 0, tuning.least_split - 1));
  EXPECT_EQ(small.kind, OfferKind::attached);
  EXPECT_EQ(small.front, 0u);
  EXPECT_EQ(chosen(choice(0, 2, true), broadcast(0, 0, tuning.most_split + 1)).kind, OfferKind::attached);
  EXPECT_EQ(chosen(choice(0, 3, true), broadcast(0, 0, bytes)).front, 0u);
  EXPECT_EQ(chosen(choice(0, 2, false), broadcast(0, 0, bytes)).front, 0u);
}

TEST(Offer, OfWhoGivesNothingToOthersIsNone) {
  EXPECT_EQ(chosen(choice(0, 4), broadcast(2, 0, 1 << 20)).kind, OfferKind::none);
  EXPECT_EQ(chosen(choice(0, 1), all_reduce(1 << 20, 1)).kind, OfferKind::none);
  HostTask gather;
  gather.kind = HostTask::Kind::move;
  gather.input_bytes = 1 << 20;
  gather.offered = Pieces::only(0, 1 << 20);
  gather.taken = Pieces::even(1 << 20, 4 << 20);
  EXPECT_EQ(chosen(choice(0, 4), gather).kind, OfferKind::none);
  EXPECT_EQ(chosen(choice(1, 4), gather).kind, OfferKind::streamed);
}

// Ranks reduce blocks of a stream together.
TEST(Offer, OfAReductionHasBlocksOfOneSizeOnAllRanks) {
  for (const uint64_t bytes : {uint64_t{100'000}, uint64_t{1} << 20, (uint64_t{1} << 24) + 12}) {
    for (const bool may_attach : {false, true}) {
      const uint64_t first = chosen(choice(0, 5, may_attach), all_reduce(bytes, 5)).block;
      for (uint32_t rank = 1; rank < 5; ++rank) {
        EXPECT_EQ(chosen(choice(rank, 5, may_attach), all_reduce(bytes, 5)).block, first) << bytes << " at " << rank;
      }
    }
  }
}

}  // namespace
}  // namespace banyan::run
