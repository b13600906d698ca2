#include "bindings/torch/signals.h"

#include <pybind11/pybind11.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>

#include "banyan/run/communicator/patience.h"
#include "banyan/run/join/deadline.h"

namespace banyan::pytorch {
namespace {

bool is_main_thread() { return syscall(SYS_gettid) == getpid(); }

}  // namespace

bool hears_signals() { return is_main_thread() && Py_IsInitialized(); }

void look_for_signals() {
  if (!hears_signals()) return;
  const pybind11::gil_scoped_acquire lock;
  if (PyErr_CheckSignals() != 0) throw pybind11::error_already_set();
}

bool wait_and_look(std::chrono::milliseconds timeout, const std::function<bool(std::chrono::milliseconds)>& wait_for) {
  static_assert(2 * kSignalLook <= run::Patience::kLongestGap && run::Patience::kLongestGap < kSignalLookOfLimited);
  const bool is_limited = timeout.count() > 0;
  const run::Deadline deadline = run::Deadline::after(timeout);
  while (true) {
    const std::chrono::milliseconds left = is_limited ? deadline.left() : kSignalLook;
    if (wait_for(std::clamp(left, std::chrono::milliseconds(1), kSignalLookOfLimited))) return true;
    if (is_limited && deadline.has_passed()) return false;
    look_for_signals();
  }
}

}  // namespace banyan::pytorch
