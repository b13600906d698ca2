#include "banyan/fabric/nccl_box.h"

#include <algorithm>
#include <functional>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/text.h"
#include "banyan/fabric/box_pci.h"
#include "banyan/fabric/device_table.h"
#include "banyan/fabric/generate_spec.h"
#include "banyan/fabric/gpu_links.h"

namespace banyan::fabric {
namespace {

constexpr size_t kMostDevices = 1024;  // GPUs, or NICs, of a box: every two are looked at

Error bad(const std::string& message) { return invalid(message); }

// The graph of one box, and where it is plugged into what joins boxes.
struct BoxGraph {
  enum class Kind : uint8_t { gpu, pci, cpus, nic };  // GpuLinks; PCI; between CPUs; from a NIC to the network
  struct Joint {
    Link link;
    Kind kind;
  };
  struct Uplink {
    NodeId node;
    NcclBox::Speed speed;
    bool by_nvlink;  // to the NVSwitches of the rack; else to the cluster switch
  };
  std::vector<Node> nodes;
  std::vector<Joint> joints;
  std::vector<Uplink> uplinks;

  NodeId add(std::string name, NodeKind kind) {
    nodes.push_back({.name = std::move(name), .kind = kind});
    return NodeId{static_cast<uint32_t>(nodes.size() - 1)};
  }
  void add_link(NodeId from, NodeId to, NcclBox::Speed speed, Kind kind) {
    joints.push_back({{.from = from, .to = to, .bandwidth = speed.rate, .assumed = speed.assumed}, kind});
  }
  void join(NodeId a, NodeId b, NcclBox::Speed speed, Kind kind) {
    add_link(a, b, speed, kind);
    add_link(b, a, speed, kind);
  }
};

// The GPU that the options name; null where they name none.
const GpuModel* model_of(const BoxOptions& options) { return options.gpu.empty() ? nullptr : &gpu_model(options.gpu); }

class BoxGraphBuilder {
 public:
  // `nvlink_domain`: whether NVLink leaves the box; `needs_nics`: whether NICs join the boxes.
  struct Place {
    bool nvlink_domain = false, needs_nics = false;
  };
  BoxGraphBuilder(NcclBox box, const BoxOptions& options, Place place, std::vector<std::string>& notes)
      : box_(std::move(box)), options_(options), model_(model_of(options)), place_(place), notes_(notes) {}

  BoxGraph build() && {
    order_gpus();
    const GpuLinks links = links_of_gpus(box_, options_, model_, notes_);
    choose_nics();
    const std::optional<GpuLinks::Pair> joined = links.first_pair(true), apart = links.first_pair(false);
    if (joined && apart) tell_both_ways(*joined, *apart);
    const PciLinks pci = pci_links_of(box_, !apart);
    for (size_t i = 0; i < box_.gpus.size(); ++i) graph_.add("gpu" + std::to_string(i), NodeKind::rank);
    add_gpu_links(links);
    add_switches(pci);
    for (uint32_t i = 0; i < box_.gpus.size(); ++i) {
      if (pci.gpu[i]) plug_gpu(i, pci.gpu_most[i], links.to_cpu[i]);
    }
    add_nics();
    return std::move(graph_);
  }

 private:
  void tell_both_ways(GpuLinks::Pair joined, GpuLinks::Pair apart) {
    const auto names = [](GpuLinks::Pair pair) {
      return "gpu" + std::to_string(pair.first) + " and gpu" + std::to_string(pair.second);
    };
    notes_.push_back(names(apart) +
                     " have no NVLink between them, so all GPUs have PCI, too; where both join two, as " +
                     names(joined) + ", both are counted, but a GPU runtime takes NVLink alone");
  }

