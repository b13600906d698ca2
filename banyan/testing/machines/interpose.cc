// Functions of libc that a program of this module has in place of the real ones. In threads of a simulated process they
// ask the Kernel; everywhere else they are the real ones.
#include <arpa/inet.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <linux/futex.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "banyan/testing/machines/kernel.h"
#include "banyan/testing/machines/objects.h"
#include "banyan/testing/machines/real_calls.h"
#include "banyan/testing/machines/tcp_socket.h"

namespace banyan::testing::machines {
namespace {

template <typename Function>
void look_up(Function& function, const char* name) {
  function = reinterpret_cast<Function>(dlsym(RTLD_NEXT, name));
  if (function == nullptr) abort();
}

RealCalls look_up_all() {
  RealCalls real{};
#define LOOK_UP(name) look_up(real.name, #name)
  LOOK_UP(pthread_create);
  LOOK_UP(pthread_join);
  LOOK_UP(pthread_detach);
  LOOK_UP(pthread_once);
  LOOK_UP(pthread_mutex_lock);
  LOOK_UP(pthread_mutex_trylock);
  LOOK_UP(pthread_mutex_unlock);
  LOOK_UP(pthread_cond_wait);
  LOOK_UP(pthread_cond_timedwait);
  LOOK_UP(pthread_cond_clockwait);
  LOOK_UP(pthread_cond_signal);
  LOOK_UP(pthread_cond_broadcast);
  LOOK_UP(pthread_rwlock_rdlock);
  LOOK_UP(pthread_rwlock_wrlock);
  LOOK_UP(syscall);
  LOOK_UP(clock_gettime);
  LOOK_UP(nanosleep);
  LOOK_UP(clock_nanosleep);
  LOOK_UP(sched_yield);
  LOOK_UP(getpid);
  LOOK_UP(kill);
  LOOK_UP(gethostname);
  LOOK_UP(getifaddrs);
  LOOK_UP(freeifaddrs);
  LOOK_UP(getaddrinfo);
  LOOK_UP(freeaddrinfo);
  LOOK_UP(socket);
  LOOK_UP(bind);
  LOOK_UP(listen);
  LOOK_UP(accept4);
  LOOK_UP(connect);
  LOOK_UP(shutdown);
  LOOK_UP(getsockname);
  LOOK_UP(getpeername);
  LOOK_UP(getsockopt);
  LOOK_UP(setsockopt);
  LOOK_UP(send);
  LOOK_UP(sendmsg);
  LOOK_UP(recv);
  LOOK_UP(recvmsg);
  LOOK_UP(read);
  LOOK_UP(write);
  LOOK_UP(close);
  LOOK_UP(fcntl);
  LOOK_UP(poll);
  LOOK_UP(ppoll);
  LOOK_UP(epoll_create1);
  LOOK_UP(epoll_ctl);
  LOOK_UP(epoll_wait);
  LOOK_UP(eventfd);
  LOOK_UP(eventfd_read);
  LOOK_UP(eventfd_write);
  LOOK_UP(open);
  LOOK_UP(fopen);
  LOOK_UP(mmap);
  LOOK_UP(munmap);
  LOOK_UP(process_vm_readv);
#undef LOOK_UP
  return real;
}

constexpr Nanoseconds kSecond = 1'000'000'000;
constexpr Nanoseconds kEpoch = 1'700'000'000 * kSecond;  // of the calendar, when a world begins
constexpr Nanoseconds kUptime = 3600 * kSecond;          // of the steady clock, when a world begins
constexpr Nanoseconds kCall = 400, kLook = 60;           // what a call costs, and reading a clock

// Lets time pass for a call, unless the thread is a real one: then it should go to the real function.
bool enters(Nanoseconds cost = kCall) {
  if (world == nullptr || Scheduler::current() == nullptr) return false;
  const int error = errno;
  world->scheduler().spend(cost);
  errno = error;
  return true;
}
bool is_simulated_here() { return world != nullptr && Scheduler::current() != nullptr; }
bool enters(int fd) { return Kernel::is_simulated(fd) && enters(); }

Nanoseconds nanoseconds(const timespec& time) { return time.tv_sec * kSecond + time.tv_nsec; }
Nanoseconds end_after(const timespec* time) {
  return time == nullptr ? kNever : world->scheduler().now() + nanoseconds(*time);
}
Nanoseconds end_after_ms(int time) { return time < 0 ? kNever : world->scheduler().now() + time * (kSecond / 1000); }
// Of a moment on one of the clocks of users.
Nanoseconds end_at(clockid_t clock, const timespec& time) {
  return nanoseconds(time) - (clock == CLOCK_REALTIME ? kEpoch : kUptime);
}

Address address_of(const sockaddr* address) {
  sockaddr_in v4;
  std::memcpy(&v4, address, sizeof v4);
  return {.ip = ntohl(v4.sin_addr.s_addr), .port = ntohs(v4.sin_port)};
}
void put(const Address& from, sockaddr* into, socklen_t* size) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(from.ip);
  v4.sin_port = htons(from.port);
  std::memcpy(into, &v4, std::min<size_t>(*size, sizeof v4));
  *size = sizeof v4;
}

std::shared_ptr<TcpSocket> tcp(int fd) { return std::dynamic_pointer_cast<TcpSocket>(world->find(fd)); }

// Does `move` again while there is nothing to do, if the call is to wait for that.
template <typename Move>
ssize_t moved(int fd, int flags, uint32_t events, Move move) {
  const std::shared_ptr<Object> object = world->find(fd);
  if (object == nullptr) return fail(EBADF);
  for (;;) {
    const ssize_t count = move(*object);
    const bool waits = !object->is_nonblocking && (flags & MSG_DONTWAIT) == 0;
    if (count >= 0 || errno != EAGAIN || !waits) return count;
    world->scheduler().wait("a descriptor",
                            [object, events] { return (object->events() & (events | POLLERR | POLLHUP)) != 0; });
  }
}

int poll_until(pollfd* polled, nfds_t count, Nanoseconds end) {
  const auto look = [polled, count] {
    int ready = 0;
    for (nfds_t i = 0; i < count; ++i) {
      pollfd& each = polled[i];
      each.revents = 0;
      if (each.fd < 0) continue;
      const std::shared_ptr<Object> object = world->find(each.fd);
      const uint32_t events = object == nullptr ? POLLNVAL : object->events();
      each.revents = static_cast<short>(events & (static_cast<uint32_t>(each.events) | POLLERR | POLLHUP | POLLNVAL));
      ready += each.revents != 0 ? 1 : 0;
    }
    return ready;
  };
  world->scheduler().wait(
      "poll", [&look] { return look() > 0; }, end);
  return look();
}

// Files of /proc that are another process's, or the host's, in place of what Linux would tell.
struct Redirected {
  bool is_missing = false;
  std::string path;
};
Redirected redirect(const char* path) {
  constexpr std::string_view kProc = "/proc/";
  const std::string_view text = path;
  if (!text.starts_with(kProc)) return {.path = path};
  int32_t pid = 0;
  const char* const begin = path + kProc.size();
  const auto [end, error] = std::from_chars(begin, path + text.size(), pid);
  if (error != std::errc() || pid < kFirstPid) return {.path = path};
  const Process* const process = world->process_of(pid);
  const bool is_here = process != nullptr && !process->is_over && process->host == world->own().host;
  return {.is_missing = !is_here, .path = "/proc/self" + std::string(end)};
}

// The boot of a host names it.
int open_boot_id() {
  const std::string id = "simulated-boot-of-host-" + std::to_string(world->own().host) + "\n";
  const int fd = memfd_create("boot_id", MFD_CLOEXEC);
  if (real_calls().write(fd, id.data(), id.size()) < 0) abort();
  lseek(fd, 0, SEEK_SET);
  return fd;
}
bool is_boot_id(const char* path) { return std::string_view(path) == "/proc/sys/kernel/random/boot_id"; }

FILE* open_stream(const char* path, const char* mode) {
  if (is_boot_id(path)) return fdopen(open_boot_id(), mode);
  const Redirected redirected = redirect(path);
  if (!redirected.is_missing) return real_calls().fopen(redirected.path.c_str(), mode);
  errno = ENOENT;
  return nullptr;
}
int open_file(const char* path, int flags, mode_t mode) {
  if (is_boot_id(path)) return open_boot_id();
  const Redirected redirected = redirect(path);
  return redirected.is_missing ? fail(ENOENT) : real_calls().open(redirected.path.c_str(), flags, mode);
}

// ---- Locks ----

// One that a process held when it was killed is free: each process has its own.
bool is_free(const void* lock) {
  const auto found = world->held.find(lock);
  return found == world->held.end() || found->second->process->is_over;
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
    world->scheduler().wait("a lock", [mutex] { return is_free(mutex); });
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

const RealCalls& real_calls() {
  static const RealCalls real = look_up_all();
  return real;
}

}  // namespace banyan::testing::machines

using namespace banyan::testing::machines;  // NOLINT: these are its functions

extern "C" {

// ---- Time ----

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  if (!enters(kLook)) return real_calls().clock_gettime(clock, time);
  const bool is_calendar = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  const Nanoseconds now = world->scheduler().now() + (is_calendar ? kEpoch : kUptime);
  *time = {.tv_sec = now / kSecond, .tv_nsec = now % kSecond};
  return 0;
}

int nanosleep(const timespec* time, timespec* rest) {
  if (!enters()) return real_calls().nanosleep(time, rest);
  world->scheduler().wait(
      "a moment", [] { return false; }, end_after(time));
  return 0;
}

int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* rest) {
  if (!enters()) return real_calls().clock_nanosleep(clock, flags, time, rest);
  const Nanoseconds end = (flags & TIMER_ABSTIME) != 0 ? end_at(clock, *time) : end_after(time);
  world->scheduler().wait(
      "a moment", [] { return false; }, end);
  return 0;
}

