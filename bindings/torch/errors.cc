#include "bindings/torch/errors.h"

#include <map>

#include "banyan/base/error_names.h"

namespace banyan::pytorch {
namespace {

namespace py = pybind11;

struct Kind {
  ErrorCode code;
  const char* title;  // of the class
  const char* help;
};
constexpr Kind kKinds[] = {
    {ErrorCode::peer_lost, "PeerLostError", "A process has died, left, or cannot be reached."},
    {ErrorCode::timed_out, "TimedOutError", "Nothing has moved for the time of the group or the call."},
    {ErrorCode::mismatch, "MismatchError", "The ranks have made calls that differ."},
    {ErrorCode::aborted, "AbortedError", "A rank has ended the group."},
    {ErrorCode::io, "SystemCallError", "The system has refused memory, a connection or a file."},
    {ErrorCode::unsupported, "UnsupportedError", "This cannot be done here."},
    {ErrorCode::invalid_usage, "InvalidUsageError", "The group cannot be used so."},
    {ErrorCode::invalid_input, "InvalidInputError", "An argument or a file is wrong."},
    {ErrorCode::not_found, "NotFoundError", "Something that was asked for does not exist."},
};

// They live as long as the interpreter.
PyObject* error_class = nullptr;
std::map<ErrorCode, PyObject*>& classes() {
  static auto* const classes = new std::map<ErrorCode, PyObject*>();
  return *classes;
}

// `code`: of its instances; "" of the class that stands for all.
PyObject* make_class(py::module_& module, const Kind& kind, PyObject* base, const char* code) {
  py::dict attributes;
  attributes["code"] = code;
  PyObject* const made =
      PyErr_NewExceptionWithDoc(("banyan_torch." + std::string(kind.title)).c_str(), kind.help, base, attributes.ptr());
  if (made == nullptr) throw py::error_already_set();
  module.add_object(kind.title, py::reinterpret_borrow<py::object>(made));
  return made;
}

void translate(std::exception_ptr exception) {
  try {
    if (exception) std::rethrow_exception(exception);
  } catch (CommunicationError& error) {
    PyErr_SetString(error.python_type(), error.what());
  }
}

// PyTorch's own tests and users look for " Timed out ".
std::string words_of(const Error& error) {
  return (error.code() == ErrorCode::timed_out ? std::string("banyan: Timed out - ") : std::string()) + error.what();
}

}  // namespace

CommunicationError::CommunicationError(const Error& error) : CommunicationError(error.code(), words_of(error)) {}

PyObject* CommunicationError::python_type() {
  const auto found = classes().find(code_);
  return found != classes().end() ? found->second : error_class;
}

void add_error_classes(py::module_& module) {
  // Since 2.1 PyTorch has a class for failures of backends, itself a RuntimeError.
  const py::object base = py::getattr(py::module_::import("torch._C"), "_DistBackendError",
                                      py::reinterpret_borrow<py::object>(PyExc_RuntimeError));
  const Kind all{{},
                 "Error",
                 "Communication has failed. `code` says how: peer_lost, timed_out, mismatch, aborted, io,\n"
                 "unsupported, invalid_usage, invalid_input or not_found; each has a subclass. Of an Error\n"
                 "that a program has made itself, it is \"\"."};
  error_class = make_class(module, all, base.ptr(), "");
  for (const Kind& kind : kKinds) {
    classes()[kind.code] = make_class(module, kind, error_class, name_of(kind.code));
  }
  py::register_exception_translator(&translate);
}

}  // namespace banyan::pytorch
