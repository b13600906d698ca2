// Operation: a call under way in the background, shared by the threads that wait for it and the one that carries it
// out.
//
// OperationList: operations in the order in which they came. An operation is in one list at a time, and carries the
// link itself: so that moving it from list to list, as it begins, ends or fails, takes no memory and throws nothing.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/record/message_book.h"

namespace banyan::run {

class Driver;

class Operation {
 public:
  // Copies what the spans of the call point to. Throws what ResidualUse() throws.
  Operation(const Call& call, std::shared_ptr<Driver> driver);

  const Call& call() const { return call_; }
  Driver& driver() const { return *driver_; }

  bool is_over() const { return is_over_.load(std::memory_order_seq_cst); }
  // Its error, once it is over.
  const std::optional<Error>& error() const { return error_; }
  // Called by the driver, once. True if callbacks are due, by call_back().
  bool finish(const std::optional<Error>& error) noexcept;
  void call_back();
  // Once it is over: see Request.
  void on_done(std::function<void()> callback);

  // State of a message; used by the driver.
  uint64_t ticket = 0;
  uint32_t peer = 0;  // once it is over
  MessageBook::Place place = MessageBook::kNowhere;
  std::atomic<bool> is_wanted{false};  // somebody has waited for it, or asked; any thread

 private:
  friend class OperationList;
  std::shared_ptr<Operation> next_;  // in the list
  Call call_;
  const std::shared_ptr<Driver> driver_;  // shared with the communicator, whose requests may outlive it
  ResidualUse residual_;
  OwnedCounts counts_;
  std::optional<Error> error_;
  std::atomic<bool> is_over_{false};
  std::mutex mutex_;  // protects callbacks_
  std::vector<std::function<void()>> callbacks_;
};

class OperationList {
 public:
  OperationList() = default;
  OperationList(const OperationList&) = delete;
  OperationList& operator=(const OperationList&) = delete;
  ~OperationList() { clear(); }

  bool empty() const { return first_ == nullptr; }
  size_t size() const { return size_; }
  const std::shared_ptr<Operation>& front() const { return first_; }
  // From 0; `place` < size().
  Operation& at(size_t place) const;
  void push_back(std::shared_ptr<Operation> operation) noexcept;
  std::shared_ptr<Operation> pop_front() noexcept;
  // All of the other list, behind what is here.
  void append(OperationList& others) noexcept;
  // Takes the first out for which the test holds; null when there is none.
  template <typename Test>
  std::shared_ptr<Operation> take(Test test) noexcept;
  template <typename Test>
  bool contains(Test test) const noexcept;
  template <typename Visit>
  void for_each(Visit visit) const;
  void clear() noexcept;

 private:
  std::shared_ptr<Operation> first_;
  Operation* last_ = nullptr;
  size_t size_ = 0;
};

template <typename Test>
std::shared_ptr<Operation> OperationList::take(Test test) noexcept {
  Operation* before = nullptr;
  for (std::shared_ptr<Operation>* link = &first_; *link != nullptr; link = &(*link)->next_) {
    if (!test(**link)) {
      before = link->get();
      continue;
    }
    std::shared_ptr<Operation> taken = std::move(*link);
    *link = std::move(taken->next_);
    if (last_ == taken.get()) last_ = before;
    --size_;
    return taken;
  }
  return nullptr;
}

template <typename Test>
bool OperationList::contains(Test test) const noexcept {
  for (const Operation* each = first_.get(); each != nullptr; each = each->next_.get()) {
    if (test(*each)) return true;
  }
  return false;
}

template <typename Visit>
void OperationList::for_each(Visit visit) const {
  for (const Operation* each = first_.get(); each != nullptr; each = each->next_.get()) visit(*each);
}

}  // namespace banyan::run
