// Pairs of nodes as people write them, "a-b", and the links between them.
//
// Names may contain '-' themselves ("pci0-0000:06:00.0"), so a pair is split at the dash that has a node on both sides;
// where two dashes do, it is refused as ambiguous.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

struct NodePair {
  NodeId a, b;
};

// Looks pairs up in a fabric, or in what an edit has left of it so far.
class NodePairs {
 public:
  // Indexed by number: true for nodes and links that count no more. Borrowed, read at each call; nullptr: all count.
  struct Gone {
    const std::vector<bool>* nodes = nullptr;
    const std::vector<bool>* links = nullptr;
  };
  explicit NodePairs(const Fabric& fabric) : NodePairs(fabric, Gone()) {}
  NodePairs(const Fabric& fabric, Gone gone) : fabric_(fabric), gone_(gone) {}

  std::optional<NodeId> find_node(std::string_view name) const;
  NodeId node_at(std::string_view name) const;  // throws Error{not_found} with the nearest name

  // Nothing when no dash splits `text` into two nodes. Throws Error{invalid_input} when it is ambiguous.
  std::optional<NodePair> find(std::string_view text) const;
  // Throws as well where there is none: where one side is a node, the other is to blame.
  NodePair at(std::string_view text) const;

  // Both directions, at least one. Throws Error that names what `a` is joined to instead.
  std::vector<LinkId> links_between(NodePair pair) const;

 private:
  bool is_gone(NodeId node) const { return gone_.nodes != nullptr && (*gone_.nodes)[index(node)]; }
  bool is_gone(LinkId link) const { return gone_.links != nullptr && (*gone_.links)[index(link)]; }
  std::string neighbours(NodeId node) const;

  const Fabric& fabric_;
  const Gone gone_;
};

}  // namespace banyan::fabric
