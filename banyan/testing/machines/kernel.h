// Kernel: what interpose.h asks in place of Linux. See machines.h.
//
// Descriptors of simulated things are numbered from kFirstDescriptor, the lowest free number first. Functions give
// results as system calls do: -1 with errno, set by fail().
#pragma once

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "banyan/testing/machines/machines.h"
#include "banyan/testing/machines/scheduler.h"

namespace banyan::testing::machines {

constexpr int kFirstDescriptor = 1'000'000;
constexpr int32_t kFirstPid = 5'000'001;  // above what Linux gives

inline int fail(int error) {
  errno = error;
  return -1;
}

// Something that a descriptor stands for.
class Object {
 public:
  virtual ~Object() = default;
  // Of POLLIN, POLLOUT, POLLERR, POLLHUP, POLLRDHUP: those that hold now.
  virtual uint32_t events() const = 0;
  virtual ssize_t read(void*, size_t) { return fail(EINVAL); }
  virtual ssize_t write(const void*, size_t) { return fail(EINVAL); }
  // The last descriptor of it is gone.
  virtual void close() {}

  Process* owner = nullptr;
  bool is_nonblocking = false;
};

struct Host {
  std::string name;
  std::vector<uint32_t> addresses;  // IPv4, in host order
  uint16_t next_port = 32768;       // for callers
};

// An IPv4 address with a port, in host order.
struct Address {
  uint32_t ip = 0;
  uint16_t port = 0;
  auto operator<=>(const Address&) const = default;
};

class TcpSocket;

class Kernel {
 public:
  explicit Kernel(const MachinesOptions& options) : options_(options), scheduler_(options.seed) {}

  Scheduler& scheduler() { return scheduler_; }
  const MachinesOptions& options() const { return options_; }

  // ---- Processes ----
  Process& own() { return *Scheduler::current()->process; }
  Process& add_process(uint32_t host);
  Process& process(uint32_t number) { return *processes_.at(number); }
  Process* process_of(int32_t pid);
  size_t process_count() const { return processes_.size(); }
  // Closes what it has, and runs it no more.
  void end(Process& process);

  // ---- Descriptors ----
  static bool is_simulated(int fd) { return fd >= kFirstDescriptor; }
  int add(std::shared_ptr<Object> object, bool is_nonblocking);
  std::shared_ptr<Object> find(int fd) const;
  int close(int fd);
  size_t descriptors_of(const Process& process) const;

  // ---- Network ----
  uint32_t add_host(std::vector<uint32_t> addresses);
  Host& host(uint32_t number) { return hosts_.at(number); }
  size_t host_count() const { return hosts_.size(); }
  // None: nobody has it.
  const uint32_t* host_with(uint32_t ip) const;
  // The own address by which `host` reaches `ip`.
  uint32_t address_towards(uint32_t host, uint32_t ip) const;
  bool is_open(uint32_t from_ip, uint32_t to_ip) const;
  void set_way(uint32_t from, uint32_t to, uint32_t network, bool is_open);
  Nanoseconds draw_delay(uint32_t from_ip, uint32_t to_ip);
  std::map<Address, std::weak_ptr<TcpSocket>>& listeners(uint32_t host) { return listeners_[host]; }
  void note_connection(const std::shared_ptr<TcpSocket>& socket) { sockets_.push_back(socket); }
  void reset(const Process& a, const Process& b);

  // ---- Futexes ----
  // Who shares memory maps it at different addresses, so a word is named by its file and its place there.
  void note_mapping(void* begin, size_t size, int fd, int64_t offset);
  void forget_mapping(void* begin);
  int futex_wait(const uint32_t* word, uint32_t expected, Nanoseconds end);
  int futex_wake(const uint32_t* word, int most);

  // ---- Locks ----
  // Which thread has a lock, by its address.
  std::map<const void*, Scheduler::Thread*> held;
  struct CondWaiter {
    bool is_signalled = false;
  };
  std::map<const void*, std::vector<std::shared_ptr<CondWaiter>>> waiters;
  std::map<const void*, Scheduler::Thread*> first_calls;  // that run, by their pthread_once_t

 private:
  using WordName = std::pair<uint64_t, uint64_t>;
  struct Mapping {
    size_t size = 0;
    uint64_t file = 0, offset = 0;
  };
  struct Sleeper {
    bool is_woken = false;
  };
  WordName name_of(const uint32_t* word) const;

  const MachinesOptions options_;
  Scheduler scheduler_;
  std::vector<std::unique_ptr<Process>> processes_;
  std::map<int, std::shared_ptr<Object>> objects_;
  std::vector<Host> hosts_;
  std::map<uint32_t, uint32_t> host_of_address_;
  std::set<std::tuple<uint32_t, uint32_t, uint32_t>> closed_ways_;             // from, to, network; 0: all networks
  std::map<uint32_t, std::map<Address, std::weak_ptr<TcpSocket>>> listeners_;  // by host
  std::vector<std::weak_ptr<TcpSocket>> sockets_;
  std::map<uintptr_t, Mapping> mappings_;
  std::map<WordName, std::vector<std::shared_ptr<Sleeper>>> sleepers_;
};

// The one of this process; none: nothing is simulated yet.
extern Kernel* world;

}  // namespace banyan::testing::machines
