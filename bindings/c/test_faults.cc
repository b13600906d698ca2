// See test_faults.h. Nothing here allocates, and the C++ library is not used.
#include "bindings/c/test_faults.h"

#include <dirent.h>
#include <dlfcn.h>
#include <execinfo.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/futex.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>

#define EXPORTED extern "C" __attribute__((visibility("default"), noinline))
#define CALLER __builtin_return_address(0)

extern "C" {
void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);
}

namespace banyan::c {
namespace {

std::atomic<bool> has_begun{false};
FaultPlan plan;
std::atomic<uint32_t> counts[kFaultKinds][kFaultThreads];
std::atomic<uint32_t> fired{0};
std::atomic<const char*> failed{nullptr};

__thread FaultThread thread __attribute__((tls_model("initial-exec"))) = FaultThread::other;
__thread bool is_foreign __attribute__((tls_model("initial-exec"))) = false;  // of UCX, or inside this library

enum class Caller : uintptr_t { numbered = 1, left_out = 2, libc = 3 };

Caller look_up(void* address) {
  // libnuma, which UCX brings, calls exit() where it has no memory.
  static const char* const names[] = {"libuc", "libib", "librdma", "libnl", "libmlx", "libnuma", "ld-linux"};
  Dl_info info;
  if (dladdr(address, &info) == 0 || info.dli_fname == nullptr) return Caller::left_out;
  const char* const slash = strrchr(info.dli_fname, '/');
  const char* const base = slash != nullptr ? slash + 1 : info.dli_fname;
  if (strncmp(base, "libc.so", strlen("libc.so")) == 0) return Caller::libc;
  for (const char* const name : names) {
    if (strncmp(base, name, strlen(name)) == 0) return Caller::left_out;
  }
  return strstr(base, ".so") == nullptr ? Caller::left_out : Caller::numbered;  // the program itself
}

// The answers are kept, since dladdr looks through all symbols.
Caller caller_at(void* address) {
  constexpr size_t kKept = 8192;
  constexpr int kBits = 48;  // of an address; what is above says what it is
  static std::atomic<uintptr_t> kept[kKept];
  const auto number = reinterpret_cast<uintptr_t>(address) & ((uintptr_t{1} << kBits) - 1);
  std::atomic<uintptr_t>& slot = kept[(number ^ number >> 13) % kKept];
  const uintptr_t known = slot.load(std::memory_order_relaxed);
  if (known != 0 && (known & ((uintptr_t{1} << kBits) - 1)) == number) return static_cast<Caller>(known >> kBits);
  const Caller found = look_up(address);
  slot.store(number | static_cast<uintptr_t>(found) << kBits, std::memory_order_relaxed);
  return found;
}

// Whether calls that return to this address are left out. Where libc calls, it does so for somebody else.
bool is_left_out(void* address) {
  const Caller direct = caller_at(address);
  if (direct != Caller::libc) return direct == Caller::left_out;
  constexpr int kDepth = 24;
  void* frames[kDepth];
  const int depth = backtrace(frames, kDepth);
  int i = 0;
  while (i < depth && frames[i] != address) ++i;
  while (i < depth && caller_at(frames[i]) == Caller::libc) ++i;
  return i < depth && caller_at(frames[i]) == Caller::left_out;
}

FaultThread own_thread() { return gettid() == getpid() ? FaultThread::main : thread; }

void show_stack(const char* function) {
  void* frames[48];
  dprintf(STDERR_FILENO, "---- %s fails here:\n", function);
  backtrace_symbols_fd(frames, backtrace(frames, 48), STDERR_FILENO);
}

// True when this call shall fail.
bool fails(FaultKind kind, const char* function, void* caller, bool only_once = false) {
  if (!has_begun.load(std::memory_order_acquire) || is_foreign) return false;
  const int before = errno;
  is_foreign = true;
  bool result = false;
  if (!is_left_out(caller)) {
    const FaultThread own = own_thread();
    const uint32_t number = ++counts[static_cast<int>(kind)][static_cast<int>(own)];
    if (kind == plan.kind && own == plan.thread && plan.number > 0) {
      result = number == plan.number || (plan.all_after && number > plan.number && !only_once);
    }
    if (result && fired.fetch_add(1) == 0) {
      failed = function;
      if (plan.shows_stack) show_stack(function);
    }
  }
  is_foreign = false;
  errno = before;
  return result;
}

// libc's own function of this name.
template <typename Function>
Function* next(std::atomic<void*>& kept, const char* name) {
  void* found = kept.load(std::memory_order_acquire);
  if (found == nullptr) {
    found = dlsym(RTLD_NEXT, name);
    kept.store(found, std::memory_order_release);
  }
  return reinterpret_cast<Function*>(found);
}

}  // namespace
}  // namespace banyan::c

