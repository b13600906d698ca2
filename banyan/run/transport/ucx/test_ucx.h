// For tests of the UCX transport, in the process that is to use it: UCX reads its variables when it starts.
#pragma once

#include <cstdlib>

namespace banyan::run::ucx {

inline void set_up(const char* devices) {
  setenv("UCX_TLS", devices, 1);
  setenv("UCX_LOG_LEVEL", "fatal", 0);  // the death of a peer is no news for the terminal
#ifdef __SANITIZE_THREAD__
  // UCX hooks into madvise(2), which a thread calls when it has ended for the sanitizer.
  setenv("UCX_MEM_EVENTS", "n", 1);
#endif
}

}  // namespace banyan::run::ucx
