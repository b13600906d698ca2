// Collectives of jobs by messages.

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/baselines.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/predict/collective/costed_plans.h"
#include "banyan/predict/simulation/test_jobs.h"
#include "banyan/schedule/verify.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using namespace sample;

constexpr auto kMessages = CollectivesAs::messages;

using Planner = std::function<Schedule(const Fabric&, const Collective&)>;

Planner forest() {
  return
      [](const Fabric& fabric, const Collective& collective) { return plan::plan_forest(fabric, collective).schedule; };
}
Planner baseline(plan::Baseline kind) {
  return [kind](const Fabric& fabric, const Collective& collective) { return plan_baseline(kind, fabric, collective); };
}

// All collectives by one planner, in slices of one size.
class PlansBy : public CollectivePlans, public CollectiveMessages {
 public:
  PlansBy(const Fabric& fabric, Planner planner, Bytes slice)
      : fabric_(fabric), planner_(std::move(planner)), slice_(slice) {}
  Footprint footprint(const CollectiveCall& call) override {
    return footprint_of(planner_(fabric_, collective_of(fabric_, call)), call.bytes, Picoseconds(0));
  }
  CollectiveMessages* messages() override { return this; }
  TransferGraph transfers(const CollectiveCall& call, Picoseconds alpha) override {
    return TransferGraph::of(planner_(fabric_, collective_of(fabric_, call)),
                             {.total = Bytes(call.bytes), .slice = slice_, .alpha = alpha, .fold = false});
  }

 private:
  const Fabric fabric_;
  const Planner planner_;
  const Bytes slice_;
};

job::Node collective(CollectiveKind kind, uint64_t bytes, uint32_t root = 0, uint16_t stream = 0, uint32_t slot = 0) {
  return {.kind = job::NodeKind::collective,
          .collective = kind,
          .stream = stream,
          .slot = slot,
          .tag = root,
          .bytes = bytes};
}

// Every rank calls the collectives one after the other.
Job job_of(uint32_t ranks, const std::vector<job::Node>& calls) {
  Job::Builder builder("calls");
  builder.add_name("x");
  std::vector<uint32_t> all;
  for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  const uint32_t group = builder.add_group("all", all);
  builder.begin_program();
  builder.add_stream({.name = "main"});
  for (const job::Node& call : calls) builder.add_node(call);
  for (uint32_t rank = 0; rank < ranks; ++rank) builder.add_rank(0, std::vector{group}, {});
  return std::move(builder).build();
}

// So many ranks of the fabric, in no order.
std::vector<NodeId> some_ranks(const Fabric& fabric, uint32_t count, uint64_t seed) {
  std::vector<NodeId> nodes(fabric.ranks().begin(), fabric.ranks().end());
  std::shuffle(nodes.begin(), nodes.end(), std::mt19937_64(seed));
  nodes.resize(count);
  return nodes;
}

JobSimulation by_messages(const Fabric& fabric, const std::vector<PlacedJob>& jobs, JobSimulationOptions options = {},
                          Picoseconds alpha = Picoseconds(0)) {
  options.collectives = kMessages;
  return simulate(fabric, jobs, options, alpha);
}

std::vector<double> bytes_of(const Prediction& prediction) {
  std::vector<double> bytes;
  for (const PredictedLink& link : prediction.links) bytes.push_back(link.bytes);
  return bytes;
}

