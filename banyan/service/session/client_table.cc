#include "banyan/service/session/client_table.h"

#include <utility>

namespace banyan::service {

std::string Client::tenant_called(const std::string& name) const {
  const std::string user = std::to_string(connection->identity().user);
  return name.empty() ? user : user + "/" + name;
}

std::shared_ptr<Client> ClientTable::take_out(uint64_t number) {
  auto node = clients_.extract(number);
  return node.empty() ? nullptr : std::make_shared<Client>(std::move(node.mapped()));
}

Client* ClientTable::find(uint64_t number) {
  const auto found = clients_.find(number);
  return found == clients_.end() ? nullptr : &found->second;
}

void ClientTable::send_later(uint64_t number, DaemonMessage message) {
  reactor_.mailbox()->post([this, number, message = std::move(message)] {
    if (const Client* const client = find(number)) client->connection->send(message);
  });
}

std::vector<std::shared_ptr<WorkerClient>> ClientTable::attached() const {
  std::vector<std::shared_ptr<WorkerClient>> attached;
  for (const auto& [number, client] : clients_) {
    if (client.memory) attached.push_back(client.memory);
  }
  return attached;
}

void ClientTable::each_session(const Act& act) const {
  for (const auto& [client_number, client] : clients_) {
    for (const auto& [number, session] : client.sessions) act(client, number, session);
  }
}

std::set<OpenSessions::Key> ClientTable::keys() const {
  std::set<OpenSessions::Key> keys;
  each_session([&](const Client&, uint32_t, const ClientSession& session) { keys.insert(session.key); });
  return keys;
}

std::vector<KnownSession> ClientTable::open_sessions() const {
  std::vector<KnownSession> open;
  each_session([&](const Client& client, uint32_t number, const ClientSession& session) {
    if (!session.is_open) return;
    open.push_back({.place = {.memory = client.memory, .number = number},
                    .rank = session.key.second,
                    .id = OpenSessions::public_id(session.key.first),
                    .subject = session.subject,
                    .tenant = session.tenant});
  });
  return open;
}

std::optional<SessionPlace> ClientTable::rank0_of(const std::string& communicator) const {
  std::optional<SessionPlace> place;
  each_session([&](const Client& client, uint32_t number, const ClientSession& session) {
    if (!place && session.key == OpenSessions::Key(communicator, 0)) {
      place = SessionPlace{.memory = client.memory, .number = number};
    }
  });
  return place;
}

}  // namespace banyan::service