int sched_yield() noexcept {
  if (!is_simulated_here()) return real_calls().sched_yield();
  world->scheduler().spend(1000);
  world->scheduler().yield();
  return 0;
}

// ---- Threads and locks ----

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*), void* argument) {
  if (!enters()) return real_calls().pthread_create(thread, attributes, body, argument);
  *thread = world->scheduler().start(world->own(), [body, argument] { body(argument); }).handle;
  return 0;
}

int pthread_join(pthread_t thread, void** result) {
  if (!enters()) return real_calls().pthread_join(thread, result);
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
  world->scheduler().wait("a first call", [once] { return !world->running_once.contains(once); });
  world->running_once.insert(once);
  const int rc = real_calls().pthread_once(once, body);
  world->running_once.erase(once);
  return rc;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) noexcept {
  if (!enters(kLook)) return real_calls().pthread_mutex_lock(mutex);
  return lock(mutex);
}

int pthread_mutex_trylock(pthread_mutex_t* mutex) noexcept {
  const int rc = real_calls().pthread_mutex_trylock(mutex);
  if (rc == 0 && is_simulated_here()) world->held[mutex] = Scheduler::current();
  return rc;
}

int pthread_mutex_unlock(pthread_mutex_t* mutex) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_mutex_unlock(mutex);
  return unlock(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  if (!enters()) return real_calls().pthread_cond_wait(condition, mutex);
  return wait_for_signal(condition, mutex, kNever);
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex, const timespec* end) {
  if (!enters()) return real_calls().pthread_cond_timedwait(condition, mutex, end);
  return wait_for_signal(condition, mutex, end_at(CLOCK_REALTIME, *end));
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock, const timespec* end) {
  if (!enters()) return real_calls().pthread_cond_clockwait(condition, mutex, clock, end);
  return wait_for_signal(condition, mutex, end_at(clock, *end));
}

