#include "banyan/run/call/residual.h"

#include <algorithm>
#include <bit>
#include <cstdint>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/element/reduce.h"

namespace banyan::run {
namespace {

Error in_use() {
  return Error(ErrorCode::invalid_usage, "a call under way uses the residual; wait for it, or give each call its own");
}

constexpr uint32_t kExponent = 0x7f800000;

bool is_finite(float value) { return (std::bit_cast<uint32_t>(value) & kExponent) != kExponent; }

}  // namespace

std::span<float> Residual::values() {
  if (is_in_use_) throw in_use();
  return kept_;
}

void Residual::keep_again(std::span<const float> results) {
  const std::span<float> kept = values();
  CHECK(results.size() == kept.size());
  uint32_t wrong = 0;  // a loop without branches, as it is nearly always 0
  for (const float result : results) wrong |= is_finite(result) ? 0U : 1U;
  if (wrong == 0) return;
  for (size_t i = 0; i < kept.size(); ++i) {
    if (!is_finite(results[i])) kept[i] = lost_[i];  // end() has swapped them
  }
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
