#include "banyan/run/communicator/progress_threads.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {

// Under mutex_.
void ProgressThreads::add_thread() {
  threads_.reserve(kMostThreads);
  threads_.push_back(start_thread("banyan-progress", [this, kept = keep_()] { run(); }));
}

// Who waits for an operation drives it too, so that it ends without this thread.
void ProgressThreads::try_to_add_thread() noexcept {
  try {
    add_thread();
  } catch (...) {
    BANYAN_LOG(info) << current_error().what();
  }
}

void ProgressThreads::expect_one() {
  const std::lock_guard lock(mutex_);
  if (threads_.empty() && !stops_) add_thread();
}

void ProgressThreads::wake() noexcept {
  const std::lock_guard lock(mutex_);
  if (threads_.empty() && !stops_) try_to_add_thread();
  const bool looks_soon = progress_ == Progress::soon && is_looking_ && !looks_at_once_ && !attention_;
  if (!looks_soon) wakes_.notify_one();
}

void ProgressThreads::look_at_once() noexcept {
  if (progress_ != Progress::soon || work_.pending() == 0) return;
  looks_at_once_.store(true, std::memory_order_release);
  wake();
}

void ProgressThreads::stop(const std::function<void()>& wake_driver) {
  {
    const std::lock_guard lock(mutex_);
    stops_.store(true, std::memory_order_release);
  }
  wakes_.notify_all();
  wake_driver();
  for (std::thread& thread : threads_) {  // there are no new ones
    thread.get_id() == std::this_thread::get_id() ? thread.detach() : thread.join();
  }
  threads_.clear();
}

void ProgressThreads::forget() {
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

// Whether what is under way was so at the last look, and nobody has waited for it since. Under mutex_.
bool ProgressThreads::is_left_alone() {
  if (progress_ == Progress::at_once || looks_at_once_.load(std::memory_order_acquire)) return true;
  const uint64_t over = work_.over();
  const bool is_left_alone = std::exchange(seen_over_, over) == over;
  look_after_ = is_left_alone ? kShortestLook : std::min(look_after_ * 2, kLongestLook);
  return is_left_alone;
}

void ProgressThreads::sleep(Lock& lock, uint32_t& looks) {
  ++asleep_;
  wakes_.wait(lock);
  --asleep_;
  looks = 0;
  seen_over_ = UINT64_MAX;
}

// One thread that looks, or drives, is enough.
void ProgressThreads::look_again_in(Lock& lock, uint32_t& looks, std::chrono::microseconds time) {
  if (is_looking_ || is_driving_) return sleep(lock, looks);
  is_looking_ = true;
  wakes_.wait_for(lock, time);
  is_looking_ = false;
}

// False after some sleep, when there was nothing for a thread to drive, or somebody else drives.
bool ProgressThreads::is_for_driving(Lock& lock, uint32_t& looks) {
  constexpr std::chrono::microseconds kAside{200};
  if (!attention_.load(std::memory_order_acquire)) {
    if (work_.pending() == 0) {
      looks_at_once_.store(false, std::memory_order_release);
      const bool looks_on = progress_ == Progress::soon && ++looks <= kLooksInVain;
      looks_on ? look_again_in(lock, looks, look_after_) : sleep(lock, looks);
      return false;
    }
    looks = 0;
    if (!is_left_alone()) {
      look_again_in(lock, looks, look_after_);
      return false;
    }
  }
  // A thread that waits for an operation drives it with less delay than one that must be woken.
  if (work_.try_take()) return true;
  look_again_in(lock, looks, progress_ == Progress::soon ? look_after_ : kAside);
  return false;
}

void ProgressThreads::run() {
  uint32_t looks = 0;  // in vain
  Lock lock(mutex_);
  while (!stops_) {
    if (!is_for_driving(lock, looks)) continue;
    is_driving_ = true;
    lock.unlock();
    work_.drive(attention_.exchange(false, std::memory_order_acq_rel), stops_);
    lock.lock();
    is_driving_ = false;
    if (work_.has_callbacks()) make_understudy();
    lock.unlock();
    work_.let_go();
    lock.lock();
  }
}

// Before this thread calls somebody back: another one makes progress meanwhile. Under mutex_.
void ProgressThreads::make_understudy() noexcept {
  if (asleep_ == 0 && !is_looking_ && threads_.size() < kMostThreads && !stops_) try_to_add_thread();
  if (work_.pending() > 0) wakes_.notify_one();
}

}  // namespace banyan::run
