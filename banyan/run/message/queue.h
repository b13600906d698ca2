// Queue: first in, first out, in one piece of memory that it keeps: once it has been as long as it will be, nothing is
// allocated any more. push() and pop() take constant time, averaged over many.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace banyan::run {

template <typename T>
class Queue {
 public:
  bool empty() const { return first_ == items_.size(); }
  // The oldest; until the next push() or pop().
  T& front() { return items_[first_]; }
  void push(T item) { items_.push_back(std::move(item)); }
  void pop() {
    ++first_;
    if (first_ * 2 < items_.size()) return;
    items_.erase(items_.begin(), items_.begin() + static_cast<std::ptrdiff_t>(first_));
    first_ = 0;
  }

 private:
  std::vector<T> items_;
  size_t first_ = 0;  // those before are gone
};

}  // namespace banyan::run
