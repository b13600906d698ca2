#include "banyan/service/view/short_view.h"

#include "banyan/base/text.h"
#include "banyan/service/view/view_json.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

CommunicatorView communicator(const std::string& id, uint32_t user, uint32_t ranks) {
  CommunicatorView view{.id = id, .name = std::string(128, '"'), .tenant = std::to_string(user), .size = ranks};
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    view.ranks.push_back({.rank = rank, .host = "a", .user = user, .program = std::string(200, '\\')});
  }
  return view;
}

std::vector<std::string> ids(const HostView& view) {
  std::vector<std::string> ids;
  for (const CommunicatorView& each : view.communicators) ids.push_back(each.id);
  return ids;
}

TEST(ShortView, IsTheViewWhereThatIsShort) {
  HostView view{.name = "a", .communicators = {communicator("1", 7, 100)}};
  view.links = {{.name = "a->b", .bytes_by_tenant = {{"7", 1}, {"8", 2}}}};
  EXPECT_EQ(short_view(view), view);
}

// 60,000 communicators of one user are 39 MB of JSON.
TEST(ShortView, LeavesOutAndCountsWhatWouldBeTooLong) {
  HostView view{.name = "a"};
  for (int i = 0; i < 60'000; ++i) view.communicators.push_back(communicator(std::to_string(i), 7, 1));
  view.communicators.push_back(communicator("honest", 8, 3));
  EXPECT_GT(to_json(view).size(), size_t{32} << 20);
  const HostView cut = short_view(view);
  const size_t bytes = to_json(cut).size();
  EXPECT_LT(bytes, kMostViewBytes);
  EXPECT_GT(bytes, kMostViewBytes / 4);
  EXPECT_EQ(ids(cut).back(), "honest");
  ASSERT_EQ(cut.troubles.size(), 1u);
  EXPECT_EQ(cut.troubles[0].kind, "left out");
  const std::string left = with_thousands(view.communicators.size() - cut.communicators.size());
  EXPECT_THAT(cut.troubles[0].words,
              HasSubstr("host a has " + left + " communicators more, with " + left + " ranks there"));
  EXPECT_EQ(merge({cut}, {}, 0).findings.back().words, cut.troubles[0].words) << "who looks at the cluster is told";
}

TEST(ShortView, HasTheUsersInTurnAndWhatIsSmallFirst) {
  HostView view{.name = "a"};
  view.communicators = {communicator("large", 7, 500), communicator("second", 8, 2), communicator("first", 9, 2),
                        communicator("last", 9, 1)};
  EXPECT_THAT(ids(short_view(view, 12'000)), ElementsAre("second", "first", "last"));
  EXPECT_THAT(ids(short_view(view, 8'500)), ElementsAre("second", "first"));
  EXPECT_EQ(short_view(view, 8'500).troubles[0].words,
            "host a has 2 communicators more, with 501 ranks there, than it tells other hosts: its view would be too "
            "long; ask it itself");
}

TEST(ShortView, SumsUpTenantsThatAreTooMany) {
  HostView view{.name = "a"};
  view.links = {{.name = "a->b"}, {.name = "b->a"}};
  for (int i = 0; i < 1000; ++i) view.links[0].bytes_by_tenant["7/" + std::to_string(i)] = 3;
  EXPECT_EQ(short_view(view, 100'000), view);
  const HostView cut = short_view(view, 50'000);
  EXPECT_EQ(cut.links[0].bytes_by_tenant, (std::map<std::string, uint64_t>{{"others", 3000}}));
  EXPECT_TRUE(cut.links[1].bytes_by_tenant.empty());
}

}  // namespace
}  // namespace banyan::service
