// A thread of Banyan's own. It gets no signals: those are for the threads of the application.
#pragma once

#include <functional>
#include <thread>

namespace banyan::run {

// `name`: at most 15 letters, as top and gdb show it. What `body` throws ends the process. Throws Error{io} saying that
// no thread could be started, and why.
std::thread start_thread(const char* name, std::function<void()> body);

}  // namespace banyan::run
