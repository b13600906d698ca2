// Growing a file beyond the limit on the size of files, if there is one (ulimit -f), sends SIGXFSZ, which ends the
// process. While this object lives, this thread gets the error EFBIG instead, also for files in memory.
#pragma once

#include <signal.h>

#include <ctime>

namespace banyan {

class FileSizeSignalHeld {
 public:
  FileSizeSignalHeld() {
    sigset_t pending;
    sigemptyset(&own_);
    sigaddset(&own_, SIGXFSZ);
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGXFSZ) == 1;
    pthread_sigmask(SIG_BLOCK, &own_, &before_);
  }
  ~FileSizeSignalHeld() {
    const timespec at_once{};
    if (!was_pending_) sigtimedwait(&own_, nullptr, &at_once);
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  FileSizeSignalHeld(const FileSizeSignalHeld&) = delete;
  FileSizeSignalHeld& operator=(const FileSizeSignalHeld&) = delete;

 private:
  sigset_t own_, before_;
  bool was_pending_ = false;
};

}  // namespace banyan