int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  if (!enters()) return real_calls().pthread_cond_signal(condition);
  signal_waiters(condition, 1);
  return 0;
}

int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  if (!enters()) return real_calls().pthread_cond_broadcast(condition);
  signal_waiters(condition, SIZE_MAX);
  return 0;
}

// Whoever holds one is soon done: nothing of a world is waited for under it.
int pthread_rwlock_rdlock(pthread_rwlock_t* lock) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_rwlock_rdlock(lock);
  int rc;
  while ((rc = pthread_rwlock_tryrdlock(lock)) == EBUSY) sched_yield();
  return rc;
}

int pthread_rwlock_wrlock(pthread_rwlock_t* lock) noexcept {
  if (!is_simulated_here()) return real_calls().pthread_rwlock_wrlock(lock);
  int rc;
  while ((rc = pthread_rwlock_trywrlock(lock)) == EBUSY) sched_yield();
  return rc;
}

long syscall(long number, ...) noexcept {
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

// ---- Processes and memory ----

pid_t getpid() noexcept { return is_simulated_here() ? world->own().pid : real_calls().getpid(); }

int kill(pid_t pid, int signal) noexcept {
  if (!enters()) return real_calls().kill(pid, signal);
  Process* const process = world->process_of(pid);
  if (process == nullptr || process->is_over || process->host != world->own().host) return fail(ESRCH);
  if (signal == SIGKILL) world->end(*process);
  return 0;
}

ssize_t process_vm_readv(pid_t pid, const iovec* local, unsigned long locals, const iovec* remote,
                         unsigned long remotes, unsigned long flags) noexcept {
  if (!enters()) return real_calls().process_vm_readv(pid, local, locals, remote, remotes, flags);
  const Process* const process = world->process_of(pid);
  if (process == nullptr || process->is_over || process->host != world->own().host) return fail(ESRCH);
  return real_calls().process_vm_readv(real_calls().getpid(), local, locals, remote, remotes, flags);
}

void* mmap(void* at, size_t size, int protection, int flags, int fd, off_t offset) noexcept {
  void* const mapped = real_calls().mmap(at, size, protection, flags, fd, offset);
  if (mapped != MAP_FAILED && (flags & MAP_SHARED) != 0 && fd >= 0 && is_simulated_here()) {
    world->note_mapping(mapped, size, fd, offset);
  }
  return mapped;
}

int munmap(void* at, size_t size) noexcept {
  if (is_simulated_here()) world->forget_mapping(at);
  return real_calls().munmap(at, size);
}

// ---- Names of hosts ----

int gethostname(char* name, size_t size) noexcept {
  if (!enters()) return real_calls().gethostname(name, size);
  std::snprintf(name, size, "%s", world->host(world->own().host).name.c_str());
  return 0;
}

int getifaddrs(ifaddrs** first) noexcept {
  if (!enters()) return real_calls().getifaddrs(first);
  static char name[] = "eth";
  *first = nullptr;
  const std::vector<uint32_t>& own = world->host(world->own().host).addresses;
  for (auto at = own.rbegin(); at != own.rend(); ++at) {
    auto* const entry = static_cast<ifaddrs*>(std::calloc(1, sizeof(ifaddrs)));
    auto* const address = static_cast<sockaddr*>(std::calloc(1, sizeof(sockaddr_in)));
    socklen_t size = sizeof(sockaddr_in);
    put({.ip = *at, .port = 0}, address, &size);
    *entry = {};
    entry->ifa_next = *first;
    entry->ifa_name = name;
    entry->ifa_flags = IFF_UP;
    entry->ifa_addr = address;
    *first = entry;
  }
  return 0;
}

void freeifaddrs(ifaddrs* first) noexcept {
  if (!is_simulated_here()) return real_calls().freeifaddrs(first);
  while (first != nullptr) {
    ifaddrs* const next = first->ifa_next;
    std::free(first->ifa_addr);
    std::free(first);
    first = next;
  }
}

int getaddrinfo(const char* name, const char* service, const addrinfo* hints, addrinfo** found) {
  if (!enters()) return real_calls().getaddrinfo(name, service, hints, found);
  in_addr numeric{};
  uint32_t ip = 0;
  if (inet_pton(AF_INET, name, &numeric) == 1) {
    ip = ntohl(numeric.s_addr);
  } else {
    for (uint32_t host = 0; host < world->host_count(); ++host) {
      if (world->host(host).name == name) ip = world->host(host).addresses.front();
    }
  }
  if (ip == 0) return EAI_NONAME;
  auto* const entry = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo)));
  auto* const address = static_cast<sockaddr*>(std::calloc(1, sizeof(sockaddr_in)));
  entry->ai_family = AF_INET;
  entry->ai_socktype = SOCK_STREAM;
  entry->ai_addrlen = sizeof(sockaddr_in);
  entry->ai_addr = address;
  put({.ip = ip, .port = 0}, address, &entry->ai_addrlen);
  *found = entry;
  return 0;
}

