// All-to-alls along paths through other ranks.

#include "banyan/run/engine/engine.h"
#include "banyan/testing/simulated_transport.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

Fabric full_mesh(uint32_t ranks) {
  Fabric::Builder builder;
  for (uint32_t i = 0; i < ranks; ++i) builder.add_rank("r" + std::to_string(i));
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      if (from != to)
        builder.add_link({.from = NodeId{from}, .to = NodeId{to}, .bandwidth = Bandwidth::gigabytes_per_second(1)});
    }
  }
  return std::move(builder).build();
}

struct Paths {
  Schedule schedule;
  std::vector<uint64_t> traffic;
};

// Every pair has up to three paths through random others, which share its block at random; some pairs have nothing.
Paths random_paths(uint32_t ranks, bool is_even, std::mt19937_64& random) {
  const Fabric fabric = full_mesh(ranks);
  std::vector<uint64_t> traffic(ranks * ranks, 1);
  if (!is_even) {
    for (uint64_t& parts : traffic) parts = random() % 5;
    traffic[1] = 3;
  }
  Schedule::Builder builder(fabric, Collective::make(fabric, {.kind = CollectiveKind::all_to_all, .traffic = traffic}));
  std::vector<RouteId> hops(ranks * ranks);
  for (uint32_t link = 0; link < fabric.links().size(); ++link) {
    const Link& each = fabric.link(LinkId{link});
    hops[index(each.from) * ranks + index(each.to)] = builder.add_route(std::vector<LinkId>{LinkId{link}});
  }
  const uint64_t common = std::accumulate(traffic.begin(), traffic.end(), uint64_t{0},
                                          [](uint64_t a, uint64_t b) { return std::gcd(a, b); });
  for (uint32_t from = 0; from < ranks; ++from) {
    for (uint32_t to = 0; to < ranks; ++to) {
      if (from == to) continue;
      for (uint64_t left = 12 * traffic[from * ranks + to] / common; left > 0;) {
        std::vector<uint32_t> inner(ranks);
        std::iota(inner.begin(), inner.end(), 0u);
        std::erase_if(inner, [&](uint32_t rank) { return rank == from || rank == to; });
        std::shuffle(inner.begin(), inner.end(), random);
        inner.resize(random() % std::min<size_t>(inner.size() + 1, 4));
        inner.push_back(to);
        std::vector<RouteId> path;
        uint32_t at = from;
        for (const uint32_t next : inner) path.push_back(hops[std::exchange(at, next) * ranks + next]);
        const uint64_t units = 1 + random() % left;
        builder.add_chunk({.root = NodeId{from}, .units = units, .out_tree = path});
        left -= units;
      }
    }
  }
  return {.schedule = std::move(builder).build(), .traffic = traffic};
}

uint32_t sample(uint32_t from, uint32_t to, uint64_t at) {
  return static_cast<uint32_t>((from * 64 + to) * 1'000'000 + at);
}

