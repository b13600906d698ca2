#include "banyan/predict/collective/schedule_simulation.h"

#include <limits>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/text.h"
#include "banyan/plan/baselines/test_baselines.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/schedule/cost.h"
#include "banyan/testing/fluid_oracle.h"
#include "banyan/testing/test.h"
#include "banyan/testing/test_sample_forest.h"

namespace banyan::predict {
namespace {

// The same by the oracle's network and with no folding, no state machine: every slice on every edge is a flow that
// waits for those it needs. Seconds. Only for schedules without steps.
double naive_seconds(const Schedule& schedule, Bytes total, Bytes slice, double alpha,
                     const std::optional<SliceWork>& slice_work = {}) {
  struct Message {
    testing::OracleFlow flow;
    std::vector<size_t> needs;  // messages that must have arrived
    size_t before = SIZE_MAX;   // on the same edge, must have left
    double delay = 0, alpha = 0, begun = -1, sent = -1, arrived = -1, left = 0;
  };
  std::vector<Message> all;
  std::vector<double> capacities;
  for (const Link& link : schedule.fabric().links())
    capacities.push_back(static_cast<double>(link.bandwidth.bytes_per_second()));
  capacities.resize(capacities.size() + schedule.fabric().nodes().size(), kCoreRate);
  for (size_t c = 0; c < schedule.chunk_count(); ++c) {
    const Chunk chunk = schedule.chunk(c);
    const double bytes = static_cast<double>(total.count()) * static_cast<double>(chunk.units) /
                         static_cast<double>(schedule.total_units());
    const double slices = std::max(1.0, std::ceil(bytes / static_cast<double>(slice.count()) - 1e-9));
    std::map<NodeId, std::vector<size_t>> first_slices;  // what arrives at a node
    const auto add = [&](RouteId id, const std::vector<size_t>& needs) {
      const Route route = schedule.route(id);
      const size_t first = all.size();
      for (size_t k = 0; k < static_cast<size_t>(slices); ++k) {
        Message message;
        for (const LinkId link : route.links) {
          message.flow.hops.emplace_back(index(link), 1);
          message.delay += static_cast<double>(schedule.fabric().link(link).latency.count()) * 1e-12;
        }
        message.flow.bytes = message.left = bytes / slices;
        message.alpha = alpha;
        for (const size_t need : needs) message.needs.push_back(need + k);
        if (k > 0) message.before = first + k - 1;
        all.push_back(message);
      }
      return first;
    };
    // What a rank's core does to each slice, which nobody needs to send.
    const auto work = [&](NodeId node, double nanoseconds, const std::vector<size_t>& needs) {
      const size_t first = all.size();
      for (size_t k = 0; k < static_cast<size_t>(slices); ++k) {
        Message message;
        message.flow.hops.emplace_back(schedule.fabric().links().size() + index(node), 1);
        message.flow.bytes = message.left = bytes / slices * nanoseconds;
        message.alpha = 0;
        for (const size_t need : needs) message.needs.push_back(need + k);
        if (k > 0) message.before = first + k - 1;
        all.push_back(message);
      }
      return first;
    };
    for (const RouteId id : chunk.in_tree) {
      const Route route = schedule.route(id);
      if (slice_work) {
        const size_t encoded = work(route.from, slice_work->encode, first_slices[route.from]);
        const size_t sent = add(id, {encoded});
        first_slices[route.to].push_back(work(route.to, slice_work->decode_add, {sent}));
        continue;
      }
      first_slices[route.to].push_back(add(id, first_slices[route.from]));
    }
    if (slice_work && !chunk.out_tree.empty()) {
      const size_t encoded = work(chunk.root, slice_work->encode, first_slices[chunk.root]);
      work(chunk.root, slice_work->decode, {encoded});
      first_slices[chunk.root] = {encoded};
    }
    for (const RouteId id : chunk.out_tree) {
      const Route route = schedule.route(id);
      const size_t first = add(id, first_slices[route.from]);
      if (slice_work) work(route.to, slice_work->decode, {first});
      first_slices[route.to] = {first};
    }
  }
  double now = 0;
  for (;;) {
    // Every message that may begin does.
    for (Message& message : all) {
      bool may = message.begun < 0 && (message.before == SIZE_MAX || all[message.before].sent >= 0);
      for (const size_t need : message.needs) may &= all[need].arrived >= 0;
      if (may) message.begun = now;
    }
    std::vector<testing::OracleFlow> flows;
    std::vector<size_t> who;
    for (size_t m = 0; m < all.size(); ++m) {
      if (all[m].begun < 0 || all[m].sent >= 0 || now < all[m].begun + all[m].alpha) continue;
      flows.push_back(all[m].flow);
      who.push_back(m);
    }
    const std::vector<double> rates = testing::fair_rates(capacities, flows);
    double next = std::numeric_limits<double>::infinity();
    for (size_t i = 0; i < who.size(); ++i) next = std::min(next, now + all[who[i]].left / rates[i]);
    for (const Message& message : all) {
      if (message.begun >= 0 && now < message.begun + message.alpha)
        next = std::min(next, message.begun + message.alpha);
      if (message.sent >= 0 && message.arrived < 0) next = std::min(next, message.sent + message.delay);
    }
    if (next == std::numeric_limits<double>::infinity()) return now;
    for (size_t i = 0; i < who.size(); ++i) {
      all[who[i]].left -= rates[i] * (next - now);
      if (all[who[i]].left < 1e-6) all[who[i]].sent = next;
    }
    now = next;
    for (Message& message : all) {
      if (message.sent >= 0 && message.arrived < 0 && now >= message.sent + message.delay - 1e-15)
        message.arrived = now;
    }
  }
}

TEST(ScheduleSimulation, PipelinesSlicesDownAPath) {
  // a - b - c at 1 GB/s, 4 MB in slices of 1 MB: the last slice leaves a after 4 ms and is at c 1 ms later.
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s; b <-> c 1GB/s", "path");
  const Schedule schedule =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  const ScheduleSimulation plain =
      simulate_schedule(schedule, {.total = Bytes(4'000'000), .slice = Bytes(1'000'000), .alpha = Picoseconds(0)});
  EXPECT_EQ(plain.time, milliseconds(5));
  EXPECT_DOUBLE_EQ(plain.algbw, 0.8e9);
  EXPECT_EQ(plain.messages, 8u);
  // With 10 us a message: five steps of 1.01 ms.
  const ScheduleSimulation slow =
      simulate_schedule(schedule, {.total = Bytes(4'000'000), .slice = Bytes(1'000'000), .alpha = microseconds(10)});
  EXPECT_EQ(slow.time, microseconds(5050));
}

TEST(ScheduleSimulation, AddsTheLatencyOfLinksOnceForEachHopOfTheLastSlice) {
  const Fabric fabric = fabric::parse_fabric_text("a <-> b 1GB/s 3us; b <-> c 1GB/s 4us", "path");
  const Schedule schedule =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::broadcast}));
  const ScheduleSimulation result =
      simulate_schedule(schedule, {.total = Bytes(4'000'000), .slice = Bytes(1'000'000), .alpha = Picoseconds(0)});
  EXPECT_EQ(result.time, microseconds(5007));
}