void freeaddrinfo(addrinfo* found) noexcept {
  if (!is_simulated_here()) return real_calls().freeaddrinfo(found);
  std::free(found->ai_addr);
  std::free(found);
}

// ---- Sockets ----

int socket(int family, int type, int protocol) noexcept {
  if (!enters()) return real_calls().socket(family, type, protocol);
  if (family != AF_INET) return fail(EAFNOSUPPORT);
  const bool is_nonblocking = (type & SOCK_NONBLOCK) != 0;
  if ((type & 0xf) == SOCK_DGRAM) return world->add(std::make_shared<DatagramSocket>(), is_nonblocking);
  return world->add(std::make_shared<TcpSocket>(*world), is_nonblocking);
}

int bind(int fd, const sockaddr* address, socklen_t size) noexcept {
  if (!enters(fd)) return real_calls().bind(fd, address, size);
  const auto socket = tcp(fd);
  return socket == nullptr ? fail(ENOTSOCK) : socket->bind(address_of(address));
}

int listen(int fd, int backlog) noexcept {
  if (!enters(fd)) return real_calls().listen(fd, backlog);
  const auto socket = tcp(fd);
  return socket == nullptr ? fail(ENOTSOCK) : socket->listen();
}

int accept4(int fd, sockaddr* address, socklen_t* size, int flags) {
  if (!enters(fd)) return real_calls().accept4(fd, address, size, flags);
  const auto listener = tcp(fd);
  if (listener == nullptr) return fail(ENOTSOCK);
  std::shared_ptr<TcpSocket> caller;
  while ((caller = listener->accept()) == nullptr) {
    if (listener->is_nonblocking) return fail(EAGAIN);
    world->scheduler().wait("a caller", [listener] { return listener->events() != 0; });
  }
  if (address != nullptr) put(caller->remote(), address, size);
  return world->add(caller, (flags & SOCK_NONBLOCK) != 0);
}

