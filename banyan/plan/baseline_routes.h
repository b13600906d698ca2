// Routes from rank to rank through switches only, as the baselines use them: the shortest, of those the widest, of
// those the one whose links come first (compared from the last link to the first).
//
// One breadth-first search over the switches per source, made when the source is first asked for and kept. A question
// then looks at the links into its destination only, so a million of them are quick. One thread.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/fabric/fabric.h"

namespace banyan::plan {

class RouteTable {
 public:
  explicit RouteTable(const Fabric& fabric);

  // Empty when every way from one rank to the other passes through a third.
  std::vector<LinkId> route(NodeId from, NodeId to);
  // The bandwidth of the narrowest link of that route; absent when there is none.
  std::optional<Bandwidth> width(NodeId from, NodeId to);

 private:
  // The best way from a source to a switch.
  struct Reached {
    NodeId node{};
    uint32_t hops = 0;
    Bandwidth width;
    LinkId last{};  // the link by which it is reached
  };
  using Reach = std::vector<Reached>;  // of one source, by node

  const Reach& reach(NodeId source);
  Reach search(NodeId source);
  static const Reached* find(const Reach& reach, NodeId node);
  std::optional<Reached> arrive(NodeId from, NodeId to);

  Fabric fabric_;
  std::vector<std::optional<Reach>> reach_of_;  // by source
  std::vector<uint32_t> slot_;                  // scratch of search(): by node, its place in the growing reach plus one
};

}  // namespace banyan::plan
