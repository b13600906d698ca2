#include "bindings/torch/marks.h"

#include <ATen/ATen.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/native/MathBitsFallback.h>
#include <torch/library.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "bindings/torch/process_group.h"

namespace banyan::pytorch {
namespace {

constexpr const char* kNamespace = "c10d";

// As PyTorch does it for all operations that know nothing of marks.
template <c10::DispatchKey kKey>
struct Resolved : at::native::MathOpFallback {
  Resolved() : MathOpFallback(kKey, kKey == c10::DispatchKey::Conjugate ? "conjugate" : "negative") {}
  bool is_bit_set(const at::Tensor& tensor) override {
    return kKey == c10::DispatchKey::Conjugate ? tensor.is_conj() : tensor.is_neg();
  }
};

bool is_of_banyan(c10d::ProcessGroup& group) {
#if TORCH_VERSION_MAJOR > 1
  try {
    return dynamic_cast<ProcessGroupBanyan*>(group.getBackend(c10::DeviceType::CPU).get()) != nullptr;
  } catch (const c10::Error&) {  // it has none for this device
    return false;
  }
#else
  return dynamic_cast<ProcessGroupBanyan*>(&group) != nullptr;
#endif
}

// Whether the call whose arguments are the last of `stack` is one of a group of this backend.
bool is_of_banyan(const c10::OperatorHandle& call, const torch::jit::Stack& stack) {
  const auto& arguments = call.schema().arguments();
  for (size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].type()->str().find("c10d.ProcessGroup") == std::string::npos) continue;
    const c10::IValue& group = stack[stack.size() - arguments.size() + i];
    return is_of_banyan(*group.toCustomClass<c10d::ProcessGroup>());
  }
  return false;
}

template <c10::DispatchKey kKey>
void pass_on(const c10::OperatorHandle& call, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  if (is_of_banyan(call, *stack)) {
    call.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kKey), stack);
  } else {
    Resolved<kKey>().fallback_impl(call, keys, stack);
  }
}

template <c10::DispatchKey kKey>
void register_calls() {
  static auto* const library = new torch::Library(torch::Library::IMPL, kNamespace, kKey, __FILE__, __LINE__);
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with(std::string(kNamespace) + "::")) continue;
    library->impl(name.name.c_str(), torch::CppFunction::makeFromBoxedFunction<&pass_on<kKey>>());
  }
}

}  // namespace

void pass_marked_tensors_on() {
  static const bool once = [] {
    register_calls<c10::DispatchKey::Conjugate>();
    register_calls<c10::DispatchKey::Negative>();
    return true;
  }();
  (void)once;
}

}  // namespace banyan::pytorch
