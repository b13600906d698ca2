#include "banyan/predict/simulation/job_simulation.h"

#include "banyan/fabric/generate.h"
#include "banyan/predict/simulation/test_jobs.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using namespace sample;

TEST(JobSimulation, BeginsACollectiveWhenTheLastMemberHasCome) {
  // 1 GB/s; a ring of two sends 2 * 1/2 * 8 MB each way: 8 ms after the later of 1 and 3 ms.
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  const Prediction prediction = simulate(fabric, uneven_pair(milliseconds(1), milliseconds(3), 8'000'000)).prediction;
  EXPECT_EQ(prediction.time, milliseconds(11));
  EXPECT_EQ(prediction.ranks[0].compute, milliseconds(1));
  EXPECT_EQ(prediction.ranks[0].waiting, milliseconds(2));
  EXPECT_EQ(prediction.ranks[0].exposed, milliseconds(8));
  EXPECT_EQ(prediction.ranks[0].bubble, milliseconds(0));
  EXPECT_EQ(prediction.ranks[1].compute, milliseconds(3));
  EXPECT_EQ(prediction.ranks[1].waiting, milliseconds(0));
  for (const PredictedLink& link : prediction.links) EXPECT_DOUBLE_EQ(link.bytes, 8e6);
  double sum = 0;
  for (const float load : prediction.links[0].load)
    sum += load * static_cast<double>(prediction.load_step.count()) * 1e-12;
  EXPECT_NEAR(sum, 8e-3, 1e-6);  // seconds at full load
}

TEST(JobSimulation, OverlapsCommunicationWithComputeOnAnotherStream) {
  Job::Builder builder("overlap");
  builder.add_name("work");
  const uint32_t group = builder.add_group("all", {0, 1});
  builder.begin_program();
  builder.add_stream({.name = "compute"});
  builder.add_stream({.name = "comm"});
  const uint32_t first = builder.add_node(compute(milliseconds(2)));
  builder.add_node(compute(milliseconds(5)));
  const uint32_t reduce = builder.add_node(all_reduce(8'000'000, 1));  // 8 ms after 2
  const uint32_t last = builder.add_node(compute(milliseconds(1)));
  builder.add_need(reduce, first);
  builder.add_need(last, reduce);
  for (int rank = 0; rank < 2; ++rank) builder.add_rank(0, std::vector{group}, {});
  const Job job = std::move(builder).build();
  const JobSimulation result = simulate(fabric::generate_fabric("star:2@1GB/s"), job);
  EXPECT_EQ(result.prediction.time, milliseconds(11));
  EXPECT_EQ(result.prediction.ranks[0].compute, milliseconds(8));
  EXPECT_EQ(result.prediction.ranks[0].exposed, milliseconds(3));
  EXPECT_EQ(result.rank_kinds, 1u);  // both ranks are alike
}

// As traces are read: a program for each rank, and more kinds of calls than a training step has.
TEST(JobSimulation, FoldsRanksOfEqualPrograms) {
  Job::Builder builder("trace");
  builder.add_name("work");
  std::vector<uint32_t> all(64);
  std::iota(all.begin(), all.end(), 0);
  const uint32_t group = builder.add_group("all", all);
  for (uint32_t rank = 0; rank < 64; ++rank) {
    builder.begin_program();
    builder.add_stream({.name = "main"});
    builder.add_node(compute(milliseconds(1)));
    for (uint64_t call = 1; call <= 100; ++call) builder.add_node(all_reduce(call * 1000));
  }
  for (uint32_t rank = 0; rank < 64; ++rank) builder.add_rank(rank, std::vector{group}, {});
  const Job job = std::move(builder).build();
  const Fabric fabric = fabric::generate_fabric("star:64@1GB/s");
  const JobSimulation folded = simulate(fabric, job);
  EXPECT_EQ(folded.rank_kinds, 1u);
  EXPECT_EQ(folded.prediction.time, simulate(fabric, job, {.fold = false}).prediction.time);
}

