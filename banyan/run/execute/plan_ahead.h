// PlanAhead: finds plans on another thread, so that a thread which serves many communicators does not stand still while
// one of them needs a plan.
//
// One thread.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <utility>

#include "banyan/run/execute/background.h"
#include "banyan/run/execute/plan_source.h"

namespace banyan::run {

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

  const Background background_;
  const std::function<void()> wake_;
  std::weak_ptr<PlanSource> source_;  // of which the rest is
  std::set<Key> known_;
  std::shared_future<Made<bool>> plan_;  // true: the source has it; not valid: none is being made
  Key asked_{};                          // what it is for
};

}  // namespace banyan::run
