// Long work that Python waits for: Ctrl-C ends it, a callback hears of it, other threads of Python go on.
#pragma once

#include <pybind11/pybind11.h>

#include <chrono>

#include "banyan/answer/job_answer.h"
#include "banyan/plan/graph/plan_observer.h"

namespace banyan::python {

// Releases the interpreter's lock for as long as it lives. Now and then it takes the lock, has Python handle its
// signals, and calls back; what either raises comes out of the work as pybind11::error_already_set.
class Watch : public plan::PlanObserver, public answer::JobObserver {
 public:
  // `callback(what, fraction)` may be None.
  explicit Watch(pybind11::object callback);
  ~Watch() override;

  void phase_begins(Phase phase) override;
  void progress(double fraction_done) override;
  void works_on() override { look_up(); }

  void begins(const char* what) override;
  void progress(double fraction_done, Picoseconds now) override;
  bool stop() override;

 private:
  void look_up();
  void tell();

  pybind11::object callback_;
  const char* what_ = "";
  const char* simulation_ = "simulating";  // which one
  double fraction_ = 0;
  std::chrono::steady_clock::time_point looked_, told_;
  const pybind11::gil_scoped_release unlocked_;  // the last member: others are made and destroyed with the lock
};

}  // namespace banyan::python
