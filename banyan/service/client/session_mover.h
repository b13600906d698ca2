// SessionMover: the thread of a MovingExecutor, which does what takes long: opens the next session, ends old ones, and
// says again that the daemon has been succeeded until somebody cares. There is a thread while there is something to do.
//
// Any thread.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/execute/executor.h"
#include "banyan/run/execute/plan_switch.h"
#include "banyan/run/join/deadline.h"

namespace banyan::service {

class SessionMover {
 public:
  // The generation and the hooks of a new executor. Any thread may call these, maybe before it is there; `succeeded`
  // must not block.
  struct Opening {
    uint32_t generation = 0;                             // 0: the first
    std::function<void(const Error& error)> fail_peers;  // its failure, which they cannot know of
    std::function<void()> succeeded;                     // its daemon has been
  };
  // Throws Error when there is no way to open it, or at the deadline.
  using Open = std::function<std::unique_ptr<run::Executor>(const Opening& opening, const run::Deadline& deadline)>;

  // Waits until the newer daemon is there, at which next sessions open. Throws Error, at the deadline at last.
  using Find = std::function<void(const run::Deadline& deadline)>;

  static constexpr uint64_t kMostWarmBytes = 8 << 20;  // of a buffer; calls of more are not made before they come

  struct Options {
    uint32_t rank = 0, size = 1;
    Find find = {};
    Open open;
    std::function<void()> opened;  // take() has something
    // Says for the `tries`-th time that the daemon of this generation has been succeeded. False when nobody needs to
    // know it any more.
    std::function<bool(uint32_t generation, uint32_t tries)> wish;
    std::chrono::milliseconds opening_time, first_pause, longest_pause;
  };
  explicit SessionMover(Options options) : options_(std::move(options)) {}
  ~SessionMover() { stop(); }
  SessionMover(const SessionMover&) = delete;
  SessionMover& operator=(const SessionMover&) = delete;

  // Opens it, and has it carry out calls of these shapes on memory of its own, and a barrier where no call of these
  // waits for all ranks, with those of the other ranks: then its plans, lanes and staging are there, and all ranks have
  // come.
  void open(Opening opening, std::vector<run::CallShape> shapes);
  struct Opened {
    uint32_t generation = 0;
    std::shared_ptr<run::Executor> executor;  // null: refusal says why
    std::string refusal;
  };
  std::optional<Opened> take();
  // The session that is being opened is not wanted any more: it is refused soon.
  void give_up();
  // Ends it as soon as nobody else has it.
  void end(std::shared_ptr<run::Executor> executor);
  // Wishes for a move away from this generation, once the newer daemon is there, and now and then again.
  void wish_from(uint32_t generation) noexcept;
  // Ends what it does, soon. It holds nothing any more, and begins nothing.
  void stop();

 private:
  using Lock = std::unique_lock<std::mutex>;
  void expect_thread();
  void run() noexcept;
  bool work(Lock& lock);
  void open_now(const Opening& opening, const std::vector<run::CallShape>& shapes, Lock& lock);
  void warm_up(run::Executor& executor, const std::vector<run::CallShape>& shapes, const run::Deadline& deadline) const;
  bool wish_now(Lock& lock);
  bool is_found(const run::Deadline& deadline) const noexcept;

  const Options options_;
  std::stop_source stop_;
  std::mutex mutex_;  // protects what follows
  std::condition_variable wakes_;
  std::stop_source opening_;
  std::optional<std::pair<Opening, std::vector<run::CallShape>>> to_open_;
  std::optional<Opened> opened_;
  std::vector<std::shared_ptr<run::Executor>> to_end_;
  std::optional<uint32_t> wish_;
  uint32_t tries_ = 0;
  std::chrono::steady_clock::time_point wish_at_;
  std::chrono::milliseconds pause_{};
  bool is_running_ = false;
  std::thread thread_;
};

// NextSession: the session to which a communicator may go over: it is opened for one change, and is either taken when
// calls go over, or ended when nothing comes of that change. SessionMover's thread does what takes long.
//
// One thread at a time.
class NextSession {
 public:
  // `mover` outlives it.
  explicit NextSession(SessionMover& mover) : mover_(mover) {}

  // Goes on with opening it for the change of this generation, and its calls of these shapes. Once, when it is there or
  // cannot be: why not, or an empty text. Nothing before.
  std::optional<std::string> prepare(const SessionMover::Opening& opening, const std::vector<run::CallShape>& shapes);
  // This rank does not take part in the change of this generation.
  void refuse(uint32_t generation);
  // No change is being prepared: what comes late is ended.
  void end_late();
  // The change of this generation is the one under way; 0: none is. Ends what was opened for another one, and returns
  // the generation of a change of which nothing has come since this was asked last.
  std::optional<uint32_t> settle(uint32_t under_way);
  // Calls go over to it. Nothing where it is not there.
  std::optional<SessionMover::Opened> take() { return std::exchange(ready_, std::nullopt); }
  bool is_there() const { return ready_.has_value(); }

 private:
  void end(std::optional<SessionMover::Opened> opened);

  SessionMover& mover_;
  std::optional<SessionMover::Opened> ready_;
  std::optional<uint32_t> generation_;  // of the change that it was opened for, or refused
};

}  // namespace banyan::service
