#include "banyan/predict/train/step_groups.h"

#include <algorithm>
#include <array>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr std::array<const char*, kGroupKinds> kGroupNames = {
    "tp", "dp", "ep", "expert dp", "norm", "embedding", "dp in box", "gathering dp in box", "dp between boxes"};

}  // namespace

TrainRank train_rank(const TrainConfig& config, uint32_t rank) {
  return {.stage = rank / (config.tp * config.dp), .replica = rank / config.tp % config.dp, .slice = rank % config.tp};
}

uint32_t rank_number(const TrainConfig& config, const TrainRank& rank) {
  return (rank.stage * config.dp + rank.replica) * config.tp + rank.slice;
}

StepGroups::Extent StepGroups::extent(GroupKind kind) const {
  switch (kind) {
    case kTensor:
      return {.all_slices = true};
    case kData:
      return {.replicas = config_.dp};
    case kExpert:
      return {.replicas = config_.ep};
    case kExpertData:
      return {.replicas = config_.dp / config_.ep, .replica_step = config_.ep};
    case kNorm:
      return {.stages = config_.pp, .replicas = config_.zero > 0 ? config_.dp : 1, .all_slices = true};
    case kEmbedding:
      return {.stages = std::min(config_.pp, 2u), .stage_step = config_.pp - 1};
    case kScatterInBox:
    case kGatherInBox:
      CHECK(in_box_ > 0);
      return {.replicas = in_box_};
    case kBetweenBoxes:
      CHECK(in_box_ > 0);
      return {.replicas = config_.dp / in_box_, .replica_step = in_box_};
    case kGroupKinds:
      break;
  }
  CHECK(false);
}

uint32_t StepGroups::size(GroupKind kind) const {
  const Extent extent = this->extent(kind);
  return extent.stages * extent.replicas * (extent.all_slices ? config_.tp : 1);
}

uint64_t StepGroups::number(GroupKind kind, const TrainRank& rank) const {
  const Extent extent = this->extent(kind);
  const uint64_t stage = extent.stages > 1 ? 0 : rank.stage;
  const uint64_t shared = stage * (config_.dp / extent.replicas) + rank.replica / extent.block() * extent.replica_step +
                          rank.replica % extent.replica_step;
  return extent.all_slices ? shared : shared * config_.tp + rank.slice;
}

std::string StepGroups::name(GroupKind kind, const TrainRank& rank) const {
  return std::string(kGroupNames[kind]) + " " + std::to_string(number(kind, rank));
}

std::vector<uint32_t> StepGroups::members(GroupKind kind, const TrainRank& of) const {
  const Extent extent = this->extent(kind);
  const uint32_t first_stage = extent.stages > 1 ? 0 : of.stage, first_slice = extent.all_slices ? 0 : of.slice;
  const uint32_t first_replica = of.replica / extent.block() * extent.block() + of.replica % extent.replica_step;
  std::vector<uint32_t> ranks;
  for (uint32_t i = 0; i < extent.stages; ++i) {
    for (uint32_t j = 0; j < extent.replicas; ++j) {
      for (uint32_t k = 0; k < (extent.all_slices ? config_.tp : 1); ++k) {
        ranks.push_back(rank_number(config_, {.stage = first_stage + i * extent.stage_step,
                                              .replica = first_replica + j * extent.replica_step,
                                              .slice = first_slice + k}));
      }
    }
  }
  return ranks;
}

}  // namespace banyan::predict
