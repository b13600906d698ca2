#include "bindings/torch/checks.h"

#include <cctype>
#include <torch/csrc/distributed/c10d/Utils.hpp>

#include "bindings/torch/buffers.h"

namespace banyan::pytorch {

std::string words_of(at::IntArrayRef sizes) { return c10d::toString(sizes); }

void Checks::refuse(const std::string& what) const { TORCH_CHECK(false, "ProcessGroupBanyan::", call_, ": ", what); }

void Checks::root_rank(int64_t root, int ranks) const {
  expect(root >= 0 && root < ranks, "invalid root rank: " + std::to_string(root));
}

void Checks::root_tensor(int64_t root, size_t tensors) const {
  expect(root >= 0 && static_cast<size_t>(root) < tensors, "invalid root tensor: " + std::to_string(root));
}

void Checks::non_empty(const std::vector<at::Tensor>& tensors) const {
  expect(!tensors.empty(), "requires non-empty tensor list");
}

void Checks::single(const std::vector<at::Tensor>& tensors, const char* which) const {
  expect(tensors.size() == 1, std::string("requires a single-element ") + which + " tensor list");
}

void Checks::list_at_root(const std::vector<std::vector<at::Tensor>>& lists, std::string which, int ranks) const {
  if (ranks == 0) return expect(lists.empty(), "requires empty " + which + " on non-root");
  const std::string size = std::to_string(ranks);
  expect(lists.size() == 1, "requires a single-element " + which + " list containing a list with " + size + " tensors");
  const std::string words = "Incorrect " + which + " list size " + std::to_string(lists.front().size()) + ". ";
  which.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(which.front())));
  expect(lists.front().size() == static_cast<size_t>(ranks),
         words + which + " list size should be " + size + ", same as size of the process group.");
}

void Checks::pairs(const std::vector<at::Tensor>& outputs, const std::vector<at::Tensor>& inputs) const {
  expect(!inputs.empty(), "requires non-empty input tensor list");
  expect(outputs.size() == inputs.size(), "requires input/output tensor lists to have the same length");
}

void Checks::dense(const at::Tensor& tensor) const {
  expect(tensor.layout() == at::kStrided, "only supports dense tensors");
  expect(tensor.device().is_cpu(), "only supports CPU tensors, not those on " + tensor.device().str());
}

void Checks::dense(const std::vector<at::Tensor>& tensors) const {
  for (const at::Tensor& tensor : tensors) dense(tensor);
}

void Checks::contiguous(const std::vector<at::Tensor>& tensors) const {
  dense(tensors);
  for (const at::Tensor& tensor : tensors) {
    expect(is_plain(tensor), "takes contiguous tensors, not conjugated or negated ones");
  }
}

void Checks::same_type(const std::vector<at::Tensor>& tensors, const at::Tensor& example) const {
  for (size_t i = 0; i < tensors.size(); ++i) {
    expect(tensors[i].scalar_type() == example.scalar_type() && tensors[i].device() == example.device(),
           "invalid tensor type at index " + std::to_string(i) + " (expected " + example.toString() + ", got " +
               tensors[i].toString() + ")");
  }
}

void Checks::same_layout(const std::vector<at::Tensor>& tensors) const {
  const at::Layout first = tensors.front().layout();
  for (size_t i = 1; i < tensors.size(); ++i) {
    expect(tensors[i].layout() == first, "invalid tensor layout at index " + std::to_string(i) + " (expected " +
                                             c10d::toString(first) + ", got " + c10d::toString(tensors[i].layout()) +
                                             ")");
  }
}

void Checks::of_one_kind(const std::vector<at::Tensor>& tensors) const {
  same_layout(tensors);
  dense(tensors.front());
  alike({tensors.begin() + 1, tensors.end()}, tensors.front());
}

void Checks::alike(const std::vector<at::Tensor>& tensors, const at::Tensor& example) const {
  same_type(tensors, example);
  for (size_t i = 0; i < tensors.size(); ++i) {
    expect(tensors[i].sizes() == example.sizes(), "invalid tensor size at index " + std::to_string(i) + " (expected " +
                                                      words_of(example.sizes()) + ", got " +
                                                      words_of(tensors[i].sizes()) + ")");
  }
}

}  // namespace banyan::pytorch
