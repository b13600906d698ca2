// TenantThreads: a few threads for each account (tenant_quota.h) that has work which may take long: plans to be made,
// memory to be looked at and unmapped, descriptors of its own to be closed. So neither the worker nor control waits for
// it, and no other account; of the programs of one, few do.
//
// Closing is such work: the last close of a socket may wait for its peer (SO_LINGER), and each close of a file for the
// file system that a user has brought along (FUSE). So is a look at memory (Region).
//
// A thread begins with the work and ends when there is none. It leaves cores to others (its nice value is 10), but for
// looks and names, which are short, and for which programs wait. Any thread.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <utility>

namespace banyan::service {

class TenantThreads {
 public:
  // Throws where no thread can be made.
  using Start = std::function<void(std::function<void()> body)>;
  TenantThreads();
  explicit TenantThreads(Start start);
  // Waits for tasks that run, for two seconds at most; those that wait are dropped.
  ~TenantThreads();
  TenantThreads(const TenantThreads&) = delete;
  TenantThreads& operator=(const TenantThreads&) = delete;

  // A line of work: that of one of an account's clients, or what is to be closed and unmapped for it.
  using Line = std::pair<uint32_t, uint32_t>;
  static Line line_of(uint32_t account, uint64_t client) { return {account, static_cast<uint32_t>(client % kLines)}; }
  static Line closing_for(uint32_t account) { return {account, kLines}; }
  // More lines, for looks: a look is over at once, unless its client wants it to last; few others are to wait for that.
  static Line looking_for(uint32_t account, uint64_t client) {
    return {account, kLines + 1 + static_cast<uint32_t>(client % kLookers)};
  }
  static Line names() { return {UINT32_MAX, kLines + 1}; }  // of users, for all accounts

  // Tasks throw nothing. Those of a line run one after the other, in their order. A task that has run is destroyed on
  // its thread, too, with all that it holds. A task that has not ended two seconds after these threads may end after
  // all that it knows.
  using Task = std::function<void()>;
  // Never runs the task on the caller's thread, which it could hold for ever. If no thread can be made, the task waits
  // until another line's thread has time or go_on() makes one.
  void post(Line line, Task task);
  // False if no thread can be made: then nobody does the task.
  [[nodiscard]] bool try_post(Line line, const Task& task);
  // To be called now and then: tries to make the threads that could not be made before.
  void go_on();

 private:
  static constexpr uint32_t kLines = 4, kLookers = 16;

  struct State;
  static void run(const std::shared_ptr<State>& state, Line line);
  const Start start_;
  const std::shared_ptr<State> state_;  // shared with the threads
};

}  // namespace banyan::service
