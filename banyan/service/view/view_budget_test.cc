#include "banyan/service/view/view_budget.h"

#include "banyan/service/view/view_json.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

CommunicatorView rank_of(uint32_t user, const std::string& id, const std::string& words) {
  return {.id = id,
          .name = words,
          .tenant = std::to_string(user) + "/" + words,
          .hosts = {"host"},
          .ranks = {{.host = "host", .user = user, .program = words}}};
}

// With names of which JSON makes six times as many bytes.
TEST(ViewBudget, BoundsTheBytesOfAUserWhateverItsNames) {
  ViewBudget budget;
  HostView view;
  uint64_t listed = 0;
  for (int i = 0; i < 10'000; ++i) {
    const CommunicatorView one = rank_of(1001, std::to_string(i), std::string(i % 200, '\1'));
    if (!budget.take(one)) continue;
    view.communicators.push_back(one);
    ++listed;
  }
  EXPECT_GE(listed, 64u);
  EXPECT_LE(to_json(view).size(), ViewBudget::kMostBytes + 4096);
  EXPECT_EQ(budget.unlisted().at("1001"), 10'000 - listed);
  EXPECT_TRUE(budget.take(rank_of(1002, "honest", "training"))) << "another user";
  EXPECT_FALSE(budget.unlisted().contains("1002"));
}

TEST(ViewBudget, ListsAllOfAHostFullOfRanks) {
  ViewBudget budget;
  for (int communicator = 0; communicator < 4; ++communicator) {
    for (int rank = 0; rank < 192; ++rank) {
      CommunicatorView one = rank_of(1001, std::to_string(communicator), "python3 train.py --model vgg");
      one.hosts.assign(128, "gpu-node-0123");
      ASSERT_TRUE(budget.take(one)) << communicator << " " << rank;
    }
  }
}

}  // namespace
}  // namespace banyan::service
