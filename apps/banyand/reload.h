// `banyand --reload PID`: SIGHUP with an answer, for whoever has to know whether the rules are in force: systemd.
//
// A signal names the process that sent it, and may bring a number, which that process draws: nobody can take the place
// before it. It listens at an abstract unix socket of both numbers before it sends the signal, and the daemon sends a
// datagram there: why the rules stay as they were, or nothing. The kernel says of the datagram whose it is. So it needs
// neither a door of the daemon nor a file.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <chrono>
#include <string>

namespace banyan::app {

// Why the rules stay as they were; empty: those of the file are in force. Throws Error{not_found} where there is no
// such process, Error{timed_out} where it does not answer, Error{io}.
std::string reload(pid_t daemon, std::chrono::milliseconds at_most);

// By the daemon, to whoever has sent it the signal. Who does not listen is not told.
void answer_reload(const siginfo_t& signal, const std::string& refusal);

}  // namespace banyan::app
