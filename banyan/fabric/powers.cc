#include "banyan/fabric/powers.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::fabric {
namespace {

constexpr std::string_view kNvls = "+nvls", kSharp = "+sharp";
constexpr size_t kMostNames = 6;

// Switches of generated fabrics are known by their names: NVSwitches; PCIe switches and passive optics, which reduce
// nothing; and all others.
bool is_nvswitch(const Node& node) { return node.kind == NodeKind::switch_ && node.name.starts_with("nvsw"); }
bool is_network_switch(const Node& node) {
  return node.kind == NodeKind::switch_ && !is_nvswitch(node) && !node.name.starts_with("pcie") &&
         !node.name.starts_with("splitter");
}

template <typename Chooses>
std::vector<NodeId> nodes_that(const Fabric& fabric, Chooses chooses) {
  std::vector<NodeId> nodes;
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    if (chooses(fabric.node(NodeId{v}))) nodes.push_back(NodeId{v});
  }
  return nodes;
}

}  // namespace

std::optional<Powers> parse_powers(std::string_view word) {
  if (word == "multicast") return Powers{.multicast = true, .reduce = false};
  if (word == "reduce") return Powers{.multicast = false, .reduce = true};
  if (word == "none") return Powers{.multicast = false, .reduce = false};
  return std::nullopt;
}

Fabric with_powers(const Fabric& fabric, const std::vector<NodeId>& switches, Powers powers) {
  std::vector<Node> nodes(fabric.nodes().begin(), fabric.nodes().end());
  for (const NodeId id : switches) {
    nodes[index(id)].multicast = powers.multicast;
    nodes[index(id)].reduce = powers.reduce;
  }
  Fabric::Builder builder;
  for (Node& node : nodes) builder.add_node(std::move(node));
  for (const Link& link : fabric.links()) builder.add_link(link);
  for (const Permutation& image : fabric.symmetries()) builder.add_symmetry(image);
  return std::move(builder).build();
}

Fabric without_powers(const Fabric& fabric) {
  const std::vector<NodeId> able = nodes_that(fabric, [](const Node& node) { return node.multicast || node.reduce; });
  return able.empty() ? fabric : with_powers(fabric, able, {.multicast = false, .reduce = false});
}

std::string describe_powers(const Fabric& fabric) {
  std::string text;
  const auto describe = [&](Powers powers, const char* verb, const char* verbs) {
    const std::vector<NodeId> able = nodes_that(
        fabric, [&](const Node& node) { return node.multicast == powers.multicast && node.reduce == powers.reduce; });
    if (able.empty()) return;
    text += (text.empty() ? "" : "; ") + std::to_string(able.size()) + (able.size() == 1 ? " switch " : " switches ") +
            (able.size() == 1 ? verbs : verb) + " (";
    for (size_t i = 0; i < able.size() && i < kMostNames; ++i) text += (i == 0 ? "" : ", ") + fabric.name(able[i]);
    text += able.size() > kMostNames ? ", ...)" : ")";
  };
  describe({.multicast = true, .reduce = true}, "multicast and reduce", "multicasts and reduces");
  describe({.multicast = true, .reduce = false}, "multicast", "multicasts");
  describe({.multicast = false, .reduce = true}, "reduce", "reduces");
  return text;
}

std::vector<PowerSuffix> power_suffixes() {
  return {{.text = kNvls, .description = "behind any spec: its NVSwitches multicast and reduce, as NVLink SHARP does"},
          {.text = kSharp, .description = "behind any spec: the switches of its network do, as SHARP of InfiniBand"}};
}

SpecWithPowers split_powers(std::string_view text) {
  SpecWithPowers result{.spec = text, .nvls = false, .sharp = false, .suffix = {}};
  for (;;) {
    const bool nvls = result.spec.ends_with(kNvls), sharp = result.spec.ends_with(kSharp);
    if (!nvls && !sharp) break;
    if (nvls ? result.nvls : result.sharp) {
      throw Error(ErrorCode::invalid_input, "'" + std::string(nvls ? kNvls : kSharp) + "' is given twice",
                  "fabric spec '" + std::string(text.substr(0, 80)) + "'");
    }
    (nvls ? result.nvls : result.sharp) = true;
    result.spec.remove_suffix((nvls ? kNvls : kSharp).size());
  }
  result.suffix = text.substr(result.spec.size());
  return result;
}

Fabric apply_powers(const Fabric& fabric, const SpecWithPowers& asked) {
  std::vector<NodeId> able;
  const auto add = [&](bool wanted, std::string_view suffix, const char* what, auto chooses) {
    if (!wanted) return;
    const std::vector<NodeId> found = nodes_that(fabric, chooses);
    if (found.empty()) {
      throw Error(
          ErrorCode::invalid_input,
          std::string("has no ") + what + " that could multicast and reduce; leave '" + std::string(suffix) + "' out",
          "fabric spec '" + std::string(asked.spec.substr(0, 80)) + std::string(asked.suffix) + "'");
    }
    able.insert(able.end(), found.begin(), found.end());
  };
  add(asked.nvls, kNvls, "NVSwitch", is_nvswitch);
  add(asked.sharp, kSharp, "switch between its boxes or ranks", is_network_switch);
  return able.empty() ? fabric : with_powers(fabric, able, {});
}

}  // namespace banyan::fabric
