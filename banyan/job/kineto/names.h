// Texts by number: the same text gives the same number, from 0 in the order in which they came. A trace has a million
// events and a few thousand names.
//
// Memory: the text and some 100 bytes, once each. Constant time on average. May be moved, not copied.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <unordered_map>

namespace banyan::job::kineto {

class Names {
 public:
  Names() = default;
  Names(Names&&) = default;
  Names& operator=(Names&&) = default;
  Names(const Names&) = delete;
  Names& operator=(const Names&) = delete;

  uint32_t add(std::string_view text) {
    if (const auto at = numbers_.find(text); at != numbers_.end()) return at->second;
    texts_.emplace_back(text);
    return numbers_.emplace(texts_.back(), static_cast<uint32_t>(texts_.size() - 1)).first->second;
  }

  const std::string& operator[](uint32_t number) const { return texts_[number]; }
  uint32_t size() const { return static_cast<uint32_t>(texts_.size()); }

 private:
  std::deque<std::string> texts_;  // which does not move them, since numbers_ looks at them
  std::unordered_map<std::string_view, uint32_t> numbers_;
};

}  // namespace banyan::job::kineto