  // GPUs are numbered as CUDA does where the file says so; otherwise in the file's order.
  void order_gpus() {
    std::set<int64_t> devs;
    for (const NcclBox::Gpu& gpu : box_.gpus) {
      if (gpu.dev) devs.insert(*gpu.dev);
    }
    if (devs.size() != box_.gpus.size()) return;
    std::sort(box_.gpus.begin(), box_.gpus.end(), [](const auto& a, const auto& b) { return *a.dev < *b.dev; });
  }

  // Of a dump the NICs that have net elements; of a skeleton all, at the speed that --nic gives.
  void choose_nics() {
    auto& nics = box_.nics;
    if (!place_.needs_nics) {
      nics.clear();
      return;
    }
    const size_t found = nics.size();
    const bool declared = std::ranges::any_of(nics, [](const auto& nic) { return nic.net.has_value(); });
    if (declared || !options_.nic) std::erase_if(nics, [](const auto& nic) { return !nic.net; });
    if (found > 0 && nics.empty()) {
      throw bad("the file does not say how fast its " + std::to_string(found) +
                " network interfaces are; say it with --nic, such as --nic 400Gb/s");
    }
    if (nics.empty()) {
      throw bad("the file has no network interfaces, so several boxes cannot be joined; leave --boxes out");
    }
    for (NcclBox::Nic& nic : nics) {
      if (options_.nic) nic.net = NcclBox::Speed{.rate = *options_.nic};
    }
    choose_near_nics(box_, options_, notes_);
  }

  void add_gpu_links(const GpuLinks& links) {
    for (const GpuLinks::Direct& link : links.direct)
      graph_.add_link(NodeId{link.from}, NodeId{link.to}, link.speed, BoxGraph::Kind::gpu);
    std::optional<NodeId> nvswitch;
    for (uint32_t i = 0; i < box_.gpus.size(); ++i) {
      if (links.to_switch[i].rate == Bandwidth()) continue;
      if (place_.nvlink_domain) {
        graph_.uplinks.push_back({.node = NodeId{i}, .speed = links.to_switch[i], .by_nvlink = true});
        continue;
      }
      if (!nvswitch) nvswitch = graph_.add("nvsw0", NodeKind::switch_);
      graph_.join(NodeId{i}, *nvswitch, links.to_switch[i], BoxGraph::Kind::gpu);
    }
  }

  // Only switches that lead to a GPU or a NIC: bridges of disks and unused NICs would be dead ends.
  void add_switches(const PciLinks& pci) {
    std::vector<bool> used(box_.switches.size(), false);
    for (size_t i = 0; i < box_.gpus.size(); ++i) {
      if (pci.gpu[i]) used[box_.gpus[i].node] = true;
    }
    for (const NcclBox::Nic& nic : box_.nics) used[nic.node] = true;
    for (size_t i = used.size(); i-- > 0;) {
      const uint32_t parent = box_.switches[i].parent;
      if (used[i] && parent != NcclBox::kNone && pci.up[i]) used[parent] = true;
    }
    switch_node_.assign(used.size(), NodeId{NcclBox::kNone});
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const NcclBox::Switch& node = box_.switches[i];
      switch_node_[i] = graph_.add(node.name, NodeKind::switch_);
      if (node.parent != NcclBox::kNone && pci.up[i])
        graph_.join(switch_node_[i], switch_node_[node.parent], node.up, BoxGraph::Kind::pci);
    }
    for (size_t i = 0; i < box_.cpus.size() && pci.between_cpus; ++i) {
      for (size_t j = i + 1; j < box_.cpus.size(); ++j) {
        const NcclBox::Cpu &a = box_.cpus[i], &b = box_.cpus[j];
        if (a.host != b.host || !used[a.node] || !used[b.node]) continue;
        const NcclBox::Speed guess{.rate = std::min(a.to_peer, b.to_peer), .assumed = true};
        graph_.join(switch_node_[a.node], switch_node_[b.node],
                    options_.cpu_link ? NcclBox::Speed{.rate = *options_.cpu_link} : guess, BoxGraph::Kind::cpus);
      }
    }
  }

