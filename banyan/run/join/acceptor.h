// Acceptor: answers calls, and finds out who the callers are before anybody listens to them.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "banyan/run/join/handshake.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

// On the reactor's thread, unless it says otherwise.
class Acceptor {
 public:
  struct Options {
    std::chrono::milliseconds stranger_time{10'000};
    uint32_t stranger_limit = 256;
    // A caller has shown that it may not call: it does not know the secret, tries others, or is no process of ours. A
    // caller that hangs up on the way has shown nothing.
    std::function<void()> not_proved{};
    // The first of these in words, and then those of each kQuiet together. Empty: a warning in the log.
    std::function<void(const std::string& words)> tell{};
    // A call stays unanswered, since there are too few descriptors, and no stranger that could be hung up on.
    std::function<void(const Error&)> is_short{};
  };
  // Takes the connection of a caller that has proved itself, or says why not.
  using Admit = std::function<std::optional<std::string>(const Greeting& greeting, Admitted& connection)>;

  // `name`: that callers call this process by (handshake.h).
  Acceptor(Reactor& reactor, Listener listener, Secret secret, std::string name, Options options, Admit admit);
  ~Acceptor();
  Acceptor(const Acceptor&) = delete;
  Acceptor& operator=(const Acceptor&) = delete;

  static constexpr std::chrono::seconds kQuiet{60};
  // The number of callers as in Options::not_proved, at all acceptors of this process and of the processes it was
  // forked from. Any thread.
  static uint64_t not_proved_in_process();

  struct Refusals {
    uint64_t count = 0;
    std::deque<std::string> last;
  };
  // Any thread.
  Refusals refusals() const;
  // True while there are callers that have still to say who they are.
  bool has_strangers() const { return !strangers_.empty(); }
  // Hangs up on all strangers, and is called no more.
  void close() noexcept;

 private:
  struct Stranger {
    explicit Stranger(Handshake own) : handshake(std::move(own)) {}
    Handshake handshake;
    Alarm timer;
  };
  using Strangers = std::list<Stranger>;

  void listen();
  void answer();
  void serve(Strangers::iterator stranger);
  bool advance(Strangers::iterator stranger);
  void let_in(Strangers::iterator stranger);
  void dismiss(Strangers::iterator stranger, const std::string& why) noexcept;
  void refuse(const std::string& why) noexcept;
  void record_not_proved(const std::string& why);
  void report_callers();

  static constexpr size_t kRemembered = 16;
  Reactor& reactor_;
  Listener listener_;
  Secret secret_;
  std::string name_;
  Options options_;
  Admit admit_;
  Strangers strangers_;  // the oldest first
  Alarm pause_, quiet_;
  uint64_t unreported_ = 0;  // callers that did not prove themselves, and why the last one did not
  std::string last_unreported_;
  mutable std::mutex mutex_;  // protects refusals_
  Refusals refusals_;
};

}  // namespace banyan::run
