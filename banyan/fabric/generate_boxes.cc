// Boxes of GPUs as vendors sell them, and clusters of such boxes. Figures are per direction, from the vendors' data
// sheets; where they come from and what is left out is said in docs/fabrics.md.
//
// Node order: all ranks (box by box), then one switch per box, then the cluster switch "ib0". Link order: the cables
// inside the boxes, box by box, then the NIC cables by rank.
#include "banyan/fabric/device_table.h"
#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {
namespace {

void expect_no_network(const GeneratorSpec& spec, uint64_t boxes) {
  if (boxes == 1 && spec.has_bandwidth()) {
    throw spec.error("one box has no NICs in this model, so a bandwidth after '@' means nothing; remove it");
  }
}

void join_meshes(Fabric::Builder& builder, uint64_t boxes, const GpuModel& gpu) {
  for (uint64_t box = 0; box < boxes; ++box) {
    for (const GpuCable& cable : gpu.mesh) {
      join(builder, box * gpu.box + cable.a, box * gpu.box + cable.b,
           Bandwidth::bytes_per_second(cable.links * gpu.link.bytes_per_second()));
    }
  }
}

// All GPUs have a NIC of the cluster, where there is more than one box; `hub` is the cluster's switch.
void join_by_nics(Fabric::Builder& builder, uint64_t gpus, uint64_t hub, Bandwidth nic) {
  add_switches(builder, "ib", 1);
  for (uint64_t i = 0; i < gpus; ++i) join(builder, i, hub, nic);
}

// A box in which NVSwitches join all GPUs, as it is sold.
struct NvswitchBox {
  std::string_view gpu;
  uint64_t gpus;
  Bandwidth nic;  // of each GPU
};

void generate_boxes(const GeneratorSpec& spec, Fabric::Builder& builder, const NvswitchBox& box) {
  const uint64_t gpus = box.gpus;
  const uint64_t boxes = spec.number("boxes", {}), ranks = boxes * gpus;
  expect_no_network(spec, boxes);
  spec.expect_size(ranks + boxes + (boxes > 1), (boxes > 1 ? 4 : 2) * ranks);
  const Bandwidth nic = spec.bandwidth_or(box.nic), nvlinks = gpu_model(box.gpu).all_links();
  add_gpus(builder, ranks);
  add_switches(builder, "nvsw", boxes);
  for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / gpus, nvlinks);
  if (boxes > 1) join_by_nics(builder, ranks, ranks + boxes, nic);
  propose_group_rotation(builder, ranks, gpus, boxes);
  propose_rotation_inside(builder, ranks, gpus);
}

}  // namespace

// NICs of the DGX boxes: a ConnectX-6 (200 Gb/s) or ConnectX-7 (400 Gb/s) for each GPU, by NVIDIA's data sheets of DGX
// A100, H100, H200 and B200. HGX boards of the same GPUs have the same NVSwitches; their NICs are the server's.
void generate_dgx_a100(const GeneratorSpec& spec, Fabric::Builder& builder) {
  generate_boxes(spec, builder, {"a100", 8, Bandwidth::gigabits_per_second(200)});
}

void generate_dgx_h100(const GeneratorSpec& spec, Fabric::Builder& builder) {
  generate_boxes(spec, builder, {"h100", 8, Bandwidth::gigabits_per_second(400)});
}

void generate_dgx_h200(const GeneratorSpec& spec, Fabric::Builder& builder) {
  generate_boxes(spec, builder, {"h200", 8, Bandwidth::gigabits_per_second(400)});
}

void generate_dgx_b200(const GeneratorSpec& spec, Fabric::Builder& builder) {
  generate_boxes(spec, builder, {"b200", 8, Bandwidth::gigabits_per_second(400)});
}

// A rack is one box: 18 compute trays of 4 GPUs on 9 NVLink switch trays, 1.8 TB/s both ways for each GPU (130 TB/s in
// all) and a ConnectX-7 of 400 Gb/s for each, by NVIDIA's data sheet of the DGX GB200.
void generate_gb200_nvl72(const GeneratorSpec& spec, Fabric::Builder& builder) {
  generate_boxes(spec, builder, {"gb200", 72, Bandwidth::gigabits_per_second(400)});
}

