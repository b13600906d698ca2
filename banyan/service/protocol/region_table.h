// RegionTable: the memory that a client has offered to the daemon, mapped.
//
// A region is a memfd of the client, sealed so that it can neither shrink nor be unsealed: then no access to it can end
// the daemon by SIGBUS, whatever the client does. Files and other memory have no such seals and are refused. Its pages
// are charged to the client, who has touched them first.
//
// A region that is withdrawn stays mapped while calls use it (they hold it by shared_ptr). Its place gets another
// generation, so that later calls that name it are refused.
//
// One thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

class Region {
 public:
  // Maps all of it. Throws Error{invalid_input} for what is not sealed as above, not as long as `bytes`, or empty;
  // Error{io}.
  Region(const run::FileDescriptor& fd, uint64_t bytes);
  ~Region();
  Region(const Region&) = delete;
  Region& operator=(const Region&) = delete;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

class RegionTable {
 public:
  // How much one client may offer.
  struct Quota {
    uint32_t regions = 1024;
    uint64_t bytes = uint64_t{1} << 40;  // of addresses; the pages are the client's
  };
  explicit RegionTable(Quota quota) : quota_(quota) {}

  struct Place {
    uint32_t index = 0, generation = 0;
  };
  // Throws what Region throws, and Error{unsupported} beyond the quota.
  Place offer(const run::FileDescriptor& fd, uint64_t bytes);
  // Throws Error{invalid_input} when there is none at this place, or of another generation.
  void withdraw(Place place);

  // The region of a name, to be kept while it is used; null when there is none, or when bytes [offset, offset + bytes)
  // are not all in it.
  std::shared_ptr<const Region> find(const BufferName& name, uint64_t bytes) const;

  uint64_t bytes() const { return bytes_; }

 private:
  struct Entry {
    uint32_t generation = 0;
    std::shared_ptr<const Region> region;  // shared with the calls that use it; null: the place is free
  };
  const Quota quota_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  uint64_t bytes_ = 0;
};

}  // namespace banyan::service
