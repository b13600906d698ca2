#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/predict/simulation/job_simulation.h"
#include "banyan/predict/simulation/test_jobs.h"
#include "banyan/testing/test.h"

namespace banyan::predict {
namespace {

using namespace sample;

struct EventCase {
  std::vector<std::string> events;
  OnFailure on_failure;
  Picoseconds time;
  double bytes_of_first, bytes_of_second;
};

TEST(JobSimulationEvents, TakeTheTimesThatArithmeticGives) {
  // 4 MB from a to b, by sw1 at 1 GB/s: a MB a ms; by sw2 2 ms a MB.
  const Fabric fabric = two_ways();
  const Job job = message(4'000'000, Picoseconds(0));
  for (const EventCase& row : std::vector<EventCase>{
           {{"1ms a-sw1=500MB/s"}, OnFailure::stop, milliseconds(7), 4e6, 0},                       // 1 + 3 * 2
           {{"1ms a-sw1=500MB/s", "3ms a-sw1 returns"}, OnFailure::stop, milliseconds(5), 4e6, 0},  // 1 + 2 + 2
           {{"1ms a-sw1=4GB/s", "1ms sw1-b=4GB/s"}, OnFailure::stop, microseconds(1750), 4e6, 0},   // 1 + 3 / 4
           {{"0ms a-sw1=2GB/s", "0ms sw1-b=2GB/s"}, OnFailure::stop, milliseconds(2), 4e6, 0},
           {{"1ms a-sw1 fail", "5ms a-sw1 returns"}, OnFailure::stop, milliseconds(8), 4e6, 0},    // 1, 4 waits, 3
           {{"0ms a-sw1 fail", "5ms a-sw1=2GB/s"}, OnFailure::stop, milliseconds(9), 4e6, 0},      // sw1-b is as it was
           {{"1ms a-sw1 fail"}, OnFailure::move, milliseconds(7), 1e6, 3e6},                       // 1 + 3 * 2
           {{"1ms a-sw1 fail", "2ms a-sw1 returns"}, OnFailure::move, milliseconds(7), 1e6, 3e6},  // it does not go
                                                                                                   // back
           {{"0ms b-sw1 fail", "2ms b-sw1 returns"}, OnFailure::move, milliseconds(8), 0, 4e6},
           {{"1ms a-sw1 fail", "3ms a-sw2 fail", "4ms a-sw1 returns"}, OnFailure::move, milliseconds(6), 3e6, 1e6},
           {{"1ms a-sw1 fail", "1ms a-sw2 fail", "3ms a-sw2 returns"}, OnFailure::move, milliseconds(9), 1e6, 3e6},
           {{"1ms a-sw1 fail", "1ms a-sw2 fail", "3ms a-sw1 returns"}, OnFailure::move, milliseconds(6), 4e6, 0},
           {{"4ms a-sw1 fail"}, OnFailure::fail, milliseconds(4), 4e6, 0},  // what ends comes first
       }) {
    SCOPED_TRACE(row.events.back());
    const Prediction prediction =
        simulate(fabric, job, {.events = events_of(fabric, row.events), .on_failure = row.on_failure}).prediction;
    EXPECT_EQ(prediction.time, row.time);
    EXPECT_NEAR(bytes_on(fabric, prediction, "a", "sw1"), row.bytes_of_first, 1);
    EXPECT_NEAR(bytes_on(fabric, prediction, "sw1", "b"), row.bytes_of_first, 1);
    EXPECT_NEAR(bytes_on(fabric, prediction, "a", "sw2"), row.bytes_of_second, 1);
    EXPECT_NEAR(bytes_on(fabric, prediction, "sw2", "b"), row.bytes_of_second, 1);
    EXPECT_EQ(prediction.ranks[0].exposed, row.time);
    EXPECT_FALSE(prediction.jobs[0].failed_at);
  }
}

TEST(JobSimulationEvents, MoveWhatACollectiveHasLeftOntoItsNewExpansion) {
  // 8 MB by a ring of two are 8 MB each way: a quarter in 2 ms, the rest at half the bandwidth in 12.
  const Fabric fabric = two_ways();
  const Job job = uneven_pair(Picoseconds(0), Picoseconds(0), 8'000'000);
  const JobSimulationOptions options{.events = events_of(fabric, {"2ms a-sw1 fail"}), .on_failure = OnFailure::move};
  const Prediction prediction = simulate(fabric, job, options).prediction;
  EXPECT_EQ(prediction.time, milliseconds(14));
  EXPECT_NEAR(bytes_on(fabric, prediction, "a", "sw1"), 2e6, 1);
  EXPECT_NEAR(bytes_on(fabric, prediction, "sw2", "a"), 6e6, 1);
  // One that begins after the failure goes round from its beginning: 3 + 16.
  const Job late = uneven_pair(milliseconds(3), milliseconds(3), 8'000'000);
  EXPECT_EQ(simulate(fabric, late, options).prediction.time, milliseconds(19));
}

// As two_ways(), with a third way of 400 MB/s.
Fabric three_ways() {
  return fabric::parse_fabric_text(
      "a <-> sw1 1GB/s; sw1 <-> b 1GB/s; a <-> sw2 500MB/s; sw2 <-> b 500MB/s; a <-> sw3 400MB/s; sw3 <-> b 400MB/s");
}

TEST(JobSimulationEvents, TakeTheDetourThatIsWidestAsLinksAreThen) {
  // 4 MB, 1 of them by sw1 in 1 ms; an allreduce of two sends as much each way.
  const Fabric fabric = three_ways();
  for (const Job& job : {message(4'000'000, Picoseconds(0)), uneven_pair(Picoseconds(0), Picoseconds(0), 4'000'000)}) {
    const auto simulate_with = [&](std::vector<std::string> events) {
      events.push_back("1ms a-sw1 fail");
      return simulate(fabric, job, {.events = events_of(fabric, events), .on_failure = OnFailure::move}).prediction;
    };
    const Prediction plain = simulate_with({});
    EXPECT_EQ(plain.time, milliseconds(7));  // 3 MB at 500 MB/s
    const Prediction slow = simulate_with({"0.5ms sw2-b=100MB/s"});
    EXPECT_EQ(slow.time, microseconds(8500));  // 3 MB at 400 MB/s, by sw3
    EXPECT_NEAR(bytes_on(fabric, slow, "a", "sw2"), 0, 1e-9);
    EXPECT_NEAR(bytes_on(fabric, slow, "sw3", "b"), 3e6, 1);
    const Prediction wide = simulate_with({"1ms a-sw3=1500MB/s", "1ms sw3-b=1500MB/s"});
    EXPECT_EQ(wide.time, milliseconds(3));
    EXPECT_EQ(simulate_with({"0.2ms sw2-b=100MB/s", "0.7ms sw2-b returns"}).time, milliseconds(7));
    EXPECT_EQ(simulate_with({"0.2ms a-sw2 fail"}).time, microseconds(8500));
  }
}

TEST(JobSimulationEvents, PayLatencyOnceAndKeepEfficiency) {
  const Fabric fabric = two_ways();
  const Job job = message(4'000'000, Picoseconds(0));
  // On the way after 2 ms, wherever it goes: 4 MB at 500 MB/s.
  const Prediction moved =
      simulate(fabric, {{.job = &job, .nodes = first_ranks(fabric, job)}},
               {.events = events_of(fabric, {"1ms a-sw1 fail"}), .on_failure = OnFailure::move}, milliseconds(2))
          .prediction;
  EXPECT_EQ(moved.time, milliseconds(10));
  EXPECT_NEAR(bytes_on(fabric, moved, "a", "sw1"), 0, 1e-9);
  // Half of 1 GB/s for 2 ms, then half of 500 MB/s for 3 MB.
  EXPECT_EQ(simulate(fabric, job, {.message_efficiency = 0.5, .events = events_of(fabric, {"2ms sw1-b=500MB/s"})})
                .prediction.time,
            milliseconds(14));
  // The same share of a link after it has returned: 1 MB, 3 ms of nothing, 3 MB.
  EXPECT_EQ(simulate(fabric, job,
                     {.message_efficiency = 0.5, .events = events_of(fabric, {"2ms sw1-b fail", "5ms sw1-b returns"})})
                .prediction.time,
            milliseconds(11));
}

TEST(JobSimulationEvents, FailTheJobsThatUseTheLinkAndNoOthers) {
  const Fabric fabric = fabric::generate_fabric("star:4@1GB/s");
  const std::span<const NodeId> ranks = fabric.ranks();
  const Job job = message(4'000'000, Picoseconds(0));
  const std::string cable =
      "1ms " + fabric.name(ranks[1]) + "-" + fabric.name(fabric.link(fabric.out_links(ranks[1])[0]).to);
  const JobSimulation result =
      simulate(fabric,
               {{.job = &job, .nodes = {ranks[0], ranks[1]}},
                {.job = &job, .nodes = {ranks[2], ranks[3]}},
                {.job = &job, .nodes = {ranks[3], ranks[1]}, .start = milliseconds(2)},
                {.job = &job, .nodes = {ranks[2], ranks[1]}, .start = milliseconds(6)}},
               {.events = events_of(fabric, {cable + " fail", "5" + cable.substr(1) + " returns"}),
                .on_failure = OnFailure::fail});
  const std::vector<PredictedJob>& jobs = result.prediction.jobs;
  EXPECT_EQ(jobs[0].failed_at, milliseconds(1));
  EXPECT_EQ(jobs[0].end, milliseconds(1));
  EXPECT_FALSE(jobs[1].failed_at);
  EXPECT_EQ(jobs[1].end, milliseconds(4));
  EXPECT_EQ(jobs[2].failed_at, milliseconds(2));  // as soon as it would cross the link
  EXPECT_FALSE(jobs[3].failed_at);
  EXPECT_EQ(jobs[3].end, milliseconds(10));
  EXPECT_EQ(result.prediction.time, milliseconds(10));
  EXPECT_TRUE(result.prediction.complete);
  double bytes = 0;
  for (const LinkId link : fabric.in_links(ranks[1])) bytes += result.prediction.links[index(link)].bytes;
  EXPECT_NEAR(bytes, 1e6 + 4e6, 1);
  for (const PredictedRank& rank : result.prediction.ranks) {
    EXPECT_EQ(rank.compute + rank.exposed + rank.waiting + rank.bubble, milliseconds(10)) << rank.name;
  }
  EXPECT_EQ(result.prediction.ranks[0].exposed, milliseconds(1));
}

TEST(JobSimulationEvents, NameTheLinkThatAJobWaitsForInVain) {
  const Fabric fabric = two_ways();
  for (const OnFailure on_failure : {OnFailure::stop, OnFailure::move}) {
    try {
      simulate(fabric, message(4'000'000, Picoseconds(0)),
               {.events = events_of(fabric, {"1ms a-sw1 fail", "1ms a-sw2 fail"}), .on_failure = on_failure});
      FAIL() << "it came to an end";
    } catch (const Error& error) {
      EXPECT_THAT(error.what(), ::testing::HasSubstr("waits for the link 'a' -> 'sw1', which fails"));
    }
  }
}

TEST(JobSimulationEvents, AreWhatLoadsAreMeasuredBy) {
  const Fabric fabric = two_ways();
  const Prediction prediction =
      simulate(fabric, message(40'000'000, Picoseconds(0)),
               {.events = events_of(fabric, {"8ms a-sw1=500MB/s", "20ms a-sw1 fail", "30ms a-sw1 returns"})})
          .prediction;
  // 8 MB in 8 ms, 6 MB in 12, none in 10, 26 MB in 26.
  EXPECT_EQ(prediction.time, milliseconds(56));
  const uint32_t link = index(fabric.out_links(fabric.at("a"))[0]);
  const auto load_at = [&](Picoseconds time) {
    return prediction.links[link].load[static_cast<size_t>(time / prediction.load_step)];
  };
  for (const int at : {1, 12, 15, 18, 35, 50}) EXPECT_NEAR(load_at(milliseconds(at)), 1, 1e-3) << at << " ms";
  for (const int at : {22, 25, 28}) EXPECT_EQ(load_at(milliseconds(at)), 0) << at << " ms";
}

// Cables that slow down, fail and return: one after the other, each back within 2 ms.
std::vector<LinkEvent> random_events(const Fabric& fabric, uint64_t seed, size_t count) {
  std::mt19937_64 random(seed);
  std::vector<LinkEvent> events;
  for (size_t i = 0; i < count; ++i) {
    const LinkId link{static_cast<uint32_t>(random() % fabric.links().size())};
    const Link& row = fabric.link(link);
    const Picoseconds begin = microseconds(random() % 20'000) + Picoseconds(random() % 1'000'000);
    const Picoseconds end = begin + microseconds(1 + random() % 2000);
    const Bandwidth slow = Bandwidth::bytes_per_second(row.bandwidth.bytes_per_second() / (2 + random() % 4));
    const Bandwidth what = random() % 3 == 0 ? slow : Bandwidth();
    for (uint32_t other = 0; other < fabric.links().size(); ++other) {
      const Link& back = fabric.links()[other];
      if ((back.from == row.from && back.to == row.to) || (back.from == row.to && back.to == row.from)) {
        events.push_back({begin, LinkId{other}, what});
        events.push_back({end, LinkId{other}, std::nullopt});
      }
    }
  }
  return events;
}

// All cables of a switch fail and return: what is alike stays so, and has to move together.
std::vector<LinkEvent> switch_failure(const Fabric& fabric, uint64_t seed) {
  std::vector<LinkEvent> events;
  std::vector<NodeId> inner;  // switches that no rank is joined to
  for (uint32_t node = 0; node < fabric.nodes().size(); ++node) {
    const std::span<const LinkId> out = fabric.out_links(NodeId{node});
    const bool has_rank =
        std::any_of(out.begin(), out.end(), [&](LinkId link) { return fabric.is_rank(fabric.link(link).to); });
    if (!fabric.is_rank(NodeId{node}) && !has_rank) inner.push_back(NodeId{node});
  }
  if (inner.empty()) return events;
  const NodeId failing = inner[seed % inner.size()];
  for (uint32_t link = 0; link < fabric.links().size(); ++link) {
    const Link& row = fabric.links()[link];
    if (row.from != failing && row.to != failing) continue;
    events.push_back({microseconds(300 + 700 * seed), LinkId{link}, Bandwidth()});
    events.push_back({microseconds(5000 + 700 * seed), LinkId{link}, std::nullopt});
  }
  return events;
}

TEST(JobSimulationEvents, AnswerTheSameFoldedAndUnfolded) {
  size_t folded_jobs = 0, jobs = 0, moved_links = 0, moved_folded = 0;
  for (const char* spec :
       {"dgx-a100:4", "fat-tree:k=6@1GB/s", "torus:4x8@1GB/s", "leaf-spine:leaves=4,hosts=8,spines=2@1GB/s"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (uint64_t seed = 1; seed <= 8; ++seed) {
      const Job job = grid(4, 8, seed);
      std::vector<PredictedLink> stopped;
      for (const OnFailure on_failure : {OnFailure::stop, OnFailure::move, OnFailure::fail}) {
        const std::string what = std::string(spec) + ", seed " + std::to_string(seed) + ", policy " +
                                 std::to_string(static_cast<int>(on_failure));
        std::vector<LinkEvent> events;
        if (seed > 4) events = switch_failure(fabric, seed);
        if (events.empty()) events = random_events(fabric, seed, 1 + seed % 3);
        const JobSimulation kinds = simulate(fabric, job, {.events = events, .on_failure = on_failure});
        const Prediction& folded = kinds.prediction;
        const Prediction unfolded =
            simulate(fabric, job, {.events = events, .on_failure = on_failure, .fold = false}).prediction;
        const auto near = [](Picoseconds a, Picoseconds b) { return std::abs((a - b).count()) <= 2000; };
        ASSERT_TRUE(near(folded.time, unfolded.time))
            << what << ": " << folded.time.count() << " and " << unfolded.time.count();
        ASSERT_EQ(folded.jobs[0].failed_at.has_value(), unfolded.jobs[0].failed_at.has_value()) << what;
        for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
          const PredictedRank &a = folded.ranks[rank], &b = unfolded.ranks[rank];
          ASSERT_TRUE(near(a.compute, b.compute) && near(a.exposed, b.exposed) && near(a.waiting, b.waiting) &&
                      near(a.bubble, b.bubble))
              << what << ", rank " << rank;
        }
        for (size_t link = 0; link < fabric.links().size(); ++link) {
          ASSERT_NEAR(folded.links[link].bytes, unfolded.links[link].bytes, 20) << what << ", link " << link;
          if (on_failure == OnFailure::move && std::abs(folded.links[link].bytes - stopped[link].bytes) > 1000) {
            ++moved_links;
            moved_folded += kinds.rank_kinds < 32;
          }
        }
        if (on_failure == OnFailure::stop) stopped = folded.links;
        ++jobs;
        folded_jobs += kinds.rank_kinds < 32;
      }
    }
  }
  EXPECT_GE(folded_jobs, jobs / 4) << "of " << jobs;
  EXPECT_GE(moved_links, 20u);
  EXPECT_GE(moved_folded, 20u);
}

// Messages from rank to rank of a leaf-spine, many at a time.
Job shuffle(uint32_t ranks, uint64_t seed, std::vector<uint64_t>& sent) {
  std::mt19937_64 random(seed);
  Job::Builder builder("shuffle");
  builder.add_name("x");
  sent.assign(ranks, 0);
  std::vector<std::vector<uint64_t>> bytes(ranks, std::vector<uint64_t>(ranks));
  for (auto& row : bytes) {
    for (uint64_t& size : row) size = 100'000 + random() % 1'000'000;
  }
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    builder.begin_program();
    builder.add_stream({.name = "free", .order = job::Stream::Order::free});
    std::vector<uint32_t> peers;
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer == rank) continue;
      builder.add_node(send(bytes[rank][peer], 0, static_cast<uint32_t>(peers.size())));
      builder.add_node(receive(bytes[peer][rank], 0, static_cast<uint32_t>(peers.size())));
      sent[rank] += bytes[rank][peer];
      peers.push_back(peer);
    }
    builder.add_rank(rank, {}, peers);
  }
  return std::move(builder).build();
}

