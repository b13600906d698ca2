#include "banyan/run/call/residual.h"

#include <cstdint>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/element/reduce.h"
#include "banyan/run/call/call.h"

namespace banyan::run {
namespace {

Error in_use() {
  return Error(ErrorCode::invalid_usage, "a call under way uses the residual; wait for it, or give each call its own");
}

// Of float32 at any address.
bool is_finite(std::span<const std::byte> values, size_t at) {
  constexpr uint32_t kExponent = 0x7f800000;
  uint32_t bits = 0;
  std::memcpy(&bits, values.data() + at * sizeof bits, sizeof bits);
  return (bits & kExponent) != kExponent;
}

// A loop without branches, as they nearly always are.
bool are_finite(std::span<const std::byte> values) {
  uint32_t wrong = 0;
  for (size_t i = 0; i < values.size() / sizeof(float); ++i) wrong |= is_finite(values, i) ? 0U : 1U;
  return wrong == 0;
}

}  // namespace

std::span<float> Residual::values() {
  if (is_in_use_) throw in_use();
  return kept_;
}

void Residual::add_to(const std::byte* values, std::byte* contribution) {
  const std::byte* const sources[] = {values, reinterpret_cast<const std::byte*>(kept_.data())};
  element::reduce(element::ReduceTask{}, contribution, nullptr, sources, kept_.size());
  const std::span<const std::byte> sent(values, kept_.size() * sizeof(float));
  for (size_t i = 0; i < kept_.size(); ++i) lost_[i] = is_finite(sent, i) ? 0 : kept_[i];
}

ResidualUse::ResidualUse(Residual& residual) : residual_(&residual) {
  if (residual.is_in_use_.exchange(true)) throw in_use();
}

ResidualUse::ResidualUse(const Call& call) : residual_(call.residual) {
  if (residual_ == nullptr) return;
  if (residual_->is_in_use_.exchange(true)) throw in_use();
  if (call.kind == OperationKind::all_reduce) results_ = {call.recv, call.count * sizeof(float)};
}

void ResidualUse::succeed() noexcept {
  if (residual_ == nullptr) return;
  residual_->kept_.swap(residual_->lost_);
  if (!are_finite(results_)) {
    for (size_t i = 0; i < residual_->size(); ++i) {
      if (!is_finite(results_, i)) residual_->kept_[i] = residual_->lost_[i];
    }
  }
  end();
}

void ResidualUse::end() noexcept {
  if (residual_ != nullptr) residual_->is_in_use_ = false;
  residual_ = nullptr;
}

}  // namespace banyan::run
