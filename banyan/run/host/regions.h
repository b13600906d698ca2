// Regions: memory that belongs to one process and that others of its host can read directly.
//
// Every process has one RegionPool, and a *directory* in shared memory that says which regions it has. A buffer within
// a region can be named to a peer as (region id, offset); the peer looks the region up in the directory, maps it when
// it meets it first, and keeps the mapping until its owner has freed it.
//
// A forked process has its parent's regions too, and from its first call on a directory of its own.
//
// RegionPool: any thread. PeerRegions: one thread.
//
// Orders (testing/orders). A peer reads an entry of the directory that may be freed, and taken by another region,
// meanwhile: it reads the descriptor and the size, and then the id. These two are stored with release and loaded with
// acquire, so that a peer that reads those of another region sees that the id is not the old one any more. The id is
// relaxed: a peer that has been told of a region sees its entry by that. Nobody has been told of the key of an
// announcement: it is read before the descriptor, too, with acquire, and stored with release. `version_` is relaxed: a
// thread that may use memory knows that it was allocated, or freed, by whatever told it so, and thus sees the version
// of then.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <shared_mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan::run {

// Never used again for another region of the same process. Zero is none.
using RegionId = uint64_t;

struct RegionPlace {
  RegionId region = 0;  // 0: the bytes lie in no region, or not wholly in one
  uint64_t offset = 0;
};

class RegionPool {
 public:
  static constexpr size_t kMaxRegions = 4096;

  // Throws Error{io}.
  RegionPool();
  RegionPool(const RegionPool&) = delete;
  RegionPool& operator=(const RegionPool&) = delete;
  ~RegionPool();

  // Memory whose pages are all there. Throws Error{io}; Error{unsupported} beyond kMaxRegions at a time.
  std::byte* allocate(size_t bytes);
  // False when it is none of ours.
  bool free(void* memory);
  // The place of [begin, begin + bytes). A few nanoseconds: each thread remembers its last answer.
  RegionPlace find(const void* begin, size_t bytes) const;

  // The memory of a region as a file, for a process that gets it by a socket. Nothing when the region has been freed.
  // Throws Error{io}.
  struct File {
    FileDescriptor fd;  // another one of the same file, which nobody can make shorter
    size_t bytes = 0;
  };
  std::optional<File> file_of(RegionId region) const;

  // For other processes of the host: PeerRegions. Throws Error{io}.
  int directory_fd();

  // Tells those who ask for `key` that this process holds open as `fd` what they look for, until it is withdrawn.
  // Throws Error{unsupported} when there are too many at a time, Error{io}.
  void announce(uint64_t key, int fd);
  void withdraw(uint64_t key);

  // The next region gets this id, or a later one. For tests.
  void skip_to(RegionId next) { next_ = next; }

 private:
  friend class PeerRegions;
  struct Entry {
    std::atomic<uint64_t> id{0};  // 0: the place is free
    std::atomic<int32_t> fd{-1};
    std::atomic<uint64_t> size{0};
  };
  static constexpr size_t kMaxAnnouncements = 64;
  struct Announcement {
    std::atomic<uint64_t> key{0};  // 0: free
    std::atomic<int32_t> fd{-1};
  };
  struct Directory {
    std::atomic<uint64_t> self{0};  // where its owner has it mapped, for those who try to attach
    Announcement announcements[kMaxAnnouncements];
    Entry entries[kMaxRegions];  // of region `id` at id % kMaxRegions
  };
  Directory& directory() const { return *reinterpret_cast<Directory*>(directory_.data()); }

  struct Region {
    SharedMemory memory;
    RegionId id = 0;
  };
  static SharedMemory make_directory();
  // Under the mutex, as is enter(). In a process that was forked meanwhile it makes another directory.
  void own_directory();
  void enter(const Region& region);

  std::atomic<uint64_t> version_;    // changes with every allocate and free, so that remembered answers expire
  mutable std::shared_mutex mutex_;  // protects what follows
  SharedMemory directory_;
  ForkGuard fork_guard_;                        // as old as the directory
  std::map<const std::byte*, Region> regions_;  // by where they begin
  uint64_t next_ = 1;
};

// The memory of one other process.
class PeerRegions {
 public:
  // Its directory, which several may share. Errors call the process `name`: "rank 3". Throws Error{io},
  // Error{peer_lost}.
  static std::shared_ptr<const SharedMemory> attach_directory(pid_t owner, int directory_fd, const std::string& name);
  PeerRegions(pid_t owner, std::shared_ptr<const SharedMemory> directory, std::string name)
      : owner_(owner), name_(std::move(name)), directory_(std::move(directory)) {}
  PeerRegions(pid_t owner, int directory_fd, const std::string& name = "a peer")
      : PeerRegions(owner, attach_directory(owner, directory_fd, name), name) {}

  const std::string& name() const { return name_; }

  // The file descriptor that the owner has announced under this key, if it has.
  std::optional<int> find(uint64_t key) const;

  // True if the system permits read(): tried on a page that is there for this.
  bool is_attachable() const;
  // Copies from any memory of the process, by process_vm_readv(2): a system call, and about half as quick as memcpy.
  // Throws Error{peer_lost} when it is gone, Error{mismatch} when it has no such memory, Error{io}.
  void read(uint64_t address, std::span<std::byte> into) const;

  // The address of bytes [offset, offset + bytes) of a region in this process. Throws Error{mismatch} when there is no
  // such region or it is shorter, Error{io}, Error{peer_lost}.
  const std::byte* at(RegionId region, uint64_t offset, size_t bytes);

 private:
  const RegionPool::Directory& directory() const {
    return *reinterpret_cast<const RegionPool::Directory*>(directory_->data());
  }
  const std::byte* map(RegionId region, uint64_t offset, size_t bytes);
  void forget_freed();

  Error gone() const;

  pid_t owner_;
  std::string name_;
  std::shared_ptr<const SharedMemory> directory_;
  struct Mapping {
    SharedMemory memory;
  };
  std::unordered_map<RegionId, Mapping> mappings_;
  RegionId last_ = 0;
  const std::byte* last_data_ = nullptr;
  size_t last_size_ = 0;
};

}  // namespace banyan::run
