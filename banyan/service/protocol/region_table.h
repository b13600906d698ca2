// RegionTable: the memory that a client has offered to the daemon, mapped.
//
// A region is a memfd of the client, sealed so that it can never be made shorter: where the memfd once was, a touch
// would end the daemon by SIGBUS. Files and other memory have no such seals and are refused, as are huge pages, which
// can be missing when they are touched.
//
// Its pages are charged to whoever touches them first. That is an honest client; but a client can leave pages out, and
// punch them out again (FALLOC_FL_PUNCH_HOLE; the seal that forbids it would forbid the client's own mappings, too).
// Who touches a page while pages are being punched out sleeps until that is over, which may take seconds. So whoever
// uses a region asks now and then whether all of its pages are there (is_whole), and has nothing more to do with one of
// which some are not: Hooks::wants_pages asks at first. Where memory is not overcommitted (vm.overcommit_memory = 2),
// the first touch of what was punched out can still end the daemon.
//
// The kernel tells how many pages the memfd has, and not where. So a region is all of its memfd, which can have no
// pages behind its end: such are dropped, and its seals let none come (F_SEAL_GROW). To ask where the first hole is
// (SEEK_HOLE) takes 0.09 us a page, and takes pages for holes that are there and were never written. A huge page at the
// end may stand for as many pages that are missing: 2 MiB a region, where memfds have such.
//
// A region that is withdrawn stays mapped while calls use it (they hold it by shared_ptr), and counts to the quota as
// long. Its place gets another generation, so that later calls that name it are refused.
//
// One thread; regions may be let go of in others.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

class Region {
 public:
  // Maps it. Throws Error{invalid_input} for what is not sealed as above (F_SEAL_SHRINK, F_SEAL_GROW, and F_SEAL_SEAL,
  // so that all seals are known), has not as many pages as `bytes` have, cannot be written to, or empty; Error{io}.
  Region(const run::FileDescriptor& fd, uint64_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }
  // Whether all pages are there, in memory or swapped out. A system call.
  bool is_whole() const;

 private:
  run::FileDescriptor file_;  // a descriptor of the daemon's own
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

// What a Region does first. It takes 0.6 us for each page behind the end, of which there may be as many as before it
// (where there are more, it throws): of large ones it is done before, by a thread for which nobody else waits. Throws
// the same.
void drop_pages_behind(const run::FileDescriptor& fd, uint64_t bytes);

class RegionTable {
 public:
  // How much of one client may be mapped.
  struct Quota {
    uint32_t regions = 1024;
    uint64_t bytes = uint64_t{1} << 40;  // of addresses; the pages are the client's
  };
  // What else a region costs, and who unmaps it, which may take long.
  struct Hooks {
    // Before it is mapped; what is returned is held as long as it is. Throws Error where it is too much.
    std::function<std::shared_ptr<void>(uint64_t bytes)> charge = {};
    // Runs a task, elsewhere and later.
    std::function<void(std::function<void()> task)> later = {};
    bool wants_pages = false;  // Error{invalid_input} for a region that is not whole
  };
  explicit RegionTable(Quota quota) : RegionTable(quota, Hooks()) {}
  RegionTable(Quota quota, Hooks hooks) : quota_(quota), hooks_(std::move(hooks)) {}

  struct Place {
    uint32_t index = 0, generation = 0;
  };
  // Throws what Region and the hooks throw, and Error{unsupported} beyond the quota.
  Place offer(const run::FileDescriptor& fd, uint64_t bytes);
  // Throws Error{invalid_input} when there is none at this place, or of another generation.
  void withdraw(Place place);

  // The region of a name, to be kept while it is used; null when there is none, or when bytes [offset, offset + bytes)
  // are not all in it.
  std::shared_ptr<const Region> find(const BufferName& name, uint64_t bytes) const;

  // Of the regions that are mapped: those offered, and those withdrawn that calls still use.
  struct Usage {
    uint32_t regions = 0;
    uint64_t bytes = 0;
  };
  Usage usage() const;
  uint64_t bytes() const { return usage().bytes; }

 private:
  struct Entry {
    uint32_t generation = 0;
    std::shared_ptr<const Region> region;  // shared with the calls that use it; null: the place is free
  };
  std::shared_ptr<const Region> map(const run::FileDescriptor& fd, uint64_t bytes) const;

  const Quota quota_;
  const Hooks hooks_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  std::vector<std::weak_ptr<const Region>> withdrawn_;
};

}  // namespace banyan::service
