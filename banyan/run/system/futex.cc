#include "banyan/run/system/futex.h"

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <climits>
#include <ctime>

#include "banyan/base/check.h"

namespace banyan::run {

void futex_wait(std::atomic<uint32_t>& word, uint32_t expected, std::chrono::milliseconds at_most) {
  const timespec timeout{.tv_sec = at_most.count() / 1000, .tv_nsec = at_most.count() % 1000 * 1'000'000};
  const long rc = syscall(SYS_futex, &word, FUTEX_WAIT, expected, &timeout, nullptr, 0);
  CHECK(rc == 0 || errno == EAGAIN || errno == EINTR || errno == ETIMEDOUT) << "futex wait: errno " << errno;
}

void futex_wake_all(std::atomic<uint32_t>& word) {
  const long rc = syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
  CHECK(rc >= 0) << "futex wake: errno " << errno;
}

}  // namespace banyan::run
