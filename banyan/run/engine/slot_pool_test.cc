#include "banyan/run/engine/slot_pool.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(SlotPool, GivesWhatWasGivenBack) {
  SlotPool pool;
  std::byte* const first = pool.take(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  std::memset(first, 1, 1000);
  pool.give_back(first, 1000);
  EXPECT_EQ(pool.take(600), first) << "of about the same size";
  std::byte* const second = pool.take(600);
  EXPECT_NE(second, first);
  EXPECT_EQ(pool.taken_bytes(), 2048u);
  pool.give_back(second, 600);
  EXPECT_EQ(pool.taken_bytes(), 1024u);
  EXPECT_EQ(pool.held_bytes(), 2048u);
  pool.give_back(first, 600);
}

TEST(SlotPool, TakesSizesAroundPowersOfTwo) {
  for (const size_t size : {1u, 63u, 64u, 65u, 127u, 128u, 129u, 4095u, 4096u, 4097u}) {
    SlotPool pool;
    std::byte* const block = pool.take(size);
    std::memset(block, 2, size);
    EXPECT_GE(pool.held_bytes(), size);
    EXPECT_LT(pool.held_bytes(), 2 * size + 64);
    pool.give_back(block, size);
    EXPECT_EQ(pool.taken_bytes(), 0u);
  }
}

}  // namespace
}  // namespace banyan::run
