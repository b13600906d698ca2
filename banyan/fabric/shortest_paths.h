// Shortest paths by links: all of them, from anywhere to one node, and the links that they cross. A message takes one
// of them: routing.h, which weighs bandwidths, too.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::fabric {

class ShortestPaths {
 public:
  static constexpr uint32_t kFar = UINT32_MAX;

  struct Rules {
    bool through_ranks = false;                    // else through switches alone
    std::function<bool(LinkId)> crosses = {};      // a link that paths may cross; empty: any
    std::function<bool(NodeId)> ends_search = {};  // asked of each node that is found; empty: all are looked for
    uint32_t most_hops = kFar;                     // longer paths are not looked for
  };

  // The fabric must live as long as this. search() comes before all other functions.
  explicit ShortestPaths(const Fabric& fabric) : fabric_(fabric), hops_(fabric.nodes().size(), kFar) {}

  // Forgets the last search, and looks for paths to this node. O(nodes that are found + their links).
  void search(NodeId to, Rules rules);

  // kFar: no path leads from there, or none was looked for.
  uint32_t hops(NodeId from) const { return hops_[index(from)]; }
  // The nodes found, from `to` on, by hops.
  std::span<const NodeId> found() const { return found_; }
  // True if paths that reach this node may lead on from it.
  bool may_pass(NodeId node) const { return node == found_.front() || rules_.through_ranks || !fabric_.is_rank(node); }
  // True if a shortest path from the link's start begins with it.
  bool leads_on(LinkId link) const;
  // The links of all shortest paths from a node, hop by hop from there.
  std::vector<std::vector<LinkId>> links_from(NodeId from) const;

 private:
  const Fabric& fabric_;
  Rules rules_;
  std::vector<uint32_t> hops_;  // by node
  std::vector<NodeId> found_;
};

// The links from one rank to another, in their order: of the path over these cables, or without cables of the shortest
// one. If the network chooses among several that are as short, only the links that all of them cross: the others are
// not known. None if there is no path, or no such rank.
struct PathLinks {
  std::vector<uint32_t> links;
  bool is_whole = true;
};
// O(nodes + links).
PathLinks links_between(const Fabric& fabric, const std::string& from, const std::string& to,
                        const std::vector<uint32_t>& cables);

// A link that shortest paths from some ranks to others cross, and the places of these ranks in the list.
struct LinkAmong {
  uint32_t link = 0;
  std::vector<uint32_t> from, to;
};
// The links of all shortest paths among these ranks, by number; names that the fabric does not have are on none.
// O(ranks * (nodes + links) + links of the paths of all pairs).
std::vector<LinkAmong> links_among(const Fabric& fabric, const std::vector<std::string>& ranks);

}  // namespace banyan::fabric
