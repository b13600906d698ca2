#include "banyan/fabric/edit.h"

#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/place.h"
#include "banyan/fabric/node_names.h"
#include "banyan/fabric/node_pair.h"
#include "banyan/fabric/powers.h"

namespace banyan::fabric {
namespace {
// A fabric that is being cut down. Nodes and links keep the numbers of the original until build().
class Draft {
 public:
  Draft(const Fabric& fabric, std::span<const std::string> left_out)
      : fabric_(fabric),
        left_out_(left_out),
        nodes_(fabric.nodes().begin(), fabric.nodes().end()),
        links_(fabric.links().begin(), fabric.links().end()),
        link_gone_(fabric.links().size(), false),
        node_gone_(fabric.nodes().size(), false),
        pairs_(fabric, {.nodes = &node_gone_, .links = &link_gone_}) {}
  Draft(const Draft&) = delete;

  void apply(const FabricEdit& edit) {
    switch (edit.kind) {
      case FabricEdit::Kind::fail:
        return fail(edit.text);
      case FabricEdit::Kind::degrade:
        return degrade(edit.text);
      case FabricEdit::Kind::remove:
        return remove(edit.text);
      case FabricEdit::Kind::in_network:
        return set_powers(edit.text);
    }
  }
  Fabric build() &&;

 private:
  void fail(std::string_view text);
  void degrade(std::string_view text);
  void remove(std::string_view text);
  void set_powers(std::string_view text);
  std::vector<NodeId> nodes_named(std::string_view text);
  std::vector<NodeId> switches_named(std::string_view text) const;
  void drop_links_of(NodeId id);

  const Fabric& fabric_;
  const std::span<const std::string> left_out_;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<bool> link_gone_, node_gone_;
  const NodePairs pairs_;
  std::optional<NodeNames> names_;  // of all nodes, those left out among them; made when it is needed
  bool nodes_unchanged_ = true;
};

void Draft::drop_links_of(NodeId id) {
  for (const LinkId link : fabric_.out_links(id)) link_gone_[index(link)] = true;
  for (const LinkId link : fabric_.in_links(id)) link_gone_[index(link)] = true;
}

void Draft::fail(std::string_view text) {
  const auto node = pairs_.find_node(text);
  const auto pair = pairs_.find(text);
  if (node && pair) {
    throw invalid(in_quotes(text) + " is ambiguous: a node has that name, and so has a pair of nodes");
  }
  if (node) return drop_links_of(*node);
  if (!pair && is_list_of_names(text)) {
    for (const NodeId id : nodes_named(text)) drop_links_of(id);
    return;
  }
  if (!pair && (text.find('-') == std::string_view::npos || fabric_.find(text))) pairs_.node_at(text);
  for (const LinkId id : pairs_.links_between(pairs_.at(text))) link_gone_[index(id)] = true;
}

void Draft::degrade(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    throw invalid(in_quotes(text) + " has no bandwidth; write it as in 'gpu0-nvsw0=100GB/s'");
  }
  const Bandwidth bandwidth = Bandwidth::parse(text.substr(equals + 1));
  const NodePair pair = pairs_.at(text.substr(0, equals));
  for (const LinkId id : pairs_.links_between(pair)) {
    links_[index(id)].bandwidth = bandwidth;
    links_[index(id)].assumed = false;
  }
}

void Draft::remove(std::string_view text) {
  for (const NodeId id : nodes_named(text)) {
    drop_links_of(id);
    node_gone_[index(id)] = true;
  }
  nodes_unchanged_ = false;
}

// Of a list without those that are gone already.
std::vector<NodeId> Draft::nodes_named(std::string_view text) {
  if (fabric_.find(text) || (left_out_.empty() && !is_list_of_names(text))) return {pairs_.node_at(text)};
  if (!names_) {
    std::vector<std::string_view> known(left_out_.begin(), left_out_.end());
    for (const Node& node : nodes_) known.push_back(node.name);
    names_.emplace(std::move(known));
  }
  std::vector<NodeId> named;
  for (const std::string_view name : names_->named(text)) {
    if (const auto node = pairs_.find_node(name)) named.push_back(*node);
  }
  return named;
}

// The switch of that name, or all whose names begin with what stands before a '*'.
std::vector<NodeId> Draft::switches_named(std::string_view text) const {
  std::vector<NodeId> named;
  if (text.ends_with('*') && !fabric_.find(text)) {
    for (uint32_t v = 0; v < nodes_.size(); ++v) {
      if (node_gone_[v] || fabric_.is_rank(NodeId{v})) continue;
      if (nodes_[v].name.starts_with(text.substr(0, text.size() - 1))) named.push_back(NodeId{v});
    }
    if (named.empty()) throw Error(ErrorCode::not_found, "no switch has a name like " + in_quotes(text));
    return named;
  }
  named.push_back(pairs_.node_at(text));
  if (fabric_.is_rank(named.front())) {
    throw invalid(in_quotes(text) + " is a rank; only a switch can multicast or reduce");
  }
  return named;
}

void Draft::set_powers(std::string_view text) {
  Powers powers;
  if (const size_t equals = text.rfind('='); equals != std::string_view::npos && !fabric_.find(text)) {
    const auto asked = parse_powers(text.substr(equals + 1));
    if (!asked) {
      throw invalid(in_quotes(text.substr(equals + 1)) + " is none of multicast, reduce and none");
    }
    powers = *asked;
    text = text.substr(0, equals);
  }
  for (const NodeId id : switches_named(text)) {
    nodes_[index(id)].multicast = powers.multicast;
    nodes_[index(id)].reduce = powers.reduce;
  }
}

Fabric Draft::build() && {
  Fabric::Builder builder;
  std::vector<NodeId> renumbered(fabric_.nodes().size());
  for (uint32_t v = 0; v < renumbered.size(); ++v) {
    if (!node_gone_[v]) renumbered[v] = builder.add_node(nodes_[v]);
  }
  for (uint32_t i = 0; i < links_.size(); ++i) {
    if (link_gone_[i]) continue;
    Link link = links_[i];
    link.from = renumbered[index(link.from)];
    link.to = renumbered[index(link.to)];
    builder.add_link(link);
  }
  if (nodes_unchanged_) {
    for (const Permutation& image : fabric_.symmetries()) builder.add_symmetry(image);
  }
  return std::move(builder).build();
}

}  // namespace

std::string FabricEdit::to_string() const {
  const char* flag = kind == Kind::fail      ? "--fail "
                     : kind == Kind::degrade ? "--degrade "
                     : kind == Kind::remove  ? "--remove "
                                             : "--in-network ";
  return flag + text.substr(0, 200);
}

Fabric edit_fabric(const Fabric& fabric, std::span<const FabricEdit> edits, std::span<const std::string> left_out) {
  if (edits.empty()) return fabric;
  Draft draft(fabric, left_out);
  for (const FabricEdit& edit : edits) {
    at_place(edit.to_string(), [&] { draft.apply(edit); });
  }
  return at_place("after " + edits.back().to_string(), [&] { return std::move(draft).build(); });
}

}  // namespace banyan::fabric
