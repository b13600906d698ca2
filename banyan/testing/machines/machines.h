// Machines: hosts, their processes, and the network between them, all of them simulated, for code that believes it runs
// on Linux.
//
// Programs that link this module have functions of libc replaced (interpose.h): clocks, threads, locks, futexes,
// sockets, poll, epoll, eventfd, pidfd, /proc of processes. They do as always, except in threads of a Machines. There
// they know its hosts only, and its clock, and everything that could happen sooner or later happens in an order that a
// seed decides: which thread runs, how long bytes take, in which pieces they come. So the whole runtime runs in it as
// it was compiled, and a failing seed fails again.
//
// TCP is as its users see it: bytes come in order, in pieces cut anywhere; what does not get through is sent again,
// ever more rarely; acknowledgements, TCP_USER_TIMEOUT and keep-alive decide when a connection is lost; a process that
// ends closes its sockets, and resets those with unread bytes. A network may lose what goes one way, and not the other.
//
// The kernel does what is not simulated: memory, files, cross-memory attach. Processes are threads of one process, so
// they share its globals; a process that is killed never runs again, and frees nothing.
//
// One world for a process: run_world() forks one. Memory is not given back before its end.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/testing/machines/scheduler.h"

namespace banyan::testing::machines {

class Kernel;

struct MachinesOptions {
  uint64_t seed = 1;
  std::chrono::microseconds least_delay{5}, most_delay{2000};  // of bytes between hosts
  std::chrono::seconds ends_after{600};                        // of simulated time: then the world has hung
};

class Machines {
 public:
  using Options = MachinesOptions;
  explicit Machines(const Options& options);
  ~Machines();
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  // Hosts and processes are numbered from 0. Each address is of a network of its own ("10.3.0.1": network 10.3); two
  // hosts reach each other where both have an address of it. They are called "host0", "host1", ...
  uint32_t add_host(std::vector<std::string> addresses);
  uint32_t add_process(uint32_t host, std::function<void()> main);

  // Lets the processes run until all have ended. Nothing, or what kept them from it.
  std::string run();

  // Since the world began.
  std::chrono::nanoseconds now() const;
  uint64_t draw(uint64_t n) const;  // below n
  // What happens at such a moment makes no calls that wait.
  void after(std::chrono::nanoseconds delay, std::function<void()> event);

  // As by kill -9, by SIGSTOP and by SIGCONT. Processes share the locks of libcrypto here: while a thread of a process
  // is in that library, its death waits for the next call at which none is. So it does with kill_at_call().
  void kill(uint32_t process);
  void stop(uint32_t process);
  void go_on(uint32_t process);
  bool is_alive(uint32_t process) const;

  // Whether what host `from` sends to `to` arrives, in the network `network` ("10.3"), or in all of them ("").
  void set_way(uint32_t from, uint32_t to, const std::string& network, bool is_open);
  // Kills a process when it makes its nth system call. Calls for locks, clocks and threads count, too. calls() says how
  // many it has made.
  void kill_at_call(uint32_t process, uint64_t nth);
  uint64_t calls(uint32_t process) const;
  // The system call of a process that is the nth from now on fails, or the nth of its allocations. Calls that can fail
  // for want of memory or descriptors are counted.
  void fail_call(uint32_t process, uint64_t nth);
  void fail_allocation(uint32_t process, uint64_t nth);

  // Breaks all connections between two processes, as by an RST that comes out of nowhere.
  void reset(uint32_t a, uint32_t b);

  // Sockets that a process holds: none when it has cleaned up.
  size_t open_descriptors(uint32_t process) const;

 private:
  std::unique_ptr<Kernel> kernel_;
};

// While it lives, nothing that its thread allocates or calls is counted by fail_call() and fail_allocation().
class Unfailing {
 public:
  Unfailing() { ++depth_; }
  ~Unfailing() { --depth_; }
  Unfailing(const Unfailing&) = delete;
  Unfailing& operator=(const Unfailing&) = delete;
  static bool is_here() { return depth_ > 0; }

 private:
  static inline thread_local uint32_t depth_ = 0;
};

// Forks, has `body` make a world and run it, and gives what it returns: "" when all is well. Otherwise the text says
// what was wrong: what it returned, or that it was killed by a signal, or ended no more within `at_most` of real time.
std::string run_world(const std::function<std::string()>& body,
                      std::chrono::seconds at_most = std::chrono::seconds(60));

}  // namespace banyan::testing::machines
