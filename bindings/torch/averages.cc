#include "bindings/torch/averages.h"

#include <vector>

namespace banyan::pytorch {

c10::intrusive_ptr<c10d::Work> all_reduce(ProcessGroupBanyan& group, const at::Tensor& tensor,
                                          c10d::ReduceOp::RedOpType op) {
  std::vector<at::Tensor> tensors = {tensor};
  c10d::AllreduceOptions options;
  options.reduceOp = op;
  return group.allreduce(tensors, options);
}

TensorFuture plain_average(ProcessGroupBanyan& group, const at::Tensor& buffer) {
  if (buffer.layout() == at::kStrided) {
    buffer.mul_(1.0 / group.getSize());
  } else {
    buffer.div_(group.getSize());
  }
  return when_over(*all_reduce(group, buffer), buffer);
}

}  // namespace banyan::pytorch
