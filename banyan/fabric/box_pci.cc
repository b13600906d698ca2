#include "banyan/fabric/box_pci.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/split_list.h"
#include "banyan/base/text.h"

namespace banyan::fabric {
namespace {

constexpr Bandwidth kAny = Bandwidth::bytes_per_second(Bandwidth::kMaxBytesPerSecond);

enum class Distance : uint8_t { pci_switch, cpu, host, none };

class PciTree {
 public:
  explicit PciTree(const NcclBox& box) : box_(box), depth_(box.switches.size(), 0), host_(box.switches.size(), 0) {
    for (const NcclBox::Cpu& cpu : box.cpus) host_[cpu.node] = cpu.host;
    for (size_t i = 0; i < depth_.size(); ++i) {
      const uint32_t parent = box.switches[i].parent;
      if (parent == NcclBox::kNone) continue;
      depth_[i] = depth_[parent] + 1;
      host_[i] = host_[parent];
    }
  }

  uint32_t parent(uint32_t node) const { return box_.switches[node].parent; }

  // The lowest Switch that both are below, or are; kNone: they are at different CPUs.
  uint32_t meeting(uint32_t a, uint32_t b) const {
    while (a != b && a != NcclBox::kNone && b != NcclBox::kNone) {
      uint32_t& lower = depth_[a] < depth_[b] ? b : a;
      lower = parent(lower);
    }
    return a == b ? a : NcclBox::kNone;
  }

  // How many Switches a GPU and a NIC of one host have above both; 0: they are at different CPUs.
  uint32_t levels_shared(const NcclBox::Gpu& gpu, const NcclBox::Nic& nic) const {
    const uint32_t meet = meeting(gpu.node, nic.node);
    return meet == NcclBox::kNone ? 0 : depth_[meet] + 1;
  }

  Distance distance(const NcclBox::Gpu& gpu, const NcclBox::Nic& nic) const {
    const uint32_t levels = levels_shared(gpu, nic);
    if (levels == 0) return host_[nic.node] == gpu.host ? Distance::host : Distance::none;
    return levels == 1 ? Distance::cpu : Distance::pci_switch;
  }

