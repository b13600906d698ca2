// Boxes of GPUs as vendors sell them, and clusters of such boxes. Figures are per direction, from the vendors' data
// sheets; where they come from and what is left out is said in docs/fabrics.md.
//
// Node order: all ranks (box by box), then one switch per box, then the cluster switch "ib0". Link order: the cables
// inside the boxes, box by box, then the NIC cables by rank.
#include <span>

#include "banyan/fabric/generate_spec.h"

namespace banyan {
namespace {

struct Cable {
  uint32_t a, b;
  uint64_t gigabytes_per_second;
};

// The hybrid cube mesh of the DGX-1: NVLinks of 25 GB/s, one or two between two GPUs, six at each GPU.
constexpr uint64_t kDgx1Gpus = 8;
constexpr Cable kDgx1Cables[] = {{0, 1, 25}, {0, 2, 25}, {0, 3, 50}, {0, 4, 50}, {1, 2, 50}, {1, 3, 25},
                                 {1, 5, 50}, {2, 3, 50}, {2, 6, 25}, {3, 7, 25}, {4, 5, 25}, {4, 6, 25},
                                 {4, 7, 50}, {5, 6, 50}, {5, 7, 25}, {6, 7, 50}};

// Four MI250 trays: GPU dies (GCDs) 2p and 2p + 1 share package p. xGMI links of 50 GB/s; four inside a package, one or
// two between packages.
constexpr uint64_t kMi250Gpus = 16;
constexpr Cable kMi250Cables[] = {{0, 1, 200},   {2, 3, 200},   {4, 5, 200},  {6, 7, 200}, {8, 9, 200},  {10, 11, 200},
                                  {12, 13, 200}, {14, 15, 200}, {0, 4, 100},  {3, 7, 100}, {8, 12, 100}, {11, 15, 100},
                                  {0, 8, 50},    {1, 5, 50},    {1, 9, 50},   {1, 10, 50}, {2, 6, 50},   {2, 9, 50},
                                  {2, 10, 50},   {3, 11, 50},   {4, 6, 50},   {5, 6, 50},  {5, 7, 50},   {9, 13, 50},
                                  {10, 14, 50},  {12, 14, 50},  {13, 14, 50}, {13, 15, 50}};

void expect_no_network(const GeneratorSpec& spec, uint64_t boxes) {
  if (boxes == 1 && spec.has_bandwidth()) {
    throw spec.error("one box has no NICs in this model, so a bandwidth after '@' means nothing; remove it");
  }
}

void join_boxes_inside(Fabric::Builder& builder, uint64_t boxes, uint64_t gpus, std::span<const Cable> cables) {
  for (uint64_t box = 0; box < boxes; ++box) {
    for (const Cable& cable : cables) {
      join(builder, box * gpus + cable.a, box * gpus + cable.b,
           Bandwidth::gigabytes_per_second(cable.gigabytes_per_second));
    }
  }
}

// Every box takes the next one's place, with the `box_switches` switches after the ranks.
void propose_box_rotation(Fabric::Builder& builder, uint64_t boxes, uint64_t gpus, uint64_t box_switches) {
  if (boxes == 1) return;
  const uint64_t ranks = boxes * gpus;
  propose_symmetry(builder, ranks, [=](uint64_t v) {
    if (v < ranks) return (v + gpus) % ranks;
    return v < ranks + box_switches ? ranks + (v - ranks + 1) % box_switches : v;
  });
}

// GPU g of every box takes the place of image(g); switches stay.
template <typename Image>
void propose_inside_boxes(Fabric::Builder& builder, uint64_t boxes, uint64_t gpus, Image image) {
  const uint64_t ranks = boxes * gpus;
  propose_symmetry(builder, ranks, [=](uint64_t v) { return v < ranks ? v / gpus * gpus + image(v % gpus) : v; });
}

struct NvswitchBox {
  Bandwidth nvlink;  // of a GPU to the NVSwitches, which are one switch
  Bandwidth nic;     // of a GPU's own NIC
};

Fabric generate_nvswitch_boxes(const GeneratorSpec& spec, const NvswitchBox& figures) {
  constexpr uint64_t kGpus = 8;
  const uint64_t boxes = spec.number("boxes", {}), ranks = boxes * kGpus;
  expect_no_network(spec, boxes);
  spec.expect_size(ranks + boxes + (boxes > 1), (boxes > 1 ? 4 : 2) * ranks);
  const Bandwidth nic = spec.bandwidth_or(figures.nic);
  Fabric::Builder builder;
  add_gpus(builder, ranks);
  add_switches(builder, "nvsw", boxes);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / kGpus, figures.nvlink);
  if (boxes > 1) {
    add_switches(builder, "ib", 1);
    for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + boxes, nic);
  }
  propose_box_rotation(builder, boxes, kGpus, boxes);
  propose_inside_boxes(builder, boxes, kGpus, [](uint64_t gpu) { return (gpu + 1) % kGpus; });
  return std::move(builder).build();
}

}  // namespace

Fabric generate_dgx_a100(const GeneratorSpec& spec) {
  return generate_nvswitch_boxes(
      spec, {.nvlink = Bandwidth::gigabytes_per_second(300), .nic = Bandwidth::gigabits_per_second(200)});
}

Fabric generate_dgx_h100(const GeneratorSpec& spec) {
  return generate_nvswitch_boxes(
      spec, {.nvlink = Bandwidth::gigabytes_per_second(450), .nic = Bandwidth::gigabits_per_second(400)});
}

