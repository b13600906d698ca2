#include "banyan/service/session/tenant_threads.h"

#include <sys/resource.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>

#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

constexpr std::chrono::seconds kEndTime{2};
constexpr int kNice = 10;

}  // namespace

struct TenantThreads::State {
  std::mutex mutex;  // protects what follows
  std::condition_variable ended;
  std::map<Line, std::deque<Task>> waiting;  // of those that have a thread, or are stranded
  std::set<Line> stranded;                   // no thread could be made for these

  // Its next task. None: the line has ended, and `line` is a stranded one, if there is any; else the thread ends. Under
  // the mutex.
  std::optional<Task> next(Line& line, bool& ends) {
    // Tasks of the line, then a line that no thread could be made for; without either the thread ends.
    const auto found = waiting.find(line);
    if (!found->second.empty()) {
      std::optional<Task> task = std::move(found->second.front());
      found->second.pop_front();
      return task;
    }
    waiting.erase(found);
    ended.notify_all();
    ends = stranded.empty();
    if (!ends) line = stranded.extract(stranded.begin()).value();
    return std::nullopt;
  }
};

TenantThreads::TenantThreads()
    : TenantThreads([](std::function<void()> body) { run::start_thread("banyan-tenant", std::move(body)).detach(); }) {}
TenantThreads::TenantThreads(Start start) : start_(std::move(start)), state_(std::make_shared<State>()) {}

TenantThreads::~TenantThreads() {
  std::map<Line, std::deque<Task>> dropped;
  std::unique_lock lock(state_->mutex);
  for (auto& [line, tasks] : state_->waiting) dropped[line] = std::exchange(tasks, {});
  for (const Line& line : std::exchange(state_->stranded, {})) state_->waiting.erase(line);
  state_->ended.wait_for(lock, kEndTime, [&] { return state_->waiting.empty(); });
}

void TenantThreads::post(Line line, Task task) {
  {
    const std::lock_guard lock(state_->mutex);
    const auto [found, is_new] = state_->waiting.try_emplace(line);
    found->second.push_back(std::move(task));
    if (!is_new) return;
    state_->stranded.insert(line);
  }
  go_on();
}

void TenantThreads::go_on() {
  const std::lock_guard lock(state_->mutex);
  try {
    while (!state_->stranded.empty()) {
      start_([state = state_, line = *state_->stranded.begin()] { run(state, line); });
      state_->stranded.erase(state_->stranded.begin());
    }
  } catch (const std::exception&) {  // not yet
  }
}

bool TenantThreads::try_post(Line line, const Task& task) {
  const std::lock_guard lock(state_->mutex);
  const auto [found, is_new] = state_->waiting.try_emplace(line);
  found->second.push_back(task);
  if (!is_new) return true;
  try {
    start_([state = state_, line] { run(state, line); });
    return true;
  } catch (const std::exception&) {
    state_->waiting.erase(found);
    return false;
  }
}

void TenantThreads::run(const std::shared_ptr<State>& state, Line line) {
  for (bool ends = false; !ends;) {
    if (line.second <= kLines) setpriority(PRIO_PROCESS, 0, kNice);  // of this thread; where it is refused, it goes on
    std::optional<Task> task;
    do {
      task.reset();  // with what it holds, before the next one
      {
        const std::lock_guard lock(state->mutex);
        task = state->next(line, ends);
      }
      if (task) (*task)();
    } while (task);
  }
}

}  // namespace banyan::service