 private:
  const NcclBox& box_;
  std::vector<uint32_t> depth_, host_;  // by Switch; a CPU has depth 0
};

std::string name_of(const NcclBox::Nic& nic, size_t number) {
  return nic.names.empty() ? "nic" + std::to_string(number) : nic.names.front();
}

bool leaves_out(std::string_view word) { return word.starts_with('-') || word.starts_with('^'); }

// "NIC0,NIC1", or "-NIC2,-NIC3" (as in NCCL_IB_HCA, "^NIC2"): which NICs are kept.
std::vector<bool> named(const NcclBox& box, const std::string& list) {
  std::vector<bool> told(box.nics.size(), false);
  const std::vector<std::string> words = split_list(list, "--nics");
  for (const std::string& word : words) {
    if (leaves_out(word) != leaves_out(words.front())) {
      throw Error(ErrorCode::invalid_input, "names what to take and what to leave out; say one of both", "--nics");
    }
    const std::string_view wanted = std::string_view(word).substr(leaves_out(word) ? 1 : 0);
    NearestName nearest(wanted);
    std::string known;
    bool found = false;
    for (size_t i = 0; i < box.nics.size(); ++i) {
      std::vector<std::string> names = box.nics[i].names;
      if (names.empty()) names.push_back(name_of(box.nics[i], i));
      for (const std::string& name : names) nearest.offer(name);
      known += (known.empty() ? "" : ", ") + names.front();
      if (std::ranges::find(names, wanted) == names.end()) continue;
      found = told[i] = true;
    }
    if (!found) {
      throw Error(ErrorCode::not_found,
                  "there is no network interface " + in_quotes(wanted) + nearest.hint() + "; there are " +
                      (known.empty() ? "none" : known.substr(0, 400)),
                  "--nics");
    }
  }
  if (leaves_out(words.front())) told.flip();
  return told;
}

std::vector<bool> near_some_gpu(const NcclBox& box) {
  const PciTree tree(box);
  std::vector<bool> is_near(box.nics.size(), false);
  std::vector<Distance> distances(box.nics.size());
  for (const NcclBox::Gpu& gpu : box.gpus) {
    for (size_t i = 0; i < distances.size(); ++i) distances[i] = tree.distance(gpu, box.nics[i]);
    const Distance least = *std::ranges::min_element(distances);
    for (size_t i = 0; i < distances.size(); ++i) {
      if (distances[i] == least) is_near[i] = true;
    }
  }
  return is_near;
}

}  // namespace

void choose_near_nics(NcclBox& box, const BoxOptions& options, std::vector<std::string>& notes) {
  if (box.nics.empty() && options.nics.empty()) return;
  const std::vector<bool> kept = options.nics.empty() ? near_some_gpu(box) : named(box, options.nics);
  std::vector<NcclBox::Nic> nics;
  std::vector<std::string> left_out;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (kept[i]) {
      nics.push_back(std::move(box.nics[i]));
    } else {
      left_out.push_back(name_of(box.nics[i], i));
    }
  }
  if (nics.empty()) throw Error(ErrorCode::invalid_input, "leaves no network interface to join boxes by", "--nics");
  box.nics = std::move(nics);
  if (left_out.empty() || !options.nics.empty()) return;
  constexpr size_t kMostNamed = 8;
  std::string names = left_out.front();
  for (size_t i = 1; i < left_out.size() && i < kMostNamed; ++i) names += ", " + left_out[i];
  if (left_out.size() > kMostNamed) names += " and " + std::to_string(left_out.size() - kMostNamed) + " more";
  notes.push_back(names + (left_out.size() == 1 ? " is" : " are") +
                  " left out, since every GPU has nearer network interfaces; --nics says which count");
}

namespace {

// From the NIC to the GPUs nearest to it.
void keep_for_nic(const NcclBox& box, const PciTree& tree, const NcclBox::Nic& nic, PciLinks& links) {
  uint32_t most_shared = 0;
  for (const NcclBox::Gpu& gpu : box.gpus) most_shared = std::max(most_shared, tree.levels_shared(gpu, nic));
  for (size_t i = 0; i < box.gpus.size(); ++i) {
    const NcclBox::Gpu& gpu = box.gpus[i];
    if (tree.levels_shared(gpu, nic) != most_shared || tree.distance(gpu, nic) == Distance::none) continue;
    const uint32_t meet = tree.meeting(gpu.node, nic.node);
    for (const uint32_t end : {gpu.node, nic.node}) {
      for (uint32_t at = end; at != meet && tree.parent(at) != NcclBox::kNone; at = tree.parent(at))
        links.up[at] = true;
    }
    links.between_cpus |= meet == NcclBox::kNone;
    links.gpu[i] = true;
    const uint64_t used = links.gpu_most[i].bytes_per_second() + nic.net->rate.bytes_per_second();
    links.gpu_most[i] = Bandwidth::bytes_per_second(std::min(used, Bandwidth::kMaxBytesPerSecond));
  }
}

}  // namespace

PciLinks pci_links_of(const NcclBox& box, bool gpus_are_joined) {
  const size_t gpus = box.gpus.size();
  if (!gpus_are_joined) {
    return {.up = std::vector<bool>(box.switches.size(), true),
            .gpu = std::vector<bool>(gpus, true),
            .gpu_most = std::vector<Bandwidth>(gpus, kAny),
            .between_cpus = true};
  }
  PciLinks links{.up = std::vector<bool>(box.switches.size(), false),
                 .gpu = std::vector<bool>(gpus, false),
                 .gpu_most = std::vector<Bandwidth>(gpus)};
  const PciTree tree(box);
  for (const NcclBox::Nic& nic : box.nics) keep_for_nic(box, tree, nic, links);
  return links;
}

}  // namespace banyan::fabric
