// Time, threads, locks and futexes.
#include <linux/futex.h>
#include <pthread.h>
#include <stdarg.h>
#include <sys/syscall.h>

#include <algorithm>
#include <utility>

#include "banyan/testing/machines/interpose.h"
#include "banyan/testing/machines/objects.h"

namespace banyan::testing::machines {

void link_threads() {}

namespace {

// One that a process held when it was killed is free: each process has its own.
bool is_free(const std::map<const void*, Scheduler::Thread*>& held, const void* lock) {
  const auto found = held.find(lock);
  return found == held.end() || found->second->process->is_over;
}

int lock(pthread_mutex_t* mutex) {
  Scheduler::Thread* const own = Scheduler::current();
  for (;;) {
    const int rc = real_calls().pthread_mutex_trylock(mutex);
    if (rc != EBUSY) {
      if (rc == 0) world->held[mutex] = own;
      return rc;
    }
    const auto found = world->held.find(mutex);
    if (found != world->held.end() && found->second->process->is_over) {
      *mutex = PTHREAD_MUTEX_INITIALIZER;
      world->held.erase(found);
      continue;
    }
    world->scheduler().wait("a lock", [mutex] { return is_free(world->held, mutex); });
  }
}

int unlock(pthread_mutex_t* mutex) {
  world->held.erase(mutex);
  return real_calls().pthread_mutex_unlock(mutex);
}

int wait_for_signal(pthread_cond_t* condition, pthread_mutex_t* mutex, Nanoseconds end) {
  const auto waiter = std::make_shared<Kernel::CondWaiter>();
  world->waiters[condition].push_back(waiter);
  unlock(mutex);
  const bool is_signalled = world->scheduler().wait(
      "a condition", [waiter] { return waiter->is_signalled; }, end);
  std::erase(world->waiters[condition], waiter);
  lock(mutex);
  return is_signalled ? 0 : ETIMEDOUT;
}

// From its beginning to its end, which may be an exception. One in which a process was killed begins anew.
class FirstCall {
 public:
  explicit FirstCall(pthread_once_t* once) : once_(once) {
    const Unfailing scope;
    if (world->first_calls.contains(once)) *once = PTHREAD_ONCE_INIT;
    world->first_calls[once] = Scheduler::current();
  }
  ~FirstCall() { world->first_calls.erase(once_); }
  FirstCall(const FirstCall&) = delete;
  FirstCall& operator=(const FirstCall&) = delete;

 private:
  pthread_once_t* const once_;
};

void signal_waiters(pthread_cond_t* condition, size_t most) {
  const auto found = world->waiters.find(condition);
  if (found == world->waiters.end()) return;
  for (const auto& waiter : found->second) {
    if (most == 0) return;
    if (!std::exchange(waiter->is_signalled, true)) --most;
  }
}

long futex(va_list arguments) {
  auto* const word = va_arg(arguments, uint32_t*);
  const int operation = va_arg(arguments, int);
  const uint32_t value = va_arg(arguments, uint32_t);
  const auto* const time = va_arg(arguments, const timespec*);
  const clockid_t clock = (operation & FUTEX_CLOCK_REALTIME) != 0 ? CLOCK_REALTIME : CLOCK_MONOTONIC;
  switch (operation & FUTEX_CMD_MASK) {
    case FUTEX_WAIT:
      return world->futex_wait(word, value, end_after(time));
    case FUTEX_WAIT_BITSET:
      return world->futex_wait(word, value, time == nullptr ? kNever : end_at(clock, *time));
    case FUTEX_WAKE:
    case FUTEX_WAKE_BITSET:
      return world->futex_wake(word, static_cast<int>(value));
    default:
      return fail(ENOSYS);
  }
}

}  // namespace
}  // namespace banyan::testing::machines

using namespace banyan::testing::machines;  // these are its functions

extern "C" {

// ---- Time ----

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  const Entry inside(kLook);
  if (!inside) return real_calls().clock_gettime(clock, time);
  const bool is_calendar = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  const Nanoseconds now = world->scheduler().now() + (is_calendar ? kEpoch : kUptime);
  *time = {.tv_sec = now / kSecond, .tv_nsec = now % kSecond};
  return 0;
}

