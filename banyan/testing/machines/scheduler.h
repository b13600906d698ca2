// Scheduler: the threads of simulated processes, of which one at a time runs, in an order that a seed decides, while a
// clock jumps from event to event.
//
// The threads are real ones, so that code which blocks, has thread-local variables or throws runs as it is. A thread
// runs until it calls wait() or yield(); then the scheduler hands over to any thread that can go on. When none can, the
// clock jumps to the next moment at which something happens: an event, or the end of somebody's wait. When nothing ever
// will, the world stands still, and run() says who waits for what.
//
// All functions but run() are called by the thread that has its turn, or before run(). Nothing here is ever freed: a
// process that was killed leaves its threads asleep, and whoever made the world ends with it (machines.h).
#pragma once

#include <pthread.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace banyan::testing::machines {

using Nanoseconds = int64_t;
constexpr Nanoseconds kMillisecond = 1'000'000, kSecond = 1'000 * kMillisecond, kNever = INT64_MAX;

struct Process {
  int32_t pid = 0;
  uint32_t host = 0;
  bool is_over = false;     // has ended, or was killed: its threads never run again
  bool is_stopped = false;  // as by SIGSTOP

  // System calls so far, and at which of them it is killed; 0: at none.
  uint64_t calls = 0, dies_at = 0;
  uint32_t in_libcrypto = 0;  // threads that are in a call of libcrypto
  // How many more there are until one fails; 0: none does.
  uint64_t calls_left = 0, allocations_left = 0;
  bool fails_call() { return calls_left > 0 && --calls_left == 0; }
  bool fails_allocation() { return allocations_left > 0 && --allocations_left == 0; }
};

class Scheduler {
 public:
  using IsReady = std::function<bool()>;

  struct Thread {
    Process* process = nullptr;
    std::function<void()> body;
    const char* waits_for = nullptr;  // none: it can run
    IsReady is_ready;                 // whether it need not wait any longer
    Nanoseconds wakes_at = kNever;
    bool is_over = false;
    std::atomic<uint32_t> turn{0};
    pthread_t handle{};
  };

  explicit Scheduler(uint64_t seed) : random_(seed) {}
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The thread that calls, if it belongs to a simulated process.
  static Thread* current();

  Nanoseconds now() const { return now_; }
  uint64_t draw(uint64_t n) { return random_() % n; }  // below n
  // A moment between the two, short ones more often.
  Nanoseconds draw_delay(Nanoseconds least, Nanoseconds most);

  // Calls `event` at that moment, as soon as the thread that has its turn lets go. Events make no calls that wait.
  void at(Nanoseconds when, std::function<void()> event);
  void after(Nanoseconds delay, std::function<void()> event) { at(now_ + delay, std::move(event)); }

  Thread& start(Process& process, std::function<void()> body);
  const Thread* find(pthread_t handle) const;
  // Waits until `is_ready`, or until the moment `end`. Whether it is ready.
  bool wait(const char* what, IsReady is_ready, Nanoseconds end = kNever);
  // Lets time pass for what the thread has done, and maybe others run.
  void spend(Nanoseconds time);
  void yield();
  // Ends the process of the calling thread, or another one. Does not return when it is the calling thread's.
  void end(Process& process);

  // Until all processes have ended, or until the moment `end`. What keeps them from it, or nothing.
  std::string run(Nanoseconds end);

 private:
  Thread* next();
  void hand_over(Thread* to);
  std::string describe_waits() const;

  std::mt19937_64 random_;
  Nanoseconds now_ = 0, end_ = kNever;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::multimap<Nanoseconds, std::function<void()>> events_;
  std::atomic<uint32_t> is_over_{0};
  std::string failure_;
};

}  // namespace banyan::testing::machines
