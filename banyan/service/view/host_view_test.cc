#include "banyan/service/view/host_view.h"

#include "banyan/service/view/test_random_view.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

HostView host(const std::string& name) { return {.host = "id of " + name, .name = name}; }

CommunicatorView communicator(const std::string& id, const std::string& tenant, const std::string& name,
                              const std::vector<uint32_t>& ranks) {
  CommunicatorView view{.id = id, .name = name, .tenant = tenant, .size = 6};
  for (const uint32_t rank : ranks) view.ranks.push_back({.rank = rank});
  return view;
}

std::vector<uint32_t> ranks_of(const CommunicatorView& communicator) {
  std::vector<uint32_t> ranks;
  for (const RankView& each : communicator.ranks) ranks.push_back(each.rank);
  return ranks;
}

TEST(Merge, JoinsTheRanksOfACommunicatorFromAllHosts) {
  HostView a = host("a"), b = host("b"), c = host("c");
  a.communicators = {communicator("7f", "t", "job", {4, 1})};
  b.communicators = {communicator("9e", "t", "job", {0}), communicator("7f", "t", "job", {5, 0})};
  c.communicators = {communicator("7f", "t", "job", {2, 3})};
  a.communicators[0].hosts = c.communicators[0].hosts = {"c", "a", "b"};
  a.communicators[0].progress = 0.5;
  b.communicators[1].progress = 0.25;
  c.communicators[0].progress = 0.75;
  b.communicators[1].rate = 7;
  c.communicators[0].rate = 5;
  const ClusterView cluster = merge({c, a, b}, {}, 12.5);
  EXPECT_EQ(cluster.at, 12.5);
  ASSERT_EQ(cluster.communicators.size(), 2u);
  EXPECT_EQ(cluster.communicators[0].id, "7f");
  EXPECT_THAT(ranks_of(cluster.communicators[0]), ElementsAre(0, 1, 2, 3, 4, 5));
  EXPECT_THAT(cluster.communicators[0].hosts, ElementsAre("a", "b", "c"));
  EXPECT_EQ(cluster.communicators[0].progress, 0.25) << "of the rank that is least far";
  EXPECT_EQ(cluster.communicators[0].rate, 5u);
  EXPECT_EQ(cluster.communicators[0].cap, std::nullopt);
  EXPECT_THAT(ranks_of(cluster.communicators[1]), ElementsAre(0));
}

TEST(Merge, SumsLinksByTenant) {
  HostView a = host("a"), b = host("b");
  a.links = {{.name = "x->y", .capacity = 10, .bytes_by_tenant = {{"t", 1}, {"u", 2}}},
             {.name = "b->x", .capacity = 5}};
  b.links = {{.name = "x->y", .capacity = 10, .bytes_by_tenant = {{"u", 40}, {"v", 80}}}};
  EXPECT_THAT(
      merge({a, b}, {}, 0).links,
      ElementsAre(LinkView{.name = "b->x", .capacity = 5},
                  LinkView{.name = "x->y", .capacity = 10, .bytes_by_tenant = {{"t", 1}, {"u", 42}, {"v", 80}}}));
}

TEST(Merge, PutsAllInOrder) {
  HostView a = host("a"), b = host("b");
  a.communicators = {communicator("1", "u", "k", {0}), communicator("3", "t", "k", {0}),
                     communicator("2", "t", "k", {0})};
  b.communicators = {communicator("4", "t", "j", {0})};
  a.events = {{.at = 2, .host = "a"}, {.at = 3, .host = "a"}};
  b.events = {{.at = 1, .host = "b"}, {.at = 2, .host = "b"}};
  const ClusterView cluster = merge({b, a}, {{.host = "d"}, {.host = "c"}}, 0);
  std::string ids, hosts, events;
  for (const CommunicatorView& each : cluster.communicators) ids += each.id;
  for (const EventView& each : cluster.events) events += each.host;
  for (const HostView& each : cluster.hosts) {
    hosts += each.name;
    EXPECT_THAT(each.communicators, IsEmpty());
    EXPECT_THAT(each.links, IsEmpty());
    EXPECT_THAT(each.events, IsEmpty());
  }
  EXPECT_EQ(ids, "4231");
  EXPECT_EQ(hosts, "ab");
  EXPECT_EQ(events, "baba");
  EXPECT_EQ(cluster.unreachable[0].host, "c");
}

