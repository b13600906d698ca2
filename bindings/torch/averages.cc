#include "bindings/torch/averages.h"

#include <vector>

namespace banyan::pytorch {

TensorFuture plain_average(ProcessGroupBanyan& group, const at::Tensor& buffer) {
  if (buffer.layout() == at::kStrided) {
    buffer.mul_(1.0 / group.getSize());
  } else {
    buffer.div_(group.getSize());
  }
  std::vector<at::Tensor> tensors = {buffer};
  return when_over(*group.allreduce(tensors, c10d::AllreduceOptions()), buffer);
}

}  // namespace banyan::pytorch
