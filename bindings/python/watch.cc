#include "bindings/python/watch.h"

namespace banyan::python {
namespace {

namespace py = pybind11;
using Clock = std::chrono::steady_clock;

constexpr std::chrono::milliseconds kBetweenLooks{20}, kBetweenCallbacks{100};

}  // namespace

Watch::Watch(py::object callback) : callback_(std::move(callback)), looked_(Clock::now()), told_(Clock::now()) {}

Watch::~Watch() {
  const py::gil_scoped_acquire lock;
  callback_ = py::object();
}

void Watch::phase_begins(Phase phase) {
  what_ = plan::in_words(phase);
  fraction_ = 0;
  tell();
}

void Watch::progress(double fraction_done) {
  fraction_ = fraction_done;
  look_up();
}

void Watch::begins(const char* what) {
  what_ = simulation_ = what;
  fraction_ = 0;
  tell();
}

void Watch::progress(double fraction_done, Picoseconds) {
  what_ = simulation_;
  progress(fraction_done);
}

bool Watch::stop() {
  look_up();
  return false;
}

void Watch::look_up() {
  const auto now = Clock::now();
  if (now - looked_ < kBetweenLooks) return;
  looked_ = now;
  {
    const py::gil_scoped_acquire lock;
    if (PyErr_CheckSignals() != 0) throw py::error_already_set();
  }
  if (now - told_ >= kBetweenCallbacks) tell();
}

void Watch::tell() {
  told_ = Clock::now();
  const py::gil_scoped_acquire lock;
  if (!callback_.is_none()) callback_(what_, fraction_);
}

}  // namespace banyan::python