TEST(CollectivesByMessages, TakeTheTimeOfTheirScheduleToThePicosecond) {
  struct Case {
    const char* fabric;
    uint32_t ranks;
    Planner planner;
  };
  const std::vector<Case> cases{{"dgx-a100:2", 16, forest()},
                                {"dgx-a100:2", 11, forest()},
                                {"dgx-h100:2", 6, forest()},
                                {"leaf-spine:leaves=3,hosts=4,spines=2", 7, forest()},
                                {"torus:4x4", 16, forest()},
                                {"mi250:1", 16, forest()},
                                {"random:n=10,links=36,seed=2", 10, forest()},
                                {"dgx-a100:2", 9, baseline(plan::Baseline::ring)},
                                {"fat-tree:k=4", 13, baseline(plan::Baseline::ring)},
                                {"star:12", 8, baseline(plan::Baseline::recursive_doubling)},  // of tied edges
                                {"fat-tree:k=4", 10, baseline(plan::Baseline::double_binary_tree)}};
  const Bytes slice(70'001);
  const Picoseconds alpha = microseconds(2);
  size_t longer = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    const Fabric fabric = fabric::generate_fabric(cases[i].fabric);
    const std::vector<NodeId> nodes = some_ranks(fabric, cases[i].ranks, 11 + i);
    PlansBy plans(fabric, cases[i].planner, slice);
    for (const CollectiveKind kind :
         {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
          CollectiveKind::broadcast, CollectiveKind::reduce}) {
      const std::string what = std::string(cases[i].fabric) + ", case " + std::to_string(i) + ", " +
                               std::string(to_string(kind)) + ", seed " + std::to_string(11 + i);
      const uint32_t root = is_rooted(kind) ? cases[i].ranks / 2 : 0;
      const uint64_t bytes = 1'234'567;
      const CollectiveCall call{.kind = kind, .members = nodes, .root = root, .bytes = bytes};
      std::optional<Schedule> schedule;
      try {
        schedule = cases[i].planner(fabric, collective_of(fabric, call));
      } catch (const Error& error) {
        ASSERT_EQ(error.code(), ErrorCode::unsupported) << what;
        continue;
      }
      const ScheduleSimulation alone =
          simulate_schedule(*schedule, {.total = Bytes(bytes), .slice = slice, .alpha = alpha, .fold = false});
      const Job job = job_of(cases[i].ranks, {collective(kind, bytes, root)});
      const JobSimulation result = by_messages(fabric, {{.job = &job, .nodes = nodes}}, {.plans = &plans}, alpha);
      ASSERT_EQ(result.prediction.time, alone.time) << what;
      ASSERT_EQ(result.collective_messages, alone.messages_simulated) << what;
      for (size_t link = 0; link < fabric.links().size(); ++link) {
        ASSERT_NEAR(result.prediction.links[link].bytes, alone.link_bytes[link], 1e-3) << what << ", link " << link;
      }
      for (const PredictedRank& rank : result.prediction.ranks) ASSERT_EQ(rank.exposed, alone.time) << what;
      longer += alone.time > milliseconds(0);
    }
  }
  EXPECT_GE(longer, 50u);
}

TEST(CollectivesByMessages, OfRingsTakeTheTimesThatArithmeticGives) {
  // Of 5 ranks at 1 GB/s, 10 us a message, 10 MB: shards of 2 MB.
  const Fabric fabric = fabric::generate_fabric("star:5@1GB/s");
  const auto time_of = [&](const job::Node& call) {
    const Job job = job_of(5, {call});
    return by_messages(fabric, {{.job = &job, .nodes = first_ranks(fabric, job)}}, {}, microseconds(10))
        .prediction.time;
  };
  EXPECT_EQ(time_of(collective(CollectiveKind::all_reduce, 10'000'000)), 8 * microseconds(2010));
  EXPECT_EQ(time_of(collective(CollectiveKind::all_gather, 10'000'000)), 4 * microseconds(2010));
  EXPECT_EQ(time_of(collective(CollectiveKind::reduce_scatter, 10'000'000)), 4 * microseconds(2010));
  // Every rank sends 4 parts of 2 MB at once, and gets as many.
  EXPECT_EQ(time_of(collective(CollectiveKind::all_to_all, 10'000'000)), microseconds(8010));
  EXPECT_EQ(time_of(collective(CollectiveKind::gather, 10'000'000, 3)), microseconds(8010));
  EXPECT_EQ(time_of(collective(CollectiveKind::scatter, 10'000'000, 3)), microseconds(8010));
  EXPECT_EQ(time_of(collective(CollectiveKind::barrier, 0)), 8 * microseconds(10));
  // A chain of S slices: (S + 3) * (10 us + 10 ms / S), least near S = sqrt(3 * 1000).
  const double best = (55 + 3) * (10 + 1e4 / 55);
  for (const CollectiveKind kind : {CollectiveKind::broadcast, CollectiveKind::reduce}) {
    EXPECT_NEAR(static_cast<double>(time_of(collective(kind, 10'000'000, 2)).count()) * 1e-6, best, best * 1e-3);
  }
}

