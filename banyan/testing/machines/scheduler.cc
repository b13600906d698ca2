#include "banyan/testing/machines/scheduler.h"

#include <linux/futex.h>
#include <sys/syscall.h>

#include <algorithm>
#include <cmath>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/testing/machines/real_calls.h"

namespace banyan::testing::machines {
namespace {

thread_local Scheduler::Thread* own_thread = nullptr;
// Events run in whatever thread has its turn, but belong to no process.
thread_local bool is_in_event = false;

void sleep_until_set(std::atomic<uint32_t>& word) {
  while (word.load(std::memory_order_acquire) == 0) {
    real_calls().syscall(SYS_futex, &word, FUTEX_WAIT_PRIVATE, 0, nullptr, nullptr, 0);
  }
  word.store(0, std::memory_order_relaxed);
}

void set(std::atomic<uint32_t>& word) {
  word.store(1, std::memory_order_release);
  real_calls().syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0);
}

}  // namespace

Scheduler::Thread* Scheduler::current() { return is_in_event ? nullptr : own_thread; }

Nanoseconds Scheduler::draw_delay(Nanoseconds least, Nanoseconds most) {
  const double part = static_cast<double>(draw(1 << 20)) / (1 << 20);
  return least + static_cast<Nanoseconds>(static_cast<double>(most - least) * part * part * part);
}

void Scheduler::at(Nanoseconds when, std::function<void()> event) {
  events_.emplace(std::max(when, now_), std::move(event));
}

Scheduler::Thread& Scheduler::start(Process& process, std::function<void()> body) {
  Thread& thread = *threads_.emplace_back(std::make_unique<Thread>());
  thread.process = &process;
  thread.body = std::move(body);
  const auto run = [](void* argument) -> void* {
    auto& [scheduler, started] = *static_cast<std::pair<Scheduler*, Thread*>*>(argument);
    own_thread = started;
    sleep_until_set(started->turn);
    started->body();
    started->is_over = true;
    scheduler->hand_over(scheduler->next());
    return nullptr;
  };
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
  pthread_attr_setstacksize(&attributes, size_t{1} << 20);
  const int rc = real_calls().pthread_create(&thread.handle, &attributes, run, new std::pair(this, &thread));
  CHECK_EQ(rc, 0) << "pthread_create";
  return thread;
}

const Scheduler::Thread* Scheduler::find(pthread_t handle) const {
  const auto found = std::find_if(threads_.begin(), threads_.end(),
                                  [&](const auto& thread) { return pthread_equal(thread->handle, handle) != 0; });
  return found == threads_.end() ? nullptr : found->get();
}

// Whose turn it is; none when the world has ended.
Scheduler::Thread* Scheduler::next() {
  is_in_event = true;
  std::vector<Thread*> ready;
  while (failure_.empty()) {
    while (!events_.empty() && events_.begin()->first <= now_) {
      const auto node = events_.extract(events_.begin());
      node.mapped()();
    }
    Nanoseconds soonest = events_.empty() ? kNever : events_.begin()->first;
    bool has_ended = true;
    for (const std::unique_ptr<Thread>& thread : threads_) {
      if (thread->is_over || thread->process->is_over) continue;
      has_ended = false;
      if (thread->process->is_stopped) continue;
      if (thread->waits_for == nullptr || thread->wakes_at <= now_ || thread->is_ready()) ready.push_back(thread.get());
      soonest = std::min(soonest, thread->wakes_at);
    }
    if (has_ended) break;
    if (!ready.empty()) {
      Thread* const chosen = ready[draw(ready.size())];
      is_in_event = false;
      return chosen;
    }
    if (soonest == kNever) failure_ = "the world stands still: " + describe_waits();
    if (soonest != kNever && soonest > end_) failure_ = "not all have ended in time: " + describe_waits();
    now_ = std::max(now_, soonest);
  }
  is_in_event = false;
  return nullptr;
}

// Returns when it is the calling thread's turn again, if ever.
void Scheduler::hand_over(Thread* to) {
  Thread* const own = own_thread;
  if (to == own && to != nullptr) return;
  if (to != nullptr) {
    set(to->turn);
  } else {
    set(is_over_);
  }
  sleep_until_set(own->turn);  // for ever, when it is over: then its handle is not used again
}

bool Scheduler::wait(const char* what, IsReady is_ready, Nanoseconds end) {
  if (is_ready()) return true;
  Thread* const own = own_thread;
  own->waits_for = what;
  own->is_ready = std::move(is_ready);
  own->wakes_at = end;
  hand_over(next());
  own->waits_for = nullptr;
  own->wakes_at = kNever;
  return std::exchange(own->is_ready, {})();
}

void Scheduler::spend(Nanoseconds time) {
  now_ += time;
  // Only where something could happen meanwhile does it matter who goes on.
  const bool is_due = !events_.empty() && events_.begin()->first <= now_;
  if (is_due || draw(8) == 0) yield();
}

void Scheduler::yield() { hand_over(next()); }

void Scheduler::end(Process& process) {
  process.is_over = true;
  if (own_thread != nullptr && !is_in_event && own_thread->process == &process) hand_over(next());
}

std::string Scheduler::run(Nanoseconds end) {
  end_ = end;
  Thread* const first = next();
  if (first == nullptr) return failure_;
  set(first->turn);
  sleep_until_set(is_over_);
  return failure_;
}

std::string Scheduler::describe_waits() const {
  std::string text;
  for (const std::unique_ptr<Thread>& thread : threads_) {
    if (thread->is_over || thread->process->is_over) continue;
    text += (text.empty() ? "process " : ", ") + std::to_string(thread->process->pid) + " waits for ";
    text += thread->process->is_stopped ? "SIGCONT" : thread->waits_for == nullptr ? "nothing" : thread->waits_for;
  }
  return text;
}

}  // namespace banyan::testing::machines
