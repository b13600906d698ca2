// Fabric: the graph that everything in Banyan is planned on, run on and predicted on.
//
// A directed graph whose nodes are ranks (participants) and switches, and whose links have one direction, a bandwidth,
// a latency and a loss rate. A cable is two links. Several links may join the same two nodes.
//
// Invariants, proved by Fabric::Builder::build, so that nothing downstream checks again:
//   1. names are unique, not empty, UTF-8 of at most kMaxNameBytes, and have no control characters;
//   2. every link joins two different declared nodes and has bandwidth > 0;
//   3. there are at least two ranks, and every rank can reach every other rank;
//   4. every declared symmetry that is kept really is an automorphism.
//
// A Fabric is an immutable value; copies share one body and are cheap. Safe to use from several threads.
// Nodes and links are numbered in the order in which they were added; ties everywhere are broken by these numbers.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"

namespace banyan::fabric {

enum class NodeId : uint32_t {};
enum class LinkId : uint32_t {};
constexpr uint32_t index(NodeId id) { return static_cast<uint32_t>(id); }
constexpr uint32_t index(LinkId id) { return static_cast<uint32_t>(id); }

enum class NodeKind : uint8_t { rank, switch_ };

struct Node {
  std::string name;
  NodeKind kind = NodeKind::rank;
  bool multicast = false;  // a switch that can copy one stream to many outputs
  bool reduce = false;     // a switch that can sum many inputs into one stream
};

struct Link {
  NodeId from{}, to{};
  Bandwidth bandwidth;
  Picoseconds latency{0};
  double loss = 0;       // fraction of packets lost, in [0, 1)
  bool assumed = false;  // its bandwidth is a guess: no description said it, and no user gave it
};

// A permutation of the nodes: image[index(v)] is where v goes. An automorphism keeps kinds, powers and links.
using Permutation = std::vector<NodeId>;

class Fabric {
 public:
  class Builder;

  static constexpr size_t kMaxNodes = 1'000'000;
  static constexpr size_t kMaxLinks = 16'000'000;
  static constexpr size_t kMaxNameBytes = 200;
  static constexpr size_t kMaxSymmetricLinks = size_t{1} << 20;  // beyond, symmetries are not looked into

  std::span<const Node> nodes() const;
  std::span<const Link> links() const;
  const Node& node(NodeId id) const { return nodes()[index(id)]; }
  const Link& link(LinkId id) const { return links()[index(id)]; }
  const std::string& name(NodeId id) const { return node(id).name; }
  bool is_rank(NodeId id) const { return node(id).kind == NodeKind::rank; }

  // All ranks, by ascending node number; this is the default order of participants.
  std::span<const NodeId> ranks() const;
  std::span<const LinkId> out_links(NodeId id) const;
  std::span<const LinkId> in_links(NodeId id) const;

  std::optional<NodeId> find(std::string_view name) const;
  // Like find, but throws Error{not_found} with the nearest declared name as the mend.
  NodeId at(std::string_view name) const;

  // Generators of a group of automorphisms that acts on the ranks without fixed points (no element but the identity
  // keeps any rank in place). Declared by whoever built the fabric; empty when nothing is known. Planners may use it to
  // plan one representative and rotate; they must not need it.
  std::span<const Permutation> symmetries() const;

  // The same nodes with every link turned round; link numbers are kept. A switch that multicasts here reduces there, so
  // that reduce-scatter here is allgather there.
  Fabric reversed() const;

  // 16 hexadecimal digits that depend on nodes, links and their order; not on symmetries, nor on which bandwidths are
  // assumed: whoever confirms a guess has the same network, and the same plans.
  const std::string& fingerprint() const;

 private:
  struct Body;
  explicit Fabric(std::shared_ptr<const Body> body) : body_(std::move(body)) {}
  std::shared_ptr<const Body> body_;  // shared by all copies of this value
};

// Collects nodes and links in any order of calls that names things before it uses them. Single use, one thread.
class Fabric::Builder {
 public:
  // Throws Error{invalid_input} on an empty or repeated name, or beyond kMaxNodes.
  NodeId add_node(Node node);
  NodeId add_rank(std::string name) { return add_node({.name = std::move(name)}); }
  NodeId add_switch(std::string name) { return add_node({.name = std::move(name), .kind = NodeKind::switch_}); }

  // Throws Error{invalid_input} when it joins a node to itself, has no bandwidth or a bad loss, or beyond kMaxLinks.
  LinkId add_link(Link link);
  void add_cable(Link link);  // two links, one in each direction

  std::optional<NodeId> find(std::string_view name) const;
  NodeId at(std::string_view name) const;  // Error{not_found}: "node 'sw9' is not declared (did you mean 'sw0'?)"
  size_t node_count() const { return nodes_.size(); }

  // Proposes a symmetry. build() keeps the proposals only if all of them are automorphisms of the finished graph and
  // generate a group of which no element but the identity keeps any rank in place; otherwise it silently drops them
  // all, since an edited fabric has simply lost its symmetry. Fabrics with more than kMaxSymmetricLinks keep none.
  void add_symmetry(Permutation image);

  // Throws Error{invalid_input} naming the rank that is cut off, or when there are fewer than two ranks.
  Fabric build() &&;

 private:
  friend class Fabric;  // whose body keeps the name index
  struct NameIndex;
  std::vector<Node> nodes_;
  std::vector<Link> links_;
  std::vector<Permutation> symmetries_;
  std::shared_ptr<NameIndex> names_;  // owned by this builder, then by the fabric it builds
};

// All elements of the group that `generators` span, the identity first. Complexity O(|group| * generators * nodes).
// Stops and returns an empty list when the group has more than `limit` elements.
std::vector<Permutation> generate_group(std::span<const Permutation> generators, size_t limit);

// The name in `known` nearest to `name` by edit distance, or empty when none is near.
std::string nearest_name(std::string_view name, std::span<const Node> known);

}  // namespace banyan::fabric

namespace banyan {
using fabric::Fabric;
using fabric::Link;
using fabric::LinkId;
using fabric::Node;
using fabric::NodeId;
}  // namespace banyan