TEST(RingSchedules, PassTheVerifierAndPutTheBytesOfTheirFootprintsOnLinks) {
  for (const char* spec : {"dgx-a100:2", "star:9", "leaf-spine:leaves=3,hosts=4,spines=2", "dgx-h100:3"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const auto plans = make_ring_plans(fabric, kFree);
    for (uint32_t count : {2u, 5u, static_cast<uint32_t>(fabric.ranks().size())}) {
      const std::vector<NodeId> nodes = some_ranks(fabric, count, count);
      for (int k = 0; k <= static_cast<int>(CollectiveKind::barrier); ++k) {
        const CollectiveKind kind = static_cast<CollectiveKind>(k);
        const uint64_t bytes = kind == CollectiveKind::barrier ? 0 : 9'876'543;
        const CollectiveCall call{
            .kind = kind, .members = nodes, .root = is_rooted(kind) ? count - 1 : 0, .bytes = bytes};
        const std::string what =
            std::string(spec) + ", " + std::string(to_string(kind)) + " of " + std::to_string(count) + " (seed)";
        if (scheduled_kind(kind)) {
          const schedule::Verdict verdict = verify(ring_schedule(fabric, call));
          EXPECT_TRUE(verdict.valid) << what << ": " << verdict.reason;
        }
        std::vector<double> on_link(fabric.links().size(), 0);
        for (const FluidHop& hop : plans->footprint(call).hops) on_link[hop.link] -= hop.coefficient;
        const TransferGraph graph = plans->messages()->transfers(call, microseconds(3));
        for (uint32_t t = 0; t < graph.transfers().size(); ++t) {
          const FoldedTransfer& transfer = graph.transfers()[t];
          for (const FluidHop& hop : graph.hops(t)) {
            on_link[graph.first_links()[hop.link]] += hop.coefficient * transfer.bytes * transfer.slices;
          }
        }
        for (size_t link = 0; link < on_link.size(); ++link) EXPECT_NEAR(on_link[link], 0, 1e-2) << what;
      }
    }
  }
}

// The two agree where one step of a large collective is long beside its messages' cost, and nothing else is under way.
TEST(CollectivesByMessages, AgreeWithFlowsForLargeSizes) {
  for (const char* spec : {"star:8@25GB/s", "dgx-a100:2", "dgx-h100:2", "leaf-spine:leaves=2,hosts=4,spines=4"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const uint32_t ranks = static_cast<uint32_t>(fabric.ranks().size());
    for (const CollectiveKind kind : {CollectiveKind::all_reduce, CollectiveKind::all_gather,
                                      CollectiveKind::reduce_scatter, CollectiveKind::all_to_all}) {
      const Job job = job_of(ranks, {collective(kind, uint64_t{1} << 30)});
      const std::vector<PlacedJob> placed{{.job = &job, .nodes = first_ranks(fabric, job)}};
      const Picoseconds flow = simulate(fabric, placed).prediction.time;
      const Picoseconds messages = by_messages(fabric, placed, {}, microseconds(2)).prediction.time;
      EXPECT_GE(messages, flow) << spec << ", " << to_string(kind);
      EXPECT_LE(static_cast<double>(messages.count()), 1.015 * static_cast<double>(flow.count()))
          << spec << ", " << to_string(kind);
    }
    PlansBy forests(fabric, forest(), Bytes(1 << 20));
    const Job job = job_of(ranks, {collective(CollectiveKind::all_reduce, uint64_t{1} << 30)});
    const std::vector<PlacedJob> placed{{.job = &job, .nodes = first_ranks(fabric, job)}};
    const double flow = static_cast<double>(simulate(fabric, placed, {.plans = &forests}).prediction.time.count());
    const double messages =
        static_cast<double>(by_messages(fabric, placed, {.plans = &forests}, Picoseconds(0)).prediction.time.count());
    EXPECT_GE(messages, flow * (1 - 1e-9)) << spec;
    EXPECT_LE(messages, 1.01 * flow) << spec;
  }
}

TEST(CollectivesByMessages, BeginWhenTheLastRankHasCome) {
  // 4 MB each way, twice: reduced, then spread.
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  const Job job = uneven_pair(milliseconds(1), milliseconds(3), 8'000'000);
  const Prediction prediction =
      by_messages(fabric, {{.job = &job, .nodes = first_ranks(fabric, job)}}, {}, microseconds(100)).prediction;
  EXPECT_EQ(prediction.time, microseconds(3000 + 2 * 4100));
  EXPECT_EQ(prediction.ranks[0].compute, milliseconds(1));
  EXPECT_EQ(prediction.ranks[0].waiting, milliseconds(2));
  EXPECT_EQ(prediction.ranks[0].exposed, microseconds(8200));
  EXPECT_EQ(prediction.ranks[1].waiting, milliseconds(0));
  ASSERT_EQ(prediction.spans.size(), 5u);  // two computations, one wait, two collectives
  for (const PredictedLink& link : prediction.links) EXPECT_NEAR(link.bytes, 8e6, 1e-3);
}

// Ranks of every parity are a group; each group calls on a stream of its own, again and again.
Job two_groups(uint32_t ranks, uint64_t seed, int calls) {
  std::mt19937_64 random(seed);
  Job::Builder builder("two groups");
  builder.add_name("x");
  std::vector<uint32_t> members[2];
  for (uint32_t rank = 0; rank < ranks; ++rank) members[rank % 2].push_back(rank);
  const uint32_t groups[2] = {builder.add_group("even", members[0]), builder.add_group("odd", members[1])};
  constexpr CollectiveKind kinds[] = {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::broadcast,
                                      CollectiveKind::all_to_all};
  for (int parity = 0; parity < 2; ++parity) {
    builder.begin_program();
    builder.add_stream({.name = "main"});
    for (int i = 0; i < calls; ++i) {
      builder.add_node(compute(microseconds(random() % 200)));
      builder.add_node(collective(kinds[random() % 4], 100'000 + random() % 3'000'000));
    }
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) builder.add_rank(rank % 2, std::vector{groups[rank % 2]}, {});
  return std::move(builder).build();
}

// The loads of a job's collectives on links, by their footprints.
std::vector<double> bytes_by_flow(const Fabric& fabric, const Job& job) {
  return bytes_of(simulate(fabric, job).prediction);
}

TEST(CollectivesByMessages, ShareLinksWithOthersAndLoseNoByte) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=4,spines=1@1GB/s");
  for (uint64_t seed = 1; seed <= 5; ++seed) {
    const Job job = two_groups(8, seed, 3);
    const std::vector<NodeId> nodes = first_ranks(fabric, job);
    const Prediction together = by_messages(fabric, {{.job = &job, .nodes = nodes}}).prediction;
    const std::vector<double> expected = bytes_by_flow(fabric, job);
    for (size_t link = 0; link < expected.size(); ++link) {
      ASSERT_NEAR(together.links[link].bytes, expected[link], 1) << "seed " << seed << ", link " << link;
      ASSERT_LE(together.links[link].bytes, 1e9 * static_cast<double>(together.time.count()) * 1e-12 * (1 + 1e-9));
    }
    for (const PredictedRank& rank : together.ranks) {
      ASSERT_EQ(rank.compute + rank.exposed + rank.waiting + rank.bubble, together.time) << "seed " << seed;
    }
  }
  // Two allreduces of 8 MB over the same links, each with half of every link: 2 * 3/4 * 8 MB over 0.5 GB/s.
  const Job one = job_of(4, {collective(CollectiveKind::all_reduce, 8'000'000)});
  const Fabric star = fabric::generate_fabric("star:4@1GB/s");
  const std::vector<NodeId> all = first_ranks(star, one);
  EXPECT_EQ(by_messages(star, {{.job = &one, .nodes = all}, {.job = &one, .nodes = all}}).prediction.time,
            milliseconds(24));
}

TEST(CollectivesByMessages, GoAtTheWeightsAndPrioritiesOfTheirJobs) {
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  const Job one = uneven_pair(Picoseconds(0), Picoseconds(0), 8'000'000);
  const Job other = uneven_pair(Picoseconds(0), Picoseconds(0), 4'000'000);
  const std::vector<NodeId> nodes = first_ranks(fabric, one);
  // 8 MB each way at 2/3 and 4 MB at 1/3 of 1 GB/s.
  const Prediction weighted =
      by_messages(fabric, {{.job = &one, .nodes = nodes, .weight = 2}, {.job = &other, .nodes = nodes}}).prediction;
  EXPECT_NEAR(static_cast<double>(weighted.jobs[0].end.count()), 12e9, 2);
  EXPECT_NEAR(static_cast<double>(weighted.jobs[1].end.count()), 12e9, 2);
  const Prediction strict = by_messages(fabric, {{.job = &one, .nodes = nodes, .priority = 1},
                                                 {.job = &other, .nodes = nodes, .start = milliseconds(1)}})
                                .prediction;
  EXPECT_EQ(strict.jobs[1].end, milliseconds(5));
  EXPECT_EQ(strict.jobs[0].end, milliseconds(12));
}

TEST(CollectivesByMessages, GiveTheSameAnswerTwice) {
  const Fabric fabric = fabric::generate_fabric("fat-tree:k=6@10GB/s");
  const Job job = grid(4, 8, 3);
  const std::vector<PlacedJob> placed{{.job = &job, .nodes = first_ranks(fabric, job)}};
  const JobSimulation once = by_messages(fabric, placed), again = by_messages(fabric, placed);
  EXPECT_EQ(once.rank_kinds, job.rank_count());  // nothing is folded
  EXPECT_EQ(once.prediction.time, again.prediction.time);
  EXPECT_EQ(once.collective_messages, again.collective_messages);
  EXPECT_EQ(bytes_of(once.prediction), bytes_of(again.prediction));
  ASSERT_EQ(once.prediction.spans.size(), again.prediction.spans.size());
  for (size_t i = 0; i < once.prediction.spans.size(); ++i) {
    ASSERT_EQ(once.prediction.spans[i].begin, again.prediction.spans[i].begin);
    ASSERT_EQ(once.prediction.spans[i].end, again.prediction.spans[i].end);
    ASSERT_EQ(once.prediction.spans[i].rank, again.prediction.spans[i].rank);
  }
}

// ---- Links that change

TEST(CollectivesByMessages, StopMoveOrFailWithTheirLinks) {
  // 4 MB each way by sw1 at 1 GB/s, then 4 MB more.
  const Fabric fabric = two_ways();
  const Job job = uneven_pair(Picoseconds(0), Picoseconds(0), 8'000'000);
  const std::vector<PlacedJob> placed{{.job = &job, .nodes = first_ranks(fabric, job)}};
  const auto simulate_with = [&](const std::vector<std::string>& events, OnFailure on_failure) {
    return by_messages(fabric, placed, {.events = events_of(fabric, events), .on_failure = on_failure}).prediction;
  };
  EXPECT_EQ(simulate_with({}, OnFailure::stop).time, milliseconds(8));
  EXPECT_EQ(simulate_with({"2ms a-sw1=500MB/s"}, OnFailure::stop).time, milliseconds(14));
  EXPECT_EQ(simulate_with({"2ms a-sw1 fail", "5ms a-sw1 returns"}, OnFailure::stop).time, milliseconds(11));
  // 2 MB in 2 ms, 2 MB by sw2 in 4 ms, and the other 4 MB there in 8.
  const Prediction moved = simulate_with({"2ms a-sw1 fail"}, OnFailure::move);
  EXPECT_EQ(moved.time, milliseconds(14));
  EXPECT_NEAR(bytes_on(fabric, moved, "a", "sw1"), 2e6, 1);
  EXPECT_NEAR(bytes_on(fabric, moved, "sw2", "a"), 6e6, 1);
  // A message that begins after the return goes the way of its plan: 2 + 4 + 4.
  EXPECT_EQ(simulate_with({"2ms a-sw1 fail", "3ms a-sw1 returns"}, OnFailure::move).time, milliseconds(10));
  const Prediction failed = simulate_with({"2ms a-sw1 fail"}, OnFailure::fail);
  EXPECT_EQ(failed.jobs[0].failed_at, milliseconds(2));
  EXPECT_NEAR(bytes_on(fabric, failed, "a", "sw1"), 2e6, 1);
  try {
    simulate_with({"2ms a-sw1 fail"}, OnFailure::stop);
    FAIL() << "it came to an end";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("waits for the link 'a' -> 'sw1', which fails"));
  }
}

TEST(CollectivesByMessages, FailAloneWithTheLinkThatTheyUse) {
  const Fabric fabric = fabric::generate_fabric("star:4@1GB/s");
  const std::span<const NodeId> ranks = fabric.ranks();
  const Job job = uneven_pair(Picoseconds(0), Picoseconds(0), 8'000'000);
  const std::string cable = fabric.name(ranks[1]) + "-" + fabric.name(fabric.link(fabric.out_links(ranks[1])[0]).to);
  const Prediction prediction =
      by_messages(fabric,
                  {{.job = &job, .nodes = {ranks[0], ranks[1]}},
                   {.job = &job, .nodes = {ranks[2], ranks[3]}},
                   {.job = &job, .nodes = {ranks[1], ranks[3]}, .start = milliseconds(20)}},
                  {.events = events_of(fabric, {"1ms " + cable + " fail", "15ms " + cable + " returns"}),
                   .on_failure = OnFailure::fail},
                  microseconds(10))
          .prediction;
  EXPECT_EQ(prediction.jobs[0].failed_at, milliseconds(1));
  EXPECT_FALSE(prediction.jobs[1].failed_at);
  EXPECT_EQ(prediction.jobs[1].end, microseconds(8020));
  EXPECT_FALSE(prediction.jobs[2].failed_at);
  EXPECT_EQ(prediction.jobs[2].end, microseconds(28020));
}

TEST(CollectivesByMessages, LoseNoByteWhileLinksFailAndReturn) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=2,hosts=4,spines=2@1GB/s");
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const Job job = two_groups(8, seed, 4);
    const std::vector<PlacedJob> placed{{.job = &job, .nodes = first_ranks(fabric, job)}};
    const Prediction calm = by_messages(fabric, placed).prediction;
    std::mt19937_64 random(seed);
    std::vector<LinkEvent> events;
    for (int i = 0; i < 10; ++i) {
      const LinkId link{static_cast<uint32_t>(random() % fabric.links().size())};
      const Picoseconds begin = microseconds(random() % 20'000);
      const Bandwidth what = random() % 3 == 0 ? Bandwidth::bytes_per_second(200'000'000) : Bandwidth();
      events.push_back({begin, link, what});
      events.push_back({begin + microseconds(1 + random() % 1000), link, std::nullopt});
    }
    for (const OnFailure on_failure : {OnFailure::stop, OnFailure::move}) {
      const JobSimulationOptions options{.events = events, .on_failure = on_failure};
      const Prediction prediction = by_messages(fabric, placed, options).prediction;
      EXPECT_EQ(by_messages(fabric, placed, options).prediction.time, prediction.time) << "seed " << seed;
      double up = 0, down = 0, calm_up = 0;  // through spines
      for (uint32_t link = 0; link < fabric.links().size(); ++link) {
        const Link& row = fabric.links()[link];
        const double bytes = prediction.links[link].bytes;
        if (on_failure == OnFailure::stop || fabric.is_rank(row.from) || fabric.is_rank(row.to)) {
          EXPECT_NEAR(bytes, calm.links[link].bytes, 1) << "seed " << seed << ", link " << link;
          continue;
        }
        const std::span<const LinkId> in = fabric.in_links(row.from);
        const bool is_up =
            std::any_of(in.begin(), in.end(), [&](LinkId other) { return fabric.is_rank(fabric.link(other).from); });
        (is_up ? up : down) += bytes;
        if (is_up) calm_up += calm.links[link].bytes;
      }
      EXPECT_NEAR(up, down, 20) << "seed " << seed;
      if (on_failure == OnFailure::move) {
        EXPECT_NEAR(up, calm_up, 20) << "seed " << seed;
      }
    }
  }
}

// ---- What has no messages

std::string error_of(const Fabric& fabric, const Job& job, CollectivePlans& plans) {
  try {
    by_messages(fabric, {{.job = &job, .nodes = first_ranks(fabric, job)}}, {.plans = &plans});
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), ::testing::Not(HasSubstr("\n")));
    return error.what();
  }
  return "none";
}

