#include "banyan/run/host/regions.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <mutex>
#include <new>

#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr size_t kPage = 4096;

// Never the same twice in this process, so that what a thread remembers of a pool cannot be taken for news of another
// pool at the same address.
uint64_t next_version() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

Error gone(pid_t owner, const std::string& name) {
  return Error(ErrorCode::peer_lost, name + " is dead: process " + std::to_string(owner) + " is gone");
}

// Attaches to memory of a process that may have ended meanwhile.
template <typename Attach>
auto attach(pid_t owner, const std::string& name, const Attach& body) {
  try {
    return body();
  } catch (const Error& error) {
    if (error.code() == ErrorCode::peer_lost) throw gone(owner, name);
    throw;
  }
}

}  // namespace

RegionPool::RegionPool() : version_(next_version()), directory_(make_directory()) {}

RegionPool::~RegionPool() = default;

SharedMemory RegionPool::make_directory() {
  SharedMemory memory = SharedMemory::with_pages(sizeof(Directory));
  auto* const directory = new (memory.data()) Directory;
  directory->self.store(reinterpret_cast<uintptr_t>(memory.data()), std::memory_order_release);
  return memory;
}

// Descriptors have the same numbers as in the parent, so its regions can be had from here, too.
void RegionPool::own_directory() {
  if (!fork_guard_.is_in_child()) return;
  directory_ = make_directory();
  fork_guard_ = ForkGuard();
  for (const auto& [begin, region] : regions_) enter(region);
}

void RegionPool::enter(const Region& region) {
  Entry& entry = directory().entries[region.id % kMaxRegions];
  entry.fd.store(region.memory.fd(), std::memory_order_release);
  entry.size.store(region.memory.size(), std::memory_order_release);
  entry.id.store(region.id, std::memory_order_relaxed);
}

int RegionPool::directory_fd() {
  const std::unique_lock lock(mutex_);
  own_directory();
  return directory_.fd();
}

std::byte* RegionPool::allocate(size_t bytes) {
  if (bytes > SIZE_MAX / 2) {
    throw Error(ErrorCode::io, "no machine has " + std::to_string(bytes) + " bytes of memory to share");
  }
  Region region{.memory = SharedMemory::with_pages((std::max<size_t>(bytes, 1) + kPage - 1) / kPage * kPage)};
  const std::unique_lock lock(mutex_);
  own_directory();
  if (regions_.size() == kMaxRegions) {
    throw Error(ErrorCode::unsupported, "at most " + std::to_string(kMaxRegions) +
                                            " pieces of shared memory at a time; allocate fewer and larger ones");
  }
  while (directory().entries[next_ % kMaxRegions].id.load(std::memory_order_relaxed) != 0) ++next_;
  region.id = next_++;
  enter(region);
  std::byte* const data = region.memory.data();
  regions_.emplace(data, std::move(region));
  version_.store(next_version(), std::memory_order_relaxed);
  return data;
}

std::optional<RegionPool::File> RegionPool::file_of(RegionId region) const {
  const std::shared_lock lock(mutex_);
  for (const auto& [begin, candidate] : regions_) {
    if (candidate.id != region) continue;
    FileDescriptor fd(fcntl(candidate.memory.fd(), F_DUPFD_CLOEXEC, 0));
    if (!fd.is_open()) throw system_error("cannot pass on shared memory");
    return File{.fd = std::move(fd), .bytes = candidate.memory.size()};
  }
  return std::nullopt;
}

bool RegionPool::free(void* memory) {
  const std::unique_lock lock(mutex_);
  const auto found = regions_.find(static_cast<const std::byte*>(memory));
  if (found == regions_.end()) return false;
  // Or else the directory is that of the process that this one was forked from, which has the region still.
  if (!fork_guard_.is_in_child()) {
    directory().entries[found->second.id % kMaxRegions].id.store(0, std::memory_order_relaxed);
  }
  version_.store(next_version(), std::memory_order_relaxed);
  regions_.erase(found);
  return true;
}

void RegionPool::announce(uint64_t key, int fd) {
  const std::unique_lock lock(mutex_);
  own_directory();
  for (Announcement& announcement : directory().announcements) {
    if (announcement.key.load(std::memory_order_relaxed) != 0) continue;
    announcement.fd.store(fd, std::memory_order_release);
    announcement.key.store(key, std::memory_order_release);
    return;
  }
  throw Error(ErrorCode::unsupported, "at most " + std::to_string(kMaxAnnouncements) +
                                          " communicators can be made by one process at the same time");
}

void RegionPool::withdraw(uint64_t key) {
  const std::unique_lock lock(mutex_);
  if (fork_guard_.is_in_child()) return;  // what was announced is the parent's
  for (Announcement& announcement : directory().announcements) {
    if (announcement.key.load(std::memory_order_relaxed) == key) announcement.key.store(0, std::memory_order_relaxed);
  }
}