  // Its PCI link, and what joins it to its CPU beside that, where the CPU leads on.
  void plug_gpu(uint32_t number, Bandwidth most, NcclBox::Speed to_cpu) {
    const NcclBox::Gpu& gpu = box_.gpus[number];
    graph_.join(NodeId{number}, switch_node_[gpu.node], {std::min(gpu.up.rate, most), gpu.up.assumed},
                BoxGraph::Kind::pci);
    to_cpu.rate = Bandwidth::bytes_per_second(to_cpu.rate.bytes_per_second() + gpu.c2c.bytes_per_second());
    if (to_cpu.rate == Bandwidth() || switch_node_[gpu.cpu] == NodeId{NcclBox::kNone}) return;
    graph_.join(NodeId{number}, switch_node_[gpu.cpu], {std::min(to_cpu.rate, most), to_cpu.assumed},
                BoxGraph::Kind::gpu);
  }

  void add_nics() {
    for (size_t i = 0; i < box_.nics.size(); ++i) {
      const NcclBox::Nic& nic = box_.nics[i];
      const NodeId node = graph_.add("nic" + std::to_string(i), NodeKind::switch_);
      graph_.join(node, switch_node_[nic.node], nic.up.value_or(*nic.net), BoxGraph::Kind::pci);
      graph_.uplinks.push_back({.node = node, .speed = *nic.net, .by_nvlink = false});
    }
  }

