#include "banyan/fabric/fabric.h"

#include <xxhash.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <unordered_map>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "banyan/base/utf8.h"
#include "banyan/fabric/rows.h"

namespace banyan::fabric {

struct Fabric::Builder::NameIndex {
  std::unordered_map<std::string, NodeId> by_name;
};

struct Fabric::Body {
  std::vector<Node> nodes;
  std::vector<Link> links;
  std::vector<NodeId> ranks;
  Rows<LinkId> out_links, in_links;  // by node
  std::vector<Permutation> symmetries;
  std::shared_ptr<const Fabric::Builder::NameIndex> names;
  std::string fingerprint;

  void index_links();
  void compute_fingerprint();
  // By node: whether links lead there from `start`, or from there to it.
  std::vector<bool> reachable_from(NodeId start, bool forth) const;
};

namespace {

Error undeclared(std::string_view name, std::span<const Node> known) {
  std::string message = "node '" + std::string(name.substr(0, 80)) + "' is not declared";
  if (const std::string near = nearest_name(name, known); !near.empty()) message += " (did you mean '" + near + "'?)";
  return Error(ErrorCode::not_found, message);
}

using LinkKey = std::tuple<uint32_t, uint32_t, uint64_t, int64_t, double>;

std::vector<LinkKey> sorted_link_keys(const std::vector<Link>& links, const Permutation* image) {
  std::vector<LinkKey> keys;
  keys.reserve(links.size());
  for (const Link& link : links) {
    const NodeId from = image ? (*image)[index(link.from)] : link.from, to = image ? (*image)[index(link.to)] : link.to;
    keys.emplace_back(index(from), index(to), link.bandwidth.bytes_per_second(), link.latency.count(), link.loss);
  }
  std::sort(keys.begin(), keys.end());
  return keys;
}

bool is_automorphism(const Permutation& image, const std::vector<Node>& nodes, const std::vector<Link>& links,
                     const std::vector<LinkKey>& keys) {
  if (image.size() != nodes.size()) return false;
  std::vector<bool> hit(nodes.size(), false);
  for (uint32_t v = 0; v < nodes.size(); ++v) {
    const uint32_t w = index(image[v]);
    if (w >= nodes.size() || hit[w]) return false;
    hit[w] = true;
    const Node &a = nodes[v], &b = nodes[w];
    if (a.kind != b.kind || a.multicast != b.multicast || a.reduce != b.reduce) return false;
  }
  return sorted_link_keys(links, &image) == keys;
}

// Whether no element but the identity of the generated group keeps any rank in place, without listing the group.
// Let K be the elements that keep the first rank r in place. K keeps a node s in place exactly when r -> s extends to a
// map from the orbit of r that commutes with the generators. Such maps of the orbit into itself carry what K keeps to
// what K keeps, so a few of them show that K keeps the whole orbit; then K is normal, and one node of every other orbit
// is enough to show that K keeps everything. O(nodes * generators * log).
class FreenessProof {
 public:
  FreenessProof(std::span<const Permutation> generators, std::span<const NodeId> ranks)
      : generators_(generators), ranks_(ranks), nodes_(generators.front().size()) {}

  bool holds() {
    const uint32_t first = index(ranks_.front());
    grow_orbit(first);
    if (!keeps_first_orbit(first)) return false;
    std::vector<bool> seen(nodes_, false);
    for (const uint32_t v : orbit_) seen[v] = true;
    // Ranks first, for their orbits must be as large as the first.
    for (const NodeId rank : ranks_) {
      if (seen[index(rank)]) continue;
      if (mark_orbit(index(rank), seen) != orbit_.size() || !extends(index(rank))) return false;
    }
    for (uint32_t v = 0; v < nodes_; ++v) {
      if (seen[v]) continue;
      mark_orbit(v, seen);
      if (!extends(v)) return false;
    }
    return true;
  }

 private:
  uint32_t image(size_t generator, uint32_t v) const { return index(generators_[generator][v]); }

