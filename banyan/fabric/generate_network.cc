// Switched data-centre networks with ranks at their edge. Node order: ranks, then the switches from the edge inwards.
#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {

// Every leaf is joined to every spine.
void generate_leaf_spine(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"leaves", "hosts", "spines", "uplink"});
  const uint64_t leaves = spec.parameter("leaves", {.min = 2}), hosts = spec.parameter("hosts", {});
  const uint64_t spines = spec.parameter("spines", {}), ranks = leaves * hosts;
  spec.expect_size(ranks + leaves + spines, 2 * ranks + 2 * leaves * spines);
  const Bandwidth port = spec.bandwidth_or(kDefaultPort), uplink = spec.bandwidth_parameter_or("uplink", port);
  add_gpus(builder, ranks);
  add_switches(builder, "leaf", leaves);
  add_switches(builder, "spine", spines);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / hosts, port);
  for (uint64_t leaf = 0; leaf < leaves; ++leaf) {
    for (uint64_t spine = 0; spine < spines; ++spine) join(builder, ranks + leaf, ranks + leaves + spine, uplink);
  }
  propose_group_rotation(builder, ranks, hosts, leaves);
  propose_rotation_inside(builder, ranks, hosts);
}

// The k-ary fat tree of Al-Fares, Loukissas and Vahdat (SIGCOMM 2008): k pods of k/2 edge and k/2 aggregation switches,
// k/2 ranks at each edge switch, (k/2)^2 core switches; aggregation switch a of each pod is joined to cores a*k/2 on.
void generate_fat_tree(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"k"});
  const uint64_t k = spec.parameter("k", {.min = 2, .max = 158}), half = k / 2;  // 160 would have over 10^6 ranks
  if (k % 2 != 0) throw spec.error("k is '" + std::to_string(k) + "' but must be even");
  const uint64_t edges = k * half, ranks = edges * half, cores = half * half;
  spec.expect_size(ranks + 2 * edges + cores, 6 * ranks);
  const Bandwidth port = spec.bandwidth_or(kDefaultPort);
  const uint64_t first_edge = ranks, first_aggregation = first_edge + edges, first_core = first_aggregation + edges;
  add_gpus(builder, ranks);
  add_switches(builder, "edge", edges);
  add_switches(builder, "agg", edges);
  add_switches(builder, "core", cores);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, first_edge + i / half, port);
  for (uint64_t edge = 0; edge < edges; ++edge) {
    for (uint64_t a = 0; a < half; ++a) {
      join(builder, first_edge + edge, first_aggregation + edge / half * half + a, port);
    }
  }
  for (uint64_t aggregation = 0; aggregation < edges; ++aggregation) {
    for (uint64_t c = 0; c < half; ++c) {
      join(builder, first_aggregation + aggregation, first_core + aggregation % half * half + c, port);
    }
  }
  // The next pod, the next edge switch of the pod, the next rank of the edge switch: together they reach every rank.
  propose_symmetry(builder, [=](uint64_t v) {
    if (v < first_edge) return (v + half * half) % ranks;
    if (v < first_aggregation) return first_edge + (v - first_edge + half) % edges;
    return v < first_core ? first_aggregation + (v - first_aggregation + half) % edges : v;
  });
  if (half > 1) {
    const uint64_t pod = half * half;
    propose_symmetry(builder, [=](uint64_t v) {
      if (v < first_edge) return v / pod * pod + (v + half) % pod;
      if (v >= first_aggregation) return v;
      const uint64_t edge = v - first_edge;
      return first_edge + edge / half * half + (edge + 1) % half;
    });
    propose_rotation_inside(builder, ranks, half);
  }
}

