// SparseQueue: sums of sparse tables in the background, while the program computes and makes other calls.
//
// A sum is several calls, of which the later ones depend on the earlier ones. So that they come in equal order on all
// ranks, whatever else the ranks call, the queue has a communicator of its own, and a thread that carries out one sum
// after the other in the order of start(). All ranks make the same queues and calls of start() in equal order.
//
// Any thread may call it, one of its own sums too. Objects and memory that the sums use stay until they are over.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/fork_guard.h"

namespace banyan::run {

class SparseQueue {
 public:
  // Collective over the communicator, which need not outlive it. Throws what Communicator::split throws.
  explicit SparseQueue(Communicator& of);
  SparseQueue(const SparseQueue&) = delete;
  SparseQueue& operator=(const SparseQueue&) = delete;
  ~SparseQueue() { close(); }

  // For the sums alone: SparseAllReduce(queue.communicator(), table).
  Communicator& communicator();
  // Has `sum` carried out after those that were started before. It throws nothing. Throws Error{invalid_usage} in a
  // forked process, and Error{aborted} after close().
  void start(std::function<void()> sum);
  // Waits until all sums are over, or for so long at most; not in a sum, nor in a forked process.
  void drain(std::chrono::milliseconds at_most);
  // Ends all sums with Error{aborted}, here and, soon, at the other ranks.
  void abort(const std::string& why) { communicator().abort(why); }
  // Its thread is gone then. A sum that drain() has not waited for is carried out, but its calls fail with
  // Error{aborted}.
  void close();

 private:
  struct State;
  static void carry_out_all(State& state);

  const std::shared_ptr<State> state_;  // shared with the thread, which goes on for a moment where a sum ends the queue
  const ForkGuard fork_guard_;
  std::thread thread_;
};

}  // namespace banyan::run
