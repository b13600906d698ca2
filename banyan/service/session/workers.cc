#include "banyan/service/session/workers.h"

#include <map>
#include <string>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/words.h"
#include "banyan/run/record/log.h"

namespace banyan::service {

struct Workers::Question {
  Ask ask;
  std::function<void()> done;
};

Workers::Workers(uint32_t count, bool is_oversubscribed, std::shared_ptr<run::Mailbox> mailbox)
    : mailbox_(std::move(mailbox)) {
  if (count < 1 || count > kMost) {
    throw Error(ErrorCode::invalid_input, "a daemon cannot have " + std::to_string(count) +
                                              " workers; give it from 1 to " + std::to_string(kMost));
  }
  for (uint32_t number = 0; number < count; ++number) workers_.push_back(std::make_unique<Worker>(is_oversubscribed));
}

Workers::~Workers() {
  for (std::unique_ptr<Worker>& worker : workers_) worker.reset();
}

Worker& Workers::least_of(std::span<const std::shared_ptr<WorkerClient>> clients) {
  std::map<const Worker*, size_t> counts;
  for (const auto& client : clients) ++counts[&client->worker()];
  return **std::min_element(workers_.begin(), workers_.end(),
                            [&](const auto& a, const auto& b) { return counts[a.get()] < counts[b.get()]; });
}

std::chrono::nanoseconds Workers::core_time() {
  std::chrono::nanoseconds time{0};
  for (const auto& worker : workers_) time += worker->core_time();
  return time;
}

void Workers::ask_each(Ask ask, std::function<void()> done) {
  ask_from(0, std::make_shared<const Question>(Question{.ask = std::move(ask), .done = std::move(done)}));
}

void Workers::ask_from(size_t number, const std::shared_ptr<const Question>& question) {
  Worker& worker = *workers_[number];
  worker.post([this, number, &worker, question] {
    question->ask(worker);
    if (number + 1 < workers_.size()) return ask_from(number + 1, question);
    mailbox_->post([question] { question->done(); });
  });
}

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
