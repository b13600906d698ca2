#include "banyan/fabric/node_pair.h"

#include <algorithm>

#include "banyan/base/error.h"

namespace banyan::fabric {
std::optional<NodeId> NodePairs::find_node(std::string_view name) const {
  const auto node = fabric_.find(name);
  return node && !is_gone(*node) ? node : std::nullopt;
}

NodeId NodePairs::node_at(std::string_view name) const {
  const NodeId node = fabric_.at(name);
  if (is_gone(node)) {
    throw Error(ErrorCode::not_found, "node " + in_quotes(name) + " has been removed by an earlier edit");
  }
  return node;
}

std::optional<NodePair> NodePairs::find(std::string_view text) const {
  std::optional<NodePair> found;
  size_t found_at = 0;
  for (size_t dash = text.find('-'); dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const auto a = find_node(text.substr(0, dash)), b = find_node(text.substr(dash + 1));
    if (!a || !b) continue;
    if (found) {
      throw invalid(in_quotes(text) + " is ambiguous: it may be " + in_quotes(text.substr(0, found_at)) + " and " +
                    in_quotes(text.substr(found_at + 1)) + ", or " + in_quotes(text.substr(0, dash)) + " and " +
                    in_quotes(text.substr(dash + 1)) + "; rename a node");
    }
    found = NodePair{*a, *b};
    found_at = dash;
  }
  return found;
}

NodePair NodePairs::at(std::string_view text) const {
  if (const auto pair = find(text)) return *pair;
  const size_t first = text.find('-');
  for (size_t dash = first; dash != std::string_view::npos; dash = text.find('-', dash + 1)) {
    const std::string_view a = text.substr(0, dash), b = text.substr(dash + 1);
    if (find_node(a)) node_at(b);
    if (find_node(b)) node_at(a);
  }
  if (first != std::string_view::npos && text.find('-', first + 1) == std::string_view::npos) {
    node_at(text.substr(0, first));
  }
  throw invalid(in_quotes(text) + " names no two nodes; write them as in 'gpu3-gpu7'");
}

std::vector<LinkId> NodePairs::links_between(NodePair pair) const {
  std::vector<LinkId> between;
  const auto collect = [&](NodeId from, NodeId to) {
    for (const LinkId link : fabric_.out_links(from)) {
      if (fabric_.link(link).to == to && !is_gone(link)) between.push_back(link);
    }
  };
  if (pair.a == pair.b) {
    throw invalid("names node " + in_quotes(fabric_.name(pair.a)) + " twice; no link joins a node to itself");
  }
  collect(pair.a, pair.b);
  collect(pair.b, pair.a);
  if (between.empty()) {
    throw Error(ErrorCode::not_found, "no link joins " + in_quotes(fabric_.name(pair.a)) + " and " +
                                          in_quotes(fabric_.name(pair.b)) + "; " + neighbours(pair.a));
  }
  return between;
}

std::string NodePairs::neighbours(NodeId node) const {
  std::vector<NodeId> near;
  for (const LinkId link : fabric_.out_links(node)) {
    if (!is_gone(link)) near.push_back(fabric_.link(link).to);
  }
  for (const LinkId link : fabric_.in_links(node)) {
    if (!is_gone(link)) near.push_back(fabric_.link(link).from);
  }
  std::sort(near.begin(), near.end());
  near.erase(std::unique(near.begin(), near.end()), near.end());
  if (near.empty()) return in_quotes(fabric_.name(node)) + " has no links left";
  constexpr size_t kShown = 6;
  std::string text = in_quotes(fabric_.name(node)) + " is joined to ";
  for (size_t i = 0; i < std::min(near.size(), kShown); ++i) text += (i == 0 ? "" : ", ") + fabric_.name(near[i]);
  return near.size() > kShown ? text + " and " + std::to_string(near.size() - kShown) + " more" : text;
}

}  // namespace banyan::fabric
