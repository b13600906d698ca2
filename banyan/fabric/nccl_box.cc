#include "banyan/fabric/nccl_box.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "banyan/base/error.h"
#include "banyan/fabric/device_table.h"
#include "banyan/fabric/generate_spec.h"

namespace banyan::fabric {
namespace {

Error bad(const std::string& message, size_t line = 0) {
  return Error(ErrorCode::invalid_input, message, line == 0 ? "" : "line " + std::to_string(line));
}

Bandwidth operator*(uint64_t count, Bandwidth link) {
  return Bandwidth::bytes_per_second(count * link.bytes_per_second());
}

// The graph of one box, and where it is plugged into the cluster.
struct BoxGraph {
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<std::pair<NodeId, Bandwidth>> uplinks;

  NodeId add(std::string name, NodeKind kind) {
    nodes.push_back({.name = std::move(name), .kind = kind});
    return NodeId{static_cast<uint32_t>(nodes.size() - 1)};
  }
  void join(NodeId a, NodeId b, Bandwidth bandwidth) {
    links.push_back({.from = a, .to = b, .bandwidth = bandwidth});
    links.push_back({.from = b, .to = a, .bandwidth = bandwidth});
  }
};

class BoxGraphBuilder {
 public:
  BoxGraphBuilder(NcclBox box, const BoxOptions& options) : box_(std::move(box)), options_(options) {
    if (!options.gpu.empty()) model_ = &gpu_model(options.gpu);
  }

  BoxGraph build() && {
    order_gpus();
    choose_nics();
    for (size_t i = 0; i < box_.gpus.size(); ++i) graph_.add("gpu" + std::to_string(i), NodeKind::rank);
    add_gpu_links();
    add_switches();
    for (uint32_t i = 0; i < box_.gpus.size(); ++i) {
      const NcclBox::Gpu& gpu = box_.gpus[i];
      graph_.join(NodeId{i}, switch_node_[gpu.node], gpu.up);
      if (gpu.c2c != Bandwidth()) graph_.join(NodeId{i}, switch_node_[gpu.cpu], gpu.c2c);
    }
    add_nics();
    return std::move(graph_);
  }

 private:
  // GPUs are numbered as CUDA does where the file says so; otherwise in the file's order.
  void order_gpus() {
    std::set<int64_t> devs;
    for (const NcclBox::Gpu& gpu : box_.gpus) {
      if (gpu.dev) devs.insert(*gpu.dev);
    }
    if (devs.size() != box_.gpus.size()) return;
    std::sort(box_.gpus.begin(), box_.gpus.end(), [](const auto& a, const auto& b) { return *a.dev < *b.dev; });
  }

  // Of a dump the NICs that NCCL uses, which have net elements; of a skeleton all, at the speed that --nic gives.
  void choose_nics() {
    auto& nics = box_.nics;
    if (options_.boxes == 1) nics.clear();
    if (options_.boxes == 1 || options_.nic) {
      const bool declared = std::any_of(nics.begin(), nics.end(), [](const auto& nic) { return nic.net.has_value(); });
      if (declared) std::erase_if(nics, [](const auto& nic) { return !nic.net; });
      for (NcclBox::Nic& nic : nics) nic.net = options_.nic;
    } else {
      const size_t found = nics.size();
      std::erase_if(nics, [](const auto& nic) { return !nic.net; });
      if (found > 0 && nics.empty()) {
        throw bad("the file does not say how fast its " + std::to_string(found) +
                  " network interfaces are; say it with --nic, such as --nic 400Gb/s");
      }
    }
    if (options_.boxes > 1 && nics.empty()) {
      throw bad("the file has no network interfaces, so several boxes cannot be joined; leave --boxes out");
    }
  }

  NodeId nvswitch() {
    if (!nvswitch_) nvswitch_ = graph_.add("nvsw0", NodeKind::switch_);
    return *nvswitch_;
  }

  void add_gpu_links() {
    const bool rows =
        std::any_of(box_.gpus.begin(), box_.gpus.end(), [](const auto& gpu) { return !gpu.rows.empty(); });
    if (rows) {
      if (model_ != nullptr && model_->wiring == GpuWiring::none) {
        throw bad("--gpu " + std::string(model_->name) +
                  " says that GPUs have no links of their own, but the file has some");
      }
      add_links_of_rows();
    } else if (model_ != nullptr) {
      add_links_of_model(*model_);
    } else if (box_.gpus_guessed) {
      std::string known;
      for (const GpuModel& model : gpu_models()) known += (known.empty() ? "" : ", ") + std::string(model.name);
      throw bad("the file is a PCI skeleton and does not say what GPUs and NVLinks it has; say it with --gpu, one of " +
                known);
    }
  }

