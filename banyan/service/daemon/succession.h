// Succession: how a newer program takes the place of the daemon of its host, without a moment in which nobody serves.
//
// The older daemon starts the newer one, and they talk over a pair of sockets:
//   newer -> older  ready     it has read its options and files, and could serve
//   older -> newer  sockets   those that listen, one by one
//   older -> newer  older     itself, and daemons that were there before and still live, each with its sessions and,
//                             but for itself, the socket to it
//   older -> newer  take      that is all
//   newer -> older  serving   with its card: clients that come are its own now
//   newer -> older  failed    why it cannot, at any time before
//   newest -> each older one, at any time later
//                   newest    the card of the daemon that serves, which may not be the one that this one has started
// Until `serving` the older daemon goes on if anything fails, and the newer program is ended. The end of the connection
// then tells the newest that the older one has ended. No state of sessions crosses: the older daemon carries them to
// their end. So there may be several older ones (older_daemons.h), and the newest speaks for all (host_desk.h).
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/daemon/handed_sockets.h"
#include "banyan/service/daemon/host_directory.h"
#include "banyan/service/daemon/older_daemons.h"

namespace banyan::service {

// What the newer daemon gets.
struct Inheritance {
  HandedSockets sockets;
  bool unlinks_tenants = false, unlinks_operators = false;  // at its end: their paths are the daemon's own
  std::vector<ElderDaemon> older;                           // who it is from, and those of before
};

// To a daemon that was succeeded. Throws Error{peer_lost} when it has ended, Error{io} when it reads nothing.
void tell_of_newest(int socket, const HostCard& newest);

// The older daemon, as the newer one sees it. Before its reactor runs.
class Predecessor {
 public:
  // `socket`: what --upgrade-from names. Throws Error{invalid_input} when it is no socket of that kind.
  explicit Predecessor(int socket);
  // Says ready, and waits. The first of the older ones is the one that it asks. Throws Error{peer_lost} when that has
  // ended or wants it no more, Error{timed_out}.
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
    std::function<void(const HostCard& card)> newest;    // of this host now; after serving
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
  // Its sockets are copied. What fails here is told by events.
  void hand_over(const Inheritance& inheritance);

 private:
  void hear();
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
  bool serves_ = false, is_over_ = false;
};

}  // namespace banyan::service
