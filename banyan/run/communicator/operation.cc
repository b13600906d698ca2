#include "banyan/run/communicator/operation.h"

#include "banyan/base/check.h"

namespace banyan::run {

Operation::Operation(const Call& call, std::shared_ptr<Driver> driver)
    : call_(call), driver_(std::move(driver)), residual_(call) {
  counts_.keep(call_);
}

bool Operation::finish(const std::optional<Error>& error) noexcept {
  error_ = error;
  if (error) {
    residual_.end();
  } else {
    residual_.succeed();
  }
  const std::lock_guard lock(mutex_);
  is_over_.store(true, std::memory_order_seq_cst);
  return !callbacks_.empty();
}

// None is added once it is over.
void Operation::call_back() {
  CHECK(is_over());
  for (const std::function<void()>& callback : std::exchange(callbacks_, {})) callback();
}

void Operation::on_done(std::function<void()> callback) {
  {
    const std::lock_guard lock(mutex_);
    if (!is_over()) {
      callbacks_.push_back(std::move(callback));
      return;
    }
  }
  callback();
}

Operation& OperationList::at(size_t place) const {
  Operation* found = first_.get();
  for (; place > 0; --place) found = found->next_.get();
  return *found;
}

void OperationList::push_back(std::shared_ptr<Operation> operation) noexcept {
  Operation* const added = operation.get();
  (last_ == nullptr ? first_ : last_->next_) = std::move(operation);
  last_ = added;
  ++size_;
}

std::shared_ptr<Operation> OperationList::pop_front() noexcept {
  return take([](const Operation&) { return true; });
}

void OperationList::append(OperationList& others) noexcept {
  while (!others.empty()) push_back(others.pop_front());
}

// One after the other, since a list that ends by itself would need as much stack as it is long.
void OperationList::clear() noexcept {
  while (!empty()) pop_front();
}

}  // namespace banyan::run