int connect(int fd, const sockaddr* address, socklen_t size) {
  if (!enters(fd)) return real_calls().connect(fd, address, size);
  const std::shared_ptr<Object> object = world->find(fd);
  if (const auto datagrams = std::dynamic_pointer_cast<DatagramSocket>(object)) {
    datagrams->local = {.ip = world->address_towards(world->own().host, address_of(address).ip), .port = 40'000};
    return 0;
  }
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  const int rc = socket->connect(address_of(address));
  if (rc == 0 || errno != EINPROGRESS || socket->is_nonblocking) return rc;
  world->scheduler().wait("a connection", [socket] { return !socket->is_connecting(); });
  const int error = socket->take_error();
  return error == 0 ? 0 : fail(error);
}

int shutdown(int fd, int how) noexcept {
  if (!enters(fd)) return real_calls().shutdown(fd, how);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  return how == SHUT_RD ? 0 : socket->shut_down_sending();
}

int getsockname(int fd, sockaddr* address, socklen_t* size) noexcept {
  if (!enters(fd)) return real_calls().getsockname(fd, address, size);
  const auto datagrams = std::dynamic_pointer_cast<DatagramSocket>(world->find(fd));
  const auto socket = tcp(fd);
  if (datagrams == nullptr && socket == nullptr) return fail(ENOTSOCK);
  put(datagrams != nullptr ? datagrams->local : socket->local(), address, size);
  return 0;
}

int getpeername(int fd, sockaddr* address, socklen_t* size) noexcept {
  if (!enters(fd)) return real_calls().getpeername(fd, address, size);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  if (!socket->is_connected()) return fail(ENOTCONN);
  put(socket->remote(), address, size);
  return 0;
}

int getsockopt(int fd, int level, int name, void* value, socklen_t* size) noexcept {
  if (!enters(fd)) return real_calls().getsockopt(fd, level, name, value, size);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  if (level == SOL_SOCKET && name == SO_ERROR) {
    const int error = socket->take_error();
    std::memcpy(value, &error, sizeof error);
    return 0;
  }
  if (level != IPPROTO_TCP || name != TCP_INFO) return fail(ENOPROTOOPT);
  const TcpSocket::Info told = socket->info();
  tcp_info info{};
  info.tcpi_unacked = static_cast<uint32_t>((told.unacknowledged + 1447) / 1448);
  info.tcpi_retransmits = static_cast<uint8_t>(std::min<uint64_t>(told.retransmits, 255));
  info.tcpi_last_ack_recv = static_cast<uint32_t>(told.last_heard.count());
  std::memcpy(value, &info, std::min<size_t>(*size, sizeof info));
  return 0;
}

int setsockopt(int fd, int level, int name, const void* value, socklen_t size) noexcept {
  if (!enters(fd)) return real_calls().setsockopt(fd, level, name, value, size);
  const auto socket = tcp(fd);
  if (socket == nullptr) return fail(ENOTSOCK);
  int number = 0;
  std::memcpy(&number, value, std::min<size_t>(size, sizeof number));
  if (level == IPPROTO_TCP && name == TCP_USER_TIMEOUT) socket->set_user_timeout(std::chrono::milliseconds(number));
  if (level == IPPROTO_TCP && name == TCP_KEEPIDLE) socket->keep_alive_for(std::chrono::seconds(3 * number));
  return level == SOL_SOCKET && name == SO_ZEROCOPY ? fail(ENOPROTOOPT) : 0;
}

ssize_t send(int fd, const void* from, size_t size, int flags) {
  if (!enters(fd)) return real_calls().send(fd, from, size, flags);
  return moved(fd, flags, POLLOUT, [&](Object& object) { return object.write(from, size); });
}

ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  if (!enters(fd)) return real_calls().sendmsg(fd, message, flags);
  std::string bytes;
  for (size_t i = 0; i < message->msg_iovlen; ++i) {
    bytes.append(static_cast<const char*>(message->msg_iov[i].iov_base), message->msg_iov[i].iov_len);
  }
  return moved(fd, flags, POLLOUT, [&](Object& object) { return object.write(bytes.data(), bytes.size()); });
}

