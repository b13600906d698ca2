#include "banyan/service/share/tenant_label.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(TenantLabel, TellsAFewTenantsOfEachUserApart) {
  std::set<std::string> known;
  const auto add = [&](const std::string& tenant) { return *known.insert(tenant_label(tenant, known, 1000)).first; };
  for (int i = 0; i < 500; ++i) {
    const std::string tenant = "1000/" + std::to_string(i);
    EXPECT_EQ(add(tenant), i < static_cast<int>(kMostTenantsOfUser) ? tenant : "1000/others") << i;
  }
  EXPECT_EQ(add("1000/3"), "1000/3") << "it is known";
  EXPECT_EQ(add("1000"), "1000/others");
  EXPECT_EQ(add("10000/a"), "10000/a") << "another user";
  EXPECT_EQ(add("1001"), "1001");
  EXPECT_EQ(known.size(), kMostTenantsOfUser + 3);
}

TEST(TenantLabel, BoundsWhatVeryManyUsersHave) {
  std::map<std::string, int> known;
  for (int user = 0; user < 500; ++user) ++known[tenant_label(std::to_string(user) + "/a", known, 100)];
  EXPECT_EQ(known.size(), 101u);
  EXPECT_EQ(known.at("others"), 400);
}

}  // namespace
}  // namespace banyan::service
