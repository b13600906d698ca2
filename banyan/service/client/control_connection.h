// ControlConnection: what this process says to the daemon of its host and hears from it, but for calls
// (protocol/messages.h). It has a thread that listens, so that news of the daemon, and its end, are known at once.
//
// Nothing waits for room in the socket: what finds none is sent by the thread, in its order. A forked process has no
// part in it: its calls throw Error{unsupported}.
//
// Any thread.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

// A daemon that has said welcome.
struct Greeting {
  run::FileDescriptor socket;
  Welcome welcome;
  run::FileDescriptor event;  // to be set when the daemon sleeps
};
// Calls the daemon at `url` and says hello, if it is one to be trusted (run/system/socket_owner.h). `doorbell` is
// memory of a DoorbellPage. Throws as Attachment::to().
Greeting greet(const std::string& url, int doorbell, const run::Deadline& deadline);

class ControlConnection {
 public:
  // Called by the thread. An exception from one of them ends the connection.
  struct Events {
    std::function<void(const SessionFailed&)> session_failed;
    std::function<void()> succeeded;         // is_succeeded() says so
    std::function<void(const Error&)> gone;  // once, the last
  };
  ControlConnection(run::FileDescriptor socket, const std::string& url, Events events);
  // Hangs up. No event comes any more. Not by the thread.
  ~ControlConnection();
  ControlConnection(const ControlConnection&) = delete;
  ControlConnection& operator=(const ControlConnection&) = delete;

  bool is_in_child() const { return fork_guard_.is_in_child(); }
  void expect_own_process() const;
  // Also in a forked process, which has no part in it.
  bool is_gone() const {
    if (is_in_child()) return true;
    const std::lock_guard lock(mutex_);
    return is_gone_;
  }
  // See Succeeded.
  bool is_succeeded() const { return is_succeeded_.load(std::memory_order_acquire); }
  // The error with which calls end then.
  const Error& loss() const { return gone_; }

  // Asks for a region or a session; the wish gets its number here. Returns what grants it, or the refusal. Throws
  // Error{timed_out} at the deadline: an answer after that goes to `late`, in the thread. Throws Error{peer_lost};
  // Error{unsupported} for a wish that is too long, Error{io}: then there comes none.
  template <typename Wish>
  DaemonMessage ask(Wish wish, run::FileDescriptor descriptor, const run::Deadline& deadline,
                    std::function<void(const DaemonMessage&)> late) {
    const auto encode_as = [&](uint64_t number) {
      wish.wish = number;
      return encode(ClientMessage(wish));
    };
    return ask_by(encode_as, std::move(descriptor), deadline, std::move(late));
  }
  // Says what has no answer. Does nothing when the daemon has gone. Returns the number of the last wish before it.
  uint64_t send(const ClientMessage& message, run::FileDescriptor descriptor = {}) noexcept;
  // The last wish that the daemon has granted, after it had carried out all that was told before that wish.
  uint64_t last_granted() const { return last_granted_.load(std::memory_order_acquire); }

 private:
  struct Pending {
    std::optional<DaemonMessage> answer;
    std::function<void(const DaemonMessage&)> late;  // set when nobody waits any more
  };
  struct Unsent {
    std::string bytes;
    run::FileDescriptor descriptor;
  };
  using Encode = std::function<std::string(uint64_t wish)>;

  DaemonMessage ask_by(const Encode& encode, run::FileDescriptor descriptor, const run::Deadline& deadline,
                       std::function<void(const DaemonMessage&)> late);
  void send_bytes(std::string bytes, run::FileDescriptor descriptor);
  void run() noexcept;
  void listen();
  void send_on();
  void receive(const DaemonMessage& message);
  void receive_answer(uint64_t wish, const DaemonMessage& message);
  void lose(const Error& why) noexcept;

  const run::ForkGuard fork_guard_;
  const run::FileDescriptor socket_;
  const std::string url_;
  const Error gone_;  // made while there is memory for it
  const Events events_;
  run::Event event_;  // there is something to send, or the end has come
  std::atomic<bool> stops_{false}, is_succeeded_{false};
  std::atomic<uint64_t> last_granted_{0};
  mutable std::mutex mutex_;  // protects what follows
  std::condition_variable answered_;
  bool is_gone_ = false;
  uint64_t wishes_ = 0;
  std::map<uint64_t, Pending> pending_;  // by the number of the wish
  std::deque<Unsent> unsent_;
  std::thread thread_;
};

}  // namespace banyan::service
