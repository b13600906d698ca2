// ClientDoor: the socket at which clients come in, and who is let in.
//
// A user that has as many connections as it may have (tenant_quota.h), or comes and goes too often, is told so and hung
// up on. When descriptors are short, the door is left alone for a while: epoll would tell of it again and again.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/daemon/tenant_quota.h"

namespace banyan::service {

class ClientDoor {
 public:
  struct Guest {
    run::FileDescriptor socket;
    std::shared_ptr<TenantAccount> account;  // of its user, shared with all that the user has
    TenantAccount::Charge charge;            // for the connection
  };
  // All references outlive it. `door` listens, and does not block. Guests come once it is open.
  ClientDoor(run::Reactor& reactor, run::FileDescriptor door, TenantAccounts& accounts,
             std::function<void(Guest guest)> came)
      : reactor_(reactor), door_(std::move(door)), accounts_(accounts), came_(std::move(came)) {}
  ~ClientDoor();
  ClientDoor(const ClientDoor&) = delete;
  ClientDoor& operator=(const ClientDoor&) = delete;

  void open();
  // Nobody is let in until it is opened again.
  void close();

 private:
  static constexpr int kGuestsAtOnce = 64;
  static constexpr std::chrono::milliseconds kPause{100};
  static constexpr double kCost = 3;              // TenantAccount::act
  static constexpr std::chrono::seconds kFar{1};  // who would have to wait for so long comes too often

  void look();
  void let_in(run::FileDescriptor socket);

  run::Reactor& reactor_;
  const run::FileDescriptor door_;
  TenantAccounts& accounts_;
  const std::function<void(Guest guest)> came_;
  std::optional<run::Reactor::Timer> pause_;
};

}  // namespace banyan::service
