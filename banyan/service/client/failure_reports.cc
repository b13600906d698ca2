#include "banyan/service/client/failure_reports.h"

namespace banyan::service {

void FailureReports::note(uint32_t generation, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (generation > in_force_) {
      if (!early_ || early_->first <= generation) early_.emplace(generation, error);
      return;
    }
    if (told_ == error.message()) return;
    told_ = error.message();
  }
  if (tell_peers_) tell_peers_(error);
}

void FailureReports::go_over(uint32_t generation) {
  std::optional<Error> failure;
  {
    const std::lock_guard lock(mutex_);
    in_force_ = generation;
    if (early_ && early_->first == generation) failure = std::move(early_->second);
    early_.reset();
  }
  if (failure) note(generation, *failure);
}

}  // namespace banyan::service
