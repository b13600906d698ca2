// IdTable: from ids of 64 bits, any of them, to numbers. 24 to 48 bytes an id; constant time on average.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/base/hash.h"

namespace banyan::job {

class IdTable {
 public:
  // False when the id is there already. `number` is below 2^32 - 1.
  bool add(uint64_t id, uint32_t number) {
    if (size_ * 2 >= places_.size()) grow();
    Place& place = places_[find_place(id)];
    if (place.number != kFree) return false;
    place = {id, number};
    ++size_;
    return true;
  }
  std::optional<uint32_t> find(uint64_t id) const {
    if (places_.empty()) return std::nullopt;
    const Place& place = places_[find_place(id)];
    return place.number == kFree ? std::nullopt : std::optional(place.number);
  }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Place {
    uint64_t id = 0;
    uint32_t number = kFree;
  };

  size_t find_place(uint64_t id) const {
    const size_t mask = places_.size() - 1;  // a power of two of them
    size_t at = static_cast<size_t>(mix(id)) & mask;
    while (places_[at].number != kFree && places_[at].id != id) at = (at + 1) & mask;
    return at;
  }
  void grow() {
    std::vector<Place> old = std::move(places_);
    places_.assign(old.empty() ? 64 : old.size() * 2, Place{});
    for (const Place& place : old) {
      if (place.number != kFree) places_[find_place(place.id)] = place;
    }
  }

  std::vector<Place> places_;
  size_t size_ = 0;
};

}  // namespace banyan::job
