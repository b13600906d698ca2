#include "banyan/run/execute/plan_ahead.h"

namespace banyan::run {

bool PlanAhead::is_ready(const std::shared_ptr<PlanSource>& source, const PlanSource::Question& question) {
  if (!background_) return true;
  if (source_.lock() != source) {
    source_ = source;
    known_.clear();
    task_.reset();
  }
  const Key key{.kind = question.kind, .root = question.root, .is_even = question.is_even};
  if (known_.contains(key)) return true;
  if (!task_) {
    task_ = std::make_shared<Task>();
    asked_ = key;
    background_([task = task_, source, question, wake = wake_] {
      std::optional<Error> failure;
      try {
        source->plan(question);
      } catch (const Error& error) {
        failure = error;
      }
      {
        const std::lock_guard lock(task->mutex);
        task->failure = std::move(failure);
        task->is_done = true;
      }
      wake();
    });
  }
  {
    const std::lock_guard lock(task_->mutex);
    if (!task_->is_done) return false;
    if (task_->failure) throw Error(*task_->failure);
  }
  known_.insert(asked_);
  task_.reset();
  return is_ready(source, question);
}

}  // namespace banyan::run
