// ProgressThreads: the threads of a communicator that move operations for which nobody waits.
//
// All are alike. There is none before the first is woken. A second one is made when the first is about to make a
// callback, which may wait for what only a thread that makes progress brings about; and so on, up to kMostThreads.
//
// With Progress::soon a thread looks now and then whether the operations under way were left alone since its last look.
// A look takes the core from a working thread, so looks become rarer while there is nothing to see.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "banyan/run/communicator/progress.h"

namespace banyan::run {

class ProgressThreads {
 public:
  // The work that the threads move: see Driver. Called by any of them.
  class Work {
   public:
    Work() = default;
    Work(const Work&) = delete;
    Work& operator=(const Work&) = delete;
    virtual ~Work() = default;
    // Operations that are under way, and those that are over by now.
    virtual size_t pending() const = 0;
    virtual uint64_t over() const = 0;
    // Takes the lock; false when somebody else has it, or waits for it.
    virtual bool try_take() = 0;
    // Moves what is under way until it is over, or somebody waits for the lock, or `stops`. `is_attended`: the executor
    // has heard something, which it should deal with first.
    virtual void drive(bool is_attended, const std::atomic<bool>& stops) = 0;
    virtual bool has_callbacks() const = 0;
    // Gives the lock back, and makes the callbacks that are due.
    virtual void let_go() = 0;
  };

  // `keep` returns what keeps the work alive while a thread runs.
  ProgressThreads(Progress progress, Work& work, std::function<std::shared_ptr<void>()> keep)
      : progress_(progress), work_(work), keep_(std::move(keep)) {}
  ProgressThreads(const ProgressThreads&) = delete;
  ProgressThreads& operator=(const ProgressThreads&) = delete;

  // Makes the first thread, unless there is one. Throws Error{io}.
  void expect_one();
  // There is something to drive. Makes the first thread if that is possible. Any thread.
  void wake() noexcept;
  // Operations under way should not wait for the next look.
  void look_at_once() noexcept;
  // The executor has heard something, or somebody is to be called back: whatever is under way.
  void ask_for_attention() { attention_.store(true, std::memory_order_release); }
  // Ends the threads, by joining them; `wake_driver` ends the sleep of one that drives. A thread that calls this
  // itself, in a call back, ends soon after.
  void stop(const std::function<void()>& wake_driver);
  // To be called in a forked process, where there are no threads.
  void forget();

 private:
  static constexpr size_t kMostThreads = 8;
  static constexpr std::chrono::microseconds kShortestLook{500}, kLongestLook = kSoon / 2;
  static constexpr uint32_t kLooksInVain = 20;  // then a thread sleeps until it is woken

  using Lock = std::unique_lock<std::mutex>;
  void add_thread();
  void try_to_add_thread() noexcept;
  void run();
  bool is_left_alone();
  void sleep(Lock& lock, uint32_t& looks);
  void look_again_in(Lock& lock, uint32_t& looks, std::chrono::microseconds time);
  bool is_for_driving(Lock& lock, uint32_t& looks);
  void make_understudy() noexcept;

  const Progress progress_;
  Work& work_;
  const std::function<std::shared_ptr<void>()> keep_;

  std::atomic<bool> stops_{false}, attention_{false}, looks_at_once_{false};
  std::mutex mutex_;  // protects the rest
  std::condition_variable wakes_;
  std::vector<std::thread> threads_;
  size_t asleep_ = 0;        // until they are woken, rather than for a while
  bool is_looking_ = false;  // one wakes up again and again
  bool is_driving_ = false;
  std::chrono::microseconds look_after_ = kLongestLook;
  uint64_t seen_over_ = UINT64_MAX;  // how many operations were over at the last look
};

}  // namespace banyan::run
