// Python's signals while a call waits.
//
// Python runs handlers of signals in its main thread, between two instructions of its own: not while that thread waits
// for other ranks. So who waits there looks for them again and again, and lets a handler run at once: SIGTERM's, with
// which Slurm and Kubernetes warn of the end, and that of Ctrl-C, which raises KeyboardInterrupt.
#pragma once

#include <chrono>
#include <functional>

namespace banyan::pytorch {

// How long a handler may have to wait, and a bit more. Asking for a message again and again counts as waiting where the
// pieces are short (run/communicator/patience.h). So who waits without a limit does so in short ones, and has the
// group's timeout; who waits for so long at most does so in long ones, and has no other than that.
constexpr std::chrono::milliseconds kSignalLook{100}, kSignalLookOfLimited{300};

// Whether handlers run in this thread.
bool hears_signals();

// Lets handlers run that are due, in the main thread of the process; elsewhere nothing happens. What a handler raises
// is thrown as pybind11::error_already_set. Takes the interpreter's lock for a moment, whether this thread has it or
// not.
void look_for_signals();

// Calls `wait_for(at most)`, which says whether what it waits for is over, until that is so or `timeout` is over (none
// where it is not above zero), and looks for signals meanwhile. Whether it is over.
bool wait_and_look(std::chrono::milliseconds timeout, const std::function<bool(std::chrono::milliseconds)>& wait_for);

}  // namespace banyan::pytorch
