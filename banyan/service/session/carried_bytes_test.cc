#include "banyan/service/session/carried_bytes.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(CarriedBytes, OfOneUserWithManyNamesLeavesTheNamesOfOthers) {
  CarriedBytes carried;
  for (int i = 0; i < 2000; ++i) carried.add("1001/" + std::to_string(i), 3, 1);
  carried.add("1002/training", 3, 7);
  const CarriedBytes::ByTenant seen = carried.by_tenant();
  EXPECT_EQ(seen.size(), kMostTenantsOfUser + 2);
  EXPECT_EQ(seen.at("1002/training").at(3), 7);
  EXPECT_EQ(seen.at("1001/others").at(3), 2000.0 - kMostTenantsOfUser);
}

TEST(CarriedBytes, ForgetTenantsThatAreGoneWhereOthersWantTheirPlace) {
  CarriedBytes carried;
  const CarriedBytes::Clock::time_point begin{};
  for (int i = 0; i < 16; ++i) carried.add("1001/" + std::to_string(i), 3, 1, begin);
  carried.add("1001/5", 3, 1, begin + std::chrono::minutes(4));
  carried.add("1001/new", 3, 1, begin + std::chrono::minutes(4));
  EXPECT_FALSE(carried.by_tenant().contains("1001/new"));
  carried.add("1001/5", 3, 1, begin + std::chrono::minutes(5));
  EXPECT_TRUE(carried.by_tenant().contains("1001/0")) << "nobody wants its place";
  carried.add("1001/new", 3, 1, begin + std::chrono::minutes(5));
  const CarriedBytes::ByTenant seen = carried.by_tenant();
  EXPECT_EQ(seen.at("1001/5").at(3), 3);
  EXPECT_EQ(seen.at("1001/new").at(3), 1);
  EXPECT_EQ(seen.at("1001/others").at(3), 1);
  EXPECT_EQ(seen.size(), 3u);
}

}  // namespace
}  // namespace banyan::service
