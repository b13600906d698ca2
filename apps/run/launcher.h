// Starts the processes of a LaunchPlan, looks after them, and ends them together.
#pragma once

#include <chrono>
#include <cstdint>

#include "apps/run/launch_plan.h"
#include "apps/terminal.h"
#include "banyan/run/join/secret.h"

namespace banyan::app {

struct LaunchOptions {
  bool prefix_lines = false;              // "[3] " before each line of rank 3
  bool json = false;                      // lines go to standard error; at the end one object says how each rank ended
  bool keep_going = false;                // do not end the others when one has failed
  std::chrono::milliseconds grace{5000};  // between SIGTERM and SIGKILL
};

// Runs until all processes have ended, and returns 0, or the status of the first that failed (128 + signal when it was
// killed), or 128 + signal when this process was told to end. Errors of ranks go to `terminal`, one line for the first.
//
// Each rank has a process group of its own. Rank 0 has our standard input unless that is a terminal; the others have
// none. SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1 and SIGUSR2 are passed on to all ranks of this host; those of others
// are ended by the first four. The ranks die with this process. The secret goes through the environment of processes,
// or through a connection of ssh, and is never on a command line. Throws Error{not_found} when the program cannot be
// started, Error{io}; then nothing runs any more. Call while the process has one thread.
int launch(const LaunchPlan& plan, const run::Secret& secret, const LaunchOptions& options, const Terminal& terminal);

}  // namespace banyan::app