// Where trees that share a link have unequal ways to go, fair shares are not what the plan meant: the link is full, but
// some trees come late. That is what a network does, and no slice is small enough to help.
TEST(ScheduleSimulation, ComesNearTheBoundWithManySlices) {
  struct Most {
    double times, allreduce;  // an allreduce that sums and spreads at once shares more links
  };
  const std::map<std::string, Most> all{{"dgx-a100:2", {1.006, 1.006}},
                                        {"random:n=12,links=40,seed=3", {1.009, 1.06}},
                                        {"leaf-spine:leaves=2,hosts=4,spines=2", {1.003, 1.003}},
                                        {"torus:4x4", {1.12, 1.12}},
                                        {"mi250:1", {1.17, 1.19}}};
  for (const auto& [spec, most] : all) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const CollectiveKind kind :
         {CollectiveKind::all_gather, CollectiveKind::all_reduce, CollectiveKind::broadcast}) {
      const plan::ForestPlan plan = plan::plan_forest(fabric, Collective::make(fabric, {.kind = kind}));
      const Bytes total(uint64_t{1} << 30);
      const double least = plan.seconds_per_byte.to_double() * static_cast<double>(total.count());
      const ScheduleSimulation result =
          simulate_schedule(plan.schedule, {.total = total, .slice = Bytes(1 << 18), .alpha = Picoseconds(0)});
      const double seconds = static_cast<double>(result.time.count()) * 1e-12;
      EXPECT_GE(seconds, least * (1 - 1e-9)) << spec << ", " << to_string(kind);
      const double times = kind == CollectiveKind::all_reduce ? most.allreduce : most.times;
      EXPECT_LE(seconds, least * times) << spec << ", " << to_string(kind);
    }
  }
}

