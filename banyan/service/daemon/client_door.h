// ClientDoor: the socket at which clients come in, and who is let in.
//
// A user (or control group) that has as many connections as it may have (tenant_quota.h), or comes and goes too often,
// is told so and hung up on. So is everybody when descriptors are short: the last ones are kept for operators, who have
// to see that. If even these are gone, the door is left alone for a while: epoll would report it again and again.
//
// A client that is not let in costs a descriptor until that is closed, on a thread of its user. If a user's clients
// come faster than that thread closes, the door rests for a moment, or no descriptor would be left; but not while the
// thread closes nothing at all, since one user could then keep all others out.
//
// The name of a user may have to come from a server (user_names.h): guests of users that are not known yet wait for
// that, in the order in which they came, and nobody else does.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/daemon/daemon_core.h"
#include "banyan/service/daemon/sub_ids.h"
#include "banyan/service/daemon/user_names.h"
#include "banyan/service/session/client_connection.h"
#include "banyan/service/session/tenant_quota.h"

namespace banyan::service {

class ClientDoor {
 public:
  struct Guest {
    run::FileDescriptor socket;
    ClientProcess process;
    std::shared_ptr<TenantAccount> account;  // of its user or control group, shared with all that these have
    TenantAccount::Charge charge;            // for the connection
  };
  struct Hooks {
    std::function<void(Guest guest)> came;
    // Closes the socket of a client that is not let in, with what it has sent; may take long (ClientConnection).
    std::function<void(const std::shared_ptr<TenantAccount>& account, run::FileDescriptor socket)> turned_away;
    // Somebody was not let in, since descriptors, or memory of the kernel, are short. In words.
    std::function<void(const std::string& why)> is_short = {};
  };
  // Descriptors that are kept for others than clients (an eighth of all, if that is less).
  static constexpr uint64_t kReserve = 64;
  // `core` outlives it. `door` listens, and does not block. Guests come once it is open.
  ClientDoor(DaemonCore& core, run::FileDescriptor door, Hooks hooks);
  ~ClientDoor();

  void open();
  // Nobody is let in until it is opened again.
  void close();

 private:
  static constexpr int kGuestsAtOnce = 64, kMostUnknown = 256;
  static constexpr std::chrono::milliseconds kPause{100}, kShortPause{1}, kStands{100};
  static constexpr double kCost = 3;              // TenantAccount::act
  static constexpr std::chrono::seconds kFar{1};  // who would have to wait for so long comes too often

  // True if it is known who that user is: the owner of its number (sub_ids.h), and the owner's name (user_names.h).
  bool knows(uint32_t user);
  // Calls `then` once it is: at once, where it is.
  void ask(uint32_t user, std::function<void()> then);
  void look();
  void receive(run::FileDescriptor socket);
  void rest(std::chrono::microseconds pause);
  bool is_flooded();
  // Why the guest cannot be let in, where the last descriptors are kept for operators.
  std::optional<Error> shortage(const run::FileDescriptor& guest) const;
  void let_in_next(uint32_t user);
  void let_in(run::FileDescriptor socket);
  void turn_away(const std::shared_ptr<TenantAccount>& account, run::FileDescriptor socket, const Error& why);

  DaemonCore& core_;
  run::Reactor& reactor_;
  const run::FileDescriptor door_;
  const Hooks hooks_;
  std::optional<run::Reactor::Timer> pause_;
  // An account that had too many descriptors to be closed when one of its programs was turned away last: the least
  // number since then, and the time since which it has not become less.
  struct Flood {
    std::shared_ptr<TenantAccount> account;  // shared with all that it has
    uint64_t least = 0;
    run::Reactor::TimePoint since;
  };
  std::optional<Flood> flood_;
  std::map<uint32_t, std::deque<run::FileDescriptor>> waiting_;  // guests, by user, until it is known who that is
  int unknown_ = 0;                                              // of these guests
  TenantAccounts accounts_;
  UserNames names_;
  SubIds sub_ids_;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
