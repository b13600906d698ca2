#include "banyan/run/call/residual.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/element/reduce.h"

namespace banyan::run {
namespace {

Error in_use() {
  return Error(ErrorCode::invalid_usage, "a call under way uses the residual; wait for it, or give each call its own");
}

}  // namespace

std::span<float> Residual::values() {
  if (is_in_use_) throw in_use();
  return kept_;
}

void Residual::begin() {
  if (is_in_use_.exchange(true)) throw in_use();
}

void Residual::add_to(const std::byte* values, std::byte* contribution) {
  const std::byte* const sources[] = {values, reinterpret_cast<const std::byte*>(kept_.data())};
  element::reduce(element::ReduceTask{}, contribution, nullptr, sources, kept_.size());
  std::fill(lost_.begin(), lost_.end(), 0.0F);
}

void Residual::end(bool has_result) {
  if (has_result) kept_.swap(lost_);
  is_in_use_ = false;
}

}  // namespace banyan::run