TEST(CollectivesByMessages, SayWhichHasNoneAndWhatToUse) {
  const Fabric fabric = fabric::generate_fabric("star:4@1GB/s");
  const Job job = job_of(4, {collective(CollectiveKind::all_reduce, 1000)});
  CollectiveCost cost;
  cost.pieces = {{.from = 0, .alpha = microseconds(3), .efficiency = 0.25}};
  const LinkEfficiency links{.scale_up = 1, .network = 1, .latency = microseconds(5)};
  const auto measured = make_costed_plans(fabric, make_ring_plans(fabric, kFree), links, {cost});
  EXPECT_THAT(error_of(fabric, job, *measured),
              AllOf(HasSubstr("collective 'x' of group 'all'"), HasSubstr("allreduce of 4 ranks"),
                    HasSubstr("leave --costs out")));
  // A collective that was not measured goes by messages.
  const Job other = job_of(4, {collective(CollectiveKind::all_to_all, 1000)});
  EXPECT_EQ(error_of(fabric, other, *measured), "none");

  class FlowsOnly : public CollectivePlans {
   public:
    Footprint footprint(const CollectiveCall&) override { return {}; }
  } flows_only;
  EXPECT_THAT(error_of(fabric, job, flows_only), AllOf(HasSubstr("group 'all'"), HasSubstr("--collectives flow")));

  const Fabric large = fabric::generate_fabric("star:3000@1GB/s");
  const Job many = job_of(3000, {collective(CollectiveKind::all_reduce, 1000)});
  const auto rings = make_ring_plans(large, kFree);
  EXPECT_THAT(error_of(large, many, *rings), AllOf(HasSubstr("17994000 transfers"), HasSubstr("--collectives flow")));
  EXPECT_THROW(parse_collectives_as("message"), Error);
  EXPECT_EQ(parse_collectives_as("messages"), CollectivesAs::messages);
}

}  // namespace
}  // namespace banyan::predict
