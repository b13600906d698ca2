#include "banyan/run/sparse/sparse_queue.h"

#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {
namespace {

// Of the same ranks, in the same order.
Communicator twin_of(Communicator& communicator) {
  Communicator::Options options = communicator.options();
  options.name = communicator.name() + ".sparse";
  std::optional<Communicator> twin = communicator.split(0, static_cast<int>(communicator.rank()), std::move(options));
  CHECK(twin.has_value());
  return std::move(*twin);
}

}  // namespace

SparseQueue::SparseQueue(Communicator& of)
    : communicator_(twin_of(of)), thread_(start_thread("banyan sparse", [this] { carry_out_all(); })) {}

SparseQueue::~SparseQueue() {
  {
    const std::lock_guard lock(mutex_);
    is_ending_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

std::unique_ptr<SparseAllReduce> SparseQueue::make_table(const SparseTable& table) {
  return std::make_unique<SparseAllReduce>(communicator_, table);
}

std::future<sparse::RowList> SparseQueue::start(SparseAllReduce& table, const SparseGradient& gradient) {
  std::packaged_task<sparse::RowList()> task([&table, gradient] { return table.run(gradient); });
  std::future<sparse::RowList> sum = task.get_future();
  {
    const std::lock_guard lock(mutex_);
    waiting_.push_back(std::move(task));
  }
  changed_.notify_all();
  return sum;
}

void SparseQueue::carry_out_all() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return is_ending_ || !waiting_.empty(); });
    if (waiting_.empty()) return;
    std::packaged_task<sparse::RowList()> task = std::move(waiting_.front());
    waiting_.pop_front();
    lock.unlock();
    task();  // what it throws is the future's
    lock.lock();
  }
}

}  // namespace banyan::run
