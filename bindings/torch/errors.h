// Failed communication as PyTorch and Python see it: banyan_torch.Error, with a class of its own for each code.
#pragma once

#include <pybind11/pybind11.h>
#include <torch/csrc/Exceptions.h>

#include <string>

#include "banyan/base/error.h"

namespace banyan::pytorch {

// Reaches Python as the subclass of banyan_torch.Error (a RuntimeError) that belongs to its code, whichever part of
// PyTorch it passes through: those that know only RuntimeError ask a PyTorchError for its class.
class CommunicationError : public torch::PyTorchError {
 public:
  explicit CommunicationError(const Error& error);
  CommunicationError(ErrorCode code, const std::string& words) : PyTorchError(words), code_(code) {}

  ErrorCode code() const { return code_; }
  PyObject* python_type() override;

 private:
  ErrorCode code_;
};

// Adds Error and its subclasses to the module, and has pybind11 raise them. Once.
void add_error_classes(pybind11::module_& module);

// Calls `body`; what it throws reaches Python as banyan_torch.Error, or as RuntimeError where an argument is wrong.
template <typename Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    TORCH_CHECK(error.code() != ErrorCode::invalid_input, error.what());
    throw CommunicationError(error);
  }
}

}  // namespace banyan::pytorch