// A box has one NIC, behind the PCIe switches that its GPUs share; "pcie<box>" stands for these switches together. A
// GPU's own way to it is as fast as the NIC of the box as sold, so that the NIC, not PCIe, is the bottleneck.
Fabric generate_dgx1_v100(const GeneratorSpec& spec) {
  const Bandwidth pcie = Bandwidth::gigabits_per_second(100);
  const uint64_t boxes = spec.number("boxes", {}), ranks = boxes * kDgx1Gpus;
  expect_no_network(spec, boxes);
  const uint64_t switches = boxes > 1 ? boxes + 1 : 0, cables = boxes > 1 ? std::size(kDgx1Cables) + kDgx1Gpus + 1 : 16;
  spec.expect_size(ranks + switches, 2 * boxes * cables);
  const Bandwidth nic = spec.bandwidth_or(Bandwidth::gigabits_per_second(100));
  Fabric::Builder builder;
  add_gpus(builder, ranks);
  join_boxes_inside(builder, boxes, kDgx1Gpus, kDgx1Cables);
  if (boxes > 1) {
    add_switches(builder, "pcie", boxes);
    add_switches(builder, "ib", 1);
    for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / kDgx1Gpus, pcie);
    for (uint64_t box = 0; box < boxes; ++box) join(builder, ranks + box, ranks + boxes, nic);
  }
  propose_box_rotation(builder, boxes, kDgx1Gpus, boxes);
  // With the identity and their product these are all automorphisms of the box.
  propose_inside_boxes(builder, boxes, kDgx1Gpus, [](uint64_t gpu) { return gpu ^ 1; });
  propose_inside_boxes(builder, boxes, kDgx1Gpus, [](uint64_t gpu) { return gpu ^ 4; });
  return std::move(builder).build();
}

Fabric generate_mi250(const GeneratorSpec& spec) {
  const uint64_t boxes = spec.number("boxes", {}), ranks = boxes * kMi250Gpus;
  expect_no_network(spec, boxes);
  spec.expect_size(ranks + (boxes > 1), 2 * boxes * (std::size(kMi250Cables) + (boxes > 1 ? kMi250Gpus : 0)));
  const Bandwidth nic = spec.bandwidth_or(Bandwidth::gigabytes_per_second(16));
  Fabric::Builder builder;
  add_gpus(builder, ranks);
  join_boxes_inside(builder, boxes, kMi250Gpus, kMi250Cables);
  if (boxes > 1) {
    add_switches(builder, "ib", 1);
    for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks, nic);
  }
  propose_box_rotation(builder, boxes, kMi250Gpus, 0);
  // With the identity and their product these are all automorphisms of the box.
  propose_inside_boxes(builder, boxes, kMi250Gpus, [](uint64_t gpu) { return gpu ^ 3; });
  propose_inside_boxes(builder, boxes, kMi250Gpus, [](uint64_t gpu) { return gpu ^ 8; });
  return std::move(builder).build();
}

// GPU g of every box is on rail switch g, and an NVSwitch joins the rails inside a box. Without spines this is the
// rail-only network; with them the rails are joined so that no cut through the spines is narrower than the NICs below.
Fabric generate_rail(const GeneratorSpec& spec) {
  spec.expect_parameters({"boxes", "gpus", "spines", "nvlink"});
  const uint64_t boxes = spec.parameter("boxes", {}), gpus = spec.parameter("gpus", {});
  const uint64_t spines = spec.parameter_or("spines", 0, {.min = 0});
  const uint64_t ranks = boxes * gpus;
  spec.expect_size(ranks + boxes + gpus + spines, 4 * ranks + 2 * gpus * spines);
  const Bandwidth nic = spec.bandwidth_or(kDefaultPort);
  const Bandwidth nvlink = spec.bandwidth_parameter_or("nvlink", Bandwidth::gigabytes_per_second(450));
  Fabric::Builder builder;
  add_gpus(builder, ranks);
  add_switches(builder, "nvsw", boxes);
  add_switches(builder, "rail", gpus);
  add_switches(builder, "spine", spines);
  const uint64_t first_rail = ranks + boxes, first_spine = first_rail + gpus;
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / gpus, nvlink);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, first_rail + i % gpus, nic);
  if (spines > 0) {
    const uint64_t ports = (boxes + spines - 1) / spines;  // NICs of a rail that one of its spine cables must carry
    if (ports > Bandwidth::kMaxBytesPerSecond / nic.bytes_per_second()) {
      throw spec.error("the cables to the spines would be above 1 PB/s; ask for more spines");
    }
    const Bandwidth trunk = Bandwidth::bytes_per_second(ports * nic.bytes_per_second());
    for (uint64_t rail = 0; rail < gpus; ++rail) {
      for (uint64_t spine = 0; spine < spines; ++spine) join(builder, first_rail + rail, first_spine + spine, trunk);
    }
  }
  propose_box_rotation(builder, boxes, gpus, boxes);
  propose_symmetry(builder, ranks, [=](uint64_t v) {
    if (v < ranks) return v / gpus * gpus + (v + 1) % gpus;
    return v >= first_rail && v < first_spine ? first_rail + (v - first_rail + 1) % gpus : v;
  });
  return std::move(builder).build();
}

}  // namespace banyan
