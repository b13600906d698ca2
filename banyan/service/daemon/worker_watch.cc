#include "banyan/service/daemon/worker_watch.h"

#include <string>
#include <utility>

#include "banyan/base/words.h"
#include "banyan/run/record/log.h"

namespace banyan::service {

WorkerWatch::WorkerWatch(std::function<void(std::function<void()> task)> post, std::function<void()> alive)
    : post_(std::move(post)), alive_(std::move(alive)), has_answered_(std::make_shared<std::atomic<bool>>(true)) {}

void WorkerWatch::look(TimePoint now) {
  constexpr uint32_t kMostInVain = 1;
  const std::string time = format_seconds(std::chrono::duration<double>(now - asked_).count());
  if (has_answered_->load()) {
    if (looks_in_vain_ > 0) BANYAN_LOG(warning) << "the worker's thread goes on, after up to " << time;
    looks_in_vain_ = 0;
    alive_();
    has_answered_->store(false);
    asked_ = now;
    post_([answered = has_answered_] { answered->store(true); });
    return;
  }
  const bool is_given_up = ++looks_in_vain_ > kMostInVain;
  BANYAN_LOG(warning) << "the worker's thread, which carries out all calls, has not come round for " << time
                      << (is_given_up ? "; nobody is told any more that this daemon lives" : "");
  if (!is_given_up) alive_();
}

}  // namespace banyan::service
