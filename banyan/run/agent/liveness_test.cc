#include "banyan/run/agent/liveness.h"

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(Liveness, TheFirstDeathIsTheOneThatIsNamed) {
  Liveness liveness(5);
  const std::vector<uint32_t> all = {0, 1, 2, 3, 4};
  EXPECT_EQ(liveness.first_dead(all), std::nullopt);
  liveness.set(1, Health::left, "it said good-bye");
  liveness.set(4, Health::silent, "it is stopped");
  EXPECT_EQ(liveness.first_dead(all), std::nullopt);
  liveness.set(3, Health::dead, "killed");
  liveness.set(2, Health::dead, "it ended because of that");
  liveness.set(1, Health::dead, "it had left before");
  EXPECT_EQ(liveness.first_dead(all), 3u);
  const std::vector<uint32_t> others = {0, 1, 2};
  EXPECT_EQ(liveness.first_dead(others), 2u);
}

}  // namespace
}  // namespace banyan::run