  void grow_orbit(uint32_t first) {
    std::vector<bool> seen(nodes_, false);
    orbit_.assign(1, first);
    came_.assign(1, {0, 0});
    seen[first] = true;
    for (size_t i = 0; i < orbit_.size(); ++i) {
      for (size_t g = 0; g < generators_.size(); ++g) {
        const uint32_t next = image(g, orbit_[i]);
        if (seen[next]) continue;
        seen[next] = true;
        orbit_.push_back(next);
        came_.emplace_back(orbit_[i], g);
      }
    }
  }

  size_t mark_orbit(uint32_t start, std::vector<bool>& seen) const {
    std::vector<uint32_t> queue{start};
    seen[start] = true;
    for (size_t i = 0; i < queue.size(); ++i) {
      for (size_t g = 0; g < generators_.size(); ++g) {
        const uint32_t next = image(g, queue[i]);
        if (!seen[next]) queue.push_back(next);
        seen[next] = true;
      }
    }
    return queue.size();
  }

  // Whether the first node of the orbit -> `to` extends; the map is left in map_.
  bool extends(uint32_t to) {
    map_.resize(nodes_);
    map_[orbit_.front()] = to;
    for (size_t i = 1; i < orbit_.size(); ++i) map_[orbit_[i]] = image(came_[i].second, map_[came_[i].first]);
    for (const uint32_t v : orbit_) {
      for (size_t g = 0; g < generators_.size(); ++g) {
        if (map_[image(g, v)] != image(g, map_[v])) return false;
      }
    }
    return true;
  }

  bool keeps_first_orbit(uint32_t first) {
    std::vector<std::vector<uint32_t>> maps;
    std::vector<bool> kept(nodes_, false);
    for (const uint32_t v : orbit_) {
      if (kept[v] || v == first) continue;
      if (!extends(v)) return false;
      maps.push_back(map_);
      kept.assign(nodes_, false);
      std::vector<uint32_t> queue{first};
      kept[first] = true;
      for (size_t i = 0; i < queue.size(); ++i) {
        for (const auto& map : maps) {
          const uint32_t next = map[queue[i]];
          if (!kept[next]) queue.push_back(next);
          kept[next] = true;
        }
      }
    }
    return true;
  }

