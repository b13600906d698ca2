#include "banyan/service/daemon/client_side.h"

#include "banyan/base/utf8.h"
#include "banyan/service/share/tenant_label.h"

namespace banyan::service {
namespace {

// At names of hosts and tenants: some 10 us, as TenantAccount::act counts.
constexpr double kLooksOfAnAct = 100;

// What it costs to do what a client says, as TenantAccount::act counts.
double cost_of(const ClientMessage& message) {
  if (std::holds_alternative<Hello>(message)) return 5;
  if (std::holds_alternative<OfferRegion>(message) || std::holds_alternative<ShowRecord>(message)) return 3;
  if (std::holds_alternative<AskHints>(message)) return 20;
  const auto* const open = std::get_if<OpenSession>(&message);
  if (open == nullptr) return 1;
  return 4 + static_cast<double>(open->members.size()) / 128 + static_cast<double>(open->hosts.size()) / 8;
}

// What a program calls itself, of which each of its ranks shows a copy.
std::string in_short(const std::string& program) {
  constexpr size_t kMost = 200;
  return program.size() <= kMost ? harmless(program) : harmless(program.substr(0, kMost)) + "...";
}

}  // namespace

ClientSide::ClientSide(DaemonCore& core, SessionOpener& opener, OperatorSide& operators, Workers& workers)
    : core_(core), opener_(opener), clients_(opener.clients()), operators_(operators), workers_(workers) {}

// ---- Clients come and go ----

void ClientSide::open_door(run::FileDescriptor door) {
  door_.emplace(
      core_, std::move(door),
      ClientDoor::Hooks{.came = [this](ClientDoor::Guest guest) { welcome(std::move(guest)); },
                        .turned_away = [this](const std::shared_ptr<TenantAccount>& account,
                                              run::FileDescriptor socket) { closer_for(account)(std::move(socket)); },
                        .is_short = [this](const std::string& why) { operators_.record_shortage(why); }});
  door_->open();
}

void ClientSide::let_in(bool are_let_in) {
  if (are_let_in) {
    door_->open();
  } else {
    door_->close();
  }
}

void ClientSide::welcome(ClientDoor::Guest guest) {
  run::Reactor& reactor = core_.reactor;
  const uint64_t number = clients_.next_number();
  Client client;
  client.connection = std::make_unique<ClientConnection>(
      reactor, std::move(guest.socket), std::move(guest.process),
      ClientConnection::Hooks{
          .received = [this, number](const ClientMessage& message,
                                     Descriptor& descriptor) { receive(number, message, descriptor); },
          .gone = [this, number](const std::string& why) { drop(number, why); },
          .pause = [this, number] { return pause_of(clients_.at(number)); },
          .close = closer_for(guest.account)});
  client.account = std::move(guest.account);
  client.charge = std::move(guest.charge);
  client.hello_by = reactor.after(core_.options.hello_time, [this, number] { drop(number, "it has not said hello"); });
  clients_.add(std::move(client));
}

std::function<void(run::FileDescriptor)> ClientSide::closer_for(const std::shared_ptr<TenantAccount>& account) const {
  struct Closed {
    run::FileDescriptor descriptor;
    TenantAccount::Charge charge;
  };
  return [threads = core_.threads, account](run::FileDescriptor descriptor) {
    const auto closed = std::make_shared<Closed>(
        Closed{.descriptor = std::move(descriptor), .charge = account->add(Resource::closing, 1)});
    threads->post(TenantThreads::closing_for(account->number()), [closed] { closed->descriptor.reset(); });
  };
}

// Has a user's mappings unmapped.
std::function<void(std::function<void()> task)> ClientSide::later_for(const TenantAccount& account) const {
  return [threads = core_.threads, number = account.number()](std::function<void()> task) {
    threads->post(TenantThreads::closing_for(number), std::move(task));
  };
}

// How long its wishes are to stay unread.
std::chrono::nanoseconds ClientSide::pause_of(const Client& client) const {
  constexpr std::chrono::milliseconds kUntilGreeted{1}, kUntilClosed{50};
  if (client.has_said_hello && client.hello_by) return kUntilGreeted;
  if (!client.account->has_room(Resource::closing, 1)) return kUntilClosed;
  return client.account->wait(core_.reactor.now().time_since_epoch());
}

void ClientSide::drop(uint64_t number, const std::string& why) {
  // What it has cost is given back when all of it has ended.
  const std::shared_ptr<Client> client = clients_.take_out(number);
  if (!client) return;
  operators_.direct().remove(number);
  core_.record(*client->account,
               "process " + std::to_string(client->connection->identity().process) + " has detached: " + why);
  if (client->hello_by) core_.reactor.cancel(*client->hello_by);
  client->connection->end();
  // Who calls this may be the connection.
  core_.reactor.mailbox()->post([kept = std::shared_ptr<ClientConnection>(std::move(client->connection))] {});
  if (!client->memory) return;
  // Sessions end on the worker's thread, and before their lanes do.
  Worker& worker = client->memory->worker();
  worker.post([this, &worker, number, client] {
    worker.remove(number);
    core_.reactor.mailbox()->post([this, client] { opener_.forget(*client); });
  });
}

// ---- What clients say ----

void ClientSide::Speaker::expect_descriptor(const std::string& does) const {
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it " + does + " without a descriptor");
}

void ClientSide::receive(uint64_t number, const ClientMessage& message, Descriptor& descriptor) {
  Client& client = clients_.at(number);
  client.account->act(core_.reactor.now().time_since_epoch(), cost_of(message));
  if (!client.memory && !std::holds_alternative<Hello>(message)) {
    throw Error(ErrorCode::invalid_input, "it has not said hello");
  }
  std::visit([&](const auto& said) { act({.number = number, .client = client, .descriptor = descriptor}, said); },
             message);
}

void ClientSide::act(const Speaker& speaker, const Hello& hello) {
  const uint64_t number = speaker.number;
  if (speaker.client.has_said_hello) throw Error(ErrorCode::invalid_input, "it says hello twice");
  if (!speaker.descriptor) throw Error(ErrorCode::invalid_input, "it says hello without a doorbell");
  speaker.client.has_said_hello = true;
  if (hello.version != kProtocolVersion) return greet(speaker.client, hello);
  look_at(number, speaker.take(), sizeof(DoorbellPage),
          {.found =
               [this, number, hello](Client& asked, Region page) {
                 attach(number, asked, std::move(page));
                 greet(asked, hello);
               },
           .refused = [this, number](const Error& error) { drop(number, error.message()); }});
}

// A client of another version reads which one this is.
void ClientSide::greet(Client& client, const Hello& hello) {
  if (client.hello_by) core_.reactor.cancel(*std::exchange(client.hello_by, std::nullopt));
  const ClientIdentity& who = client.connection->identity();
  core_.record(*client.account, "process " + std::to_string(who.process) + " of user " + std::to_string(who.user) +
                                    " has attached: " + hello.program);
  client.view = {.host = name_of_host(),
                 .process = static_cast<uint32_t>(who.process),
                 .user = static_cast<uint32_t>(who.user),
                 .program = in_short(hello.program)};
  client.connection->send(Welcome{.version = kProtocolVersion,
                                  .host = core_.host,
                                  .capability = random_bits<Capability>(),
                                  .is_crowded = core_.options.is_oversubscribed},
                          client.memory ? client.memory->event_fd() : -1);
  if (opener_.is_handing_over()) client.connection->send(Succeeded());
}

// Of all communicators of the user on this host: processes of a job ask for what they share. Is charged by how many
// these are.
HintService::Asker ClientSide::asker_of_hints(uint64_t number) {
  const Client& asking = clients_.at(number);
  HintService::Asker asker;
  size_t looks = clients_.clients().size();
  clients_.each_session([&](const Client& client, uint32_t, const ClientSession& session) {
    if (!session.is_open || client.view.user != asking.view.user) return;
    asker.hosts.insert(session.subject.hosts.begin(), session.subject.hosts.end());
    asker.tenants.insert(session.tenant);
    looks += session.subject.hosts.size() + 1;
  });
  if (!asker.tenants.empty()) asker.tenants.insert(others_of(*asker.tenants.begin()));
  asking.account->act(core_.reactor.now().time_since_epoch(), static_cast<double>(looks) / kLooksOfAnAct);
  asker.background = [threads = core_.threads, line = TenantThreads::line_of(asking.account->number(), number)](
                         std::function<void()> task) { threads->post(line, std::move(task)); };
  return asker;
}

void ClientSide::act(const Speaker& speaker, const AskHints& ask) {
  const uint64_t number = speaker.number;
  const Client& client = speaker.client;
  ClientTable& clients = clients_;
  operators_.hints().ask(
      {.account = client.account->number(), .user = client.view.user, .opened = opener_.opened()},
      [this, number] { return asker_of_hints(number); },
      [&clients, number, wish = ask.wish](HintService::Answer answer) {
        if (answer.refusal)
          return clients.send_later(number, Refused{.wish = wish, .error = *std::move(answer.refusal)});
        clients.send_later(number, HintsGiven{.wish = wish, .hints = std::move(answer.hints)});
      });
}

}  // namespace banyan::service
