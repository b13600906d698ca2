#include "bindings/torch/unused_slots.h"

#include <algorithm>
#include <cstdint>
#include <vector>

#include "bindings/torch/averages.h"

namespace banyan::pytorch {

std::optional<UnusedSlots> UnusedSlots::ask(const codec::Codec& codec, const BucketResidual& bucket,
                                            ProcessGroupBanyan& group) {
  if (traits_of(codec).has_zero) return {};
  const at::Tensor used = at::tensor(bucket.used_slots(), at::kByte);
  return UnusedSlots(used, all_reduce(group, used, c10d::ReduceOp::MAX)->getFuture());
}

void UnusedSlots::restore(BucketResidual& bucket, std::span<float> averages) const {
  for (size_t i = 0; i < bucket.slots().size(); ++i) {
    if (used_.data_ptr<uint8_t>()[i] != 0) continue;
    const BucketResidual::Slot& slot = bucket.slots()[i];
    const std::span<float> values = averages.subspan(slot.begin, slot.count);
    std::fill(values.begin(), values.end(), 0.0F);
    bucket.forget_losses(i);
  }
}

}  // namespace banyan::pytorch
