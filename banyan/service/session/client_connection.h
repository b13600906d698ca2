// ClientConnection: the control connection of one client of the daemon, and what belongs to the client.
//
// It reads the client's messages (protocol/messages.h), in order, and keeps messages to the client until the socket
// takes them. A client that sends something wrong, reads nothing for long, or ends, is hung up on; `gone` is called
// then, once. A client's messages stay unread while kMostUnanswered of its wishes wait for their answers, and while its
// user has asked for more than its part (tenant_quota.h): so a flood of wishes waits at the client.
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

// The identity of a client, by the kernel's word.
struct ClientIdentity {
  pid_t process = 0;
  uid_t user = 0;  // once it is let in: the owner, where it is a sub-id (sub_ids.h)
  gid_t group = 0;
  std::string name = {};    // of the user, once it is let in (user_names.h)
  std::string cgroup = {};  // of cgroup v2, when it came; empty where it cannot be read
};

// The identity of a process that has connected to a unix socket, and its pidfd. The number of a process may belong to
// another one by the time that it is looked up. Data read by the number is right nevertheless, since the pidfd shows
// afterwards that the process has not ended.
struct ClientProcess {
  ClientIdentity identity;
  run::FileDescriptor pidfd;
};
// Throws Error{peer_lost} if the process has ended; Error{unsupported}, Error{io} if its end could not be noticed: a
// later process of the same number would be taken for it.
ClientProcess process_of(const run::FileDescriptor& socket);
// The pidfd that process_of() takes where the kernel cannot give that of the connected process (before Linux 6.5): that
// of the process which has the number now, unless it is of another user. Another process of the same user may be taken
// for it. Throws the same.
run::FileDescriptor watched_by_number(pid_t process, uid_t user);
// The caller's identity without its control group, by opening no descriptor: enough to refuse it. Throws Error{io}.
ClientIdentity caller_at(const run::FileDescriptor& socket);

class ClientConnection {
 public:
  struct Hooks {
    // An Error that it throws hangs up. It may take the descriptor, which is closed otherwise.
    std::function<void(const ClientMessage& message, std::optional<run::FileDescriptor>& descriptor)> received;
    std::function<void(const std::string& why)> gone;  // must not destroy this object at once
    // The time for which nothing is to be read. Empty: there is no pause.
    std::function<std::chrono::nanoseconds()> pause = {};
    // Closes what a stranger has sent, and the socket, where that may take long. Empty: they are closed here.
    std::function<void(run::FileDescriptor descriptor)> close = {};
  };
  ClientConnection(run::Reactor& reactor, run::FileDescriptor socket, ClientProcess process, Hooks hooks);
  ~ClientConnection();
  ClientConnection(const ClientConnection&) = delete;
  ClientConnection& operator=(const ClientConnection&) = delete;

  const ClientIdentity& identity() const { return identity_; }
  void send(const DaemonMessage& message, int descriptor = -1);
  // Receives and sends nothing any more, and calls no hook but `close`; its socket stays open as long as this object
  // lives. False if it was over already.
  bool end();

 private:
  static constexpr size_t kMostUnsent = 1024, kMostUnanswered = 64;
  static constexpr int kParcelsAtOnce = 16;

  void serve(uint32_t events);
  void receive();
  bool shall_rest();
  void go_on_receiving();
  uint32_t wanted() const;
  void close(run::FileDescriptor descriptor) const;
  void send_on();
  void hang_up(const std::string& why);

  run::Reactor& reactor_;
  run::FileDescriptor socket_;
  const Hooks hooks_;
  const ClientIdentity identity_;
  const run::FileDescriptor process_;  // as in ClientProcess
  std::deque<std::string> unsent_;
  size_t unanswered_ = 0;  // wishes
  bool is_resting_ = false;
  std::optional<run::Reactor::Timer> rest_;  // until it hears again
  bool is_over_ = false;
};

}  // namespace banyan::service
