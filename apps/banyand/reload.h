// `banyand --reload PID`: SIGHUP with an answer, for whoever has to know whether the rules are in force: systemd.
//
// A signal names the process that sent it, and may carry a number. That process draws the number at random, so that
// nobody can take its address before it. It listens at an abstract unix socket named after both numbers before it sends
// the signal, and the daemon sends a datagram there: why the rules stay as they were, or nothing. The kernel names the
// sender of the datagram. So it needs neither a door of the daemon nor a file.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>

namespace banyan::app {

// Why the rules stay as they were; empty: those of the file are in force. Throws Error{not_found} where there is no
// such process, Error{timed_out} where it does not answer, Error{io}.
std::string reload(pid_t daemon, std::chrono::milliseconds at_most);

// Called in the daemon: answers the process that sent the signal. The answer is lost if that process does not listen.
void answer_reload(const siginfo_t& signal, const std::string& refusal);

}  // namespace banyan::app
