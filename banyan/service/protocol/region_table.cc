#include "banyan/service/protocol/region_table.h"

#include <string>

#include "banyan/base/error.h"

namespace banyan::service {
namespace {

std::string refused(uint64_t bytes) { return "cannot map " + std::to_string(bytes) + " bytes of a client"; }

}  // namespace

std::shared_ptr<const Region> RegionTable::map(Region memory) const {
  std::shared_ptr<void> charge = hooks_.charge ? hooks_.charge(memory.size()) : nullptr;
  auto region = std::make_unique<const Region>(std::move(memory));
  // What is let go of here is let go of now: the table may remember for long that there was such a region.
  if (!hooks_.later) {
    return {region.release(), [charge = std::move(charge)](const Region* mapped) mutable {
              delete mapped;
              charge.reset();
            }};
  }
  return {region.release(), [charge = std::move(charge), later = hooks_.later](const Region* mapped) mutable {
            later([charge = std::move(charge), held = std::shared_ptr<const Region>(mapped)] {});
          }};
}

RegionTable::Place RegionTable::offer(Region memory) {
  const uint64_t bytes = memory.size();
  std::erase_if(withdrawn_, [](const auto& region) { return region.expired(); });
  const Usage used = usage();
  if (used.regions >= quota_.regions) {
    throw Error(ErrorCode::unsupported, refused(bytes) + ": it has " + std::to_string(used.regions) +
                                            " regions, as many as one may have; it has to withdraw some");
  }
  if (used.bytes > quota_.bytes || bytes > quota_.bytes - used.bytes) {
    throw Error(ErrorCode::unsupported, refused(bytes) + ": it has " + std::to_string(used.bytes) +
                                            " bytes in regions, and may have " + std::to_string(quota_.bytes) +
                                            "; it has to withdraw some");
  }
  std::shared_ptr<const Region> region = map(std::move(memory));
  if (free_.empty()) {
    entries_.emplace_back();
    free_.reserve(entries_.capacity());
    free_.push_back(static_cast<uint32_t>(entries_.size() - 1));
  }
  const uint32_t index = free_.back();
  free_.pop_back();
  entries_[index].region = std::move(region);
  return {.index = index, .generation = entries_[index].generation};
}

void RegionTable::withdraw(Place place) {
  if (place.index >= entries_.size() || !entries_[place.index].region ||
      entries_[place.index].generation != place.generation) {
    throw invalid("region " + std::to_string(place.index) + " of generation " + std::to_string(place.generation) +
                  " is not offered");
  }
  Entry& entry = entries_[place.index];
  withdrawn_.push_back(entry.region);
  free_.push_back(place.index);  // there is memory for it
  entry.region.reset();
  ++entry.generation;
}

std::shared_ptr<const Region> RegionTable::find(const BufferName& name, uint64_t bytes) const {
  if (name.region >= entries_.size()) return nullptr;
  const Entry& entry = entries_[name.region];
  if (!entry.region || entry.generation != name.generation) return nullptr;
  const uint64_t size = entry.region->size();
  if (name.offset > size || bytes > size - name.offset) return nullptr;
  return entry.region;
}

RegionTable::Usage RegionTable::usage() const {
  Usage used;
  const auto count = [&](const Region& region) {
    ++used.regions;
    used.bytes += region.size();
  };
  for (const Entry& entry : entries_) {
    if (entry.region) count(*entry.region);
  }
  for (const std::weak_ptr<const Region>& withdrawn : withdrawn_) {
    if (const auto held = withdrawn.lock()) count(*held);
  }
  return used;
}

}  // namespace banyan::service