// A box has one NIC, behind the PCIe switches that its GPUs share; "pcie<box>" stands for these switches together. A
// GPU's own way to it is as fast as the NIC of the box as sold, so that the NIC, not PCIe, is the bottleneck.
void generate_dgx1_v100(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const GpuModel& gpu = gpu_model("v100");
  const Bandwidth pcie = Bandwidth::gigabits_per_second(100);
  const uint64_t boxes = spec.number("boxes", {}), gpus = gpu.box, ranks = boxes * gpus;
  expect_no_network(spec, boxes);
  const uint64_t switches = boxes > 1 ? boxes + 1 : 0,
                 cables = boxes > 1 ? gpu.mesh.size() + gpus + 1 : gpu.mesh.size();
  spec.expect_size(ranks + switches, 2 * boxes * cables);
  const Bandwidth nic = spec.bandwidth_or(Bandwidth::gigabits_per_second(100));
  add_gpus(builder, ranks);
  join_meshes(builder, boxes, gpu);
  if (boxes > 1) {
    add_switches(builder, "pcie", boxes);
    add_switches(builder, "ib", 1);
    for (uint64_t i = 0; i < ranks; ++i) join(builder, i, ranks + i / gpus, pcie);
    for (uint64_t box = 0; box < boxes; ++box) join(builder, ranks + box, ranks + boxes, nic);
  }
  propose_group_rotation(builder, ranks, gpus, boxes);
  // With the identity and their product these are all automorphisms of the box.
  propose_inside_groups(builder, ranks, gpus, [](uint64_t g) { return g ^ 1; });
  propose_inside_groups(builder, ranks, gpus, [](uint64_t g) { return g ^ 4; });
}

void generate_mi250(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const GpuModel& gpu = gpu_model("mi250");
  const uint64_t boxes = spec.number("boxes", {}), gpus = gpu.box, ranks = boxes * gpus;
  expect_no_network(spec, boxes);
  spec.expect_size(ranks + (boxes > 1), 2 * boxes * (gpu.mesh.size() + (boxes > 1 ? gpus : 0)));
  const Bandwidth nic = spec.bandwidth_or(Bandwidth::gigabytes_per_second(16));
  add_gpus(builder, ranks);
  join_meshes(builder, boxes, gpu);
  if (boxes > 1) join_by_nics(builder, ranks, ranks, nic);
  propose_group_rotation(builder, ranks, gpus, 0);
  // With the identity and their product these are all automorphisms of the box.
  propose_inside_groups(builder, ranks, gpus, [](uint64_t g) { return g ^ 3; });
  propose_inside_groups(builder, ranks, gpus, [](uint64_t g) { return g ^ 8; });
}

// Eight MI300X, each joined to each by one xGMI link of 128 GB/s both ways, by AMD's data sheet of the MI300X platform.
// The platform has no NICs of its own: 400 Gb/s for each GPU is what servers with it are sold with.
void generate_mi300x(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const GpuModel& gpu = gpu_model("mi300x");
  const uint64_t boxes = spec.number("boxes", {}), gpus = gpu.box, ranks = boxes * gpus;
  expect_no_network(spec, boxes);
  spec.expect_size(ranks + (boxes > 1), boxes * gpus * (gpus - 1) + (boxes > 1 ? 2 * ranks : 0));
  const Bandwidth nic = spec.bandwidth_or(Bandwidth::gigabits_per_second(400));
  add_gpus(builder, ranks);
  for (uint64_t box = 0; box < boxes; ++box) {
    for (uint64_t a = 0; a < gpus; ++a) {
      for (uint64_t b = a + 1; b < gpus; ++b) join(builder, box * gpus + a, box * gpus + b, gpu.link);
    }
  }
  if (boxes > 1) join_by_nics(builder, ranks, ranks, nic);
  propose_group_rotation(builder, ranks, gpus, 0);
  propose_rotation_inside(builder, ranks, gpus);
}

// GPU g of every box is on rail switch g, and an NVSwitch joins the rails inside a box. Without spines this is the
// rail-only network; with them the rails are joined so that no cut through the spines is narrower than the NICs below.
void generate_rail(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"boxes", "gpus", "spines", "nvlink"});
  const uint64_t boxes = spec.parameter("boxes", {}), gpus = spec.parameter("gpus", {});
  const uint64_t spines = spec.parameter_or("spines", 0, {.min = 0});
  const uint64_t ranks = boxes * gpus;
  spec.expect_size(ranks + boxes + gpus + spines, 4 * ranks + 2 * gpus * spines);
  const Bandwidth nic = spec.bandwidth_or(kDefaultPort);
  const Bandwidth nvlink = spec.bandwidth_parameter_or("nvlink", Bandwidth::gigabytes_per_second(450));
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
  propose_group_rotation(builder, ranks, gpus, boxes);
  propose_symmetry(builder, [=](uint64_t v) {
    if (v < ranks) return v / gpus * gpus + (v + 1) % gpus;
    return v >= first_rail && v < first_spine ? first_rail + (v - first_rail + 1) % gpus : v;
  });
}

}  // namespace banyan::fabric