TEST(JobSimulation, RunsWhatIsReadyFirstOnAStreamWithoutOrder) {
  for (const auto order : {job::Stream::Order::program, job::Stream::Order::ready}) {
    Job::Builder builder("order");
    builder.add_name("work");
    builder.begin_program();
    builder.add_stream({.name = "cpu", .order = order});
    builder.add_stream({.name = "other"});
    const uint32_t late = builder.add_node(compute(milliseconds(1)));
    builder.add_node(compute(milliseconds(4)));
    const uint32_t cause = builder.add_node(compute(milliseconds(3), 1));
    builder.add_need(late, cause);
    builder.add_rank(0, {}, {});
    builder.begin_program();
    builder.add_rank(1, {}, {});
    const Job job = std::move(builder).build();
    const Picoseconds time = simulate(fabric::generate_fabric("star:2"), job).prediction.time;
    EXPECT_EQ(time, order == job::Stream::Order::program ? milliseconds(8) : milliseconds(5));
  }
}

TEST(JobSimulation, SendsSmallMessagesEagerlyAndLargeOnesWhenTheirReceiverIsThere) {
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  EXPECT_EQ(simulate(fabric, message(4'000'000, milliseconds(3))).prediction.time, milliseconds(7));
  const Prediction eager = simulate(fabric, message(50'000, milliseconds(3))).prediction;
  EXPECT_EQ(eager.time, milliseconds(3));  // it has waited there
  EXPECT_EQ(simulate(fabric, message(4'000'000, milliseconds(3)), {.eager = Bytes(1 << 30)}).prediction.time,
            milliseconds(4));
}

TEST(JobSimulation, LetsJobsShareLinksByTheirWeights) {
  const Fabric fabric = fabric::generate_fabric("star:2@1GB/s");
  const Job one = message(4'000'000, Picoseconds(0)), other = message(2'000'000, Picoseconds(0));
  const std::vector<NodeId> nodes(fabric.ranks().begin(), fabric.ranks().end());
  // 2/3 and 1/3 of 1 GB/s: the second has 2 MB after 6 ms, the first 4 MB as well.
  const Prediction weighted =
      simulate(fabric, {{.job = &one, .nodes = nodes, .weight = 2}, {.job = &other, .nodes = nodes}}).prediction;
  EXPECT_EQ(weighted.jobs[0].end, milliseconds(6));
  EXPECT_EQ(weighted.jobs[1].end, milliseconds(6));
  const Prediction strict = simulate(fabric, {{.job = &one, .nodes = nodes, .priority = 1},
                                              {.job = &other, .nodes = nodes, .start = milliseconds(1)}})
                                .prediction;
  EXPECT_EQ(strict.jobs[1].end, milliseconds(3));
  EXPECT_EQ(strict.jobs[0].end, milliseconds(6));
}

TEST(JobSimulation, TakesMessagesFromAnybodyInTheOrderOfTheirSends) {
  Job::Builder builder("any");
  builder.add_name("text");
  for (const Picoseconds delay : {Picoseconds(milliseconds(2)), Picoseconds(milliseconds(1))}) {
    builder.begin_program();
    builder.add_stream({.name = "main"});
    builder.add_node(compute(delay));
    builder.add_node(send(1'000'000));
  }
  builder.begin_program();
  builder.add_stream({.name = "main"});
  for (int i = 0; i < 2; ++i) {
    builder.add_node(
        {.kind = job::NodeKind::receive, .slot = job::Node::kAnyPeer, .tag = job::Node::kAnyTag, .bytes = 1'000'000});
  }
  builder.add_node(compute(milliseconds(5)));
  builder.add_rank(0, {}, std::vector{2u});
  builder.add_rank(1, {}, std::vector{2u});
  builder.add_rank(2, {}, {});
  const Job job = std::move(builder).build();
  const Prediction prediction = simulate(fabric::generate_fabric("star:3@1GB/s"), job).prediction;
  EXPECT_EQ(prediction.time, milliseconds(8));  // from rank 1 at 2 ms, from rank 0 at 3 ms
}

TEST(JobSimulation, SaysWhoWaitsWhenAJobCannotGoOn) {
  Job::Builder builder("halt");
  builder.add_name("grads");
  const uint32_t group = builder.add_group("dp 7", {0, 1});
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node(all_reduce(64));
  builder.add_rank(0, std::vector{group}, {});
  builder.begin_program();
  builder.add_stream({.name = "main"});
  builder.add_node(compute(milliseconds(1)));
  builder.add_node(all_reduce(64));
  builder.add_node(all_reduce(64));
  builder.add_rank(1, std::vector{group}, {});
  const Job job = std::move(builder).build();
  try {
    simulate(fabric::generate_fabric("star:2"), job);
    FAIL() << "it came to an end";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), ::testing::HasSubstr("rank 1 calls allreduce of 64 bytes ('grads') on 'dp 7'"));
  }
}

