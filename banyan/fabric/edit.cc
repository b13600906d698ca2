#include "banyan/fabric/edit.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"

namespace banyan {
namespace {

struct Pair {
  NodeId a, b;
};

std::string in_quotes(std::string_view text) { return "'" + std::string(text.substr(0, 100)) + "'"; }

// A fabric that is being cut down. Nodes and links keep the numbers of the original until build().
class Draft {
 public:
  explicit Draft(const Fabric& fabric)
      : fabric_(fabric),
        links_(fabric.links().begin(), fabric.links().end()),
        link_gone_(fabric.links().size(), false),
        node_gone_(fabric.nodes().size(), false) {}

  void apply(const FabricEdit& edit) {
    switch (edit.kind) {
      case FabricEdit::Kind::fail:
        return fail(edit.text);
      case FabricEdit::Kind::degrade:
        return degrade(edit.text);
      case FabricEdit::Kind::remove:
        return remove(edit.text);
    }
  }
  Fabric build() &&;

 private:
  void fail(std::string_view text);
  void degrade(std::string_view text);
  void remove(std::string_view text);

  std::optional<NodeId> find(std::string_view name) const;
  NodeId at(std::string_view name) const;
  std::optional<Pair> find_pair(std::string_view text) const;
  [[noreturn]] void refuse_pair(std::string_view text) const;
  std::vector<LinkId> links_between(Pair pair) const;
  std::string neighbours(NodeId id) const;
  void drop_links_of(NodeId id);

