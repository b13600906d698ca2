// Texts by number: the same text gives the same number, from 0 in the order in which they came. A trace has a million
// events and a few thousand names; a job of GOAL may have a name for each node.
//
// An open hash table of numbers: 16 to 32 bytes a text besides the text itself. Constant time on average. A text that
// is given out moves when others are added.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace banyan::job {

class NameTable {
 public:
  uint32_t add(std::string_view text) {
    if (texts_.size() * 2 >= places_.size()) grow();
    const auto hash = static_cast<uint32_t>(std::hash<std::string_view>{}(text));
    const size_t mask = places_.size() - 1;
    size_t at = hash & mask;
    while (places_[at].number != kFree && (places_[at].hash != hash || texts_[places_[at].number] != text)) {
      at = (at + 1) & mask;
    }
    if (places_[at].number == kFree) {
      places_[at] = {static_cast<uint32_t>(texts_.size()), hash};
      texts_.emplace_back(text);
    }
    return places_[at].number;
  }

  const std::string& operator[](uint32_t number) const { return texts_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(texts_.size()); }
  std::vector<std::string> take() && { return std::move(texts_); }

 private:
  static constexpr uint32_t kFree = UINT32_MAX;
  struct Place {
    uint32_t number = kFree, hash = 0;
  };

  void grow() {
    std::vector<Place> old(std::max<size_t>(64, places_.size() * 2));
    old.swap(places_);
    const size_t mask = places_.size() - 1;  // a power of two of them
    for (const Place& place : old) {
      if (place.number == kFree) continue;
      size_t at = place.hash & mask;
      while (places_[at].number != kFree) at = (at + 1) & mask;
      places_[at] = place;
    }
  }

  std::vector<Place> places_;
  std::vector<std::string> texts_;  // by number
};

}  // namespace banyan::job
