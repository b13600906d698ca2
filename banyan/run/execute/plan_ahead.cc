#include "banyan/run/execute/plan_ahead.h"

namespace banyan::run {

bool PlanAhead::is_ready(const std::shared_ptr<PlanSource>& source, const PlanSource::Question& question) {
  if (!background_) return true;
  // Answers of another source say nothing about this one.
  if (source_.lock() != source) {
    source_ = source;
    known_.clear();
    plan_ = {};
  }
  const Key key{.kind = question.kind, .root = question.root, .is_even = question.is_even};
  if (known_.contains(key)) return true;
  // One question at a time. The source may not be asked meanwhile, since it is in use on another thread.
  if (!plan_.valid()) {
    asked_ = key;
    const auto make = [source, question] {
      source->plan(question);
      return true;
    };
    plan_ = make_in(background_, make, wake_).share();
  }
  if (!is_made(plan_)) return false;
  if (const Error* const failure = std::get_if<Error>(&plan_.get())) throw Error(*failure);
  // The answer may have been to an earlier question; then this one is asked next.
  known_.insert(asked_);
  plan_ = {};
  return is_ready(source, question);
}

}  // namespace banyan::run