  NcclBox box_;
  const BoxOptions& options_;
  const GpuModel* const model_;
  const Place place_;
  std::vector<std::string>& notes_;
  BoxGraph graph_;
  std::vector<NodeId> switch_node_;  // by Switch; kNone for those that are not used
};

// A switch with one neighbour carries nothing between others: the CPU above the only PCI switch, or above one GPU.
// Without it the next may be one. Uplinks are neighbours too.
BoxGraph without_dead_ends(const BoxGraph& box) {
  std::vector<std::set<NodeId>> neighbours(box.nodes.size());
  for (const BoxGraph::Joint& joint : box.joints) {
    neighbours[index(joint.link.from)].insert(joint.link.to);
    neighbours[index(joint.link.to)].insert(joint.link.from);
  }
  std::vector<bool> kept(box.nodes.size(), true), uplink(box.nodes.size(), false);
  for (const BoxGraph::Uplink& each : box.uplinks) uplink[index(each.node)] = true;
  std::vector<NodeId> suspects;
  for (uint32_t v = 0; v < box.nodes.size(); ++v) suspects.push_back(NodeId{v});
  while (!suspects.empty()) {
    const NodeId v = suspects.back();
    suspects.pop_back();
    const bool dead =
        box.nodes[index(v)].kind == NodeKind::switch_ && !uplink[index(v)] && neighbours[index(v)].size() <= 1;
    if (!dead || !kept[index(v)]) continue;
    kept[index(v)] = false;
    for (const NodeId w : neighbours[index(v)]) {
      neighbours[index(w)].erase(v);
      suspects.push_back(w);
    }
  }
  BoxGraph result;
  std::vector<NodeId> renamed(box.nodes.size());
  for (size_t v = 0; v < box.nodes.size(); ++v) {
    if (kept[v]) renamed[v] = result.add(box.nodes[v].name, box.nodes[v].kind);
  }
  for (BoxGraph::Joint joint : box.joints) {
    if (!kept[index(joint.link.from)] || !kept[index(joint.link.to)]) continue;
    joint.link.from = renamed[index(joint.link.from)];
    joint.link.to = renamed[index(joint.link.to)];
    result.joints.push_back(joint);
  }
  for (BoxGraph::Uplink each : box.uplinks) {
    each.node = renamed[index(each.node)];
    result.uplinks.push_back(each);
  }
  return result;
}

void expect_size(const BoxGraph& box, uint64_t boxes) {
  const uint64_t nodes = box.nodes.size() * boxes + (boxes > 1),
                 links = (box.joints.size() + 2 * box.uplinks.size()) * boxes;
  if (nodes <= Fabric::kMaxNodes && links <= Fabric::kMaxLinks) return;
  throw Error(ErrorCode::unsupported, std::to_string(boxes) + " boxes would have " + std::to_string(nodes) +
                                          " nodes and " + std::to_string(links) + " links; a fabric may have " +
                                          std::to_string(Fabric::kMaxNodes) + " and " +
                                          std::to_string(Fabric::kMaxLinks));
}

// The figures that were assumed, and the option that settles each.
void tell_assumed(const BoxGraph& graph, const std::vector<NcclBox::Cpu>& cpus, const BoxOptions& options,
                  std::vector<std::string>& notes) {
  std::set<Bandwidth, std::greater<>> between_cpus;
  bool pci = false, nics = false, any_cpus = false;
  for (const BoxGraph::Joint& joint : graph.joints) {
    any_cpus |= joint.kind == BoxGraph::Kind::cpus;
    if (!joint.link.assumed) continue;
    if (joint.kind == BoxGraph::Kind::cpus) between_cpus.insert(joint.link.bandwidth);
    pci |= joint.kind == BoxGraph::Kind::pci;
  }
  for (const BoxGraph::Uplink& each : graph.uplinks) nics |= each.speed.assumed;
  for (const Bandwidth rate : between_cpus) {
    const auto of = std::ranges::find_if(cpus, [&](const auto& cpu) { return cpu.to_peer == rate; });
    const std::string whose = of == cpus.end() || of->model.empty()
                                  ? "the least that NCCL takes, since the description does not name the CPUs"
                                  : "as NCCL takes it for " + std::string(of->model);
    notes.push_back(
        "a link between CPUs has " + rate.to_string() + " each way, " + whose +
        "; no description says it, and more has been measured: say it by --cpu-link, as in --cpu-link 64GB/s");
  }
  if (options.cpu_link && !any_cpus) notes.push_back("--cpu-link changes nothing: no link between CPUs is of use here");
  if (pci) {
    notes.push_back(
        "PCI links whose speed or width the file does not tell are taken as Gen3 and 16 lanes wide, as NCCL takes "
        "them; "
        "say it by --degrade, as in --degrade gpu0-cpu0=24GB/s");
  }
  if (nics) {
    notes.push_back(
        "network interfaces whose speed the driver did not say are taken as 10 Gb/s, as NCCL takes them; say it by "
        "--nic, as in --nic 400Gb/s");
  }
}

// How boxes stand together: N copies, of which NVLink joins so many each.
struct Racks {
  uint32_t boxes = 1, boxes_a_rack = 1;

