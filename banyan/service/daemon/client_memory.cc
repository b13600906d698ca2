// ClientSide: memory that clients offer and show.
#include <memory>
#include <optional>
#include <utility>

#include "banyan/service/daemon/client_side.h"

namespace banyan::service {

void ClientSide::look_at(uint64_t number, run::FileDescriptor descriptor, uint64_t bytes, Look then) {
  struct Task {
    std::shared_ptr<run::FileDescriptor> file;
    TenantAccount::Charge charge;
    std::optional<Region> memory = {};
    std::optional<Error> error = {};
  };
  const std::shared_ptr<TenantAccount>& account = clients_.at(number).account;
  const auto close = [closer = closer_for(account)](run::FileDescriptor* file) {
    closer(std::move(*file));
    delete file;
  };
  const auto task = std::make_shared<Task>(Task{.file = {new run::FileDescriptor(std::move(descriptor)), close},
                                                .charge = account->add(Resource::closing, 1)});
  const auto tell = [this, number, task, then = std::move(then)] {
    Client* const client = clients_.find(number);
    if (client == nullptr) return;
    try {
      if (task->error) throw Error(*task->error);
      then.found(*client, *std::move(task->memory));
    } catch (const Error& error) {
      then.refused(error);
    }
  };
  const std::shared_ptr<run::Mailbox> mailbox = core_.reactor.mailbox();
  const bool has_thread =
      core_.threads->try_post(TenantThreads::looking_for(account->number(), number), [mailbox, task, bytes, tell] {
        try {
          task->memory.emplace(*task->file, bytes);
        } catch (const Error& error) {
          task->error = error;
        }
        mailbox->post(tell);
      });
  if (has_thread) return;
  task->error = Error(ErrorCode::io, "no thread can be made that looks at its memory; too many run on this host");
  mailbox->post(tell);
}

void ClientSide::attach(uint64_t number, Client& client, Region doorbell) {
  const auto charge = [account = client.account](uint64_t bytes) {
    auto one = account->take(Resource::regions, 1);
    return std::make_shared<std::pair<TenantAccount::Charge, TenantAccount::Charge>>(
        std::move(one), account->take(Resource::region_bytes, bytes));
  };
  Worker& worker = workers_.least_of(clients_.attached());
  client.memory =
      std::make_shared<WorkerClient>(worker, std::move(doorbell), RegionTable::Quota(),
                                     RegionTable::Hooks{.charge = charge, .later = later_for(*client.account)});
  worker.post([&worker, number, account = client.account->number(), memory = client.memory] {
    worker.add(number, account, memory);
  });
}

void ClientSide::act(const Speaker& speaker, const OfferRegion& offer) {
  speaker.expect_descriptor("offers memory");
  ClientTable& clients = clients_;
  const uint64_t number = speaker.number;
  const auto refuse = [&clients, number, wish = offer.wish](const Error& error) {
    clients.send_later(number, Refused{.wish = wish, .error = error});
  };
  const auto place = [&clients, number, wish = offer.wish, refuse](const Client& client, Region looked_at) {
    const auto memory = std::make_shared<Region>(std::move(looked_at));
    client.memory->worker().post([&clients, number, wish, refuse, memory, regions = client.memory] {
      try {
        clients.send_later(number, RegionPlaced{.wish = wish, .place = regions->regions().offer(std::move(*memory))});
      } catch (const Error& error) {
        refuse(error);
      }
    });
  };
  look_at(number, speaker.take(), offer.bytes, {.found = place, .refused = refuse});
}

void ClientSide::act(const Speaker& speaker, const WithdrawRegion& withdraw) {
  const std::shared_ptr<WorkerClient>& memory = speaker.client.memory;
  memory->worker().post([this, number = speaker.number, withdraw, memory] {
    try {
      memory->regions().withdraw(withdraw.place);
    } catch (const Error& error) {
      core_.reactor.mailbox()->post([this, number, why = error.message()] { drop(number, why); });
    }
  });
}

// Its program does without the daemon, and goes on where it is refused.
void ClientSide::act(const Speaker& speaker, const ShowRecord& show) {
  const Client& client = speaker.client;
  const auto close = closer_for(client.account);
  speaker.expect_descriptor("shows a flight record");
  run::FileDescriptor& record = *speaker.descriptor;
  try {
    operators_.direct().add({.client = speaker.number,
                             .who = client.view,
                             .tenant = client.tenant_called(show.tenant),
                             .account = client.account,
                             .close = close},
                            show, record);
  } catch (const Error& error) {
    core_.events.count_refusal("record");
    core_.record(*client.account, std::string("the flight record of a rank cannot be shown: ") + error.what());
  }
  if (record.is_open()) close(std::move(record));
}

}  // namespace banyan::service
