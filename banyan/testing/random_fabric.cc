#include "banyan/testing/random_fabric.h"

#include <random>
#include <string>

namespace banyan::testing {

Fabric random_fabric(const RandomFabricOptions& options) {
  std::mt19937_64 random(options.seed);
  const auto pick = [&](uint64_t below) { return static_cast<uint32_t>(random() % below); };
  const auto bandwidth = [&] { return Bandwidth::gigabytes_per_second(1 + pick(options.max_gigabytes)); };
  Fabric::Builder builder;
  for (uint32_t i = 0; i < options.ranks; ++i) builder.add_rank("r" + std::to_string(i));
  std::mt19937_64 coin(~options.seed);
  for (uint32_t i = 0; i < options.switches; ++i) {
    builder.add_node({.name = "sw" + std::to_string(i),
                      .kind = fabric::NodeKind::switch_,
                      .multicast = options.powers && coin() % 2 == 0,
                      .reduce = options.powers && coin() % 2 == 0});
  }
  const auto join = [&](NodeId a, NodeId b) {
    const bool between_ranks = index(a) < options.ranks && index(b) < options.ranks;
    const Bandwidth forth = bandwidth();
    builder.add_link({.from = a, .to = b, .bandwidth = forth});
    if (!options.directed || !between_ranks) {
      builder.add_link({.from = b, .to = a, .bandwidth = forth});
    } else if (pick(4) != 0) {
      builder.add_link({.from = b, .to = a, .bandwidth = bandwidth()});
    }
  };
  // A one-way ring of all ranks keeps every rank reachable even when all else is one-way.
  for (uint32_t i = 0; i < options.ranks; ++i) {
    const NodeId a{i}, b{(i + 1) % options.ranks};
    if (options.switches == 0 || pick(2) == 0)
      join(a, b);
    else
      builder.add_link({.from = a, .to = b, .bandwidth = bandwidth()});
  }
  for (uint32_t s = 0; s < options.switches; ++s) {
    const NodeId node{options.ranks + s};
    join(node, NodeId{pick(options.ranks)});
    join(node, NodeId{pick(options.ranks)});
  }
  for (uint32_t i = 0; i < options.extra_cables; ++i) {
    const NodeId a{pick(options.ranks + options.switches)}, b{pick(options.ranks + options.switches)};
    if (a != b) join(a, b);
  }
  return std::move(builder).build();
}

}  // namespace banyan::testing