ssize_t recv(int fd, void* into, size_t size, int flags) {
  if (!enters(fd)) return real_calls().recv(fd, into, size, flags);
  return moved(fd, flags, POLLIN, [&](Object& object) { return object.read(into, size); });
}

ssize_t recvmsg(int fd, msghdr* message, int flags) {
  if (!enters(fd)) return real_calls().recvmsg(fd, message, flags);
  if ((flags & MSG_ERRQUEUE) != 0) return fail(EAGAIN);
  return moved(fd, flags, POLLIN,
               [&](Object& object) { return object.read(message->msg_iov[0].iov_base, message->msg_iov[0].iov_len); });
}

// ---- Descriptors ----

ssize_t read(int fd, void* into, size_t size) {
  if (!enters(fd)) return real_calls().read(fd, into, size);
  return moved(fd, 0, POLLIN, [&](Object& object) { return object.read(into, size); });
}

ssize_t write(int fd, const void* from, size_t size) {
  if (!enters(fd)) return real_calls().write(fd, from, size);
  return moved(fd, 0, POLLOUT, [&](Object& object) { return object.write(from, size); });
}

int close(int fd) {
  if (!enters(fd)) return real_calls().close(fd);
  return world->close(fd);
}

int fcntl(int fd, int command, ...) {
  va_list arguments;
  va_start(arguments, command);
  const long argument = va_arg(arguments, long);
  va_end(arguments);
  if (!enters(fd)) return real_calls().fcntl(fd, command, argument);
  const std::shared_ptr<Object> object = world->find(fd);
  if (object == nullptr) return fail(EBADF);
  if (command == F_GETFL) return O_RDWR | (object->is_nonblocking ? O_NONBLOCK : 0);
  if (command == F_SETFL) object->is_nonblocking = (argument & O_NONBLOCK) != 0;
  return command == F_GETFD ? FD_CLOEXEC : 0;
}

