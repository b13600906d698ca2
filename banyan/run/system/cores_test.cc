#include "banyan/run/system/cores.h"

#include <sched.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

bool crowded(const std::vector<Cores>& processes) { return are_oversubscribed(processes); }

TEST(Cores, AsManyAsProcessesAreEnough) {
  EXPECT_FALSE(crowded({}));
  EXPECT_FALSE(crowded({{0}}));
  EXPECT_FALSE(crowded({{0, 1}, {0, 1}}));
  EXPECT_TRUE(crowded({{0, 1}, {0, 1}, {0, 1}}));
}

TEST(Cores, ProcessesThatAreBoundToTheirOwnAreNotCrowded) {
  EXPECT_FALSE(crowded({{0}, {1}}));
  EXPECT_FALSE(crowded({{0}, {1}, {0, 1, 2}}));
  EXPECT_FALSE(crowded({{0, 2}, {1, 3}, {0, 2}, {1, 3}}));
}

TEST(Cores, ProcessesThatAreBoundToOneAreCrowded) {
  EXPECT_TRUE(crowded({{0}, {0}}));
  // There would be enough of them in all.
  EXPECT_TRUE(crowded({{0}, {0}, {1, 2, 3}, {1, 2, 3}}));
  EXPECT_TRUE(crowded({{0, 1}, {0}, {1}}));
}

TEST(Cores, WhoHasNoneHasToShare) {
  EXPECT_TRUE(crowded({{}}));
  EXPECT_TRUE(crowded({{0, 1, 2, 3}, {}}));
}

// In a thread of its own, for the affinity is the thread's.
TEST(Cores, OwnAreThoseOfTheAffinity) {
  std::thread([] {
    const Cores before = own_cores();
    ASSERT_FALSE(before.empty());
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(before.back(), &one);
    ASSERT_EQ(sched_setaffinity(0, sizeof one, &one), 0);
    EXPECT_EQ(own_cores(), Cores{before.back()});
    setenv("BANYAN_CROWDED", "1", 1);
    EXPECT_TRUE(own_cores().empty());
    setenv("BANYAN_CROWDED", "0", 1);
    EXPECT_EQ(own_cores(), Cores{before.back()});
    unsetenv("BANYAN_CROWDED");
  }).join();
}

}  // namespace
}  // namespace banyan::run
