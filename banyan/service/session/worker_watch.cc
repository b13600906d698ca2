#include "banyan/service/session/worker_watch.h"

#include <utility>

#include "banyan/base/words.h"
#include "banyan/run/record/log.h"

namespace banyan::service {

WorkerWatch::WorkerWatch(std::string name, std::function<void(std::function<void()> task)> post)
    : name_(std::move(name)), post_(std::move(post)), has_answered_(std::make_shared<std::atomic<bool>>(true)) {}

bool WorkerWatch::look(TimePoint now) {
  constexpr uint32_t kMostInVain = 1;
  const std::string time = format_seconds(std::chrono::duration<double>(now - asked_).count());
  // It has answered since the last look: the next question is asked.
  if (has_answered_->load()) {
    if (looks_in_vain_ > 0) BANYAN_LOG(warning) << name_ << " goes on, after up to " << time;
    looks_in_vain_ = 0;
    has_answered_->store(false);
    asked_ = now;
    post_([answered = has_answered_] { answered->store(true); });
    return true;
  }
  const bool is_given_up = ++looks_in_vain_ > kMostInVain;
  BANYAN_LOG(warning) << name_ << ", which carries out calls, has not come round for " << time
                      << (is_given_up ? "; nobody is told any more that this daemon lives" : "");
  return !is_given_up;
}

}  // namespace banyan::service
