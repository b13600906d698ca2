// The dump signal: by it, a person asks a process for the flight records of all its communicators.
//
// The handler only wakes a thread, which does the work: neither locks nor memory are used in the handler.
#pragma once

#include <csignal>
#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace banyan::run {

// BANYAN_DUMP_SIGNAL: USR1, SIGUSR1, USR2, SIGUSR2, or none; USR1 by default. Throws Error{invalid_input}.
std::optional<int> dump_signal_from_environment();

// The same of a text.
std::optional<int> dump_signal_of(const std::string& name);

// Has the process answer this signal from now on, unless the program handles or ignores it already. The first time
// only. Throws Error{io}.
void start_dump_signal(std::optional<int> signal);

// Ends at its destruction: `write` does not run after that.
using DumpRegistration = std::shared_ptr<void>;

// Has `write` called, on a thread of its own, whenever the signal has come. It throws nothing. Any thread.
[[nodiscard]] DumpRegistration on_dump_signal(std::function<void()> write);

}  // namespace banyan::run
