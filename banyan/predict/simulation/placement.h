// The placement of the ranks of jobs on a fabric.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "banyan/fabric/boxes.h"
#include "banyan/fabric/fabric.h"

namespace banyan::predict {

enum class PlacementRule : uint8_t {
  packed,       // the free ranks of lowest number: box by box
  random,       // any free ranks, in any order, by a seed
  round_robin,  // from box to box, one rank of each
};
PlacementRule parse_placement_rule(std::string_view text);  // throws Error{invalid_input} with the known ones

// Gives out the ranks of a fabric, each once. Deterministic.
class Placement {
 public:
  explicit Placement(const Fabric& fabric);

  // Throws Error{invalid_input} when fewer are free, saying how many.
  std::vector<NodeId> take(uint32_t ranks, PlacementRule rule, uint64_t seed);
  // These very ranks. Throws Error{invalid_input} naming one that is a switch, or taken.
  void take(const std::vector<NodeId>& nodes);
  size_t free() const;
  const Fabric& fabric() const { return fabric_; }

 private:
  const Fabric fabric_;
  const fabric::Boxes boxes_;
  std::vector<bool> is_taken_;  // by node
};

}  // namespace banyan::predict
