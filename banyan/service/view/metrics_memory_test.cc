#include "banyan/service/share/tenant_label.h"
#include "banyan/service/view/metrics.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using ::testing::Key;
using Name = MetricsMemory::Name;

CommunicatorView open(const std::string& id, const std::string& tenant, const std::string& name, uint64_t calls) {
  CommunicatorView view{.id = id, .name = name, .tenant = tenant};
  view.ranks.push_back({.rank = 0, .calls_over = calls, .core_seconds = static_cast<double>(calls)});
  return view;
}

TEST(MetricsMemory, SumsRanksAndCommunicatorsOfOneName) {
  HostView view;
  view.communicators = {open("1", "t", "job", 3), open("2", "t", "job", 4), open("3", "t", "other", 5),
                        open("4", "u", "job", 6)};
  view.communicators[0].ranks.push_back({.rank = 7, .calls_over = 10});
  MetricsMemory memory;
  memory.record(view);
  EXPECT_EQ(memory.by_name().at(Name("t", "job")).calls_over, 17u);
  EXPECT_EQ(memory.by_name().at(Name("t", "other")).calls_over, 5u);
  EXPECT_EQ(memory.by_name().at(Name("u", "job")).calls_over, 6u);
  EXPECT_EQ(memory.by_tenant().at("t").core_seconds, 12);
}

TEST(MetricsMemory, KeepsWhatHasEndedWhileItsNameIsOpen) {
  MetricsMemory memory;
  HostView view;
  view.communicators = {open("1", "t", "job", 3), open("2", "t", "job", 4), open("3", "t", "other", 5)};
  memory.record(view);
  view.communicators = {open("2", "t", "job", 6)};
  memory.record(view);
  EXPECT_THAT(memory.by_name(), ElementsAre(Key(Name("t", "job"))));
  EXPECT_EQ(memory.by_name().at(Name("t", "job")).calls_over, 9u);
  EXPECT_EQ(memory.by_tenant().at("t").calls_over, 14u);
  view.communicators.clear();
  memory.record(view);
  EXPECT_TRUE(memory.by_name().empty() && memory.by_tenant().empty());
  view.communicators = {open("9", "t", "job", 1)};
  memory.record(view);
  EXPECT_EQ(memory.by_name().at(Name("t", "job")).calls_over, 1u) << "which Prometheus takes for a restart";
}

TEST(MetricsMemory, NoValueFallsWhileItIsShown) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  MetricsMemory memory;
  HostView view;
  std::map<Name, RankView> former;
  std::map<std::string, RankView> former_tenants;
  uint64_t next = 0;
  for (int round = 0; round < 2000; ++round) {
    std::erase_if(view.communicators, [&](const CommunicatorView&) { return random() % 5 == 0; });
    for (CommunicatorView& each : view.communicators) each.ranks[0].calls_over += random() % 3;
    if (random() % 2 == 0) {
      view.communicators.push_back(open(std::to_string(next++), std::string(1, "tu"[random() % 2]),
                                        std::string(1, "abc"[random() % 3]), random() % 4));
    }
    memory.record(view);
    for (const auto& [name, totals] : memory.by_name()) EXPECT_GE(totals.calls_over, former[name].calls_over);
    for (const auto& [tenant, totals] : memory.by_tenant())
      EXPECT_GE(totals.calls_over, former_tenants[tenant].calls_over);
    former = memory.by_name();
    former_tenants = memory.by_tenant();
  }
}

TEST(MetricsMemory, BoundsLabelsThatProgramsMakeUp) {
  MetricsMemory memory;
  HostView view;
  for (size_t i = 0; i < 2 * MetricsMemory::kMostNames; ++i) {
    const std::string text = std::to_string(i);
    view.communicators.push_back(open(text, i < MetricsMemory::kMostNames / 2 ? "t" : "t" + text, text, 1));
  }
  memory.record(view);
  EXPECT_LE(memory.by_tenant().size(), MetricsMemory::kMostTenants + 1);
  // Beside "others" of each tenant.
  EXPECT_LE(memory.by_name().size(), MetricsMemory::kMostNames + MetricsMemory::kMostTenants + 1);
  EXPECT_GT(memory.by_name().at(Name("others", "others")).calls_over, 0u);
  uint64_t calls = 0;
  for (const auto& [name, totals] : memory.by_name()) calls += totals.calls_over;
  EXPECT_EQ(calls, 2 * MetricsMemory::kMostNames) << "nothing is lost";
}

TEST(MetricsMemory, LeavesTheLabelsOfOthersWhateverOneUserMakesUp) {
  MetricsMemory memory;
  HostView view;
  for (int i = 0; i < 3000; ++i) {
    const std::string text = std::to_string(i);
    view.communicators.push_back(open(text, "1001/" + text, text, 1));
  }
  memory.record(view);
  view.communicators.push_back(open("honest", "1002/training", "world", 7));
  memory.record(view);
  EXPECT_EQ(memory.by_name().at(Name("1002/training", "world")).calls_over, 7u);
  EXPECT_EQ(memory.by_tenant().size(), kMostTenantsOfUser + 2);
  EXPECT_EQ(memory.by_tenant().at("1001/others").calls_over, 3000u - kMostTenantsOfUser);
  EXPECT_LE(memory.by_name().size(), MetricsMemory::kMostNamesOfUser + kMostTenantsOfUser + 2);
}

TEST(MetricsMemory, ForgetsTenantsThatAreGone) {
  MetricsMemory memory;
  HostView view;
  for (int i = 0; i < 1000; ++i) {
    const std::string text = std::to_string(i);
    view.communicators = {open(text, "1001/" + text, "world", 1)};
    memory.record(view);
    ASSERT_THAT(memory.by_tenant(), ElementsAre(Key("1001/" + text)));
  }
}

}  // namespace
}  // namespace banyan::service
