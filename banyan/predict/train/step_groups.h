// The groups of a training step: who communicates with whom, for which purpose. Ranks lie as train_rank() says.
//
// Replicas may stand in boxes: so many neighbouring ones of a data group in each. Then there are the group of those of
// one box, twice, since what is scattered and what is gathered there keep no order between them, and the group of those
// of the same place in all boxes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "banyan/predict/train/config.h"

namespace banyan::predict {

struct TrainRank {
  uint32_t stage = 0, replica = 0, slice = 0;
};
TrainRank train_rank(const TrainConfig& config, uint32_t rank);
uint32_t rank_number(const TrainConfig& config, const TrainRank& rank);

enum GroupKind : size_t {
  kTensor,
  kData,
  kExpert,
  kExpertData,
  kNorm,
  kEmbedding,
  kScatterInBox,
  kGatherInBox,
  kBetweenBoxes,
  kGroupKinds
};

// Pure. The configuration outlives it.
class StepGroups {
 public:
  // `replicas_in_box`: a divisor of the data group's ranks, or 0, where kinds of boxes have no groups.
  StepGroups(const TrainConfig& config, uint32_t replicas_in_box) : config_(config), in_box_(replicas_in_box) {}

  uint32_t replicas_in_box() const { return in_box_; }
  uint32_t size(GroupKind kind) const;
  // Groups of a kind are numbered by what their members share.
  uint64_t number(GroupKind kind, const TrainRank& rank) const;
  std::string name(GroupKind kind, const TrainRank& rank) const;  // "dp 3"
  std::vector<uint32_t> members(GroupKind kind, const TrainRank& of) const;

 private:
  // The members of a group: so many stages from the first one on, or the own one alone; so many replicas, each a step
  // behind the one before; all slices, or the own one alone.
  struct Extent {
    uint32_t stages = 1, stage_step = 1, replicas = 1, replica_step = 1;
    bool all_slices = false;

    uint32_t block() const { return replicas * replica_step; }  // replicas from one group's first to the next group's
  };
  Extent extent(GroupKind kind) const;

  const TrainConfig& config_;
  const uint32_t in_box_;
};

}  // namespace banyan::predict
