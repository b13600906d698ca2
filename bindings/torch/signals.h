// Python's signals while a call waits.
//
// Python runs handlers of signals in its main thread, between two instructions of its own: not while that thread waits
// for other ranks. So a wait in that thread looks for them again and again, and lets a handler run at once: SIGTERM's,
// with which Slurm and Kubernetes warn of the end, and that of Ctrl-C, which raises KeyboardInterrupt.
#pragma once

#include <chrono>
#include <functional>

namespace banyan::pytorch {

// The time between two looks for signals: a handler waits that long at most, and a bit more. Asking for a message again
// and again counts as waiting if the times in between are short (run/communicator/patience.h). So a wait without a
// limit looks at short intervals, and has the group's timeout; a wait with a limit looks at long ones, and has no other
// limit.
constexpr std::chrono::milliseconds kSignalLook{100}, kSignalLookOfLimited{300};

// True if handlers run in this thread.
bool hears_signals();

// Lets handlers run that are due, in the main thread of the process; elsewhere nothing happens. An exception of a
// handler is thrown as pybind11::error_already_set. Takes the interpreter's lock for a moment, whether this thread has
// it or not.
void look_for_signals();

// Calls `wait_for(at most)`, which says whether what it waits for is over, until that is so or `timeout` is over (none
// where it is not above zero), and looks for signals meanwhile. True if it is over.
bool wait_and_look(std::chrono::milliseconds timeout, const std::function<bool(std::chrono::milliseconds)>& wait_for);

}  // namespace banyan::pytorch
