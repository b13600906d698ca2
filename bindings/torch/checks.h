// Checks of arguments that every backend of torch.distributed refuses, in the words that its users know.
#pragma once

#include <ATen/ATen.h>

#include <functional>
#include <string>
#include <vector>

namespace banyan::pytorch {

// "(2, 3)"
std::string words_of(at::IntArrayRef sizes);

// The checks of one call: refusals begin with its name.
class Checks {
 public:
  explicit Checks(const char* call) : call_(call) {}

  // Throws c10::Error.
  [[noreturn]] void refuse(const std::string& what) const;
  void expect(bool condition, const std::string& what) const {
    if (!condition) refuse(what);
  }

  void root_rank(int64_t root, int ranks) const;
  void root_tensor(int64_t root, size_t tensors) const;
  void non_empty(const std::vector<at::Tensor>& tensors) const;
  // `which`: "input" or "output".
  void single(const std::vector<at::Tensor>& tensors, const char* which) const;
  // One list with a tensor for each rank, or elsewhere than at the root, none. `ranks`: 0 elsewhere.
  void list_at_root(const std::vector<std::vector<at::Tensor>>& lists, std::string which, int ranks) const;
  // As many outputs as inputs, and some.
  void pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) const;
  // On the CPU, and strided.
  void dense(const std::vector<at::Tensor>& tensors) const;
  void dense(const at::Tensor& tensor) const;
  // And their memory holds the values (buffers.h).
  void contiguous(const std::vector<at::Tensor>& tensors) const;
  // All of the first one's layout.
  void same_layout(const std::vector<at::Tensor>& tensors) const;
  // Those of one rank: dense, and all like the first. Errors count the others from 0, as Gloo's do.
  void of_one_kind(const std::vector<at::Tensor>& tensors) const;
  // All like `example`.
  void alike(const std::vector<at::Tensor>& tensors, const at::Tensor& example) const;
  // Like alike(), but of any sizes.
  void same_type(const std::vector<at::Tensor>& tensors, const at::Tensor& example) const;

 private:
  const char* const call_;
};

}  // namespace banyan::pytorch