TEST(JobSimulation, RefusesCollectivesThatMembersCallDifferently) {
  Job::Builder builder("differ");
  builder.add_name("grads");
  const uint32_t group = builder.add_group("dp 7", {0, 1});
  for (const uint64_t bytes : {64u, 128u}) {
    builder.begin_program();
    builder.add_stream({.name = "main"});
    builder.add_node(all_reduce(bytes));
  }
  builder.add_rank(0, std::vector{group}, {});
  builder.add_rank(1, std::vector{group}, {});
  const Job job = std::move(builder).build();
  EXPECT_THROW(simulate(fabric::generate_fabric("star:2"), job), Error);
}

TEST(JobSimulation, AnswersTheSameFoldedAndUnfolded) {
  size_t folded_jobs = 0;
  for (const char* spec :
       {"dgx-a100:4", "star:32", "fat-tree:k=6", "torus:4x8", "dgx-h100:4", "leaf-spine:leaves=4,hosts=8,spines=2"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (uint64_t seed = 1; seed <= 5; ++seed) {
      const Job job = grid(4, 8, seed);
      const JobSimulation folded = simulate(fabric, job), unfolded = simulate(fabric, job, {.fold = false});
      const auto near = [](Picoseconds a, Picoseconds b) { return std::abs((a - b).count()) <= 2000; };
      ASSERT_TRUE(near(folded.prediction.time, unfolded.prediction.time))
          << spec << ", seed " << seed << ": " << folded.prediction.time.count() << " and "
          << unfolded.prediction.time.count();
      for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
        const PredictedRank &a = folded.prediction.ranks[rank], &b = unfolded.prediction.ranks[rank];
        ASSERT_TRUE(near(a.compute, b.compute) && near(a.exposed, b.exposed) && near(a.waiting, b.waiting) &&
                    near(a.bubble, b.bubble))
            << spec << ", seed " << seed << ", rank " << rank;
      }
      for (size_t link = 0; link < fabric.links().size(); ++link) {
        ASSERT_NEAR(folded.prediction.links[link].bytes, unfolded.prediction.links[link].bytes, 1)
            << spec << ", link " << link;
      }
      ASSERT_EQ(folded.nodes, unfolded.nodes_simulated);
      folded_jobs += folded.rank_kinds < 32;
    }
  }
  EXPECT_GE(folded_jobs, 15u);
}

TEST(JobSimulation, GivesTheSameAnswerTwice) {
  const Fabric fabric = fabric::generate_fabric("fat-tree:k=6");
  const Job job = grid(4, 8, 3);
  const Prediction once = simulate(fabric, job, {.fold = false}).prediction,
                   again = simulate(fabric, job, {.fold = false}).prediction;
  EXPECT_EQ(once.time, again.time);
  ASSERT_EQ(once.spans.size(), again.spans.size());
  for (size_t i = 0; i < once.spans.size(); ++i) {
    ASSERT_EQ(once.spans[i].begin, again.spans[i].begin);
    ASSERT_EQ(once.spans[i].rank, again.spans[i].rank);
  }
}

}  // namespace
}  // namespace banyan::predict