// Dragonfly (Kim, Dally, Scott, Abts, ISCA 2008): the routers of a group are all joined, and so are all groups. The
// global cable from group i to group i + d (modulo the groups), copy c, is plugged in at position c * (groups - 1) +
// d - 1 of group i, and router r holds positions r * globals on. This "relative" arrangement looks the same from every
// group, so that groups can be rotated; positions that no whole round of all groups fills stay empty.
void generate_dragonfly(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"groups", "routers", "hosts", "globals"});
  const uint64_t groups = spec.parameter("groups", {.min = 2}), routers = spec.parameter("routers", {});
  const uint64_t hosts = spec.parameter("hosts", {}), peers = groups - 1;
  const uint64_t globals = spec.parameter_or("globals", (peers + routers - 1) / routers, {});
  const uint64_t copies = routers * globals / peers;
  if (copies == 0) {
    throw spec.error("routers * globals = " + std::to_string(routers * globals) +
                     " global cables of a group do not reach " + std::to_string(peers) +
                     " other groups; ask for more routers or globals");
  }
  const uint64_t all_routers = groups * routers;
  spec.expect_size(all_routers, 0);
  const uint64_t ranks = all_routers * hosts;
  spec.expect_size(ranks + all_routers, 0);
  spec.expect_size(ranks, 2 * ranks + all_routers * (routers - 1));
  spec.expect_size(ranks, 2 * ranks + all_routers * (routers - 1) + groups * peers * copies);
  const Bandwidth port = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  for (uint64_t router = 0; router < all_routers; ++router) {
    builder.add_switch("g" + std::to_string(router / routers) + "r" + std::to_string(router % routers));
  }
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / hosts, port);
  for (uint64_t group = 0; group < groups; ++group) {
    for (uint64_t a = 0; a < routers; ++a) {
      for (uint64_t b = a + 1; b < routers; ++b)
        join(builder, ranks + group * routers + a, ranks + group * routers + b, port);
    }
  }
  const auto plug = [&](uint64_t group, uint64_t distance, uint64_t copy) {
    return ranks + group * routers + (copy * peers + distance - 1) / globals;
  };
  for (uint64_t i = 0; i < groups; ++i) {
    for (uint64_t j = i + 1; j < groups; ++j) {
      for (uint64_t c = 0; c < copies; ++c) join(builder, plug(i, j - i, c), plug(j, groups - (j - i), c), port);
    }
  }
  const uint64_t per_group = routers * hosts;
  propose_symmetry(builder, [=](uint64_t v) {
    return v < ranks ? (v + per_group) % ranks : ranks + (v - ranks + routers) % all_routers;
  });
  propose_rotation_inside(builder, ranks, hosts);
}

// Servers with several ports, each on another top-of-rack switch, so that neighbouring racks share switches and the
// racks close to a circle (Liu, Zhuo, Peter, Krishnamurthy, Anderson: Subways, CoNEXT 2015). Port p of a server in rack
// r is on the switch of rack r + p, modulo the racks; every switch is joined to every spine.
void generate_subways(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"racks", "hosts", "ports", "spines", "uplink"});
  const uint64_t racks = spec.parameter("racks", {.min = 2}), hosts = spec.parameter("hosts", {});
  const uint64_t ports = spec.parameter("ports", {}), spines = spec.parameter("spines", {}), ranks = racks * hosts;
  if (ports > racks) {
    throw spec.error("ports is '" + std::to_string(ports) + "' but must be at most " + std::to_string(racks) +
                     ", the racks, since every port is on the switch of another rack");
  }
  spec.expect_size(ranks + racks + spines, 0);
  spec.expect_size(ranks, 2 * ranks * ports + 2 * racks * spines);
  const Bandwidth port = spec.bandwidth_or(kDefaultPort), uplink = spec.bandwidth_parameter_or("uplink", port);
  add_gpus(builder, ranks);
  add_switches(builder, "tor", racks);
  add_switches(builder, "spine", spines);
  for (uint64_t i = 0; i < ranks; ++i) {
    for (uint64_t p = 0; p < ports; ++p) join(builder, i, ranks + (i / hosts + p) % racks, port);
  }
  for (uint64_t tor = 0; tor < racks; ++tor) {
    for (uint64_t spine = 0; spine < spines; ++spine) join(builder, ranks + tor, ranks + racks + spine, uplink);
  }
  propose_group_rotation(builder, ranks, hosts, racks);
  propose_rotation_inside(builder, ranks, hosts);
}

}  // namespace banyan::fabric