  // Which GPU a busid means. The targets of links are written without the host, so it is the row's own.
  uint32_t gpu_at(uint32_t host, const NcclBox::LinkRow& row) const {
    const auto [begin, end] = gpu_by_busid_.equal_range({host, row.busid});
    if (begin == end) return NcclBox::kNone;
    if (std::next(begin) != end) {
      throw bad("link target " + row.busid + " is ambiguous: several GPUs share this PCI device", row.line);
    }
    return begin->second;
  }

  // As NCCL does: a row is a link of the GPU it stands at, so a direct link appears at both ends and a row that is
  // missing is a direction that is missing. The way back from a switch or CPU is not written and is as fast.
  void add_links_of_rows() {
    for (uint32_t i = 0; i < box_.gpus.size(); ++i)
      gpu_by_busid_.emplace(std::pair(box_.gpus[i].host, box_.gpus[i].busid), i);
    std::map<std::pair<uint32_t, uint32_t>, uint64_t> direct;
    std::vector<uint64_t> to_switch(box_.gpus.size(), 0), to_cpu(box_.gpus.size(), 0);
    for (uint32_t i = 0; i < box_.gpus.size(); ++i) {
      for (const NcclBox::LinkRow& row : box_.gpus[i].rows) {
        using Target = NcclBox::LinkRow::Target;
        const uint32_t peer = gpu_at(box_.gpus[i].host, row);
        if (peer == i) throw bad("gpu " + row.busid + " has a link to itself; remove the row", row.line);
        if (peer != NcclBox::kNone) {
          direct[{i, peer}] += row.count;
        } else if (row.kind == Target::nvswitch) {
          to_switch[i] += row.count;
        } else if (row.kind == Target::cpu) {
          to_cpu[i] += row.count;
        } else if (row.kind == Target::unknown) {
          throw bad("link target " + row.busid + " is no GPU of this file, and there is no tclass that says what it is",
                    row.line);
        }
        // Else it leads to a GPU that the file leaves out, as dumps of jobs on part of a box do: no one's link.
      }
    }
    for (const auto& [pair, count] : direct) {
      graph_.links.push_back(
          {.from = NodeId{pair.first}, .to = NodeId{pair.second}, .bandwidth = count * link_of(pair.first)});
    }
    for (uint32_t i = 0; i < box_.gpus.size(); ++i) {
      if (to_switch[i] > 0) graph_.join(NodeId{i}, nvswitch(), to_switch[i] * link_of(i));
      if (to_cpu[i] > 0) {
        box_.gpus[i].c2c = Bandwidth::bytes_per_second(box_.gpus[i].c2c.bytes_per_second() +
                                                       to_cpu[i] * link_of(i).bytes_per_second());
      }
    }
  }

  Bandwidth link_of(uint32_t gpu) const { return model_ != nullptr ? model_->link : box_.gpus[gpu].link; }

  void add_links_of_model(const GpuModel& model) {
    const auto count = static_cast<uint32_t>(box_.gpus.size());
    if (model.box != 0 && count != model.box) {
      throw bad("--gpu " + std::string(model.name) + " is known in boxes of " + std::to_string(model.box) +
                " GPUs, but the file has " + std::to_string(count));
    }
    for (uint32_t i = 0; i < count && model.wiring == GpuWiring::nvswitch; ++i) {
      graph_.join(NodeId{i}, nvswitch(), model.all_links());
    }
    for (uint32_t i = 0; i < count && model.wiring == GpuWiring::all_to_all; ++i) {
      for (uint32_t j = i + 1; j < count; ++j) graph_.join(NodeId{i}, NodeId{j}, model.link);
    }
    for (const GpuCable& cable : model.mesh) graph_.join(NodeId{cable.a}, NodeId{cable.b}, cable.links * model.link);
  }

  // Only switches that lead to a GPU or a NIC: bridges of disks and unused NICs would be dead ends.
  void add_switches() {
    std::vector<bool> used(box_.switches.size(), false);
    for (const NcclBox::Gpu& gpu : box_.gpus) used[gpu.node] = true;
    for (const NcclBox::Nic& nic : box_.nics) used[nic.node] = true;
    for (size_t i = used.size(); i-- > 0;) {
      if (used[i] && box_.switches[i].parent != NcclBox::kNone) used[box_.switches[i].parent] = true;
    }
    switch_node_.assign(used.size(), NodeId{NcclBox::kNone});
    for (size_t i = 0; i < used.size(); ++i) {
      if (!used[i]) continue;
      const NcclBox::Switch& node = box_.switches[i];
      switch_node_[i] = graph_.add(node.name, NodeKind::switch_);
      if (node.parent != NcclBox::kNone) graph_.join(switch_node_[i], switch_node_[node.parent], node.up);
    }
    for (size_t i = 0; i < box_.cpus.size(); ++i) {
      for (size_t j = i + 1; j < box_.cpus.size(); ++j) {
        const NcclBox::Cpu &a = box_.cpus[i], &b = box_.cpus[j];
        if (a.host != b.host || !used[a.node] || !used[b.node]) continue;
        graph_.join(switch_node_[a.node], switch_node_[b.node], std::min(a.to_peer, b.to_peer));
      }
    }
  }

