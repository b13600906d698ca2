#include "banyan/run/system/fork_guard.h"

#include <pthread.h>

#include <atomic>
#include <mutex>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// Asking for the process id is a system call, which the path of a small message cannot afford.
std::atomic<uint64_t> fork_count{0};

}  // namespace

uint64_t ForkGuard::forks() { return fork_count.load(std::memory_order_relaxed); }

ForkGuard::ForkGuard() {
  static std::once_flag once;
  std::call_once(once, [] {
    const int rc = pthread_atfork(nullptr, nullptr, [] { fork_count.fetch_add(1, std::memory_order_relaxed); });
    CHECK(rc == 0) << "pthread_atfork: " << rc;
  });
  forks_ = forks();
}

}  // namespace banyan::run
