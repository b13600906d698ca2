#include "banyan/testing/machines/kernel.h"

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>

#include "banyan/base/check.h"
#include "banyan/testing/machines/tcp_socket.h"

namespace banyan::testing::machines {

Kernel* world = nullptr;

namespace {

constexpr uint32_t network_of(uint32_t ip) { return ip >> 16; }
constexpr bool is_loopback(uint32_t ip) { return ip >> 24 == 127; }

}  // namespace

// ---- Processes ----

Process& Kernel::add_process(uint32_t host) {
  processes_.push_back(
      std::make_unique<Process>(Process{.pid = kFirstPid + static_cast<int32_t>(processes_.size()), .host = host}));
  return *processes_.back();
}

Process* Kernel::process_of(int32_t pid) {
  const int64_t number = int64_t{pid} - kFirstPid;
  return number >= 0 && number < static_cast<int64_t>(processes_.size()) ? processes_[static_cast<size_t>(number)].get()
                                                                         : nullptr;
}

void Kernel::end(Process& process) {
  std::vector<int> open;
  for (const auto& [fd, object] : objects_) {
    if (object->owner == &process) open.push_back(fd);
  }
  for (const int fd : open) close(fd);
  scheduler_.end(process);
}

// ---- Descriptors ----

int Kernel::add(std::shared_ptr<Object> object, bool is_nonblocking) {
  object->owner = &own();
  object->is_nonblocking = is_nonblocking;
  int fd = kFirstDescriptor;
  for (auto at = objects_.begin(); at != objects_.end() && at->first == fd; ++at) ++fd;
  objects_.emplace(fd, std::move(object));
  return fd;
}

std::shared_ptr<Object> Kernel::find(int fd) const {
  const auto found = objects_.find(fd);
  return found == objects_.end() ? nullptr : found->second;
}

int Kernel::close(int fd) {
  const auto found = objects_.find(fd);
  if (found == objects_.end()) return fail(EBADF);
  const std::shared_ptr<Object> object = found->second;
  objects_.erase(found);
  object->close();
  return 0;
}

size_t Kernel::descriptors_of(const Process& process) const {
  return static_cast<size_t>(std::count_if(objects_.begin(), objects_.end(),
                                           [&](const auto& entry) { return entry.second->owner == &process; }));
}

// ---- Network ----

uint32_t Kernel::add_host(std::vector<uint32_t> addresses) {
  const auto number = static_cast<uint32_t>(hosts_.size());
  for (const uint32_t ip : addresses) {
    CHECK(host_of_address_.emplace(ip, number).second) << "address " << ip << " is of two hosts";
  }
  hosts_.push_back({.name = "host" + std::to_string(number), .addresses = std::move(addresses)});
  return number;
}

const uint32_t* Kernel::host_with(uint32_t ip) const {
  const auto found = host_of_address_.find(ip);
  return found == host_of_address_.end() ? nullptr : &found->second;
}

uint32_t Kernel::address_towards(uint32_t host, uint32_t ip) const {
  if (is_loopback(ip)) return ip;
  const std::vector<uint32_t>& own = hosts_[host].addresses;
  const auto same =
      std::find_if(own.begin(), own.end(), [&](uint32_t address) { return network_of(address) == network_of(ip); });
  return same == own.end() ? own.front() : *same;
}

bool Kernel::is_open(uint32_t from_ip, uint32_t to_ip) const {
  const uint32_t* const from = host_with(from_ip);
  const uint32_t* const to = host_with(to_ip);
  if (is_loopback(to_ip) || (from != nullptr && to != nullptr && *from == *to)) return true;
  if (from == nullptr || to == nullptr) return false;
  return !closed_ways_.contains({*from, *to, 0}) && !closed_ways_.contains({*from, *to, network_of(to_ip)});
}

void Kernel::set_way(uint32_t from, uint32_t to, uint32_t network, bool is_open) {
  if (is_open) {
    closed_ways_.erase({from, to, network});
  } else {
    closed_ways_.insert({from, to, network});
  }
}

Nanoseconds Kernel::draw_delay(uint32_t from_ip, uint32_t to_ip) {
  const uint32_t* const from = host_with(from_ip);
  const uint32_t* const to = host_with(to_ip);
  const bool is_near = is_loopback(to_ip) || (from != nullptr && to != nullptr && *from == *to);
  const Nanoseconds least = std::chrono::nanoseconds(options_.least_delay).count();
  return scheduler_.draw_delay(least, is_near ? 10 * least : std::chrono::nanoseconds(options_.most_delay).count());
}

void Kernel::reset(const Process& a, const Process& b) {
  std::erase_if(sockets_, [](const std::weak_ptr<TcpSocket>& socket) { return socket.expired(); });
  for (const std::weak_ptr<TcpSocket>& each : sockets_) {
    const std::shared_ptr<TcpSocket> socket = each.lock();
    const std::shared_ptr<TcpSocket> peer = socket == nullptr ? nullptr : socket->peer();
    if (peer == nullptr || socket->owner != &a || peer->owner != &b) continue;
    socket->break_off(ECONNRESET);
    peer->break_off(ECONNRESET);
  }
}

// ---- Futexes ----

void Kernel::note_mapping(void* begin, size_t size, int fd, int64_t offset) {
  struct stat status {};
  if (fstat(fd, &status) != 0) return;
  mappings_[reinterpret_cast<uintptr_t>(begin)] = {
      .size = size, .file = status.st_ino, .offset = static_cast<uint64_t>(offset)};
}

void Kernel::forget_mapping(void* begin) { mappings_.erase(reinterpret_cast<uintptr_t>(begin)); }

Kernel::WordName Kernel::name_of(const uint32_t* word) const {
  const auto at = reinterpret_cast<uintptr_t>(word);
  auto after = mappings_.upper_bound(at);
  if (after != mappings_.begin()) {
    const auto& [begin, mapping] = *--after;
    if (at < begin + mapping.size) return {mapping.file, mapping.offset + (at - begin)};
  }
  return {0, at};
}

int Kernel::futex_wait(const uint32_t* word, uint32_t expected, Nanoseconds end) {
  if (__atomic_load_n(word, __ATOMIC_SEQ_CST) != expected) return fail(EAGAIN);
  const auto sleeper = std::make_shared<Sleeper>();
  const WordName name = name_of(word);
  sleepers_[name].push_back(sleeper);
  const bool is_woken = scheduler_.wait(
      "a futex", [sleeper] { return sleeper->is_woken; }, end);
  if (is_woken) return 0;
  std::erase(sleepers_[name], sleeper);
  return fail(ETIMEDOUT);
}

int Kernel::futex_wake(const uint32_t* word, int most) {
  const auto found = sleepers_.find(name_of(word));
  if (found == sleepers_.end()) return 0;
  std::vector<std::shared_ptr<Sleeper>>& asleep = found->second;
  int woken = 0;
  while (woken < most && !asleep.empty()) {
    const auto chosen = asleep.begin() + static_cast<int64_t>(scheduler_.draw(asleep.size()));
    (*chosen)->is_woken = true;
    asleep.erase(chosen);
    ++woken;
  }
  if (asleep.empty()) sleepers_.erase(found);
  return woken;
}

}  // namespace banyan::testing::machines
