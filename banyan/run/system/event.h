// Event: a descriptor that any thread sets, and that another one sees as readable (eventfd).
#pragma once

#include <sys/eventfd.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {

class Event {
 public:
  // Throws Error{io}.
  Event() : fd_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!fd_.is_open()) throw system_error("cannot make an event descriptor");
  }
  int fd() const { return fd_.get(); }
  // False when the kernel refuses, which it has no reason to.
  bool set() noexcept {
    const uint64_t one = 1;
    return is_done([&] { return write(fd_.get(), &one, sizeof one); });
  }
  bool clear() noexcept {
    uint64_t count = 0;
    return is_done([&] { return read(fd_.get(), &count, sizeof count); });
  }
  // The same where a stranger has the descriptor, too: who has it may take O_NONBLOCK away and read, so that read()
  // would wait for ever. Before Linux 5.8, whose eventfds cannot be told for each call not to wait, it may.
  bool clear_shared() noexcept {
    uint64_t count = 0;
    iovec piece{.iov_base = &count, .iov_len = sizeof count};
    return is_done([&] {
      const ssize_t got = preadv2(fd_.get(), &piece, 1, -1, RWF_NOWAIT);
      return got < 0 && errno == EOPNOTSUPP ? read(fd_.get(), &count, sizeof count) : got;
    });
  }

 private:
  // EAGAIN: it was so already. A signal may come in between.
  template <typename Call>
  static bool is_done(Call call) {
    constexpr int kAttempts = 3;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      if (call() == sizeof(uint64_t) || errno == EAGAIN) return true;
    }
    return false;
  }

  FileDescriptor fd_;
};

}  // namespace banyan::run
