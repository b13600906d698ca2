// Daemon::Impl: memory that clients offer and show.
#include <memory>
#include <optional>
#include <utility>

#include "banyan/service/daemon/daemon_impl.h"

namespace banyan::service {

void Daemon::Impl::look_at(uint64_t number, run::FileDescriptor descriptor, uint64_t bytes, Look then) {
  struct Task {
    std::shared_ptr<run::FileDescriptor> file;
    TenantAccount::Charge charge;
    std::optional<Region> memory = {};
    std::optional<Error> error = {};
  };
  TenantAccount& account = *clients_.at(number).account;
  const auto close = [closer = closer_for(clients_.at(number).account)](run::FileDescriptor* file) {
    closer(std::move(*file));
    delete file;
  };
  const auto task = std::make_shared<Task>(Task{.file = {new run::FileDescriptor(std::move(descriptor)), close},
                                                .charge = account.add(Resource::closing, 1)});
  const auto tell = [this, number, task, then = std::move(then)] {
    const auto found = clients_.find(number);
    if (found == clients_.end()) return;
    try {
      if (task->error) throw Error(*task->error);
      then.found(found->second, *std::move(task->memory));
    } catch (const Error& error) {
      then.refused(error);
    }
  };
  const bool has_thread = threads_->try_post(TenantThreads::looking_for(account.number(), number),
                                             [mailbox = reactor_.mailbox(), task, bytes, tell] {
                                               try {
                                                 task->memory.emplace(*task->file, bytes);
                                               } catch (const Error& error) {
                                                 task->error = error;
                                               }
                                               mailbox->post(tell);
                                             });
  if (has_thread) return;
  task->error = Error(ErrorCode::io, "no thread can be made that looks at its memory; too many run on this host");
  reactor_.mailbox()->post(tell);
}

void Daemon::Impl::attach(uint64_t number, Client& client, Region doorbell) {
  const auto charge = [account = client.account](uint64_t bytes) {
    auto one = account->take(Resource::regions, 1);
    return std::make_shared<std::pair<TenantAccount::Charge, TenantAccount::Charge>>(
        std::move(one), account->take(Resource::region_bytes, bytes));
  };
  Worker& worker = workers_.least_of(attached());
  client.memory =
      std::make_shared<WorkerClient>(worker, std::move(doorbell), RegionTable::Quota(),
                                     RegionTable::Hooks{.charge = charge, .later = later_for(*client.account)});
  worker.post([&worker, number, account = client.account->number(), memory = client.memory] {
    worker.add(number, account, memory);
  });
}

void Daemon::Impl::act(uint64_t number, const OfferRegion& offer, Descriptor& descriptor) {
  greeted(number);
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it offers memory without a descriptor");
  const auto refuse = [this, number, wish = offer.wish](const Error& error) {
    say_later(number, Refused{.wish = wish, .error = error});
  };
  const auto place = [this, number, wish = offer.wish, refuse](Client& client, Region looked_at) {
    const auto memory = std::make_shared<Region>(std::move(looked_at));
    client.memory->worker().post([this, number, wish, refuse, memory, regions = client.memory] {
      try {
        say_later(number, RegionPlaced{.wish = wish, .place = regions->regions().offer(std::move(*memory))});
      } catch (const Error& error) {
        refuse(error);
      }
    });
  };
  look_at(number, *std::exchange(descriptor, std::nullopt), offer.bytes, {.found = place, .refused = refuse});
}

void Daemon::Impl::act(uint64_t number, const WithdrawRegion& withdraw, Descriptor&) {
  const Client& client = greeted(number);
  client.memory->worker().post([this, number, withdraw, memory = client.memory] {
    try {
      memory->regions().withdraw(withdraw.place);
    } catch (const Error& error) {
      reactor_.mailbox()->post([this, number, why = error.message()] { drop(number, why); });
    }
  });
}

// Its program does without the daemon, and goes on where it is refused.
void Daemon::Impl::act(uint64_t number, const ShowRecord& show, Descriptor& descriptor) {
  const Client& client = greeted(number);
  if (!descriptor) throw Error(ErrorCode::invalid_input, "it shows a flight record without a descriptor");
  try {
    direct_.add({.client = number,
                 .who = client.view,
                 .tenant = tenant_of(client, show.tenant),
                 .account = client.account,
                 .close = closer_for(client.account)},
                show, *descriptor);
  } catch (const Error& error) {
    ++refused_["record"];
    note(*client.account, std::string("the flight record of a rank cannot be shown: ") + error.what());
  }
  if (descriptor->is_open()) closer_for(client.account)(std::move(*descriptor));
}

void Daemon::Impl::act(uint64_t number, const HideRecord& hide, Descriptor&) {
  greeted(number);
  direct_.remove(number, hide.record);
}

}  // namespace banyan::service