RegionPlace RegionPool::find(const void* begin, size_t bytes) const {
  struct Memory {
    const RegionPool* pool = nullptr;
    uint64_t version = 0;
    const std::byte *begin = nullptr, *end = nullptr;
    RegionId id = 0;
  };
  // An operation asks for two buffers, so two answers are kept. An answer is a stretch of addresses, with or without a
  // region in it.
  thread_local Memory memories[2];
  thread_local uint32_t oldest = 0;
  const auto* const first = static_cast<const std::byte*>(begin);
  const uint64_t version = version_.load(std::memory_order_relaxed);
  for (const Memory& memory : memories) {
    if (memory.pool != this || memory.version != version || first < memory.begin || first + bytes > memory.end)
      continue;
    return memory.id == 0 ? RegionPlace{} : RegionPlace{memory.id, static_cast<uint64_t>(first - memory.begin)};
  }
  const std::shared_lock lock(mutex_);
  const auto after = regions_.upper_bound(first);
  Memory& memory = memories[oldest ^= 1];
  memory = {.pool = this, .version = version_.load(std::memory_order_relaxed)};
  memory.end = after == regions_.end() ? reinterpret_cast<const std::byte*>(UINTPTR_MAX) : after->first;
  if (after == regions_.begin()) return {};
  const auto& [start, region] = *std::prev(after);
  const std::byte* const end = start + region.memory.size();
  if (first >= end) {
    memory.begin = end;
    return {};
  }
  memory.begin = start;
  memory.end = end;
  memory.id = region.id;
  if (first + bytes > end) return {};  // it sticks out
  return {region.id, static_cast<uint64_t>(first - start)};
}

std::shared_ptr<const SharedMemory> PeerRegions::attach_directory(pid_t owner, int directory_fd,
                                                                  const std::string& name) {
  constexpr size_t kBytes = sizeof(RegionPool::Directory);
  return attach(owner, name, [&] {
    return std::make_shared<const SharedMemory>(SharedMemory::attach_lazily(owner, directory_fd, kBytes));
  });
}

std::optional<int> PeerRegions::find(uint64_t key) const {
  for (const RegionPool::Announcement& announcement : directory().announcements) {
    if (announcement.key.load(std::memory_order_acquire) != key) continue;
    const int32_t fd = announcement.fd.load(std::memory_order_acquire);
    if (announcement.key.load(std::memory_order_relaxed) == key) return fd;
  }
  return std::nullopt;
}

Error PeerRegions::gone() const { return banyan::run::gone(owner_, name_); }

bool PeerRegions::is_attachable() const {
  uint64_t found = 0;
  const iovec local{&found, sizeof found};
  const uint64_t address = directory().self.load(std::memory_order_acquire);
  const iovec remote{reinterpret_cast<void*>(address), sizeof found};
  return process_vm_readv(owner_, &local, 1, &remote, 1, 0) == static_cast<ssize_t>(sizeof found);
}

void PeerRegions::read(uint64_t address, std::span<std::byte> into) const {
  while (!into.empty()) {
    const iovec local{into.data(), into.size()};
    const iovec remote{reinterpret_cast<void*>(address), into.size()};
    const ssize_t count = process_vm_readv(owner_, &local, 1, &remote, 1, 0);
    if (count > 0) {
      into = into.subspan(static_cast<size_t>(count));
      address += static_cast<uint64_t>(count);
      continue;
    }
    const std::string what = "cannot read " + std::to_string(into.size()) + " bytes of " + name_;
    if (errno == EINTR) continue;
    if (errno == ESRCH) throw gone();
    if (errno == EFAULT || count == 0) throw Error(ErrorCode::mismatch, what + ": its buffer is shorter");
    throw system_error(what);
  }
}

const std::byte* PeerRegions::at(RegionId region, uint64_t offset, size_t bytes) {
  if (region != last_ || offset > last_size_ || bytes > last_size_ - offset) {
    last_data_ = map(region, offset, bytes);
    last_ = region;
    last_size_ = mappings_.at(region).memory.size();
  }
  return last_data_ + offset;
}

const std::byte* PeerRegions::map(RegionId region, uint64_t offset, size_t bytes) {
  const std::string what = "memory region " + std::to_string(region) + " of " + name_;
  auto found = mappings_.find(region);
  if (found == mappings_.end()) {
    forget_freed();
    const auto& entry = directory().entries[region % RegionPool::kMaxRegions];
    const int fd = entry.fd.load(std::memory_order_acquire);
    const uint64_t size = entry.size.load(std::memory_order_acquire);
    if (entry.id.load(std::memory_order_relaxed) != region || region == 0) {
      throw Error(ErrorCode::mismatch, what + " is not there; was it freed while an operation used it?");
    }
    found = mappings_
                .emplace(region,
                         Mapping{attach(owner_, name_, [&] { return SharedMemory::attach_to_read(owner_, fd, size); })})
                .first;
  }
  const size_t size = found->second.memory.size();
  if (offset > size || bytes > size - offset) {
    throw Error(ErrorCode::mismatch, what + " is shorter than the operation needs");
  }
  return found->second.memory.data();
}

// Regions that their owner has freed keep their pages until nobody maps them.
void PeerRegions::forget_freed() {
  std::erase_if(mappings_, [&](const auto& mapping) {
    return directory().entries[mapping.first % RegionPool::kMaxRegions].id.load(std::memory_order_relaxed) !=
           mapping.first;
  });
  last_ = 0;
  last_size_ = 0;
}

}  // namespace banyan::run