TEST(Merge, SaysWhatIsWrong) {
  HostView a = host("a"), b = host("b");
  a.communicators = {communicator("7f", "t", "job", {0})};
  b.communicators = {communicator("7f", "t", "job", {1})};
  RankView& waits = a.communicators[0].ranks[0];
  waits.calls_begun = 1;
  waits.call = "barrier";
  waits.call_seconds = waits.stalled_seconds = 1;
  b.communicators[0].ranks[0].idle_seconds = 2;
  const ClusterView cluster = merge({a, b}, {{.host = "c", .why = "timed out"}}, 0);
  ASSERT_EQ(cluster.findings.size(), 2u);
  EXPECT_EQ(cluster.findings[0].kind, "late rank");
  EXPECT_EQ(cluster.findings[0].communicator, "7f");
  EXPECT_EQ(cluster.findings[1].kind, "unreachable host");
}

TEST(Merge, SaysTheSameInWhicheverOrderHostsHaveAnswered) {
  const auto seed = static_cast<uint32_t>(::testing::UnitTest::GetInstance()->random_seed());
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomViews views(seed);
  std::mt19937 random(seed);
  for (int i = 0; i < 50; ++i) {
    std::vector<HostView> hosts;
    size_t ranks = 0;
    for (uint32_t number = 0; number < 5; ++number) {
      hosts.push_back(views.host());
      hosts.back().name = std::to_string(number);
      for (CommunicatorView& each : hosts.back().communicators) {
        each.id = std::to_string(views.below(3));
        ranks += each.ranks.size();
      }
    }
    const ClusterView cluster = merge(hosts, {}, 1);
    std::shuffle(hosts.begin(), hosts.end(), random);
    EXPECT_EQ(merge(hosts, {}, 1), cluster);
    for (const CommunicatorView& each : cluster.communicators) ranks -= each.ranks.size();
    EXPECT_EQ(ranks, 0u) << "no rank is lost";
  }
}

TEST(OneHost, HasTheCommunicatorsOfAllItsDaemonsAndTheSumsOfWhatTheyCount) {
  HostView newer = host("a"), older = host("a"), oldest = host("a");
  newer.version = "2";
  newer.steward = "b";
  older.version = "1";
  older.is_draining = true;
  newer.clients = 1, older.clients = 2, oldest.clients = 4;
  newer.memory_bytes = 10, older.memory_bytes = 20;
  newer.core_seconds = 0.5, older.core_seconds = 0.25;
  newer.replans = 1, older.replans = 5;
  newer.events_dropped = 3, oldest.events_dropped = 4;
  newer.refused = {{"session", 1}, {"descriptor", 2}};
  older.refused = {{"session", 10}, {"region", 20}};
  newer.communicators = {communicator("7f", "u", "new", {1}), communicator("8a", "t", "both", {2})};
  older.communicators = {communicator("8a", "t", "both", {0})};
  oldest.communicators = {communicator("6e", "t", "old", {3})};
  newer.links = {{.name = "a->x", .capacity = 10, .bytes_by_tenant = {{"t", 1}}}};
  older.links = {{.name = "a->x", .capacity = 10, .bytes_by_tenant = {{"t", 2}, {"u", 4}}}, {.name = "x->b"}};
  newer.events = {{.at = 5, .words = "newer"}};
  older.events = {{.at = 1, .words = "older"}, {.at = 9, .words = "older still"}};

  const HostView one = as_one_host({newer, older, oldest});
  EXPECT_EQ(one.version, "2");
  EXPECT_EQ(one.steward, "b");
  EXPECT_FALSE(one.is_draining) << "the newest one opens communicators";
  EXPECT_EQ(one.clients, 7u);
  EXPECT_EQ(one.memory_bytes, 30u);
  EXPECT_EQ(one.core_seconds, 0.75);
  EXPECT_EQ(one.replans, 6u);
  EXPECT_EQ(one.events_dropped, 7u);
  EXPECT_EQ(one.refused, (std::map<std::string, uint64_t>{{"session", 11}, {"descriptor", 2}, {"region", 20}}));
  ASSERT_EQ(one.communicators.size(), 3u);
  EXPECT_EQ(one.communicators[0].name, "both");
  EXPECT_THAT(ranks_of(one.communicators[0]), ElementsAre(0, 2));
  EXPECT_EQ(one.communicators[1].name, "old");
  EXPECT_EQ(one.communicators[2].name, "new");
  ASSERT_EQ(one.links.size(), 2u);
  EXPECT_EQ(one.links[0].bytes_by_tenant, (std::map<std::string, uint64_t>{{"t", 3}, {"u", 4}}));
  ASSERT_EQ(one.events.size(), 3u);
  EXPECT_EQ(one.events[1].words, "newer");
  // As before, where there is no older one, but for the order of communicators.
  const HostView alone = as_one_host({older});
  EXPECT_EQ(alone, older);
}

