// ClientSide: lets the programs of this host in, and does what they say: a client says hello, offers memory, opens
// sessions, asks for hints, shows flight records.
//
// A client that breaks a rule is hung up on. All that it causes is charged to its account. Work that may take long for
// one user goes to threads of that user: looks at memory, and the end of what it has sent.
//
// On the reactor's thread, unless a function says otherwise.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "banyan/service/daemon/client_door.h"
#include "banyan/service/daemon/operator_side.h"

namespace banyan::service {

class ClientSide {
 public:
  // All but the workers outlive it. These begin after it and end before it: only in between are they used.
  ClientSide(DaemonCore& core, SessionOpener& opener, OperatorSide& operators, Workers& workers);

  // Programs come in by this socket, which listens, from now on. Once.
  void open_door(run::FileDescriptor door);
  // Programs wait at the door meanwhile.
  void let_in(bool are_let_in);
  // The door is a newer daemon's.
  void leave_door() { door_.reset(); }

 private:
  using Descriptor = std::optional<run::FileDescriptor>;  // is closed where it is not taken
  // A client that says something, and the descriptor that it sends along.
  struct Speaker {
    uint64_t number;
    Client& client;
    Descriptor& descriptor;

    // Throws Error{invalid_input} where it sends none along with what it `does`.
    void expect_descriptor(const std::string& does) const;
    run::FileDescriptor take() const { return *std::exchange(descriptor, std::nullopt); }
  };

  void welcome(ClientDoor::Guest guest);
  void receive(uint64_t number, const ClientMessage& message, Descriptor& descriptor);
  void act(const Speaker& speaker, const Hello& hello);
  void act(const Speaker& speaker, const OfferRegion& offer);
  void act(const Speaker& speaker, const WithdrawRegion& withdraw);
  void act(const Speaker& speaker, const ShowRecord& show);
  void act(const Speaker& speaker, const HideRecord& hide) { operators_.direct().remove(speaker.number, hide.record); }
  void act(const Speaker& speaker, const AskHints& ask);
  void act(const Speaker& speaker, const OpenSession& open) { opener_.open(speaker.number, speaker.client, open); }
  void act(const Speaker& speaker, const CloseSession& close) { opener_.close(speaker.client, close); }
  void act(const Speaker& speaker, const RankGone& gone) { opener_.lose(speaker.client, gone); }

  void greet(Client& client, const Hello& hello);
  void attach(uint64_t number, Client& client, Region doorbell);
  HintService::Asker asker_of_hints(uint64_t number);
  void drop(uint64_t number, const std::string& why);
  std::chrono::nanoseconds pause_of(const Client& client) const;
  std::function<void(run::FileDescriptor)> closer_for(const std::shared_ptr<TenantAccount>& account) const;
  std::function<void(std::function<void()> task)> later_for(const TenantAccount& account) const;

  // Called with the result of a look at memory, on the reactor's thread; an Error of `found` goes to `refused`, too.
  // Neither is called if the client has gone meanwhile.
  struct Look {
    std::function<void(Client&, Region)> found;
    std::function<void(const Error&)> refused;
  };
  // Looks on a thread of the client's user, which the client can keep waiting for as long as it likes.
  void look_at(uint64_t number, run::FileDescriptor descriptor, uint64_t bytes, Look then);

  DaemonCore& core_;
  SessionOpener& opener_;
  ClientTable& clients_;
  OperatorSide& operators_;
  Workers& workers_;
  std::optional<ClientDoor> door_;
};

}  // namespace banyan::service