  void add_nics() {
    for (size_t i = 0; i < box_.nics.size(); ++i) {
      const NcclBox::Nic& nic = box_.nics[i];
      const NodeId node = graph_.add("nic" + std::to_string(i), NodeKind::switch_);
      graph_.join(node, switch_node_[nic.node], nic.up.value_or(*nic.net));
      graph_.uplinks.emplace_back(node, *nic.net);
    }
  }

  NcclBox box_;
  const BoxOptions& options_;
  const GpuModel* model_ = nullptr;
  BoxGraph graph_;
  std::optional<NodeId> nvswitch_;
  std::vector<NodeId> switch_node_;  // by Switch; meaningful for those that are used
  std::multimap<std::pair<uint32_t, std::string>, uint32_t> gpu_by_busid_;
};

// A switch with one neighbour carries nothing between others: the CPU above the only PCI switch, or above one GPU.
// Without it the next may be one. Uplinks are neighbours too.
BoxGraph without_dead_ends(const BoxGraph& box) {
  std::vector<std::set<NodeId>> neighbours(box.nodes.size());
  for (const Link& link : box.links) {
    neighbours[index(link.from)].insert(link.to);
    neighbours[index(link.to)].insert(link.from);
  }
  std::vector<bool> kept(box.nodes.size(), true), uplink(box.nodes.size(), false);
  for (const auto& [nic, bandwidth] : box.uplinks) uplink[index(nic)] = true;
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
  for (Link link : box.links) {
    if (!kept[index(link.from)] || !kept[index(link.to)]) continue;
    link.from = renamed[index(link.from)];
    link.to = renamed[index(link.to)];
    result.links.push_back(link);
  }
  for (const auto& [nic, bandwidth] : box.uplinks) result.uplinks.emplace_back(renamed[index(nic)], bandwidth);
  return result;
}

void expect_size(const BoxGraph& box, uint64_t boxes) {
  const uint64_t nodes = box.nodes.size() * boxes + (boxes > 1),
                 links = (box.links.size() + 2 * box.uplinks.size()) * boxes;
  if (nodes <= Fabric::kMaxNodes && links <= Fabric::kMaxLinks) return;
  throw Error(ErrorCode::unsupported, std::to_string(boxes) + " boxes would have " + std::to_string(nodes) +
                                          " nodes and " + std::to_string(links) + " links; a fabric may have " +
                                          std::to_string(Fabric::kMaxNodes) + " and " +
                                          std::to_string(Fabric::kMaxLinks));
}

}  // namespace

Fabric build_nccl_fabric(NcclBox box, const BoxOptions& options) {
  if (options.boxes == 0) throw bad("--boxes is 0 but must be at least 1");
  const uint32_t boxes = options.boxes;
  const BoxGraph graph = without_dead_ends(BoxGraphBuilder(std::move(box), options).build());
  expect_size(graph, boxes);
  const auto size = static_cast<uint32_t>(graph.nodes.size());
  Fabric::Builder builder;
  for (uint32_t b = 0; b < boxes; ++b) {
    const std::string prefix = boxes == 1 ? "" : "box" + std::to_string(b) + "/";
    for (const Node& node : graph.nodes) builder.add_node({.name = prefix + node.name, .kind = node.kind});
    for (Link link : graph.links) {
      link.from = NodeId{b * size + index(link.from)};
      link.to = NodeId{b * size + index(link.to)};
      builder.add_link(link);
    }
  }
  if (boxes > 1) {
    const uint64_t cluster = index(builder.add_switch("ib0"));
    for (uint32_t b = 0; b < boxes; ++b) {
      for (const auto& [nic, bandwidth] : graph.uplinks) join(builder, b * size + index(nic), cluster, bandwidth);
    }
    propose_symmetry(builder, [=](uint64_t v) { return v < cluster ? (v + size) % cluster : v; });
  }
  return std::move(builder).build();
}

}  // namespace banyan::fabric