int nanosleep(const timespec* time, timespec* rest) {
  const Entry inside(kCall);
  if (!inside) return real_calls().nanosleep(time, rest);
  world->scheduler().wait(
      "a moment", [] { return false; }, end_after(time));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  const Entry inside(kCall);
  if (!inside) return real_calls().clock_nanosleep(clock, flags, time, rest);
  const Nanoseconds end = (flags & TIMER_ABSTIME) != 0 ? end_at(clock, *time) : end_after(time);
  world->scheduler().wait(
      "a moment", [] { return false; }, end);
  return 0;
}

int sched_yield() noexcept {
  const Unfailing scope;
  if (!is_simulated_here()) return real_calls().sched_yield();
  world->scheduler().spend(1000);
  world->scheduler().yield();
  return 0;
}

// ---- Threads and locks ----

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_create(thread, attributes, body, argument);
  if (inside.fails()) return EAGAIN;
  *thread = world->scheduler().start(world->own(), [body, argument] { body(argument); }).handle;
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_join(thread, result);
  const Scheduler::Thread* const found = world->scheduler().find(thread);
  if (found == nullptr) return ESRCH;
  world->scheduler().wait("the end of a thread", [found] { return found->is_over; });
  return 0;
}

int pthread_detach(pthread_t thread) noexcept { return is_simulated_here() ? 0 : real_calls().pthread_detach(thread); }

int pthread_once(pthread_once_t* once, void (*body)()) {
  constexpr int kDone = 2;  // as glibc has it
  if (!is_simulated_here() || __atomic_load_n(once, __ATOMIC_ACQUIRE) == kDone) {
    return real_calls().pthread_once(once, body);
  }
  world->scheduler().wait("a first call", [once] { return is_free(world->first_calls, once); });
  const FirstCall call(once);
  return real_calls().pthread_once(once, body);
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  const Entry inside(kLook);
  if (!inside) return real_calls().pthread_mutex_lock(mutex);
  return lock(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  const Unfailing scope;
  const int rc = real_calls().pthread_mutex_trylock(mutex);
  if (rc == 0 && is_simulated_here()) world->held[mutex] = Scheduler::current();
  return rc;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_mutex_unlock(mutex);
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_cond_wait(condition, mutex);
  return wait_for_signal(condition, mutex, kNever);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* end) {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_cond_timedwait(condition, mutex, end);
  return wait_for_signal(condition, mutex, end_at(CLOCK_REALTIME, *end));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* end) {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_cond_clockwait(condition, mutex, clock, end);
  return wait_for_signal(condition, mutex, end_at(clock, *end));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_cond_signal(condition);
  signal_waiters(condition, 1);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  const Entry inside(kCall);
  if (!inside) return real_calls().pthread_cond_broadcast(condition);
  signal_waiters(condition, SIZE_MAX);
  return 0;
}

// Whoever holds one is soon done: nothing of a world is waited for under it.
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_rwlock_rdlock(lock);
  const CallOf call(__builtin_return_address(0));
  int rc;
  while ((rc = pthread_rwlock_tryrdlock(lock)) == EBUSY) sched_yield();
  return rc;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_rwlock_wrlock(lock);
  const CallOf call(__builtin_return_address(0));
  int rc;
  while ((rc = pthread_rwlock_trywrlock(lock)) == EBUSY) sched_yield();
  return rc;
}

long syscall(long number, ...) noexcept {
  const Unfailing scope;
  va_list arguments;
  va_start(arguments, number);
  long result = 0;
  if (number == SYS_futex && enters()) {
    result = futex(arguments);
  } else if (number == SYS_pidfd_open && enters()) {
    const Process* const process = world->process_of(va_arg(arguments, int));
    const bool is_here = process != nullptr && !process->is_over && process->host == world->own().host;
    result = is_here ? world->add(std::make_shared<ProcessDescriptor>(*process), true) : fail(ESRCH);
  } else if (number == SYS_membarrier && is_simulated_here()) {
    result = 0;  // one thread runs at a time
  } else {
    long values[6];
    for (long& value : values) value = va_arg(arguments, long);
    result = real_calls().syscall(number, values[0], values[1], values[2], values[3], values[4], values[5]);
  }
  va_end(arguments);
  return result;
}

}  // extern "C"
