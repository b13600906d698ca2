// A long simulation that shows its progress and ends when Ctrl-C is pressed.
#pragma once

#include "apps/terminal.h"
#include "banyan/answer/job_answer.h"

namespace banyan::app {

// Ctrl-C is the program's again when this goes.
class WatchedSimulation : public answer::JobObserver {
 public:
  explicit WatchedSimulation(Progress& progress);
  ~WatchedSimulation() override;
  WatchedSimulation(const WatchedSimulation&) = delete;
  WatchedSimulation& operator=(const WatchedSimulation&) = delete;

  void begins(const char* what) override;
  void progress(double fraction_done, Picoseconds now) override;
  bool stop() override;

 private:
  Progress& progress_;
  void (*before_)(int);
};

}  // namespace banyan::app