  std::span<const Permutation> generators_;
  std::span<const NodeId> ranks_;
  size_t nodes_;
  std::vector<uint32_t> orbit_;                    // of the first rank, breadth first
  std::vector<std::pair<uint32_t, size_t>> came_;  // by place in orbit_: from which node, by which generator
  std::vector<uint32_t> map_;                      // by node
};

}  // namespace

void Fabric::Body::index_links() {
  out_links = Rows<LinkId>(nodes.size(), links.size(), [&](uint32_t link) { return index(links[link].from); });
  in_links = Rows<LinkId>(nodes.size(), links.size(), [&](uint32_t link) { return index(links[link].to); });
}

std::vector<bool> Fabric::Body::reachable_from(NodeId start, bool forth) const {
  std::vector<bool> seen(nodes.size(), false);
  std::vector<NodeId> stack{start};
  seen[index(start)] = true;
  while (!stack.empty()) {
    const NodeId v = stack.back();
    stack.pop_back();
    for (const LinkId id : (forth ? out_links : in_links)[index(v)]) {
      const NodeId w = forth ? links[index(id)].to : links[index(id)].from;
      if (!seen[index(w)]) stack.push_back(w);
      seen[index(w)] = true;
    }
  }
  return seen;
}

void Fabric::Body::compute_fingerprint() {
  std::string text;
  for (const Node& node : nodes) {
    text += node.name;
    text += '\0';
    text += static_cast<char>('a' + static_cast<int>(node.kind) + 2 * node.multicast + 4 * node.reduce);
  }
  const auto append = [&](auto value) { text.append(reinterpret_cast<const char*>(&value), sizeof value); };
  for (const Link& link : links) {
    append(index(link.from));
    append(index(link.to));
    append(link.bandwidth.bytes_per_second());
    append(link.latency.count());
    append(link.loss);
  }
  char digits[20];
  std::snprintf(digits, sizeof digits, "%016llx",
                static_cast<unsigned long long>(XXH3_64bits(text.data(), text.size())));
  fingerprint = digits;
}

std::span<const Node> Fabric::nodes() const { return body_->nodes; }
std::span<const Link> Fabric::links() const { return body_->links; }
std::span<const NodeId> Fabric::ranks() const { return body_->ranks; }
std::span<const Permutation> Fabric::symmetries() const { return body_->symmetries; }
const std::string& Fabric::fingerprint() const { return body_->fingerprint; }

std::span<const LinkId> Fabric::out_links(NodeId id) const { return body_->out_links[index(id)]; }
std::span<const LinkId> Fabric::in_links(NodeId id) const { return body_->in_links[index(id)]; }

std::optional<NodeId> Fabric::find(std::string_view name) const {
  const auto found = body_->names->by_name.find(std::string(name));
  if (found == body_->names->by_name.end()) return std::nullopt;
  return found->second;
}

NodeId Fabric::at(std::string_view name) const {
  if (const auto id = find(name)) return *id;
  throw undeclared(name, nodes());
}

Fabric Fabric::reversed() const {
  auto body = std::make_shared<Body>(*body_);
  for (Link& link : body->links) std::swap(link.from, link.to);
  for (Node& node : body->nodes) std::swap(node.multicast, node.reduce);
  body->index_links();
  body->compute_fingerprint();
  return Fabric(std::move(body));
}

NodeId Fabric::Builder::add_node(Node node) {
  if (!names_) names_ = std::make_shared<NameIndex>();
  if (node.name.empty()) throw invalid("a node has an empty name");
  if (std::any_of(node.name.begin(), node.name.end(), [](unsigned char c) { return c < 0x20 || c == 0x7f; })) {
    throw invalid("a node name has control characters");
  }
  if (node.name.size() > kMaxNameBytes) {
    throw invalid("node name '" + node.name.substr(0, 40) + "...' is longer than " + std::to_string(kMaxNameBytes) +
                  " bytes");
  }
  // Names travel through JSON, which holds nothing else.
  if (!is_utf8(node.name)) throw invalid("a node name is not UTF-8");
  if (nodes_.size() >= kMaxNodes)
    throw Error(ErrorCode::unsupported, "more than " + std::to_string(kMaxNodes) + " nodes");
  const NodeId id{static_cast<uint32_t>(nodes_.size())};
  if (!names_->by_name.emplace(node.name, id).second) {
    throw invalid("node '" + node.name.substr(0, 80) + "' is declared twice");
  }
  nodes_.push_back(std::move(node));
  return id;
}

LinkId Fabric::Builder::add_link(Link link) {
  CHECK(index(link.from) < nodes_.size() && index(link.to) < nodes_.size())
      << "link " << index(link.from) << " -> " << index(link.to) << " of " << nodes_.size() << " nodes";
  const auto describe = [&] { return "link " + nodes_[index(link.from)].name + " -> " + nodes_[index(link.to)].name; };
  if (link.from == link.to) throw invalid(describe() + ": joins a node to itself; remove it");
  const uint64_t rate = link.bandwidth.bytes_per_second();
  if (rate == 0 || rate > Bandwidth::kMaxBytesPerSecond)
    throw invalid(describe() + ": bandwidth must be above 0 and at most 1 PB/s");
  if (!(link.loss >= 0 && link.loss < 1)) throw invalid(describe() + ": loss must be in [0, 1)");
  if (link.latency.count() < 0) throw invalid(describe() + ": latency is negative");
  if (links_.size() >= kMaxLinks)
    throw Error(ErrorCode::unsupported, "more than " + std::to_string(kMaxLinks) + " links");
  links_.push_back(link);
  return LinkId{static_cast<uint32_t>(links_.size() - 1)};
}

void Fabric::Builder::add_cable(Link link) {
  add_link(link);
  std::swap(link.from, link.to);
  add_link(link);
}

std::optional<NodeId> Fabric::Builder::find(std::string_view name) const {
  if (!names_) return std::nullopt;
  const auto found = names_->by_name.find(std::string(name));
  if (found == names_->by_name.end()) return std::nullopt;
  return found->second;
}

NodeId Fabric::Builder::at(std::string_view name) const {
  if (const auto id = find(name)) return *id;
  throw undeclared(name, nodes_);
}

void Fabric::Builder::add_symmetry(Permutation image) { symmetries_.push_back(std::move(image)); }

Fabric Fabric::Builder::build() && {
  auto body = std::make_shared<Body>();
  body->nodes = std::move(nodes_);
  body->links = std::move(links_);
  body->names = std::move(names_);
  for (uint32_t v = 0; v < body->nodes.size(); ++v) {
    if (body->nodes[v].kind == NodeKind::rank) body->ranks.push_back(NodeId{v});
  }
  if (body->ranks.size() < 2) {
    throw invalid("a fabric needs at least two ranks, this one has " + std::to_string(body->ranks.size()));
  }
  body->index_links();
  const NodeId first = body->ranks.front();
  const auto forth = body->reachable_from(first, true), back = body->reachable_from(first, false);
  const auto is_joined = [&](NodeId rank) { return forth[index(rank)] && back[index(rank)]; };
  const auto apart = std::find_if_not(body->ranks.begin(), body->ranks.end(), is_joined);
  if (apart != body->ranks.end()) {
    // The mend is for the rank that stands apart, which is the first one where most others stand together.
    const auto joined = std::count_if(body->ranks.begin(), body->ranks.end(), is_joined);
    const bool names_first = 2 * static_cast<size_t>(joined) < body->ranks.size();
    const bool is_reached = names_first ? back[index(*apart)] : forth[index(*apart)];
    const auto& [here, there] = names_first ? std::pair(first, *apart) : std::pair(*apart, first);
    const std::string &culprit = body->nodes[index(here)].name, &other = body->nodes[index(there)].name;
    throw invalid(is_reached
                      ? "rank '" + culprit + "' cannot reach rank '" + other + "'; add a link out of it or remove it"
                      : "rank '" + culprit + "' cannot be reached from rank '" + other +
                            "'; add a link into it or remove it");
  }
  if (!symmetries_.empty()) {
    const bool small = body->links.size() <= kMaxSymmetricLinks;
    const auto keys = small ? sorted_link_keys(body->links, nullptr) : std::vector<LinkKey>();
    const bool hold = small && std::all_of(symmetries_.begin(), symmetries_.end(), [&](const Permutation& image) {
                        return is_automorphism(image, body->nodes, body->links, keys);
                      });
    if (hold && FreenessProof(symmetries_, body->ranks).holds()) body->symmetries = std::move(symmetries_);
  }
  body->compute_fingerprint();
  return Fabric(std::move(body));
}

std::vector<Permutation> generate_group(std::span<const Permutation> generators, size_t limit) {
  if (generators.empty()) return {};
  Permutation identity(generators.front().size());
  for (uint32_t v = 0; v < identity.size(); ++v) identity[v] = NodeId{v};
  std::vector<Permutation> group{identity};
  std::set<Permutation> known{identity};
  for (size_t i = 0; i < group.size(); ++i) {
    for (const Permutation& generator : generators) {
      Permutation product(identity.size());
      for (uint32_t v = 0; v < identity.size(); ++v) product[v] = generator[index(group[i][v])];
      if (!known.insert(product).second) continue;
      if (group.size() >= limit) return {};
      group.push_back(std::move(product));
    }
  }
  return group;
}

std::string nearest_name(std::string_view name, std::span<const Node> known) {
  // Beyond this many names a suggestion costs more than it helps.
  if (known.size() > 20000) return "";
  NearestName nearest(name);
  for (const Node& node : known) nearest.offer(node.name);
  return nearest.best();
}

}  // namespace banyan::fabric
