#include "banyan/plan/two_tier/two_tier.h"

#include <algorithm>
#include <string>

#include "banyan/base/error.h"

namespace banyan::plan {
namespace {

TwoTierShape checked(TwoTierShape shape) {
  if (shape.boxes < 2)
    throw invalid("an all-to-all on two tiers needs two boxes or more, and this has " + std::to_string(shape.boxes));
  if (shape.gpus == 0) throw invalid("an all-to-all on two tiers needs a GPU or more in each box");
  if (shape.boxes > TwoTierPlanner::kMostBoxes || shape.gpus > TwoTierPlanner::kMostGpus ||
      shape.ranks() > TwoTierPlanner::kMostRanks)
    throw Error(ErrorCode::unsupported, std::to_string(shape.boxes) + " boxes of " + std::to_string(shape.gpus) +
                                            " GPUs: at most " + std::to_string(TwoTierPlanner::kMostBoxes) +
                                            " boxes, " + std::to_string(TwoTierPlanner::kMostGpus) +
                                            " GPUs a box and " + std::to_string(TwoTierPlanner::kMostRanks) +
                                            " ranks are planned for");
  return shape;
}

}  // namespace

TwoTierPlanner::TwoTierPlanner(TwoTierShape shape, const Options& options)
    : options_(options), balance_(checked(shape).gpus), stages_(shape.boxes), plan_(shape) {
  if (options.pieces == 0) throw invalid("stages cannot be cut into 0 pieces: ask for 1 or more");
  const size_t pairs = size_t{shape.boxes} * shape.boxes;
  left_.resize(pairs);
  plan_.box_bytes_.resize(pairs);
  plan_.move_starts_.resize(pairs + 1);
  plan_.moves_.reserve((pairs - shape.boxes) * BoxBalance::most_moves(shape.gpus));
  plan_.rest_.reserve(pairs);
  const size_t few = std::min<size_t>(shape.boxes, 64);
  const size_t most_pieces = few * few + 2 * size_t{options.pieces} + 1;
  pieces_.reserve(most_pieces);
  ordered_.reserve(most_pieces);
  plan_.lengths_.reserve(most_pieces);
  plan_.starts_.reserve(most_pieces + 1);
  plan_.sends_.reserve(most_pieces * shape.boxes);
}

const TwoTierPlan& TwoTierPlanner::plan(std::span<const uint64_t> bytes) {
  check(bytes);
  balance(bytes);
  stages_.decompose(plan_.box_bytes_, options_.rest);
  plan_.largest_sum_ = stages_.largest_sum();
  order_pieces();
  send_pieces();
  send_rest();
  return plan_;
}

void TwoTierPlanner::check(std::span<const uint64_t> bytes) const {
  const size_t ranks = plan_.shape_.ranks();
  if (bytes.size() != ranks * ranks)
    throw invalid("the matrix of bytes has " + std::to_string(bytes.size()) + " entries: " + std::to_string(ranks) +
                  " ranks need " + std::to_string(ranks * ranks));
  uint64_t any = 0;
  for (const uint64_t entry : bytes) any |= entry;
  if (any <= kMostBytes) return;
  for (size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] > kMostBytes)
      throw Error(ErrorCode::unsupported, "rank " + std::to_string(i / ranks) + " has " + std::to_string(bytes[i]) +
                                              " bytes for rank " + std::to_string(i % ranks) +
                                              ": at most 2^44 are planned for");
}

void TwoTierPlanner::balance(std::span<const uint64_t> bytes) {
  const auto [boxes, gpus] = plan_.shape_;
  const size_t ranks = plan_.shape_.ranks();
  plan_.moves_.clear();
  size_t pair = 0;
  for (uint32_t from = 0; from < boxes; ++from)
    for (uint32_t to = 0; to < boxes; ++to, ++pair) {
      plan_.move_starts_[pair] = plan_.moves_.size();
      if (from != to)
        plan_.box_bytes_[pair] =
            balance_.add_moves(&bytes[size_t{from} * gpus * ranks + size_t{to} * gpus], ranks, plan_.moves_);
    }
  plan_.move_starts_[pair] = plan_.moves_.size();
}

void TwoTierPlanner::order_pieces() {
  const uint64_t gpus = plan_.shape_.gpus;
  const uint64_t smallest = std::max<uint64_t>(std::min(options_.smallest_piece, UINT64_MAX / gpus) * gpus, 1);
  const uint64_t longest = std::max(plan_.largest_sum_ / options_.pieces, smallest);
  pieces_.clear();
  for (uint32_t stage = 0; stage < stages_.count(); ++stage) {
    const uint64_t length = stages_.length(stage);
    const uint64_t parts = (length - 1) / longest + 1;
    for (uint64_t part = 0; part < parts; ++part)
      pieces_.push_back({.bytes = length / parts + (part < length % parts ? 1 : 0), .stage = stage});
  }
  // From the longest down, alternately towards the end and towards the beginning.
  std::sort(pieces_.begin(), pieces_.end(),
            [](const Piece& a, const Piece& b) { return a.bytes != b.bytes ? a.bytes > b.bytes : a.stage < b.stage; });
  ordered_.resize(pieces_.size());
  size_t front = 0, back = pieces_.size();
  for (size_t i = pieces_.size(); i-- > 0;) ordered_[i % 2 == 0 ? --back : front++] = pieces_[i];
}

void TwoTierPlanner::send_pieces() {
  const uint32_t boxes = plan_.shape_.boxes;
  std::copy(plan_.box_bytes_.begin(), plan_.box_bytes_.end(), left_.begin());
  plan_.lengths_.clear();
  plan_.starts_.clear();
  plan_.sends_.clear();
  for (const Piece& piece : ordered_) {
    plan_.starts_.push_back(plan_.sends_.size());
    plan_.lengths_.push_back(piece.bytes);
    const std::span<const uint16_t> receivers = stages_.receivers(piece.stage);
    for (uint32_t from = 0; from < boxes; ++from) {
      uint64_t& left = left_[size_t{from} * boxes + receivers[from]];
      const uint64_t bytes = std::min(piece.bytes, left);
      if (bytes == 0) continue;
      left -= bytes;
      plan_.sends_.push_back({.bytes = bytes, .from = from, .to = receivers[from]});
    }
  }
  plan_.starts_.push_back(plan_.sends_.size());
}

void TwoTierPlanner::send_rest() {
  const uint32_t boxes = plan_.shape_.boxes;
  plan_.rest_.clear();
  plan_.rest_length_ = 0;
  for (uint32_t from = 0; from < boxes; ++from) {
    uint64_t sent = 0, received = 0;
    for (uint32_t to = 0; to < boxes; ++to) {
      const uint64_t bytes = left_[size_t{from} * boxes + to];
      if (bytes > 0) plan_.rest_.push_back({.bytes = bytes, .from = from, .to = to});
      sent += bytes;
      received += left_[size_t{to} * boxes + from];
    }
    plan_.rest_length_ = std::max({plan_.rest_length_, sent, received});
  }
}

}  // namespace banyan::plan
