#include "banyan/predict/train/step_groups.h"

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

uint32_t StepGroups::size(GroupKind kind) const {
  switch (kind) {
    case kTensor:
      return config_.tp;
    case kData:
      return config_.dp;
    case kExpert:
      return config_.ep;
    case kExpertData:
      return config_.dp / config_.ep;
    case kNorm:
      return config_.zero > 0 ? static_cast<uint32_t>(config_.ranks()) : config_.tp * config_.pp;
    case kEmbedding:
      return config_.pp > 1 ? 2 : 1;
    case kScatterInBox:
    case kGatherInBox:
      CHECK(in_box_ > 0);
      return in_box_;
    case kBetweenBoxes:
      CHECK(in_box_ > 0);
      return config_.dp / in_box_;
    case kGroupKinds:
      break;
  }
  CHECK(false);
}

uint64_t StepGroups::number(GroupKind kind, const TrainRank& rank) const {
  switch (kind) {
    case kTensor:
      return uint64_t{rank.stage} * config_.dp + rank.replica;
    case kData:
      return uint64_t{rank.stage} * config_.tp + rank.slice;
    case kExpert:
      return (uint64_t{rank.stage} * (config_.dp / config_.ep) + rank.replica / config_.ep) * config_.tp + rank.slice;
    case kExpertData:
      return (uint64_t{rank.stage} * config_.ep + rank.replica % config_.ep) * config_.tp + rank.slice;
    case kNorm:
      return config_.zero > 0 ? 0 : rank.replica;
    case kEmbedding:
      return uint64_t{rank.replica} * config_.tp + rank.slice;
    case kScatterInBox:
    case kGatherInBox:
      return (uint64_t{rank.stage} * (config_.dp / in_box_) + rank.replica / in_box_) * config_.tp + rank.slice;
    case kBetweenBoxes:
      return (uint64_t{rank.stage} * in_box_ + rank.replica % in_box_) * config_.tp + rank.slice;
    case kGroupKinds:
      break;
  }
  CHECK(false);
}

std::string StepGroups::name(GroupKind kind, const TrainRank& rank) const {
  return std::string(kGroupNames[kind]) + " " + std::to_string(number(kind, rank));
}

std::vector<uint32_t> StepGroups::members(GroupKind kind, const TrainRank& of) const {
  std::vector<uint32_t> ranks;
  const auto take = [&](uint32_t stage, uint32_t replica, uint32_t slice) {
    ranks.push_back(rank_number(config_, {stage, replica, slice}));
  };
  const auto neighbours = [&](uint32_t count) {
    const uint32_t first = of.replica / count * count;
    for (uint32_t i = 0; i < count; ++i) take(of.stage, first + i, of.slice);
  };
  const auto every = [&](uint32_t step) {
    for (uint32_t replica = of.replica % step; replica < config_.dp; replica += step) take(of.stage, replica, of.slice);
  };
  switch (kind) {
    case kTensor:
      for (uint32_t slice = 0; slice < config_.tp; ++slice) take(of.stage, of.replica, slice);
      break;
    case kData:
      neighbours(config_.dp);
      break;
    case kExpert:
      neighbours(config_.ep);
      break;
    case kExpertData:
      every(config_.ep);
      break;
    case kNorm:
      for (uint32_t stage = 0; stage < config_.pp; ++stage) {
        const uint32_t first = config_.zero > 0 ? 0 : of.replica, last = config_.zero > 0 ? config_.dp - 1 : of.replica;
        for (uint32_t replica = first; replica <= last; ++replica) {
          for (uint32_t slice = 0; slice < config_.tp; ++slice) take(stage, replica, slice);
        }
      }
      break;
    case kEmbedding:
      take(0, of.replica, of.slice);
      take(config_.pp - 1, of.replica, of.slice);
      break;
    case kScatterInBox:
    case kGatherInBox:
      neighbours(in_box_);
      break;
    case kBetweenBoxes:
      every(in_box_);
      break;
    case kGroupKinds:
      CHECK(false);
  }
  return ranks;
}

}  // namespace banyan::predict
