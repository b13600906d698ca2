#include "banyan/job/job.h"

#include "banyan/testing/test.h"

namespace banyan::job {
namespace {

// One program of as many compute nodes "n0", "n1", ..., on one stream, run by one rank.
class OneProgram {
 public:
  explicit OneProgram(uint32_t nodes, Stream::Order order = Stream::Order::ready) : builder("test") {
    builder.begin_program();
    builder.add_stream({"compute", order});
    for (uint32_t i = 0; i < nodes; ++i) builder.add_node({.name = builder.add_name("n" + std::to_string(i))});
  }
  Job build() {
    builder.add_rank(0, {}, {});
    return std::move(builder).build();
  }
  std::string error() {
    return testing::error_of([&] { build(); }, ErrorCode::invalid_input);
  }

  Job::Builder builder;
};

std::string error_of(Job::Builder& builder) {
  return testing::error_of([&] { std::move(builder).build(); });
}

TEST(Job, KeepsDependenciesInOrderAndOnce) {
  OneProgram one(5);
  for (const uint32_t on : {3u, 0u, 3u, 1u, 0u}) one.builder.add_need(4, on);
  one.builder.add_follow(2, 1);
  const Job job = one.build();
  EXPECT_THAT(job.program(0).needs(4), ElementsAre(0, 1, 3));
  EXPECT_THAT(job.program(0).needs(0), IsEmpty());
  EXPECT_THAT(job.program(0).follows(2), ElementsAre(1));
  EXPECT_THAT(job.program(0).follows(4), IsEmpty());
  EXPECT_EQ(job.node_count(), 5u);
  EXPECT_EQ(job.name_of(job.program(0).nodes[3]), "n3");
}

TEST(Job, TakesDependenciesBeforeTheirNodes) {
  Job::Builder builder("test");
  builder.begin_program();
  builder.add_need(0, 1);
  builder.add_stream({"s", Stream::Order::ready});
  for (int i = 0; i < 2; ++i) builder.add_node({.name = builder.add_name("n")});
  builder.add_rank(0, {}, {});
  EXPECT_THAT(std::move(builder).build().program(0).needs(0), ElementsAre(1));
}

TEST(Job, GivesTheSameNumberToTheSameName) {
  Job::Builder builder("test");
  std::vector<uint32_t> numbers;
  for (uint32_t i = 0; i < 1000; ++i) numbers.push_back(builder.add_name("name " + std::to_string(i)));
  for (uint32_t i = 0; i < 1000; ++i) EXPECT_EQ(builder.add_name("name " + std::to_string(i)), numbers[i]);
  EXPECT_EQ(numbers.back(), 999u);
}

// Two ranks run one program: their slots say which group and which peer are meant.
TEST(Job, BindsSlotsRankByRank) {
  Job::Builder builder("test");
  const uint32_t odd = builder.add_group("odd", {3, 1}), even = builder.add_group("even", {0, 2});
  builder.begin_program();
  builder.add_stream({"s", Stream::Order::program});
  const uint32_t name = builder.add_name("x");
  builder.add_node({.kind = NodeKind::collective, .name = name, .slot = 0, .bytes = 8});
  builder.add_node({.kind = NodeKind::send, .name = name, .slot = 1, .bytes = 8});
  for (uint32_t rank = 0; rank < 4; ++rank) {
    builder.add_rank(0, std::vector{rank % 2 == 0 ? even : odd}, std::vector{(rank + 1) % 4, (rank + 2) % 4});
  }
  const Job job = std::move(builder).build();
  EXPECT_EQ(job.programs().size(), 1u);
  EXPECT_EQ(job.group(1, 0), odd);
  EXPECT_EQ(job.group(2, 0), even);
  EXPECT_EQ(job.peer(3, 0), 0u);
  EXPECT_EQ(job.peer(3, 1), 1u);
  EXPECT_EQ(job.node_count(), 8u);
}

// A trace has a program for each rank; those that are the same are kept once.
TEST(Job, KeepsEqualProgramsOnce) {
  Job::Builder builder("trace");
  const uint32_t name = builder.add_name("x");
  for (uint32_t rank = 0; rank < 4; ++rank) {
    builder.begin_program();
    builder.add_stream({"s", Stream::Order::program});
    builder.add_node({.name = name, .duration = Picoseconds(rank == 2 ? 8 : 7)});
    builder.add_node({.kind = NodeKind::send, .name = name, .bytes = 8});
    if (rank != 3) builder.add_need(1, 0);
  }
  for (uint32_t rank = 0; rank < 4; ++rank) builder.add_rank(rank, {}, std::vector{(rank + 1) % 4});
  const Job job = std::move(builder).build();
  EXPECT_EQ(job.programs().size(), 3u) << "the third differs in a time, the fourth in what it needs";
  EXPECT_EQ(job.program_number(0), job.program_number(1));
  EXPECT_EQ(job.program(2).nodes[0].duration, Picoseconds(8));
  EXPECT_THAT(job.program(3).needs(1), IsEmpty());
  EXPECT_EQ(job.peer(1, 0), 2u);
  EXPECT_EQ(job.node_count(), 8u);
}

TEST(Job, ShowsTheCircleOfNodesThatWaitForOneAnother) {
  OneProgram needs(4);
  needs.builder.add_need(1, 3);
  needs.builder.add_need(3, 2);
  needs.builder.add_follow(2, 1);
  EXPECT_EQ(needs.error(),
            "program 0: nodes wait for one another in a circle: 'n1' (node 1) needs 'n3' (node 3), which needs "
            "'n2' (node 2), which follows the first");

  OneProgram itself(2);
  itself.builder.add_need(1, 1);
  EXPECT_THAT(itself.error(), HasSubstr("'n1' (node 1) needs the first"));

  OneProgram ordered(3, Stream::Order::program);
  ordered.builder.add_need(0, 2);
  EXPECT_THAT(ordered.error(),
              HasSubstr("'n0' (node 0) needs 'n2' (node 2), which comes on its stream after 'n1' (node 1), "
                        "which comes on its stream after the first"));
  OneProgram ready(3, Stream::Order::ready);
  ready.builder.add_need(0, 2);
  EXPECT_EQ(ready.error(), "no error");
}

TEST(Job, ShowsOnlyTheBeginningOfALongCircle) {
  OneProgram one(100'000);
  for (uint32_t i = 0; i < 100'000; ++i) one.builder.add_need(i, (i + 1) % 100'000);
  const std::string error = one.error();
  EXPECT_THAT(error, HasSubstr("needs 'n8' (node 8), and so on over 99992 more to itself"));
  EXPECT_LT(error.size(), 600u);
}

// Against the definition: a random graph is accepted exactly when its nodes can be carried out one after the other.
TEST(Job, FindsACircleExactlyWhenThereIsOne) {
  const uint32_t seed = 20240611;
  std::mt19937 generator(seed);
  const auto random = [&] { return static_cast<uint32_t>(generator()); };
  int circles = 0;
  for (int round = 0; round < 2000; ++round) {
    const uint32_t nodes = 2 + random() % 7, edges = random() % 9;
    std::vector<std::pair<uint32_t, uint32_t>> pairs;
    const bool ordered = round % 2 == 0;
    OneProgram candidate(nodes, ordered ? Stream::Order::program : Stream::Order::ready);
    for (uint32_t i = 1; ordered && i < nodes; ++i) pairs.emplace_back(i, i - 1);
    for (uint32_t i = 0; i < edges; ++i) {
      const uint32_t node = random() % nodes, on = random() % nodes;
      pairs.emplace_back(node, on);
      if (random() % 2 == 0) {
        candidate.builder.add_need(node, on);
      } else {
        candidate.builder.add_follow(node, on);
      }
    }
    std::vector<bool> done(nodes);
    for (uint32_t pass = 0; pass < nodes; ++pass) {
      for (uint32_t node = 0; node < nodes; ++node) {
        bool free = true;
        for (const auto& [from, on] : pairs) free = free && (from != node || done[on]);
        if (free) done[node] = true;
      }
    }
    const bool circle = std::count(done.begin(), done.end(), false) != 0;
    circles += circle;
    EXPECT_EQ(candidate.error() == "no error", !circle) << "seed " << seed << " round " << round;
  }
  EXPECT_GT(circles, 200);
  EXPECT_LT(circles, 1800);
}

TEST(Job, RefusesNodesThatAreOutOfRange) {
  const auto error = [](Node node) {
    OneProgram one(1);
    one.builder.add_node(node);
    return one.error();
  };
  EXPECT_THAT(error({.duration = Picoseconds(-1)}), HasSubstr("program 0 node 1 'n0': its duration is negative"));
  EXPECT_THAT(error({.duration = Picoseconds(INT64_MAX)}), HasSubstr("above 13 days"));
  EXPECT_THAT(error({.kind = NodeKind::memory, .bytes = UINT64_MAX}), HasSubstr("18446744073709551615 bytes"));
  EXPECT_THAT(error({.stream = 1}), HasSubstr("is on stream 1 of 1"));
  EXPECT_THAT(error({.name = 7}), HasSubstr("program 0 node 1: has name 7"));
  EXPECT_THAT(error({.flop = -1}), HasSubstr("floating-point operations"));
  EXPECT_THAT(error({.kind = NodeKind::send, .slot = Node::kAnyPeer}), HasSubstr("must name its peer"));
  EXPECT_THAT(error({.kind = NodeKind::collective, .slot = UINT32_MAX}), HasSubstr("group slot 4294967295"));
  OneProgram one(2);
  one.builder.add_need(1, 2);
  EXPECT_THAT(one.error(), HasSubstr("node 1 waits for node 2, but there are 2 nodes"));
}

TEST(Job, CallsAProgramInErrorsAsItWasCalled) {
  Job::Builder builder("test");
  builder.begin_program("rank 7");
  builder.add_stream({"s", Stream::Order::program});
  builder.add_node({.name = builder.add_name("x"), .duration = Picoseconds(-1)});
  EXPECT_EQ(testing::error_of([&] { builder.finish_program(); }), "rank 7 node 0 'x': its duration is negative");
}

TEST(Job, RefusesGroupsThatAreNone) {
  const auto error = [](std::vector<uint32_t> ranks, std::vector<uint32_t> bound, uint32_t root = 0) {
    Job::Builder builder("test");
    builder.add_group("g", std::move(ranks));
    builder.begin_program();
    builder.add_stream({"s", Stream::Order::program});
    builder.add_node({.kind = NodeKind::collective,
                      .collective = CollectiveKind::broadcast,
                      .name = builder.add_name("b"),
                      .tag = root});
    builder.add_rank(0, bound, {});
    builder.add_rank(0, bound, {});
    return error_of(builder);
  };
  EXPECT_EQ(error({0, 1}, {0}), "no error");
  EXPECT_EQ(error({}, {0}), "rank 0 calls a collective whose root is place 0 of group 'g', which has 0 members");
  EXPECT_EQ(error({0, 1, 2}, {0}), "group 'g' names rank 2, but the job has ranks 0 to 1");
  EXPECT_EQ(error({0, 1, 0}, {0}), "group 'g' names rank 0 twice");
  EXPECT_EQ(error({0}, {0}), "rank 1 calls a collective on group 'g', of which it is not a member");
  EXPECT_EQ(error({0, 1}, {1}), "rank 0 uses group 1, which is not there");
  EXPECT_EQ(error({0, 1}, {}), "rank 0 binds 0 group slots, but program 0 uses 1");
  EXPECT_EQ(error({0, 1}, {0}, 2), "rank 0 calls a collective whose root is place 2 of group 'g', which has 2 members");
  EXPECT_THAT(error({0, 1}, {0}, UINT32_MAX), HasSubstr("which has 2 members"));
}

TEST(Job, RefusesPeersThatAreNone) {
  const auto error = [](uint32_t peer) {
    Job::Builder builder("test");
    builder.begin_program();
    builder.add_stream({"s", Stream::Order::program});
    builder.add_node({.kind = NodeKind::send, .name = builder.add_name("s")});
    builder.add_rank(0, {}, std::vector{peer});
    return error_of(builder);
  };
  EXPECT_THAT(error(0), HasSubstr("rank 0 sends to or receives from itself"));
  EXPECT_THAT(error(1), HasSubstr("rank 0 has rank 1 as a peer, but the job has ranks 0 to 0"));
}

TEST(Job, RefusesAJobOfNobody) {
  Job::Builder builder("test");
  builder.begin_program();
  EXPECT_EQ(error_of(builder), "the job has no ranks");
  Job::Builder stray("test");
  stray.add_rank(0, {}, {});
  EXPECT_EQ(error_of(stray), "rank 0 runs program 0, which is not there");
}

}  // namespace
}  // namespace banyan::job