TEST(ScheduleSimulation, PutsTheBytesOnLinksThatTheScheduleSays) {
  for (const char* spec : {"dgx-a100:2", "torus:3x4", "random:n=9,links=30,seed=5"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    const Schedule schedule =
        plan::plan_forest(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce})).schedule;
    const Bytes total(uint64_t{1} << 24);
    const ScheduleSimulation result = simulate_schedule(schedule, {.total = total, .slice = Bytes(1 << 16)});
    const std::vector<uint64_t> loads = link_loads(schedule);
    for (size_t link = 0; link < loads.size(); ++link) {
      const double expected = static_cast<double>(total.count()) * static_cast<double>(loads[link]) /
                              static_cast<double>(schedule.total_units());
      ASSERT_NEAR(result.link_bytes[link], expected, 1e-3) << spec << ", link " << link;
    }
  }
}

struct Planned {
  std::string name;
  Schedule schedule;
};

std::vector<Planned> many_plans() {
  std::vector<Planned> plans;
  for (const char* spec : {"dgx-a100:2", "dgx-h100:4", "torus:4x4", "mi250:1", "ring:9", "star:8", "fat-tree:k=4",
                           "hypercube:4", "random:n=10,links=36,seed=2", "dgx1-v100:1"}) {
    const Fabric fabric = fabric::generate_fabric(spec);
    for (const CollectiveKind kind : {CollectiveKind::all_gather, CollectiveKind::reduce_scatter,
                                      CollectiveKind::all_reduce, CollectiveKind::broadcast, CollectiveKind::reduce}) {
      const Collective collective = Collective::make(fabric, {.kind = kind});
      const std::string name = std::string(spec) + ", " + std::string(to_string(kind)) + ", ";
      plans.push_back({name + "forest", plan::plan_forest(fabric, collective).schedule});
      for (const plan::Baseline baseline : plan::kAllBaselines) {
        try {
          plans.push_back({name + std::string(to_string(baseline)), plan_baseline(baseline, fabric, collective)});
        } catch (const Error& error) {
          EXPECT_EQ(error.code(), ErrorCode::unsupported) << error.what();
        }
      }
    }
  }
  return plans;
}

