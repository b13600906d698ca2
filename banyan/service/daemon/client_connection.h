// ClientConnection: the control connection of one client of the daemon, and what belongs to the client.
//
// It reads what the client says (protocol/messages.h), in order, and keeps what is to be said until the socket takes
// it. A client that says something wrong, reads nothing for long, or ends, is hung up on; `gone` is called then, once.
// What it says stays unread while kMostUnanswered wishes of its wait for their answers, and while its user has asked
// for more than its part (tenant_quota.h): so a flood of wishes waits at the client.
//
// On the reactor's thread.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

// Who it is, by the kernel's word.
struct ClientIdentity {
  pid_t process = 0;
  uid_t user = 0;  // once it is let in: the owner, where it is a sub-id (sub_ids.h)
  gid_t group = 0;
  std::string name = {};    // of the user, once it is let in (user_names.h)
  std::string cgroup = {};  // of cgroup v2, when it came; empty where it cannot be read
};

// Of who has connected to a unix socket, and a pidfd of it. A number of a process may be that of another one by the
// time that it is looked up: what is read by it is right, since the pidfd says afterwards that the process has not
// ended.
struct ClientProcess {
  ClientIdentity identity;
  run::FileDescriptor pidfd;
};
// Throws Error{peer_lost} where the process has ended; Error{unsupported}, Error{io} where its end could not be
// noticed: whoever had its number later would be taken for it.
ClientProcess process_of(const run::FileDescriptor& socket);
// What that does where the kernel cannot tell whose process has connected (before Linux 6.5): the process that has the
// number now, unless it is of another user. One of the same user may be taken for it. Throws the same.
run::FileDescriptor watched_by_number(pid_t process, uid_t user);
// Who it is without a descriptor and without its control group: enough to refuse it. Throws Error{io}.
ClientIdentity caller_at(const run::FileDescriptor& socket);

class ClientConnection {
 public:
  struct Hooks {
    // What it throws hangs up. It may take the descriptor, which is closed otherwise.
    std::function<void(const ClientMessage& message, std::optional<run::FileDescriptor>& descriptor)> said;
    std::function<void(const std::string& why)> gone;  // must not destroy this object at once
    // How long nothing is to be read. Empty: there is no pause.
    std::function<std::chrono::nanoseconds()> pause = {};
    // Closes what a stranger has sent, and the socket, where that may take long. Empty: they are closed here.
    std::function<void(run::FileDescriptor descriptor)> close = {};
  };
  ClientConnection(run::Reactor& reactor, run::FileDescriptor socket, ClientProcess process, Hooks hooks);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  const ClientIdentity& identity() const { return identity_; }
  void say(const DaemonMessage& message, int descriptor = -1);
  // Hears and says nothing any more, and calls no hook; its socket stays open as long as it does. Whether it was not
  // over yet.
  bool end();

 private:
  static constexpr size_t kMostUnsaid = 1024, kMostUnanswered = 64;
  static constexpr int kParcelsAtOnce = 16;

  void serve(uint32_t events);
  void hear();
  bool shall_rest();
  void go_on_hearing();
  uint32_t wanted() const;
  void close(run::FileDescriptor descriptor) const;
  void say_on();
  void hang_up(const std::string& why);

  run::Reactor& reactor_;
  run::FileDescriptor socket_;
  const Hooks hooks_;
  const ClientIdentity identity_;
  const run::FileDescriptor process_;  // as in ClientProcess
  std::deque<std::string> unsaid_;
  size_t unanswered_ = 0;  // wishes
  bool is_resting_ = false;
  std::optional<run::Reactor::Timer> rest_;  // until it hears again
  bool is_over_ = false;
};

}  // namespace banyan::service