using banyan::c::fails;
using banyan::c::FaultKind;
using banyan::c::FaultThread;

EXPORTED void banyan_faults_begin(const banyan::c::FaultPlan* plan) {
  void* frames[4];
  backtrace(frames, 4);  // loads what it needs
  banyan::c::plan = *plan;
  banyan::c::has_begun = true;
}

EXPORTED void banyan_faults_count(uint32_t counts[banyan::c::kFaultKinds][banyan::c::kFaultThreads], uint32_t* fired) {
  for (int kind = 0; kind < banyan::c::kFaultKinds; ++kind) {
    for (int thread = 0; thread < banyan::c::kFaultThreads; ++thread) {
      counts[kind][thread] = banyan::c::counts[kind][thread];
    }
  }
  *fired = banyan::c::fired;
}

EXPORTED const char* banyan_faults_failed() { return banyan::c::failed; }

// ---- Allocations ----

EXPORTED void* malloc(size_t bytes) {
  if (fails(FaultKind::allocation, "malloc", CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}

EXPORTED void* calloc(size_t count, size_t bytes) {
  if (fails(FaultKind::allocation, "calloc", CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_calloc(count, bytes);
}

EXPORTED void* realloc(void* memory, size_t bytes) {
  if (bytes > 0 && fails(FaultKind::allocation, "realloc", CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_realloc(memory, bytes);
}

EXPORTED void* aligned_alloc(size_t alignment, size_t bytes) {
  if (fails(FaultKind::allocation, "aligned_alloc", CALLER)) {
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_memalign(alignment, bytes);
}

EXPORTED int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  if (fails(FaultKind::allocation, "posix_memalign", CALLER)) return ENOMEM;
  void* const made = __libc_memalign(alignment, bytes);
  if (made == nullptr) return ENOMEM;
  *memory = made;
  return 0;
}

// ---- Threads ----

namespace {

struct Start {
  void* (*run)(void*);
  void* argument;
  bool is_foreign;
};

void* run_thread(void* given) {
  const Start start = *static_cast<Start*>(given);
  free(given);
  banyan::c::is_foreign = start.is_foreign;
  return start.run(start.argument);
}

}  // namespace

EXPORTED int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*run)(void*), void* argument) {
  static std::atomic<void*> kept;
  const bool is_foreign = banyan::c::is_foreign || banyan::c::is_left_out(CALLER);
  if (!is_foreign && fails(FaultKind::call, "pthread_create", CALLER)) return EAGAIN;
  auto* const start = static_cast<Start*>(__libc_malloc(sizeof(Start)));
  *start = {run, argument, is_foreign};
  return banyan::c::next<decltype(pthread_create)>(kept, "pthread_create")(thread, attributes, run_thread, start);
}

EXPORTED int pthread_setname_np(pthread_t which, const char* name) {
  static std::atomic<void*> kept;
  if (pthread_equal(which, pthread_self())) {
    if (strcmp(name, "banyan-agent") == 0) banyan::c::thread = FaultThread::agent;
    if (strcmp(name, "banyan-progress") == 0) banyan::c::thread = FaultThread::progress;
  }
  return banyan::c::next<decltype(pthread_setname_np)>(kept, "pthread_setname_np")(which, name);
}

// ---- System calls ----

// NAME(result, failure, errno, once only, name, (parameters), (arguments))
#define FAILING(result, failure, error, once, name, parameters, arguments) \
  EXPORTED result name parameters {                                        \
    static std::atomic<void*> kept;                                        \
    if (fails(FaultKind::call, #name, CALLER, once)) {                     \
      errno = error;                                                       \
      return failure;                                                      \
    }                                                                      \
    return banyan::c::next<result parameters>(kept, #name) arguments;      \
  }

FAILING(int, -1, EMFILE, false, socket, (int domain, int type, int protocol), (domain, type, protocol))
FAILING(int, -1, EMFILE, false, socketpair, (int domain, int type, int protocol, int ends[2]),
        (domain, type, protocol, ends))
FAILING(int, -1, EADDRNOTAVAIL, false, connect, (int fd, const sockaddr* address, socklen_t size), (fd, address, size))
FAILING(int, -1, EMFILE, false, accept, (int fd, sockaddr* address, socklen_t* size), (fd, address, size))
FAILING(int, -1, EMFILE, false, accept4, (int fd, sockaddr* address, socklen_t* size, int flags),
        (fd, address, size, flags))
FAILING(int, -1, EADDRINUSE, false, bind, (int fd, const sockaddr* address, socklen_t size), (fd, address, size))
FAILING(int, -1, EADDRINUSE, false, listen, (int fd, int backlog), (fd, backlog))
FAILING(int, -1, ENOMEM, false, setsockopt, (int fd, int level, int name, const void* value, socklen_t size),
        (fd, level, name, value, size))
FAILING(int, -1, ENOBUFS, false, getsockopt, (int fd, int level, int name, void* value, socklen_t* size),
        (fd, level, name, value, size))
FAILING(int, -1, ENOBUFS, false, getsockname, (int fd, sockaddr* address, socklen_t* size), (fd, address, size))
FAILING(int, -1, ENOTCONN, false, getpeername, (int fd, sockaddr* address, socklen_t* size), (fd, address, size))
FAILING(ssize_t, -1, ENOMEM, false, send, (int fd, const void* data, size_t size, int flags), (fd, data, size, flags))
FAILING(ssize_t, -1, ENOMEM, false, sendto,
        (int fd, const void* data, size_t size, int flags, const sockaddr* address, socklen_t length),
        (fd, data, size, flags, address, length))
FAILING(ssize_t, -1, ENOMEM, false, sendmsg, (int fd, const msghdr* message, int flags), (fd, message, flags))
FAILING(ssize_t, -1, ENOMEM, false, recv, (int fd, void* data, size_t size, int flags), (fd, data, size, flags))
FAILING(ssize_t, -1, ENOMEM, false, recvfrom,
        (int fd, void* data, size_t size, int flags, sockaddr* address, socklen_t* length),
        (fd, data, size, flags, address, length))
FAILING(ssize_t, -1, ENOMEM, false, recvmsg, (int fd, msghdr* message, int flags), (fd, message, flags))
FAILING(ssize_t, -1, EIO, false, readv, (int fd, const iovec* parts, int count), (fd, parts, count))
FAILING(ssize_t, -1, ENOSPC, false, writev, (int fd, const iovec* parts, int count), (fd, parts, count))
FAILING(int, -1, EMFILE, false, epoll_create1, (int flags), (flags))
FAILING(int, -1, ENOMEM, false, epoll_ctl, (int epoll, int operation, int fd, epoll_event* event),
        (epoll, operation, fd, event))
FAILING(int, -1, EINTR, true, epoll_wait, (int epoll, epoll_event* events, int most, int timeout),
        (epoll, events, most, timeout))
FAILING(int, -1, EMFILE, false, eventfd, (unsigned count, int flags), (count, flags))
FAILING(int, -1, ENOMEM, false, poll, (pollfd * fds, nfds_t count, int timeout), (fds, count, timeout))
FAILING(int, -1, ENOMEM, false, ppoll, (pollfd * fds, nfds_t count, const timespec* timeout, const sigset_t* mask),
        (fds, count, timeout, mask))
FAILING(void*, MAP_FAILED, ENOMEM, false, mmap, (void* at, size_t size, int rights, int flags, int fd, off_t offset),
        (at, size, rights, flags, fd, offset))
FAILING(void*, MAP_FAILED, ENOMEM, false, mmap64,
        (void* at, size_t size, int rights, int flags, int fd, off64_t offset), (at, size, rights, flags, fd, offset))
FAILING(int, -1, ENOMEM, false, madvise, (void* at, size_t size, int advice), (at, size, advice))
FAILING(int, -1, EMFILE, false, memfd_create, (const char* name, unsigned flags), (name, flags))
FAILING(int, -1, ENOMEM, false, ftruncate, (int fd, off_t size), (fd, size))
FAILING(int, -1, ENOMEM, false, ftruncate64, (int fd, off64_t size), (fd, size))
FAILING(int, -1, ENOSPC, false, fallocate, (int fd, int mode, off_t offset, off_t size), (fd, mode, offset, size))
FAILING(int, -1, ENOSPC, false, fallocate64, (int fd, int mode, off64_t offset, off64_t size), (fd, mode, offset, size))
FAILING(int, -1, ENOLCK, false, flock, (int fd, int operation), (fd, operation))
FAILING(int, -1, EMFILE, false, dup3, (int fd, int other, int flags), (fd, other, flags))
FAILING(int, -1, EMFILE, false, pipe2, (int ends[2], int flags), (ends, flags))
FAILING(int, -1, ENOSPC, false, mkdir, (const char* path, mode_t mode), (path, mode))
FAILING(int, -1, ENOSPC, false, rename, (const char* from, const char* to), (from, to))
FAILING(int, -1, EIO, false, fsync, (int fd), (fd))
FAILING(int, -1, ENOMEM, false, fstat, (int fd, struct stat* status), (fd, status))
FAILING(int, -1, ENOMEM, false, fstat64, (int fd, struct stat64* status), (fd, status))
FAILING(int, -1, ENOMEM, false, stat, (const char* path, struct stat* status), (path, status))
FAILING(int, -1, ENOMEM, false, stat64, (const char* path, struct stat64* status), (path, status))
FAILING(int, -1, ENOMEM, false, lstat, (const char* path, struct stat* status), (path, status))
FAILING(int, -1, ENOMEM, false, lstat64, (const char* path, struct stat64* status), (path, status))
FAILING(FILE*, nullptr, EMFILE, false, fopen, (const char* path, const char* mode), (path, mode))
FAILING(FILE*, nullptr, EMFILE, false, fopen64, (const char* path, const char* mode), (path, mode))
FAILING(DIR*, nullptr, EMFILE, false, opendir, (const char* path), (path))
FAILING(int, -1, EMFILE, false, getifaddrs, (ifaddrs * *list), (list))
FAILING(int, EAI_MEMORY, ENOMEM, false, getaddrinfo,
        (const char* name, const char* service, const addrinfo* hints, addrinfo** found), (name, service, hints, found))
FAILING(ssize_t, -1, EPERM, false, process_vm_readv,
        (pid_t process, const iovec* own, unsigned long owns, const iovec* theirs, unsigned long others,
         unsigned long flags),
        (process, own, owns, theirs, others, flags))
FAILING(ssize_t, -1, EPERM, false, process_vm_writev,
        (pid_t process, const iovec* own, unsigned long owns, const iovec* theirs, unsigned long others,
         unsigned long flags),
        (process, own, owns, theirs, others, flags))

// No kernel refuses an event again and again.
static bool is_event(int fd) {
  char path[40], target[40] = {};
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return readlink(path, target, sizeof target - 1) > 0 && strcmp(target, "anon_inode:[eventfd]") == 0;
}

EXPORTED ssize_t read(int fd, void* data, size_t size) {
  static std::atomic<void*> kept;
  if (fails(FaultKind::call, "read", CALLER, size == sizeof(uint64_t) && is_event(fd))) {
    errno = EIO;
    return -1;
  }
  return banyan::c::next<ssize_t(int, void*, size_t)>(kept, "read")(fd, data, size);
}

EXPORTED ssize_t write(int fd, const void* data, size_t size) {
  static std::atomic<void*> kept;
  if (fails(FaultKind::call, "write", CALLER, size == sizeof(uint64_t) && is_event(fd))) {
    errno = ENOSPC;
    return -1;
  }
  return banyan::c::next<ssize_t(int, const void*, size_t)>(kept, "write")(fd, data, size);
}

#define FAILING_OPEN(name, parameters, arguments)                                        \
  EXPORTED int name parameters {                                                         \
    static std::atomic<void*> kept;                                                      \
    if (fails(FaultKind::call, #name, CALLER)) {                                         \
      errno = EMFILE;                                                                    \
      return -1;                                                                         \
    }                                                                                    \
    va_list rest;                                                                        \
    va_start(rest, flags);                                                               \
    const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(rest, mode_t) : 0; \
    va_end(rest);                                                                        \
    return banyan::c::next<int parameters>(kept, #name) arguments;                       \
  }

FAILING_OPEN(open, (const char* path, int flags, ...), (path, flags, mode))
FAILING_OPEN(open64, (const char* path, int flags, ...), (path, flags, mode))
FAILING_OPEN(openat, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))
FAILING_OPEN(openat64, (int folder, const char* path, int flags, ...), (folder, path, flags, mode))

EXPORTED long syscall(long number, ...) {
  static std::atomic<void*> kept;
  va_list rest;
  va_start(rest, number);
  long arguments[6];
  for (long& argument : arguments) argument = va_arg(rest, long);
  va_end(rest);
  int error = 0;
  switch (number) {
    case SYS_pidfd_open:
      error = EMFILE;
      break;
    case SYS_membarrier:
      error = EPERM;
      break;
    case SYS_futex:
      if ((arguments[1] & FUTEX_CMD_MASK) == FUTEX_WAIT) error = EINTR;
      break;
    default:
      break;
  }
  if (error != 0 && fails(FaultKind::call, "syscall", CALLER, error == EINTR)) {
    errno = error;
    return -1;
  }
  return banyan::c::next<long(long, ...)>(kept, "syscall")(number, arguments[0], arguments[1], arguments[2],
                                                           arguments[3], arguments[4], arguments[5]);
}
