#include "banyan/service/share/sharer.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(Sharer, IsTheUserUnlessSomebodyHasNamedTheTenant) {
  EXPECT_EQ(sharer_of("1000", false), "1000");
  EXPECT_EQ(sharer_of("1000/a", false), "1000");
  EXPECT_EQ(sharer_of("1000/a/b", false), "1000");
  EXPECT_EQ(sharer_of("1000/a", true), "1000/a");
}

TEST(Sharer, OfAUserWithItsOwnShareIsNotThatOfItsOtherTenants) {
  EXPECT_EQ(sharer_of("1000", true), "1000/");
  EXPECT_NE(sharer_of("1000", true), sharer_of("1000/a", false));
}

}  // namespace
}  // namespace banyan::service
