// Asking a process of this host, and with it its job, for flight records.
#pragma once

#include <cstdint>
#include <string>

namespace banyan::run {

// The folder that process `pid` writes its records to, as its environment says. Throws Error{not_found} when there is
// no such process, Error{io} when this user may not look at it.
std::string recorder_directory_of(int32_t pid);

// Sends the dump signal to process `pid` and waits until it has written into `folder`, and then a moment longer for the
// other ranks of this host. Throws Error{invalid_usage} when the process would be killed by the signal, or handles
// none; Error{timed_out} when it writes nothing.
void ask_for_records(int32_t pid, const std::string& folder);

}  // namespace banyan::run