TEST(JobSimulationEvents, LoseNoByteAndCarryNoneTwice) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=4,hosts=4,spines=3@1GB/s");
  for (uint64_t seed = 1; seed <= 10; ++seed) {
    std::vector<uint64_t> sent;
    const Job job = shuffle(16, seed, sent);
    const Prediction calm = simulate(fabric, job).prediction;
    for (const OnFailure on_failure : {OnFailure::stop, OnFailure::move}) {
      const JobSimulationOptions options{.events = random_events(fabric, seed, 12), .on_failure = on_failure};
      const Prediction prediction = simulate(fabric, job, options).prediction;
      EXPECT_GE(prediction.time, calm.time) << "seed " << seed;
      double up = 0, calm_up = 0, down = 0;  // between leaves and spines
      for (uint32_t link = 0; link < fabric.links().size(); ++link) {
        const Link& row = fabric.links()[link];
        const double bytes = prediction.links[link].bytes;
        if (on_failure == OnFailure::stop) {
          EXPECT_NEAR(bytes, calm.links[link].bytes, 1) << "seed " << seed << ", link " << link;
        }
        if (fabric.is_rank(row.from)) {
          const auto rank = std::find(fabric.ranks().begin(), fabric.ranks().end(), row.from) - fabric.ranks().begin();
          EXPECT_NEAR(bytes, static_cast<double>(sent[static_cast<size_t>(rank)]), 1)
              << "seed " << seed << ", rank " << rank;
        } else if (!fabric.is_rank(row.to)) {
          const std::span<const LinkId> in = fabric.in_links(row.from);
          const bool is_up =
              std::any_of(in.begin(), in.end(), [&](LinkId other) { return fabric.is_rank(fabric.link(other).from); });
          (is_up ? up : down) += bytes;
          if (is_up) calm_up += calm.links[link].bytes;
        }
      }
      EXPECT_NEAR(up, down, 20) << "seed " << seed;     // through spines: as much in as out
      EXPECT_NEAR(up, calm_up, 20) << "seed " << seed;  // what leaves a leaf does so once
    }
  }
}

TEST(JobSimulationEvents, GiveTheSameAnswerTwice) {
  const Fabric fabric = fabric::generate_fabric("leaf-spine:leaves=4,hosts=8,spines=2@1GB/s");
  const Job job = grid(4, 8, 2);
  const JobSimulationOptions options{.events = random_events(fabric, 5, 8), .on_failure = OnFailure::move};
  const Prediction once = simulate(fabric, job, options).prediction, again = simulate(fabric, job, options).prediction;
  EXPECT_EQ(once.time, again.time);
  ASSERT_EQ(once.spans.size(), again.spans.size());
  for (size_t i = 0; i < once.spans.size(); ++i) {
    ASSERT_EQ(once.spans[i].begin, again.spans[i].begin);
    ASSERT_EQ(once.spans[i].end, again.spans[i].end);
  }
  for (size_t link = 0; link < fabric.links().size(); ++link) {
    ASSERT_EQ(once.links[link].bytes, again.links[link].bytes);
  }
}

}  // namespace
}  // namespace banyan::predict
