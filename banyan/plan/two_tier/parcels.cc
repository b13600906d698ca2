#include "banyan/plan/two_tier/parcels.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

// What one GPU sends from one box to another, in order.
class Queue {
 public:
  void add(uint64_t bytes, uint16_t source, uint16_t target) {
    if (bytes > 0) items_.push_back({.bytes = bytes, .source = source, .target = target});
  }

  void send(uint64_t bytes, uint32_t stage, uint16_t via, std::vector<Parcel>& parcels) {
    while (bytes > 0) {
      CHECK(next_ < items_.size()) << "GPU " << via << " has " << bytes << " bytes too few for stage " << stage;
      Parcel& item = items_[next_];
      const uint64_t part = std::min(bytes, item.bytes);
      parcels.push_back({.bytes = part, .stage = stage, .source = item.source, .via = via, .target = item.target});
      bytes -= part;
      item.bytes -= part;
      if (item.bytes == 0) ++next_;
    }
  }

 private:
  std::vector<Parcel> items_;
  size_t next_ = 0;
};

std::vector<Queue> queues_of(const TwoTierPlan& plan, std::span<const uint64_t> bytes, uint32_t from, uint32_t to) {
  const uint32_t gpus = plan.shape().gpus;
  const size_t ranks = plan.shape().ranks();
  std::vector<uint64_t> own(size_t{gpus} * gpus);
  for (uint32_t gpu = 0; gpu < gpus; ++gpu)
    for (uint32_t target = 0; target < gpus; ++target)
      own[gpu * gpus + target] = bytes[(size_t{from} * gpus + gpu) * ranks + size_t{to} * gpus + target];
  for (const TwoTierMove& move : plan.moves(from, to)) own[move.from * gpus + move.target] -= move.bytes;

  std::vector<Queue> queues(gpus);
  for (uint32_t gpu = 0; gpu < gpus; ++gpu)
    for (uint32_t i = 0; i < gpus; ++i) {
      const uint32_t target = (gpu + i) % gpus;
      queues[gpu].add(own[gpu * gpus + target], static_cast<uint16_t>(gpu), static_cast<uint16_t>(target));
    }
  for (const TwoTierMove& move : plan.moves(from, to)) queues[move.to].add(move.bytes, move.from, move.target);
  return queues;
}

}  // namespace

std::vector<Parcel> parcels_of(const TwoTierPlan& plan, std::span<const uint64_t> bytes, uint32_t from, uint32_t to) {
  const uint32_t gpus = plan.shape().gpus;
  std::vector<Queue> queues = queues_of(plan, bytes, from, to);
  std::vector<Parcel> parcels;
  uint64_t before = 0;
  const auto send = [&](const BoxSend& sent, size_t stage) {
    if (sent.from != from || sent.to != to) return;
    const uint64_t after = before + sent.bytes;
    for (uint32_t gpu = 0; gpu < gpus; ++gpu) {
      const uint64_t others = gpus - 1 - gpu;
      queues[gpu].send((after + others) / gpus - (before + others) / gpus, static_cast<uint32_t>(stage),
                       static_cast<uint16_t>(gpu), parcels);
    }
    before = after;
  };
  for (size_t stage = 0; stage < plan.stage_count(); ++stage)
    for (const BoxSend& sent : plan.stage(stage)) send(sent, stage);
  for (const BoxSend& sent : plan.rest()) send(sent, plan.stage_count());
  return parcels;
}

}  // namespace banyan::plan
