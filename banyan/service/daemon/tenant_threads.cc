#include "banyan/service/daemon/tenant_threads.h"

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

constexpr std::chrono::seconds kEndTime{2};
constexpr int kNice = 10;

}  // namespace

struct TenantThreads::State {
  std::mutex mutex;  // protects what follows
  std::condition_variable ended;
  std::map<Line, std::deque<Task>> waiting;  // of those that have a thread
  bool stops = false;
};

TenantThreads::TenantThreads() : state_(std::make_shared<State>()) {}

TenantThreads::~TenantThreads() {
  std::map<Line, std::deque<Task>> dropped;
  std::unique_lock lock(state_->mutex);
  state_->stops = true;
  for (auto& [line, tasks] : state_->waiting) dropped[line] = std::exchange(tasks, {});
  state_->ended.wait_for(lock, kEndTime, [&] { return state_->waiting.empty(); });
}

void TenantThreads::post(Line line, Task task) {
  if (!try_post(line, task)) task();
}

bool TenantThreads::try_post(Line line, const Task& task) {
  const std::lock_guard lock(state_->mutex);
  const auto [found, is_new] = state_->waiting.try_emplace(line);
  found->second.push_back(task);
  if (!is_new) return true;
  try {
    run::start_thread("banyan-tenant", [state = state_, line] { run(state, line); }).detach();
    return true;
  } catch (const std::exception&) {
    state_->waiting.erase(found);
    return false;
  }
}

void TenantThreads::run(const std::shared_ptr<State>& state, Line line) {
  if (line.second <= kLines) setpriority(PRIO_PROCESS, 0, kNice);  // of this thread; where it is refused, it goes on
  for (;;) {
    Task task;
    {
      const std::lock_guard lock(state->mutex);
      const auto found = state->waiting.find(line);
      if (found->second.empty()) {
        state->waiting.erase(found);
        state->ended.notify_all();
        return;
      }
      task = std::move(found->second.front());
      found->second.pop_front();
    }
    task();
  }
}

}  // namespace banyan::service
