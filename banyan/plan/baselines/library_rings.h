// Rings as collective libraries build them (NCCL, src/graph/rings.cc), for comparisons and for predictions of jobs.
//
// In a box they go from rank to rank, as many as a mesh of direct links has (mesh_rings.h), else one. Over boxes of L
// members each there are L, which share the bytes: ring c enters a box at its member c and leaves it at another one,
// so that every network card carries one of them each way, and rails stay rails. Inside, it follows the mesh, if the
// boxes have one, else the order of the members. Over boxes of different sizes there is one ring.
#pragma once

#include <span>
#include <vector>

#include "banyan/fabric/boxes.h"
#include "banyan/fabric/fabric.h"
#include "banyan/plan/baselines/mesh_rings.h"

namespace banyan::plan {

class LibraryRings {
 public:
  using Order = std::vector<NodeId>;

  // Borrows the fabric.
  explicit LibraryRings(const Fabric& fabric) : fabric_(fabric), boxes_(find_boxes(fabric)) {}

  // The members by box, each box in the order of `members`; boxes in the order of their first members.
  std::vector<Order> by_box(std::span<const NodeId> members) const;
  uint32_t box_of(NodeId rank) const { return boxes_.box_of[index(rank)]; }

  // The rings over the boxes that by_box() gives; each ring has all members. At least one.
  std::vector<Order> of(const std::vector<Order>& boxes);

 private:
  // The walk of each ring through a box that is entered at the walk's first place, as places of members. Every other
  // box is walked through the other way round.
  std::vector<MeshRings::Places> walks(const std::vector<Order>& boxes);

  const Fabric& fabric_;
  const fabric::Boxes boxes_;
  MeshRings mesh_;
};

}  // namespace banyan::plan