TEST(OneHost, JoinsWhatItsDaemonsSendAlongTheSameLinks) {
  HostView newer = host("a"), older = host("a");
  const WayView way{.from = "a", .to = "b", .links = {{.name = "a->b", .capacity = 10}}, .seconds = 0.5};
  newer.ways = older.ways = {way, way};
  newer.ways[0].bytes_by_tenant = {{"t", 1}};
  newer.ways[0].pressed_seconds = 0.25;
  newer.ways[0].allowed = 4;
  newer.ways.pop_back();
  older.ways[0].bytes_by_tenant = {{"t", 2}, {"u", 8}};
  older.ways[0].pressed_seconds = 0.125;
  older.ways[0].allowed = 3;
  older.ways[1].to = "c";
  const HostView one = as_one_host({newer, older});
  ASSERT_EQ(one.ways.size(), 2u);
  EXPECT_EQ(one.ways[0].bytes(), 11);
  EXPECT_EQ(one.ways[0].seconds, 0.5);
  EXPECT_EQ(one.ways[0].pressed_seconds, 0.25);
  EXPECT_EQ(one.ways[0].allowed, 7u);
  EXPECT_EQ(one.ways[1].to, "c");
  older.ways[0].allowed.reset();
  EXPECT_EQ(as_one_host({newer, older}).ways[0].allowed, std::nullopt) << "one may send as much as it can";
}

TEST(OneHost, CountsNoLessWhenADaemonHasEnded) {
  RandomViews random(17);
  HostView newer = random.host(), older = random.host();
  newer.communicators = {communicator("5d", "t", "new", {1})};
  older.refused["session"] = 3;
  older.links.push_back({.name = "a->x", .capacity = 10, .bytes_by_tenant = {{"t", 2}}});
  older.communicators.push_back(communicator("6e", "t", "old", {3}));
  const HostView with = as_one_host({newer, older}), after = as_one_host({newer, remains_of(older)});
  EXPECT_EQ(after.refused, with.refused);
  EXPECT_EQ(after.links, with.links);
  EXPECT_EQ(after.core_seconds, with.core_seconds);
  EXPECT_EQ(after.replans, with.replans);
  EXPECT_EQ(after.events, with.events);
  EXPECT_EQ(after.clients, newer.clients);
  EXPECT_EQ(after.communicators.size(), newer.communicators.size());
}

TEST(Merge, SaysOnceThatTheDirectoryDoesNotAnswerAndOfEachHostThatItHasNoDescriptors) {
  const auto directory = [](const std::string& words) {
    return FindingView{.kind = "directory", .communicator = {}, .words = words};
  };
  HostView a = host("a"), b = host("b"), c = host("c");
  a.troubles = {directory("etcd does not answer: no route")};
  b.troubles = {directory("etcd does not answer: refused"),
                {.kind = "descriptors", .communicator = {}, .words = "host b lets no program in"}};
  const ClusterView cluster = merge({a, b, c}, {}, 0);
  ASSERT_EQ(cluster.findings.size(), 2u);
  EXPECT_EQ(cluster.findings[0].words, "host b lets no program in");
  EXPECT_EQ(cluster.findings[1].kind, "directory");
  EXPECT_EQ(cluster.findings[1].words, "at 2 hosts (a, b), etcd does not answer: no route");
  for (const HostView& each : cluster.hosts) EXPECT_TRUE(each.troubles.empty()) << each.name;
}

}  // namespace
}  // namespace banyan::service
