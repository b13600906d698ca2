#include "banyan/testing/machines/real_calls.h"

#include <dlfcn.h>
#include <ifaddrs.h>
#include <netdb.h>
#include <poll.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/uio.h>

#include <cstdlib>

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
  LOOK_UP(ioctl);
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

}  // namespace

const RealCalls& real_calls() {
  static const RealCalls real = look_up_all();
  return real;
}

}  // namespace banyan::testing::machines