TEST(EnginePairs, EveryElementOfAnAllToAllArrives) {
  for (uint64_t seed = 1; seed <= 60; ++seed) {
    std::mt19937_64 random(seed);
    const uint32_t ranks = 2 + static_cast<uint32_t>(random() % 6);
    const bool in_place = seed % 4 == 0;  // only of equal blocks
    const Paths paths = random_paths(ranks, in_place || seed % 2 == 0, random);
    const uint64_t elements = random() % 400;
    testing::SimulatedWorld world({.ranks = ranks, .most_capacity = 1 + random() % 300, .seed = seed});
    const EngineOptions options{.slice_bytes = 4 + random() % 200, .window = 1 + static_cast<uint32_t>(random() % 4)};
    std::vector<std::vector<std::byte>> inputs(ranks), outputs(ranks);
    std::vector<PairBlocks> blocks;
    std::vector<std::unique_ptr<Engine>> engines;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      blocks.push_back(even_pairs(paths.schedule.collective(), elements, rank));
      const auto plan = std::make_shared<RankPlan>(make_rank_plan(paths.schedule, elements, rank));
      inputs[rank].resize(plan->input_elements * 4);
      outputs[rank].resize(plan->output_elements * 4);
      for (uint32_t to = 0; to < ranks; ++to) {
        for (uint64_t i = 0; i < blocks[rank].send[to].count; ++i) {
          const uint32_t value = sample(rank, to, i);
          std::memcpy(inputs[rank].data() + (blocks[rank].send[to].at + i) * 4, &value, 4);
        }
      }
      if (in_place) outputs[rank] = inputs[rank];
      engines.push_back(std::make_unique<Engine>(world.transport(rank), options));
      engines[rank]->start({.plan = plan,
                            .task = {.type = element::DataType::uint32, .op = element::ReduceOp::sum},
                            .input = in_place ? outputs[rank] : inputs[rank],
                            .output = outputs[rank]});
    }
    const auto is_idle = [](const auto& engine) { return engine->is_idle(); };
    for (int i = 0; i < 400'000 && !std::all_of(engines.begin(), engines.end(), is_idle); ++i) {
      world.deliver_some();
      engines[world.draw(ranks)]->progress();
    }
    ASSERT_TRUE(std::all_of(engines.begin(), engines.end(), is_idle)) << "seed " << seed;
    for (uint32_t rank = 0; rank < ranks; ++rank) {
      for (uint32_t from = 0; from < ranks; ++from) {
        for (uint64_t i = 0; i < blocks[rank].receive[from].count; ++i) {
          uint32_t value = 0;
          std::memcpy(&value, outputs[rank].data() + (blocks[rank].receive[from].at + i) * 4, 4);
          ASSERT_EQ(value, sample(from, rank, i)) << "seed " << seed << ", rank " << rank << " from " << from;
        }
      }
    }
  }
}

TEST(EnginePairs, ForwardersKeepAFewSlicesOnly) {
  const Fabric fabric = full_mesh(3);
  std::mt19937_64 random(1);
  const Paths paths = random_paths(3, true, random);
  for (uint32_t rank = 0; rank < 3; ++rank) {
    for (const Role& role : make_rank_plan(paths.schedule, 3000, rank).roles) {
      if (!role.out_parent || role.out_children.empty()) continue;
      EXPECT_FALSE(role.input_at || role.output_at) << "what it forwards is not its own";
      EXPECT_TRUE(role.out_parent->is_windowed);
    }
  }
}

TEST(EnginePairs, BlocksNeedPaths) {
  std::mt19937_64 random(5);
  Paths paths = random_paths(4, false, random);
  const Collective& collective = paths.schedule.collective();
  PairBlocks blocks = even_pairs(collective, 100, 0);
  for (uint32_t to = 1; to < 4; ++to) {
    if (collective.traffic(0, to) == 0) blocks.send[to].count = 7;
  }
  const bool has_none =
      std::ranges::any_of(std::vector<uint32_t>{1, 2, 3}, [&](uint32_t to) { return collective.traffic(0, to) == 0; });
  ASSERT_TRUE(has_none) << "seed 5";
  EXPECT_THROW(make_pair_plan(paths.schedule, blocks, 0), Error);
  const Fabric fabric = full_mesh(2);
  Schedule::Builder builder(fabric, Collective::make(fabric, {}));
  const std::vector<RouteId> forth{builder.add_route(std::vector<LinkId>{LinkId{0}})},
      back{builder.add_route(std::vector<LinkId>{LinkId{1}})};
  builder.add_chunk({.root = NodeId{0}, .units = 1, .out_tree = forth});
  builder.add_chunk({.root = NodeId{1}, .units = 1, .out_tree = back});
  const Schedule allgather = std::move(builder).build();
  blocks = {.elements = [](uint32_t, uint32_t) { return uint64_t{5}; }, .send = {{}, {}}, .receive = {{}, {}}};
  EXPECT_THROW(make_pair_plan(allgather, blocks, 0), Error);
}

}  // namespace
}  // namespace banyan::run
