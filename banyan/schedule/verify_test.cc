#include "banyan/schedule/verify.h"

#include "banyan/fabric/text.h"
#include "banyan/schedule/cost.h"
#include "banyan/testing/schedule_draft.h"
#include "banyan/testing/test.h"

namespace banyan::schedule {
namespace {

using testing::ChunkDraft;
using testing::ScheduleDraft;

constexpr auto kAllgather = CollectiveKind::all_gather;
constexpr auto kAllreduce = CollectiveKind::all_reduce;

// A ring of four both ways, a bystander e hung on it, and a switch with a way of its own between all four.
const Fabric kRing = fabric::parse_fabric_text(
    "a <-> b 10GB/s; b <-> c 10GB/s; c <-> d 10GB/s; d <-> a 10GB/s; d <-> e 10GB/s; e <-> a 10GB/s;"
    "a <-> sw 5GB/s; b <-> sw 5GB/s; c <-> sw 5GB/s; d <-> sw 5GB/s; sw <-> sw2 5GB/s");

NodeId node(std::string_view name) { return kRing.at(name); }

Collective of_four(Collective::Options options) {
  options.ranks = {node("a"), node("b"), node("c"), node("d")};
  return Collective::make(kRing, options);
}

// Round the ring; every link of it carries three of four shards.
ScheduleDraft allgather() {
  ScheduleDraft draft{.fabric = kRing, .collective = of_four({.kind = kAllgather})};
  draft.chunks = {{.root = node("a"), .out = draft.edges({"a b", "b c", "c d"})},
                  {.root = node("b"), .out = draft.edges({"b c", "c d", "d a"})},
                  {.root = node("c"), .out = draft.edges({"c d", "d a", "a b"})},
                  {.root = node("d"), .out = draft.edges({"d a", "a b", "b c"})}};
  return draft;
}

ScheduleDraft reduce_scatter() {
  ScheduleDraft draft{.fabric = kRing,
                      .collective = of_four({.kind = CollectiveKind::reduce_scatter, .weights = {2, 1, 1, 0}})};
  draft.chunks = {{.root = node("a"), .units = 2, .in = draft.edges({"c b", "b a", "d sw a"})},
                  {.root = node("b"), .units = 1, .in = draft.edges({"d c", "c b", "a b"})},
                  {.root = node("c"), .units = 1, .in = draft.edges({"a d", "b c", "d c"})}};
  return draft;
}

ScheduleDraft broadcast() {
  ScheduleDraft draft{.fabric = kRing, .collective = of_four({.kind = CollectiveKind::broadcast, .root = node("b")})};
  draft.chunks = {{.root = node("b"), .units = 2, .out = draft.edges({"b c", "b a", "a d"})},
                  {.root = node("b"), .units = 1, .out = draft.edges({"b sw c", "c d", "d a"})}};
  return draft;
}

ScheduleDraft reduce() {
  ScheduleDraft draft{.fabric = kRing, .collective = of_four({.kind = CollectiveKind::reduce, .root = node("c")})};
  draft.chunks = {{.root = node("c"), .units = 5, .in = draft.edges({"a b", "b c", "d c"})}};
  return draft;
}

// Three ways of using two trees, whose hops from depth to depth are tied.
ScheduleDraft allreduce() {
  ScheduleDraft draft{.fabric = kRing, .collective = of_four({.kind = kAllreduce})};
  draft.chunks = {{.root = node("a"),
                   .units = 3,
                   .in = draft.edges({"c d", "d a", "b a"}),
                   .out = draft.edges({"a b", "b c", "a d"}),
                   .in_steps = {1, 2, 2},
                   .out_steps = {3, 4, 3}},
                  {.root = node("d"),
                   .units = 1,
                   .in = draft.edges({"b c", "a d", "c d"}),
                   .out = draft.edges({"d c", "c b", "d sw a"})}};
  return draft;
}

std::vector<ScheduleDraft> one_of_each_kind() {
  return {allgather(), reduce_scatter(), broadcast(), reduce(), allreduce()};
}

// What verify says against the draft, "" if nothing; or what Schedule::Builder says where it is not even well formed.
std::string verdict_on(const ScheduleDraft& draft) {
  try {
    const Verdict verdict = verify(draft.build());
    EXPECT_EQ(verdict.valid, verdict.reason.empty()) << verdict.reason;
    EXPECT_EQ(verdict.reason.find('\n'), std::string::npos) << verdict.reason;
    return verdict.reason;
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(Verify, AcceptsOneOfEachKind) {
  for (const ScheduleDraft& draft : one_of_each_kind()) {
    EXPECT_EQ(verdict_on(draft), "") << to_string(draft.collective.kind());
  }
}

TEST(Verify, FindsTheTimeOfTheBusiestLink) {
  const Verdict ring = verify(allgather().build());
  EXPECT_EQ(ring.seconds_per_byte, Fraction(3, 4 * 10'000'000'000));
  EXPECT_EQ(ring.busiest, LinkId{0});
  // b -> sw -> c carries 1 of 3 units at half the speed; b -> c, b -> a and a -> d carry 2 of 3.
  const Verdict tree = verify(broadcast().build());
  EXPECT_EQ(tree.seconds_per_byte, Fraction(2, 3 * 10'000'000'000));
  EXPECT_EQ(kRing.name(kRing.link(tree.busiest).from), "b");
  EXPECT_EQ(kRing.name(kRing.link(tree.busiest).to), "a");
}

TEST(Verify, CountsBothTreesOfAnAllreduce) {
  ScheduleDraft draft{.fabric = kRing, .collective = of_four({.kind = kAllreduce})};
  draft.chunks = {
      {.root = node("b"), .in = draft.edges({"d a", "a b", "c b"}), .out = draft.edges({"b c", "c d", "d a"})}};
  EXPECT_EQ(verify(draft.build()).seconds_per_byte, Fraction(2, 10'000'000'000));
}

TEST(Verify, HoldsTheClaimAgainstItsOwnCount) {
  const Schedule schedule = allgather().build();
  EXPECT_TRUE(verify(schedule, Fraction(3, 40'000'000'000)).valid);
  const Verdict verdict = verify(schedule, Fraction(1, 20'000'000'000));
  EXPECT_FALSE(verdict.valid);
  EXPECT_EQ(verdict.reason, "claims 1/20000000000 seconds per byte, but link a -> b needs 3/40000000000");
  EXPECT_EQ(verdict.seconds_per_byte, Fraction(3, 40'000'000'000));
  EXPECT_FALSE(verify(schedule, Fraction(1, 1)).valid) << "a modest claim is wrong too";
}

// One way of spoiling a good schedule, and what must be said about it.
struct Mutation {
  std::string name;
  ScheduleDraft draft;
  std::string reason;
};

template <typename Change>
Mutation mutation(std::string name, ScheduleDraft draft, Change change, std::string reason) {
  change(draft);
  return {std::move(name), std::move(draft), std::move(reason)};
}

void expect_rejected(const std::vector<Mutation>& mutations) {
  for (const Mutation& each : mutations) {
    SCOPED_TRACE(each.name);
    EXPECT_THAT(verdict_on(each.draft), HasSubstr(each.reason));
  }
}

TEST(Verify, RefusesDamagedOutTrees) {
  const auto first = [](ScheduleDraft& d) -> ChunkDraft& { return d.chunks[0]; };
  expect_rejected({
      mutation(
          "drop the last edge", allgather(), [&](auto& d) { first(d).out.pop_back(); },
          "chunk 0 (root a): out-tree does not reach d"),
      mutation(
          "drop the first edge", allgather(), [&](auto& d) { first(d).out.erase(first(d).out.begin()); },
          "chunk 0 (root a): out-tree sends from b to c before b has the data"),
      mutation(
          "no tree", allgather(), [&](auto& d) { first(d).out = {}; }, "out-tree does not reach b"),
      mutation(
          "duplicate an edge", allgather(), [&](auto& d) { first(d).out.push_back(first(d).out.back()); },
          "chunk 0 (root a): out-tree reaches d twice"),
      mutation(
          "back to the root", allgather(), [&](auto& d) { first(d).out.push_back(d.edges({"d a"})[0]); },
          "chunk 0 (root a): out-tree reaches a twice"),
      mutation(
          "edges out of order", allgather(), [&](auto& d) { std::swap(first(d).out[1], first(d).out[2]); },
          "out-tree sends from c to d before c has the data"),
      mutation(
          "a cycle beside the root", allgather(),
          [&](auto& d) {
            first(d).out = d.edges({"b c", "c d", "d c"});
          },
          "out-tree sends from b to c before b has the data"),
      mutation(
          "swap a root", allgather(), [&](auto& d) { first(d).root = node("c"); },
          "out-tree sends from a to b before a has the data"),
      mutation(
          "swap two roots", allgather(), [&](auto& d) { std::swap(d.chunks[0].root, d.chunks[1].root); },
          "before b has the data"),
      mutation(
          "reach a bystander", allgather(), [&](auto& d) { first(d).out.push_back(d.edges({"d e"})[0]); },
          "chunk 0 (root a): out-tree edge d -> e touches e, which does not take part"),
      mutation(
          "go by a bystander", allgather(),
          [&](auto& d) {
            first(d).out = d.edges({"a b", "b c", "a e", "e d"});
          },
          "touches e, which does not take part"),
      mutation(
          "an in-tree nobody asked for", allgather(),
          [&](auto& d) {
            first(d).in = d.edges({"b a", "c b", "d a"});
          },
          "has an in-tree, but allgather reduces nothing"),
      mutation(
          "an in-tree instead", broadcast(), [&](auto& d) { std::swap(first(d).in, first(d).out); },
          "has an in-tree, but broadcast reduces nothing"),
  });
}

TEST(Verify, RefusesDamagedInTrees) {
  const auto first = [](ScheduleDraft& d) -> ChunkDraft& { return d.chunks[0]; };
  expect_rejected({
      mutation(
          "drop an edge", reduce(), [&](auto& d) { first(d).in.pop_back(); },
          "chunk 0 (root c): in-tree does not collect from d"),
      mutation(
          "drop an inner edge", reduce(), [&](auto& d) { first(d).in.erase(first(d).in.begin() + 1); },
          "in-tree does not collect from b"),
      mutation(
          "duplicate a contribution", reduce(), [&](auto& d) { first(d).in.push_back(first(d).in.back()); },
          "chunk 0 (root c): in-tree counts d twice"),
      mutation(
          "contribute by two ways", reduce(),
          [&](auto& d) {
            first(d).in = d.edges({"a b", "a d", "b c", "d c"});
          },
          "in-tree counts a twice"),
      mutation(
          "edges out of order", reduce(), [&](auto& d) { std::swap(first(d).in[0], first(d).in[1]); },
          "in-tree brings a to b, which has already sent its part on"),
      mutation(
          "a cycle", reduce(),
          [&](auto& d) {
            first(d).in = d.edges({"a b", "b a", "d c"});
          },
          "in-tree brings b to a, which has already sent its part on"),
      mutation(
          "the root sends", reduce(),
          [&](auto& d) {
            first(d).in = d.edges({"a b", "b c", "c d"});
          },
          "in-tree sends from the root to d"),
      mutation(
          "swap the root", reduce(), [&](auto& d) { first(d).root = node("d"); }, "in-tree sends from the root to c"),
      mutation(
          "collect from a bystander", reduce(),
          [&](auto& d) { first(d).in.insert(first(d).in.begin(), d.edges({"e a"})[0]); },
          "in-tree edge e -> a touches e, which does not take part"),
      mutation(
          "an out-tree nobody asked for", reduce_scatter(),
          [&](auto& d) {
            first(d).out = d.edges({"a b", "b c", "c d"});
          },
          "has an out-tree, but reduce-scatter spreads nothing"),
      mutation(
          "no in-tree", allreduce(), [&](auto& d) { d.chunks[1].in = {}; },
          "chunk 1 (root d): in-tree does not collect from a"),
      mutation(
          "no out-tree", allreduce(), [&](auto& d) { d.chunks[1].out = {}; },
          "chunk 1 (root d): out-tree does not reach a"),
      mutation(
          "trees exchanged", allreduce(), [&](auto& d) { std::swap(d.chunks[1].in, d.chunks[1].out); },
          "in-tree sends from the root to c"),
  });
}

TEST(Verify, RefusesBadRoutes) {
  const auto links = [](std::initializer_list<std::string_view> path) {
    ScheduleDraft scratch{.fabric = kRing, .collective = of_four({})};
    scratch.edges(path);
    return scratch.routes[0];
  };
  expect_rejected({
      mutation(
          "a missing link", allgather(), [](auto& d) { d.routes[0] = {LinkId{1000}}; }, "link 1000"),
      mutation(
          "another link", allgather(), [&](auto& d) { d.routes[0] = links({"b a"}); }, "before b has the data"),
      mutation(
          "not connected", allgather(),
          [](auto& d) {
            d.routes[0] = {LinkId{0}, LinkId{8}};
          },
          "jumps from"),
      mutation(
          "no links", allgather(), [](auto& d) { d.routes[0] = {}; }, "no links"),
      mutation(
          "through a rank", allgather(), [&](auto& d) { d.routes[0] = links({"a d c b"}); },
          "route 0 (a -> b): passes through rank d; only switches can lie inside a route"),
      mutation(
          "through a bystander", allgather(), [&](auto& d) { d.routes[0] = links({"a e d"}); },
          "passes through rank e"),
      mutation(
          "a link twice", allgather(), [&](auto& d) { d.routes[0] = links({"a sw sw2 sw sw2 sw b"}); },
          "route 0 (a -> b): crosses link sw -> sw2 twice"),
      mutation(
          "to a switch", allgather(), [&](auto& d) { d.routes[0] = links({"a sw"}); },
          "route 0 (a -> sw): ends at switch sw, which neither multicasts nor reduces"),
      mutation(
          "from a switch", allgather(), [&](auto& d) { d.routes[0] = links({"sw b"}); }, "ends at switch sw"),
      mutation(
          "to itself", allgather(), [&](auto& d) { d.routes[0] = links({"a sw a"}); },
          "route 0 (a -> a): comes back to where it starts"),
      mutation(
          "bad but unused", allgather(), [&](auto& d) { d.routes.push_back(links({"a d c"})); },
          "passes through rank d"),
      mutation(
          "unknown route", allgather(), [](auto& d) { d.chunks[0].out[1] = 99; }, "route 99"),
  });
}

TEST(Verify, RefusesWrongShares) {
  expect_rejected({
      mutation(
          "change a share", allgather(), [](auto& d) { d.chunks[1].units = 2; },
          "root a has 1 of 5 units, but allgather gives it 1 of 4 parts"),
      mutation(
          "a share too many", allgather(), [](auto& d) { d.chunks.push_back(d.chunks[3]); }, "root a has 1 of 5 units"),
      mutation(
          "drop a chunk", allgather(), [](auto& d) { d.chunks.pop_back(); }, "root a has 1 of 3 units"),
      mutation(
          "ignore weights", reduce_scatter(), [](auto& d) { d.chunks[0].units = 1; }, "root a has 1 of 3 units"),
      mutation(
          "a shard of weight zero", reduce_scatter(),
          [](auto& d) {
            d.chunks.push_back({.root = node("d"), .units = 1, .in = d.edges({"b a", "a d", "c d"})});
          },
          "units, but reduce-scatter gives it"),
      mutation(
          "half from another root", broadcast(),
          [](auto& d) {
            d.chunks.push_back({.root = node("a"), .out = d.edges({"a b", "b c", "c d"})});
          },
          "root a has 1 of 4 units, but broadcast gives it 0 of 1 parts"),
  });
}

TEST(Verify, LeavesTheRootsOfAnAllreduceFree) {
  ScheduleDraft draft = allreduce();
  draft.chunks[1].units = 1000;
  EXPECT_EQ(verdict_on(draft), "");
  draft.chunks.pop_back();
  EXPECT_EQ(verdict_on(draft), "");
}

TEST(Verify, RefusesTiesThatWaitForEachOther) {
  expect_rejected({
      mutation(
          "an equal step", allreduce(),
          [](auto& d) {
            d.chunks[0].in_steps = {2, 2, 2};
          },
          "chunk 0 (root a): hop d -> a is tied to step 2, but an earlier hop to step 2"),
      mutation(
          "an earlier step", allreduce(),
          [](auto& d) {
            d.chunks[0].out_steps = {4, 3, 3};
          },
          "chunk 0 (root a): hop b -> c is tied to step 3, but an earlier hop to step 4"),
      mutation(
          "the out-tree before the in-tree", allreduce(),
          [](auto& d) {
            d.chunks[0].out_steps = {3, 4, 2};
          },
          "hop a -> d is tied to step 2"),
      mutation(
          "across an untied hop", allreduce(),
          [](auto& d) {
            d.chunks[0].in_steps = {5, 0, 2};
          },
          "hop a -> b is tied to step 3"),
  });
}

TEST(Verify, LetsUntiedHopsAndOtherBranchesBe) {
  ScheduleDraft draft = allreduce();
  draft.chunks[0].in_steps = {1, 0, 2};
  draft.chunks[0].out_steps = {7, 0, 3};
  EXPECT_EQ(verdict_on(draft), "");
}

// Three in a line, where the middle one forwards; what a sends c goes in two parts.
const Fabric kLine = fabric::parse_fabric_text("a <-> b 10GB/s; b <-> c 10GB/s; c <-> e 10GB/s");

ScheduleDraft all_to_all() {
  ScheduleDraft draft{.fabric = kLine,
                      .collective = Collective::make(kLine, {.kind = CollectiveKind::all_to_all,
                                                             .ranks = {kLine.at("a"), kLine.at("b"), kLine.at("c")}})};
  const NodeId a = kLine.at("a"), b = kLine.at("b"), c = kLine.at("c");
  draft.chunks = {{.root = a, .units = 4, .out = draft.edges({"a b"})},
                  {.root = a, .units = 1, .out = draft.edges({"a b", "b c"}), .out_steps = {1, 2}},
                  {.root = a, .units = 3, .out = draft.edges({"a b", "b c"}), .out_steps = {1, 2}},
                  {.root = b, .units = 4, .out = draft.edges({"b a"})},
                  {.root = b, .units = 4, .out = draft.edges({"b c"})},
                  {.root = c, .units = 4, .out = draft.edges({"c b", "b a"})},
                  {.root = c, .units = 4, .out = draft.edges({"c b"})}};
  return draft;
}

TEST(Verify, AcceptsAnAllToAllThatForwards) {
  const Verdict verdict = verify(all_to_all().build());
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  // Two of the three blocks of M cross each link.
  EXPECT_EQ(verdict.seconds_per_byte, Fraction(2, 30'000'000'000));
}

TEST(Verify, NamesWhatIsWrongWithAnAllToAll) {
  ScheduleDraft draft = all_to_all();
  draft.chunks[1].units = 2;
  EXPECT_THAT(verdict_on(draft), HasSubstr("from a to b go 4 of 25 units, but the traffic is 1 of 6 parts"));
  draft = all_to_all();
  draft.chunks[5].out = draft.edges({"c b", "c b"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("out-tree reaches b twice"));
  draft = all_to_all();
  draft.chunks[1].out = draft.edges({"a b", "a b", "b c"});
  draft.chunks[1].out_steps = {};
  EXPECT_THAT(verdict_on(draft), HasSubstr("out-tree reaches b twice"));
  draft = all_to_all();
  draft.chunks[3].out = draft.edges({"b a", "b c"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("is for one rank, but its path branches at b towards c"));
  draft = all_to_all();
  draft.chunks[4].out = draft.edges({"b c", "c e", "e c"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("touches e, which does not take part"));
  draft = all_to_all();
  draft.chunks[2].out_steps = {2, 1};
  EXPECT_THAT(verdict_on(draft), HasSubstr("hop b -> c is tied to step 1, but an earlier hop to step 2"));
  draft = all_to_all();
  draft.chunks[0].in = draft.edges({"b a"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("has an in-tree, but all-to-all reduces nothing"));
}

// Four ranks on a switch that multicasts and reduces, which hangs on one that does neither.
Fabric star_of(bool multicasts, bool reduces) {
  Fabric::Builder builder;
  const NodeId sw = builder.add_node(
                   {.name = "sw", .kind = fabric::NodeKind::switch_, .multicast = multicasts, .reduce = reduces}),
               plain = builder.add_switch("plain");
  for (const char* name : {"a", "b", "c", "d"})
    builder.add_cable({.from = builder.add_rank(name), .to = sw, .bandwidth = Bandwidth::gigabytes_per_second(10)});
  builder.add_cable({.from = sw, .to = plain, .bandwidth = Bandwidth::gigabytes_per_second(10)});
  return std::move(builder).build();
}

ScheduleDraft by_switch(const Fabric& fabric) {
  ScheduleDraft draft{.fabric = fabric, .collective = Collective::make(fabric, {.kind = kAllreduce})};
  draft.chunks = {{.root = fabric.at("a"),
                   .in = draft.edges({"b sw", "c sw", "d sw", "sw a"}),
                   .out = draft.edges({"a sw", "sw b", "sw c", "sw d"})}};
  return draft;
}

TEST(Verify, AcceptsSwitchesThatMulticastAndReduce) {
  const Verdict verdict = verify(by_switch(star_of(true, true)).build());
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(verdict.seconds_per_byte, Fraction(1, 10'000'000'000));
  EXPECT_EQ(heights(by_switch(star_of(true, true)).build()).max, 2u) << "the switch adds no message";
}

TEST(Verify, NamesWhatIsWrongWithSwitchesInTrees) {
  EXPECT_THAT(verdict_on(by_switch(star_of(false, true))), HasSubstr("touches sw, a switch that does not multicast"));
  EXPECT_THAT(verdict_on(by_switch(star_of(true, false))), HasSubstr("touches sw, a switch that does not reduce"));
  EXPECT_THAT(verdict_on(by_switch(star_of(false, false))), HasSubstr("ends at switch sw, which neither"));
  const Fabric star = star_of(true, true);
  ScheduleDraft draft = by_switch(star);
  draft.chunks[0].out = draft.edges({"a sw", "sw b", "sw c"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("out-tree does not reach d"));
  draft = by_switch(star);
  draft.chunks[0].in = draft.edges({"b sw", "c sw", "sw a", "d sw"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("in-tree brings d to sw, which has already sent its part on"));
  draft = by_switch(star);
  draft.chunks[0].in = draft.edges({"sw a", "b sw a", "c sw a", "d sw a"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("in-tree sends from switch sw, to which nothing has come"));
  draft = by_switch(star);
  draft.chunks[0].in = draft.edges({"b sw", "c sw", "d sw"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("in-tree ends at switch sw"));
  draft = by_switch(star);
  draft.chunks[0].out = draft.edges({"a sw", "a sw b", "a sw c", "a sw d"});
  EXPECT_THAT(verdict_on(draft), HasSubstr("out-tree leads to switch sw, which sends it to nobody"));
}

// A star of 1024 ranks: every rank sends its shard to every other, the most edges a schedule of one tree a rank has.
TEST(Verify, ChecksAMillionEdges) {
  constexpr uint32_t kRanks = 1024;
  Fabric::Builder builder;
  for (uint32_t i = 0; i < kRanks; ++i) builder.add_rank("r" + std::to_string(i));
  const NodeId hub = builder.add_switch("sw");
  for (uint32_t i = 0; i < kRanks; ++i) {
    builder.add_cable({.from = NodeId{i}, .to = hub, .bandwidth = Bandwidth::gigabytes_per_second(1)});
  }
  const Fabric fabric = std::move(builder).build();
  ScheduleDraft draft{.fabric = fabric, .collective = Collective::make(fabric, {})};
  for (uint32_t i = 0; i < kRanks; ++i) {
    ChunkDraft chunk{.root = NodeId{i}};
    for (uint32_t j = 0; j < kRanks; ++j) {
      if (i == j) continue;
      chunk.out.push_back(static_cast<uint32_t>(draft.routes.size()));
      draft.routes.push_back({LinkId{2 * i}, LinkId{2 * j + 1}});
    }
    draft.chunks.push_back(std::move(chunk));
  }
  const Verdict verdict = verify(draft.build());
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(verdict.seconds_per_byte, Fraction(1023, 1024LL * 1'000'000'000));
  draft.chunks[777].out[555] = draft.chunks[777].out[554];
  EXPECT_EQ(verdict_on(draft), "chunk 777 (root r777): out-tree reaches r554 twice");
}

// Loads here are far beyond 64 bits: 2^61 units over links of the least and the greatest bandwidth.
TEST(Verify, CountsHugeSharesExactly) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1000TB/s; b <-> c 0.001kB/s; c <-> a 1000TB/s");
  ScheduleDraft draft{.fabric = fabric, .collective = Collective::make(fabric, {.kind = kAllreduce})};
  draft.chunks = {{.root = fabric.at("a"),
                   .units = uint64_t{1} << 61,
                   .in = draft.edges({"b c", "c a"}),
                   .out = draft.edges({"a b", "a c"})},
                  {.root = fabric.at("b"),
                   .units = uint64_t{1} << 61,
                   .in = draft.edges({"a c", "c b"}),
                   .out = draft.edges({"b a", "b c"})}};
  const Verdict verdict = verify(draft.build());
  EXPECT_TRUE(verdict.valid) << verdict.reason;
  EXPECT_EQ(verdict.seconds_per_byte, Fraction(1));
}

}  // namespace
}  // namespace banyan::schedule
