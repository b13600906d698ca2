// A thread of Banyan's own. It gets no signals: those are for the threads of the application.
#pragma once

#include <chrono>
#include <functional>
#include <thread>

namespace banyan::run {

// `name`: at most 15 letters, as top and gdb show it. An exception of `body` ends the process. Throws Error{io} saying
// that no thread could be started, and why.
std::thread start_thread(const char* name, std::function<void()> body);

// Lets the kernel take the core from the calling thread for another one after so long, instead of its usual 3 ms or so;
// and give it the core sooner when it wakes while another thread has a longer slice. Its part of the core stays the
// same. From 0.1 ms to 100 ms. False where the kernel does not know this (before Linux 6.12), which changes nothing.
bool ask_for_time_slice(std::chrono::microseconds slice);

}  // namespace banyan::run
