#include "banyan/base/nearest.h"

#include "banyan/testing/test.h"

namespace banyan {
namespace {

std::string hint(std::string_view name) {
  NearestName nearest(name);
  for (const char* known : {"ring", "torus", "hypercube", "sw"}) nearest.offer(known);
  return nearest.hint();
}

TEST(NearestName, OffersTheLeastEditedName) {
  EXPECT_EQ(hint("torsu"), " (did you mean 'torus'?)");
  EXPECT_EQ(hint("rng"), " (did you mean 'ring'?)");
  EXPECT_EQ(hint("hyprcub"), " (did you mean 'hypercube'?)");
}

TEST(NearestName, KeepsSilentWhenNothingIsNear) {
  EXPECT_EQ(hint("dragonfly"), "");
  EXPECT_EQ(hint("xy"), "");
  EXPECT_EQ(hint(""), "");
  EXPECT_EQ(hint(std::string(100000, 'r')), "");
}

}  // namespace
}  // namespace banyan