  const Fabric& fabric_;
  std::vector<Link> links_;
  std::vector<bool> link_gone_, node_gone_;
  bool nodes_unchanged_ = true;
};

std::optional<NodeId> Draft::find(std::string_view name) const {
  const auto id = fabric_.find(name);
  return id && !node_gone_[index(*id)] ? id : std::nullopt;
}

NodeId Draft::at(std::string_view name) const {
  const NodeId id = fabric_.at(name);
  if (node_gone_[index(id)]) {
    throw Error(ErrorCode::not_found, "node " + in_quotes(name) + " has been removed by an earlier edit");
  }
  return id;
}

// Nothing when no dash splits `text` into two nodes that are there.
std::optional<Pair> Draft::find_pair(std::string_view text) const {
  std::optional<Pair> found;
  size_t found_at = 0;
  for (size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const auto a = find(text.substr(0, dash)), b = find(text.substr(dash + 1));
    if (!a || !b) continue;
    if (found) {
      throw Error(ErrorCode::invalid_input,
                  in_quotes(text) + " is ambiguous: it may be " + in_quotes(text.substr(0, found_at)) + " and " +
                      in_quotes(text.substr(found_at + 1)) + ", or " + in_quotes(text.substr(0, dash)) + " and " +
                      in_quotes(text.substr(dash + 1)) + "; rename a node");
    }
    found = Pair{*a, *b};
    found_at = dash;
  }
  return found;
}

// Says what is wrong with a pair that find_pair did not find: where one side is a node, the other is to blame.
void Draft::refuse_pair(std::string_view text) const {
  const size_t first = text.find('-');
  for (size_t dash = first; dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const std::string_view a = text.substr(0, dash), b = text.substr(dash + 1);
    if (find(a)) at(b);
    if (find(b)) at(a);
  }
  if (first != std::string_view::npos && text.find('-', first + 1) == std::string_view::npos) at(text.substr(0, first));
  throw Error(ErrorCode::invalid_input, in_quotes(text) + " names no two nodes; write them as in 'gpu3-gpu7'");
}

std::vector<LinkId> Draft::links_between(Pair pair) const {
  std::vector<LinkId> between;
  const auto collect = [&](NodeId from, NodeId to) {
    for (const LinkId id : fabric_.out_links(from)) {
      if (links_[index(id)].to == to && !link_gone_[index(id)]) between.push_back(id);
    }
  };
  if (pair.a == pair.b) {
    throw Error(ErrorCode::invalid_input,
                "names node " + in_quotes(fabric_.name(pair.a)) + " twice; no link joins a node to itself");
  }
  collect(pair.a, pair.b);
  collect(pair.b, pair.a);
  if (between.empty()) {
    throw Error(ErrorCode::not_found, "no link joins " + in_quotes(fabric_.name(pair.a)) + " and " +
                                          in_quotes(fabric_.name(pair.b)) + "; " + neighbours(pair.a));
  }
  return between;
}

std::string Draft::neighbours(NodeId id) const {
  std::vector<NodeId> near;
  for (const LinkId link : fabric_.out_links(id)) {
    if (!link_gone_[index(link)]) near.push_back(links_[index(link)].to);
  }
  for (const LinkId link : fabric_.in_links(id)) {
    if (!link_gone_[index(link)]) near.push_back(links_[index(link)].from);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  if (near.empty()) return in_quotes(fabric_.name(id)) + " has no links left";
  constexpr size_t kShown = 6;
  std::string text = in_quotes(fabric_.name(id)) + " is joined to ";
  for (size_t i = 0; i < std::min(near.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + fabric_.name(near[i]);
  return near.size() > kShown ? text + " and " + std::to_string(near.size() - kShown) + " more" : text;
}

void Draft::drop_links_of(NodeId id) {
  for (const LinkId link : fabric_.out_links(id)) link_gone_[index(link)] = true;
  for (const LinkId link : fabric_.in_links(id)) link_gone_[index(link)] = true;
}

void Draft::fail(std::string_view text) {
  const auto node = find(text);
  const auto pair = find_pair(text);
  if (node && pair) {
    throw Error(ErrorCode::invalid_input,
                in_quotes(text) + " is ambiguous: a node has that name, and so has a pair of nodes");
  }
  if (node) return drop_links_of(*node);
  if (!pair) {
    if (text.find('-') == std::string_view::npos || fabric_.find(text)) at(text);
    refuse_pair(text);
  }
  for (const LinkId id : links_between(*pair)) link_gone_[index(id)] = true;
}

void Draft::degrade(std::string_view text) {
  const size_t equals = text.rfind('=');
  if (equals == std::string_view::npos) {
    throw Error(ErrorCode::invalid_input, in_quotes(text) + " has no bandwidth; write it as in 'gpu0-nvsw0=100GB/s'");
  }
  const Bandwidth bandwidth = Bandwidth::parse(text.substr(equals + 1));
  const std::string_view names = text.substr(0, equals);
  const auto pair = find_pair(names);
  if (!pair) refuse_pair(names);
  for (const LinkId id : links_between(*pair)) links_[index(id)].bandwidth = bandwidth;
}

void Draft::remove(std::string_view text) {
  const NodeId id = at(text);
  drop_links_of(id);
  node_gone_[index(id)] = true;
  nodes_unchanged_ = false;
}

Fabric Draft::build() && {
  Fabric::Builder builder;
  std::vector<NodeId> renumbered(fabric_.nodes().size());
  for (uint32_t v = 0; v < renumbered.size(); ++v) {
    if (!node_gone_[v]) renumbered[v] = builder.add_node(fabric_.node(NodeId{v}));
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
  const char* flag = kind == Kind::fail ? "--fail " : kind == Kind::degrade ? "--degrade " : "--remove ";
  return flag + text.substr(0, 200);
}

Fabric edit_fabric(const Fabric& fabric, std::span<const FabricEdit> edits) {
  if (edits.empty()) return fabric;
  Draft draft(fabric);
  for (const FabricEdit& edit : edits) {
    try {
      draft.apply(edit);
    } catch (const Error& error) {
      throw error.within(edit.to_string());
    }
  }
  try {
    return std::move(draft).build();
  } catch (const Error& error) {
    throw error.within("after " + edits.back().to_string());
  }
}

}  // namespace banyan
