// SparseQueue: sums of sparse tables in the background, while the program computes and makes other calls.
//
// A sum is several calls, of which the later ones depend on the earlier ones. So that they come in equal order on all
// ranks, whatever else the ranks call, the queue has a communicator of its own, and a thread that carries out one sum
// after the other in the order of start(). All ranks make the same queues, tables and calls of start() in equal order.
//
// Any thread may call start(); calls exclude each other. What a gradient points to stays until the sum is over.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/sparse/sparse_all_reduce.h"

namespace banyan::run {

class SparseQueue {
 public:
  // Collective over the communicator, which need not outlive it. Throws what Communicator::split throws.
  explicit SparseQueue(Communicator& of);
  SparseQueue(const SparseQueue&) = delete;
  SparseQueue& operator=(const SparseQueue&) = delete;
  // Carries out what was started, first; after abort() that ends at once.
  ~SparseQueue();

  // To be given to start(). The queue outlives it; its other functions may be called while none of its sums is under
  // way.
  std::unique_ptr<SparseAllReduce> make_table(const SparseTable& table);
  // The future gives the sum, or throws what SparseAllReduce::run throws.
  std::future<sparse::RowList> start(SparseAllReduce& table, const SparseGradient& gradient);
  // Ends all sums with Error{aborted}, here and, soon, at the other ranks. Any thread.
  void abort(const std::string& why) { communicator_.abort(why); }

 private:
  void carry_out_all();

  Communicator communicator_;
  std::mutex mutex_;  // protects the next two
  std::deque<std::packaged_task<sparse::RowList()>> waiting_;
  bool is_ending_ = false;
  std::condition_variable changed_;
  std::thread thread_;
};

}  // namespace banyan::run
