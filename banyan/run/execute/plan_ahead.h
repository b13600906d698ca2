// PlanAhead: finds plans on another thread, so that a thread which serves many communicators does not stand still while
// one of them needs a plan.
//
// One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "banyan/base/error.h"
#include "banyan/run/execute/plan_source.h"

namespace banyan::run {

// Runs a task, which throws nothing, on another thread.
using Background = std::function<void(std::function<void()> task)>;

// Wakes somebody who may be gone by then. Any thread.
class LastingWake {
 public:
  explicit LastingWake(std::function<void()> wake) : wake_(std::move(wake)) {}
  void wake() {
    const std::lock_guard lock(mutex_);
    if (wake_) wake_();
  }
  void end() {
    const std::lock_guard lock(mutex_);
    wake_ = {};
  }

 private:
  std::mutex mutex_;  // protects wake_
  std::function<void()> wake_;
};

class PlanAhead {
 public:
  // `background`: empty: the thread that asks makes its own plans. `wake`: called when a plan is there, by any thread.
  PlanAhead(Background background, std::function<void()> wake)
      : background_(std::move(background)), wake_(std::move(wake)) {}

  // True if the source now answers this question at once. If not, the plan is made in the background, and nobody
  // may ask the source until this is true. Throws what the source has thrown.
  bool is_ready(const std::shared_ptr<PlanSource>& source, const PlanSource::Question& question);

 private:
  // Questions that one answer of the source prepares: it has several plans for each key, and chooses among them by
  // size.
  struct Key {
    CollectiveKind kind{};
    uint32_t root = 0;
    bool is_even = true;
    auto operator<=>(const Key&) const = default;
  };
  struct Task {
    std::mutex mutex;  // protects what follows
    bool is_done = false;
    std::optional<Error> failure;
  };

  const Background background_;
  const std::function<void()> wake_;
  std::weak_ptr<PlanSource> source_;  // of which the rest is
  std::set<Key> known_;
  std::shared_ptr<Task> task_;  // shared with the other thread; none: nothing is being planned
  Key asked_{};
};

}  // namespace banyan::run