  uint32_t count() const { return (boxes + boxes_a_rack - 1) / boxes_a_rack; }
  bool join_boxes() const { return boxes_a_rack > 1; }
};

Racks racks_of(size_t gpus, const BoxOptions& options, const GpuModel* model, std::vector<std::string>& notes) {
  Racks racks{.boxes = options.boxes};
  if (model == nullptr || model->nvlink_domain <= gpus || options.boxes == 1 || gpus == 0) return racks;
  racks.boxes_a_rack = static_cast<uint32_t>(model->nvlink_domain / gpus);
  notes.push_back("NVLink joins up to " + std::to_string(racks.boxes_a_rack) + " boxes with " + plural(gpus, "GPU") +
                  " each, as the trays of an NVL" + std::to_string(model->nvlink_domain) +
                  "; where it does not leave the box, say --gpu " + (model->name == "gb300" ? "b300" : "b200"));
  return racks;
}

Fabric join_boxes(const BoxGraph& graph, const Racks& racks) {
  const auto size = static_cast<uint32_t>(graph.nodes.size());
  const uint64_t all = uint64_t{size} * racks.boxes;
  Fabric::Builder builder;
  for (uint32_t b = 0; b < racks.boxes; ++b) {
    const std::string prefix = racks.boxes == 1 ? "" : "box" + std::to_string(b) + "/";
    for (const Node& node : graph.nodes) builder.add_node({.name = prefix + node.name, .kind = node.kind});
    for (const BoxGraph::Joint& joint : graph.joints) {
      Link link = joint.link;
      link.from = NodeId{b * size + index(link.from)};
      link.to = NodeId{b * size + index(link.to)};
      builder.add_link(link);
    }
  }
  if (racks.boxes == 1) return std::move(builder).build();
  const bool by_nvlink = std::ranges::any_of(graph.uplinks, [](const auto& each) { return each.by_nvlink; });
  const bool by_nics = std::ranges::any_of(graph.uplinks, [](const auto& each) { return !each.by_nvlink; });
  for (uint32_t r = 0; by_nvlink && r < racks.count(); ++r) builder.add_switch("nvsw" + std::to_string(r));
  const uint64_t cluster = all + (by_nvlink ? racks.count() : 0);
  if (by_nics) builder.add_switch("ib0");
  for (uint32_t b = 0; b < racks.boxes; ++b) {
    for (const BoxGraph::Uplink& each : graph.uplinks) {
      const uint64_t to = each.by_nvlink ? all + b / racks.boxes_a_rack : cluster;
      builder.add_cable({.from = NodeId{b * size + index(each.node)},
                         .to = NodeId{static_cast<uint32_t>(to)},
                         .bandwidth = each.speed.rate,
                         .assumed = each.speed.assumed});
    }
  }
  // Boxes turn within their racks, and full racks among themselves.
  const uint64_t rack = uint64_t{size} * racks.boxes_a_rack;
  if (all % rack == 0) {
    if (racks.boxes_a_rack > 1)
      propose_symmetry(builder, [=](uint64_t v) { return v < all ? v / rack * rack + (v % rack + size) % rack : v; });
    if (racks.count() > 1)
      propose_symmetry(builder, [=](uint64_t v) {
        return v < all ? (v + rack) % all : v < cluster ? all + (v - all + 1) % (cluster - all) : v;
      });
  } else if (racks.count() == 1) {
    propose_symmetry(builder, [=](uint64_t v) { return v < all ? (v + size) % all : v; });
  }
  return std::move(builder).build();
}

}  // namespace

uint32_t NcclBox::add_cpu(uint32_t host, const CpuLink& link) {
  const auto node = static_cast<uint32_t>(switches.size());
  switches.push_back({.name = "cpu" + std::to_string(cpus.size())});
  cpus.push_back({.node = node, .host = host, .to_peer = link.rate, .model = link.of});
  return node;
}

bool is_busid(std::string_view text) {
  return !text.empty() && text.size() <= 20 && text.find_first_not_of("0123456789abcdef:.") == std::string_view::npos;
}

Fabric build_nccl_fabric(NcclBox box, const BoxOptions& options, std::vector<std::string>& notes) {
  if (options.boxes == 0) throw bad("--boxes is 0 but must be at least 1");
  for (const size_t count : {box.gpus.size(), box.nics.size()}) {
    if (count > kMostDevices) throw bad("more than " + std::to_string(kMostDevices) + " GPUs or network interfaces");
  }
  const std::vector<NcclBox::Cpu> cpus = box.cpus;
  const Racks racks = racks_of(box.gpus.size(), options, model_of(options), notes);
  const BoxGraph graph = without_dead_ends(
      BoxGraphBuilder(std::move(box), options,
                      {.nvlink_domain = racks.join_boxes(), .needs_nics = options.boxes > 1 && racks.count() > 1},
                      notes)
          .build());
  expect_size(graph, options.boxes);
  tell_assumed(graph, cpus, options, notes);
  return join_boxes(graph, racks);
}

}  // namespace banyan::fabric