int poll(pollfd* polled, nfds_t count, int time) {
  if (!enters()) return real_calls().poll(polled, count, time);
  return poll_until(polled, count, end_after_ms(time));
}

int ppoll(pollfd* polled, nfds_t count, const timespec* time, const sigset_t* mask) {
  if (!enters()) return real_calls().ppoll(polled, count, time, mask);
  return poll_until(polled, count, end_after(time));
}

int epoll_create1(int flags) noexcept {
  if (!enters()) return real_calls().epoll_create1(flags);
  return world->add(std::make_shared<EventPoll>(*world), false);
}

int epoll_ctl(int poll, int operation, int fd, epoll_event* event) noexcept {
  if (!enters(poll)) return real_calls().epoll_ctl(poll, operation, fd, event);
  const auto found = std::dynamic_pointer_cast<EventPoll>(world->find(poll));
  return found == nullptr ? fail(EBADF) : found->control(operation, fd, event);
}

int epoll_wait(int poll, epoll_event* events, int most, int time) {
  if (!enters(poll)) return real_calls().epoll_wait(poll, events, most, time);
  const auto found = std::dynamic_pointer_cast<EventPoll>(world->find(poll));
  if (found == nullptr) return fail(EBADF);
  world->scheduler().wait(
      "epoll", [found] { return found->has_any(); }, end_after_ms(time));
  return found->take(events, most);
}

int eventfd(unsigned count, int flags) noexcept {
  if (!enters()) return real_calls().eventfd(count, flags);
  return world->add(std::make_shared<EventCounter>(count), (flags & EFD_NONBLOCK) != 0);
}

int eventfd_read(int fd, eventfd_t* value) {
  if (!Kernel::is_simulated(fd)) return real_calls().eventfd_read(fd, value);
  return read(fd, value, sizeof *value) == sizeof *value ? 0 : -1;
}

int eventfd_write(int fd, eventfd_t value) {
  if (!Kernel::is_simulated(fd)) return real_calls().eventfd_write(fd, value);
  return write(fd, &value, sizeof value) == sizeof value ? 0 : -1;
}

// ---- Files ----

int open(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>(va_arg(arguments, int));
  va_end(arguments);
  return enters() ? open_file(path, flags, mode) : real_calls().open(path, flags, mode);
}

int open64(const char* path, int flags, ...) {
  va_list arguments;
  va_start(arguments, flags);
  const auto mode = static_cast<mode_t>(va_arg(arguments, int));
  va_end(arguments);
  return enters() ? open_file(path, flags, mode) : real_calls().open(path, flags, mode);
}

FILE* fopen(const char* path, const char* mode) {
  return enters() ? open_stream(path, mode) : real_calls().fopen(path, mode);
}

FILE* fopen64(const char* path, const char* mode) {
  return enters() ? open_stream(path, mode) : real_calls().fopen(path, mode);
}

// ---- Chance ----

// Of libcrypto.
int RAND_bytes(unsigned char* into, int size) {
  if (!is_simulated_here()) {
    static const auto real = reinterpret_cast<int (*)(unsigned char*, int)>(dlsym(RTLD_NEXT, "RAND_bytes"));
    return real(into, size);
  }
  for (int i = 0; i < size; ++i) into[i] = static_cast<unsigned char>(world->scheduler().draw(256));
  return 1;
}

}  // extern "C"
