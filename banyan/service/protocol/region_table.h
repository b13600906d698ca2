// RegionTable: the memory that a client has offered to the daemon, mapped.
//
// A region that is withdrawn stays mapped while calls use it (they hold it by shared_ptr), and counts to the quota as
// long. Its place gets another generation, so that later calls that name it are refused.
//
// One thread; regions may be let go of in others.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>
#include <vector>

#include "banyan/service/protocol/region.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

class RegionTable {
 public:
  // The most memory of one client that may be mapped.
  struct Quota {
    uint32_t regions = 1024;
    uint64_t bytes = uint64_t{1} << 40;  // of addresses; the pages are the client's
  };
  // Further costs of a region, and the task that unmaps it, which may take long.
  struct Hooks {
    // Called before the region gets a place; what is returned is held as long as it is. Throws Error where it is too
    // much.
    std::function<std::shared_ptr<void>(uint64_t bytes)> charge = {};
    // Runs a task, elsewhere and later.
    std::function<void(std::function<void()> task)> later = {};
  };
  explicit RegionTable(Quota quota) : RegionTable(quota, Hooks()) {}
  RegionTable(Quota quota, Hooks hooks) : quota_(quota), hooks_(std::move(hooks)) {}

  struct Place {
    uint32_t index = 0, generation = 0;
  };
  // Throws what the hooks throw, and Error{unsupported} beyond the quota.
  Place offer(Region memory);
  // Throws Error{invalid_input} when there is none at this place, or of another generation.
  void withdraw(Place place);

  // The region of a name, to be kept while it is used; null when there is none, or when bytes [offset, offset + bytes)
  // are not all in it.
  std::shared_ptr<const Region> find(const BufferName& name, uint64_t bytes) const;

  // The regions that are mapped: those offered, and those withdrawn that calls still use.
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
  std::shared_ptr<const Region> map(Region memory) const;

  const Quota quota_;
  const Hooks hooks_;
  std::vector<Entry> entries_;
  std::vector<uint32_t> free_;
  std::vector<std::weak_ptr<const Region>> withdrawn_;
};

}  // namespace banyan::service