TEST(ScheduleSimulation, AnswersTheSameFoldedAndUnfolded) {
  size_t folded_plans = 0;
  for (const Planned& plan : many_plans()) {
    for (const uint64_t total : {uint64_t{1000}, uint64_t{3} << 20}) {
      ScheduleSimulationOptions options{.total = Bytes(total), .slice = Bytes(50'000)};
      const ScheduleSimulation folded = simulate_schedule(plan.schedule, options);
      options.fold = false;
      const ScheduleSimulation unfolded = simulate_schedule(plan.schedule, options);
      ASSERT_NEAR(static_cast<double>(folded.time.count()), static_cast<double>(unfolded.time.count()), 30)
          << plan.name;
      ASSERT_EQ(folded.messages, unfolded.messages) << plan.name;
      for (size_t link = 0; link < folded.link_bytes.size(); ++link) {
        ASSERT_NEAR(folded.link_bytes[link], unfolded.link_bytes[link], 1e-3) << plan.name << ", link " << link;
        ASSERT_NEAR(static_cast<double>(folded.link_full[link].count()),
                    static_cast<double>(unfolded.link_full[link].count()), 1e6)
            << plan.name << ", link " << link;
      }
      folded_plans += folded.messages_simulated < unfolded.messages_simulated;
    }
  }
  EXPECT_GT(folded_plans, 100u);
}

TEST(ScheduleSimulation, EndsWhenANaiveSimulationOfEverySliceDoes) {
  for (const testing::TreeShape shape :
       {testing::TreeShape::random, testing::TreeShape::path, testing::TreeShape::star}) {
    for (uint64_t seed = 1; seed <= 6; ++seed) {
      for (const CollectiveKind kind :
           {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce}) {
        const Schedule schedule = testing::sample_forest({.kind = kind, .ranks = 4, .shape = shape, .seed = seed});
        const Bytes total(600'000), slice(40'000);
        const ScheduleSimulation result =
            simulate_schedule(schedule, {.total = total, .slice = slice, .alpha = microseconds(2)});
        EXPECT_NEAR(static_cast<double>(result.time.count()) * 1e-12, naive_seconds(schedule, total, slice, 2e-6), 1e-9)
            << to_string(kind) << ", seed " << seed;
      }
    }
  }
}

// int8 by a core that is slow enough to count, in turn with and without.
CodecCost slow_codec() {
  return {.codec = {.code = codec::ValueCode::int8},
          .speed = {.encode = 2e-10, .decode = 1e-10, .decode_add = 1.5e-10}};
}

TEST(ScheduleSimulation, WithACodecEndsWhenANaiveSimulationDoes) {
  const CodecCost codec = slow_codec();
  const double nanoseconds = 1e9 / codec.share();
  const SliceWork work{
      .encode = 2e-10 * nanoseconds, .decode = 1e-10 * nanoseconds, .decode_add = 1.5e-10 * nanoseconds};
  for (const testing::TreeShape shape :
       {testing::TreeShape::random, testing::TreeShape::path, testing::TreeShape::star}) {
    for (uint64_t seed = 1; seed <= 4; ++seed) {
      for (const CollectiveKind kind :
           {CollectiveKind::all_reduce, CollectiveKind::all_gather, CollectiveKind::reduce}) {
        const Schedule schedule = testing::sample_forest({.kind = kind, .ranks = 4, .shape = shape, .seed = seed});
        const Bytes total(2'400'000), slice(40'000);
        const ScheduleSimulation result =
            simulate_schedule(schedule, {.total = total, .slice = slice, .alpha = microseconds(2), .codec = codec});
        EXPECT_NEAR(static_cast<double>(result.time.count()) * 1e-12,
                    naive_seconds(schedule, codec.coded(total), slice, 2e-6, work), 1e-9)
            << to_string(kind) << ", seed " << seed;
      }
    }
  }
}

TEST(ScheduleSimulation, WithACodecAnswersTheSameFoldedAndUnfolded) {
  size_t folded_plans = 0;
  for (const Planned& plan : many_plans()) {
    ScheduleSimulationOptions options{.total = Bytes(3 << 20), .slice = Bytes(50'000), .codec = slow_codec()};
    const ScheduleSimulation folded = simulate_schedule(plan.schedule, options);
    options.fold = false;
    const ScheduleSimulation unfolded = simulate_schedule(plan.schedule, options);
    ASSERT_NEAR(static_cast<double>(folded.time.count()), static_cast<double>(unfolded.time.count()), 1000)
        << plan.name;
    ASSERT_EQ(folded.messages, unfolded.messages) << plan.name;
    ASSERT_NEAR(static_cast<double>(folded.core_busy.count()), static_cast<double>(unfolded.core_busy.count()), 1e6)
        << plan.name;
    folded_plans += folded.messages_simulated < unfolded.messages_simulated;
  }
  EXPECT_GT(folded_plans, 100u);
}

// A codec that costs nothing is a shorter buffer.
TEST(ScheduleSimulation, WithAFreeCodecTakesWhatTheCodedBytesTake) {
  const Fabric fabric = fabric::generate_fabric("star:5@1Gb/s");
  const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, {})).schedule;
  const CodecCost free{.codec = {.code = codec::ValueCode::int4}, .speed = {}};
  const Bytes total(64 << 20);
  const ScheduleSimulation coded =
      simulate_schedule(schedule, {.total = total, .slice = Bytes(1 << 16), .codec = free});
  const ScheduleSimulation plain = simulate_schedule(schedule, {.total = free.coded(total), .slice = Bytes(1 << 16)});
  EXPECT_EQ(coded.time, plain.time);
  EXPECT_EQ(coded.messages, plain.messages);
  EXPECT_EQ(coded.link_bytes, plain.link_bytes);
  EXPECT_EQ(coded.core_busy, Picoseconds(0));
  EXPECT_NEAR(coded.algbw / plain.algbw, 1 / free.share(), 1e-3);
}

// The work of each rank is known: of a ring or any other allreduce, the contributions that it sends and takes, and the
// shares that it owns and is told.
TEST(ScheduleSimulation, CountsTheWorkOfCores) {
  const Fabric fabric = fabric::generate_fabric("star:4@1Gb/s");
  const Schedule schedule =
      plan_baseline(plan::Baseline::ring, fabric, Collective::make(fabric, {.kind = CollectiveKind::all_reduce}));
  const CodecCost codec = slow_codec();
  const double bytes = 64 << 20;
  const ScheduleSimulation result = simulate_schedule(
      schedule, {.total = Bytes(64 << 20), .slice = Bytes(1 << 20), .alpha = Picoseconds(0), .codec = codec});
  const double seconds = bytes * (0.75 * codec.speed.encode + 0.75 * codec.speed.decode_add +
                                  0.25 * codec.speed.encode + codec.speed.decode);
  EXPECT_NEAR(static_cast<double>(result.core_busy.count()) * 1e-12 / seconds, 1, 1e-6);
}

TEST(ScheduleSimulation, RefusesCodesWhereSwitchesAddUp) {
  const Fabric fabric = fabric::generate_fabric("dgx-h100:1+nvls");
  const Collective collective = Collective::make(fabric, {.kind = CollectiveKind::all_reduce});
  const Schedule schedule = plan::plan_forest(fabric, collective).schedule;
  const ScheduleSimulationOptions options{.total = Bytes(1 << 20), .slice = Bytes(1 << 16), .codec = slow_codec()};
  EXPECT_THROW(simulate_schedule(schedule, options), Error);
}

TEST(ScheduleSimulation, SendsTiedEdgesAsOneMessage) {
  // Recursive doubling of 8 ranks: three steps, each of one message a rank.
  const Fabric fabric = fabric::generate_fabric("star:8");
  const Schedule schedule = plan_baseline(plan::Baseline::recursive_doubling, fabric, Collective::make(fabric, {}));
  const ScheduleSimulation result =
      simulate_schedule(schedule, {.total = Bytes(0), .slice = Bytes(1 << 20), .alpha = microseconds(5)});
  EXPECT_EQ(result.time, microseconds(15));
  EXPECT_EQ(result.messages_simulated, 24u);
}

TEST(ScheduleSimulation, EndsEarlyWhenAsked) {
  class Impatient : public SimulationObserver {
   public:
    void progress(double fraction, Picoseconds) override { fraction_ = fraction; }
    bool stop() override { return true; }
    double fraction_ = 0;
  } impatient;
  const Fabric fabric = fabric::generate_fabric("random:n=16,links=60,seed=1");
  const Schedule schedule = plan::plan_forest(fabric, Collective::make(fabric, {})).schedule;
  const ScheduleSimulation result =
      simulate_schedule(schedule, {.total = Bytes(1 << 30), .slice = Bytes(64 << 10), .observer = &impatient});
  EXPECT_FALSE(result.complete);
  EXPECT_GT(impatient.fraction_, 0);
  EXPECT_LT(result.messages_simulated, result.messages);
}

}  // namespace
}  // namespace banyan::predict
