// The functions of libc behind those that interpose.h puts in their place.
#pragma once

#include <poll.h>
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <cstdio>
#include <ctime>

struct ifaddrs;
struct addrinfo;
struct iovec;

namespace banyan::testing::machines {

struct RealCalls {
  decltype(&::pthread_create) pthread_create;
  decltype(&::pthread_join) pthread_join;
  decltype(&::pthread_detach) pthread_detach;
  decltype(&::pthread_once) pthread_once;
  decltype(&::pthread_mutex_lock) pthread_mutex_lock;
  decltype(&::pthread_mutex_trylock) pthread_mutex_trylock;
  decltype(&::pthread_mutex_unlock) pthread_mutex_unlock;
  decltype(&::pthread_cond_wait) pthread_cond_wait;
  decltype(&::pthread_cond_timedwait) pthread_cond_timedwait;
  decltype(&::pthread_cond_clockwait) pthread_cond_clockwait;
  decltype(&::pthread_cond_signal) pthread_cond_signal;
  decltype(&::pthread_cond_broadcast) pthread_cond_broadcast;
  decltype(&::pthread_rwlock_rdlock) pthread_rwlock_rdlock;
  decltype(&::pthread_rwlock_wrlock) pthread_rwlock_wrlock;
  long (*syscall)(long, ...);
  decltype(&::clock_gettime) clock_gettime;
  decltype(&::nanosleep) nanosleep;
  decltype(&::clock_nanosleep) clock_nanosleep;
  int (*sched_yield)();
  pid_t (*getpid)();
  int (*kill)(pid_t, int);
  int (*gethostname)(char*, size_t);
  int (*getifaddrs)(ifaddrs**);
  void (*freeifaddrs)(ifaddrs*);
  int (*getaddrinfo)(const char*, const char*, const addrinfo*, addrinfo**);
  void (*freeaddrinfo)(addrinfo*);
  decltype(&::socket) socket;
  decltype(&::bind) bind;
  decltype(&::listen) listen;
  decltype(&::accept4) accept4;
  decltype(&::connect) connect;
  decltype(&::shutdown) shutdown;
  decltype(&::getsockname) getsockname;
  decltype(&::getpeername) getpeername;
  decltype(&::getsockopt) getsockopt;
  decltype(&::setsockopt) setsockopt;
  decltype(&::send) send;
  decltype(&::sendmsg) sendmsg;
  decltype(&::recv) recv;
  decltype(&::recvmsg) recvmsg;
  ssize_t (*read)(int, void*, size_t);
  ssize_t (*write)(int, const void*, size_t);
  int (*close)(int);
  int (*fcntl)(int, int, ...);
  int (*ioctl)(int, unsigned long, ...);
  int (*poll)(pollfd*, nfds_t, int);
  int (*ppoll)(pollfd*, nfds_t, const timespec*, const sigset_t*);
  int (*epoll_create1)(int);
  int (*epoll_ctl)(int, int, int, epoll_event*);
  int (*epoll_wait)(int, epoll_event*, int, int);
  int (*eventfd)(unsigned, int);
  int (*eventfd_read)(int, uint64_t*);
  int (*eventfd_write)(int, uint64_t);
  int (*open)(const char*, int, ...);
  FILE* (*fopen)(const char*, const char*);
  void* (*mmap)(void*, size_t, int, int, int, off_t);
  int (*munmap)(void*, size_t);
  ssize_t (*process_vm_readv)(pid_t, const iovec*, unsigned long, const iovec*, unsigned long, unsigned long);
};

const RealCalls& real_calls();

}  // namespace banyan::testing::machines
