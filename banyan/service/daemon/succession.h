// Succession: how a newer program takes the place of the daemon of its host, without a moment in which nobody serves.
//
// The older daemon starts the newer one, and they talk over a pair of sockets:
//   newer -> older  ready     it has read its options and files, and could serve
//   older -> newer  sockets   those that listen, one by one
//   older -> newer  older     itself, with its sessions
//   older -> newer  take      that is all
//   newer -> older  serving   with its card: clients that come are its own now
//   newer -> older  failed    why it cannot, at any time before
// Until `serving` the older daemon goes on if anything fails, and the newer program is ended. The end of the connection
// then tells the newer daemon that the older one has ended. No state of sessions crosses: the older daemon carries them
// to their end, and the newer one speaks for both (host_answers.h). There is one older daemon at most: while it lives,
// no newer one takes the place of the newest.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/daemon/door.h"
#include "banyan/service/session/open_sessions.h"

namespace banyan::service {

// A daemon whose place another one has taken, as it was then.
struct ElderDaemon {
  OlderDaemon daemon;
  std::set<OpenSessions::Key> sessions;
  run::FileDescriptor socket;  // to it; at its end it is hung up
};

// All that the newer daemon gets from the older one.
struct Inheritance {
  HandedSockets sockets;
  bool unlinks_tenants = false, unlinks_operators = false;  // at its end: their paths are the daemon's own
  ElderDaemon older;
};

// The older daemon, as the newer one sees it. Before its reactor runs.
class Predecessor {
 public:
  // `socket`: what --upgrade-from names. Throws Error{invalid_input} when it is no socket of that kind.
  explicit Predecessor(int socket);
  // Says ready, and waits. Throws Error{peer_lost} when the older daemon has ended or wants it no more,
  // Error{timed_out}, Error{unsupported} when it has an older one itself.
  Inheritance take_over();
  void serve(const HostCard& own);
  void fail(const std::string& why) noexcept;

 private:
  run::FileDescriptor socket_;
};

// The newer program, as the older daemon sees it. On the reactor's thread.
class Successor {
 public:
  static constexpr std::chrono::milliseconds kReadyTime{5000}, kServingTime{3000};

  struct Events {
    std::function<void()> ready;                         // hand_over() is to follow
    std::function<void(const HostCard& card)> serving;   // once
    std::function<void(const std::string& why)> failed;  // once, instead; must not destroy this object at once
    std::function<void()> ended;                         // the newest has ended; after serving
  };
  // Starts the program at this path with these arguments, and --upgrade-from. Operators do not choose the path: they
  // may be people who are not the daemon's user, as whom it runs. Throws Error{io}.
  Successor(run::Reactor& reactor, const std::string& program, const std::vector<std::string>& arguments,
            Events events);
  // Ends the program, unless it serves.
  ~Successor();
  Successor(const Successor&) = delete;
  Successor& operator=(const Successor&) = delete;

  pid_t process() const { return process_; }
  // Copies the sockets. Failures are reported by events.
  void hand_over(const Inheritance& inheritance);

 private:
  void receive();
  void wait_at_most(std::chrono::milliseconds time, const std::string& what);
  void fail(const std::string& why);
  void fail_with(const Error& error, const std::string& otherwise);
  std::string how_it_ended();

  run::Reactor& reactor_;
  const std::string program_;
  const Events events_;
  run::FileDescriptor socket_;
  pid_t process_ = -1;
  std::optional<run::Reactor::Timer> until_;
  bool is_ready_ = false, serves_ = false, is_over_ = false;
};

}  // namespace banyan::service
