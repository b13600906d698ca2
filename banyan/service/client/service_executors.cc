#include "banyan/service/client/service_executors.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <string_view>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/base/hash.h"
#include "banyan/run/record/log.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/system/shared_memory.h"

namespace banyan::service {
namespace {

// The number of the communicator that a job joins with.
constexpr uint64_t kFirstOfJob = 1;

// What a process says of the daemon that it has attached to.
struct ServiceCard {
  std::string host;
  Capability capability = {};
};

// Of what a process has said when the job met; nothing where that is not understood.
std::optional<ServiceCard> parse_card(const std::string& text) {
  const size_t space = text.rfind(' ');
  if (space == std::string::npos) return std::nullopt;
  const auto bytes = from_hexadecimal(std::string_view(text).substr(space + 1));
  ServiceCard card{.host = text.substr(0, space)};
  if (!bytes || bytes->size() != card.capability.size()) return std::nullopt;
  std::copy(bytes->begin(), bytes->end(), card.capability.begin());
  return card;
}

// `name` is that of the process in errors.
ServiceCard card_of(const run::Process& process, const std::string& name) {
  const auto extra = process.extras.find(ServiceExecutors::kExtra);
  if (extra == process.extras.end()) {
    throw Error(ErrorCode::mismatch, name + " has not attached to a service (set BANYAN_SERVICE on all ranks)");
  }
  std::optional<ServiceCard> card = parse_card(extra->second);
  if (!card) {
    throw Error(ErrorCode::mismatch,
                name + " says of its service what is not understood here: " + in_quotes(extra->second));
  }
  return *std::move(card);
}

uint32_t milliseconds_for(std::chrono::milliseconds time) {
  return static_cast<uint32_t>(std::clamp<int64_t>(time.count(), 1, UINT32_MAX));
}

}  // namespace

std::string ServiceExecutors::extra_of(ServiceLink& link) {
  return link.host() + " " + in_hexadecimal(link.new_capability());
}

run::ExecutorFactory::Made ServiceExecutors::make(run::ExecutorSite site) {
  using Transports = run::Communicator::Transports;
  if (are_all_here(site.members) || options_.transports == Transports::shared_memory) {
    return make_direct(std::move(site));
  }
  if (options_.transports == Transports::ucx) {
    throw Error(ErrorCode::unsupported,
                "a service does not carry calls by UCX; use transport tcp or auto, or no service");
  }
  if (job_->seals().is_asked_for) {
    throw Error(
        ErrorCode::unsupported,
        "a service does not encrypt with the secret of a job, as BANYAN_ENCRYPTION asks for; use no service, or "
        "BANYAN_ENCRYPTION=off");
  }
  const run::Deadline deadline = options_.joins_by.value_or(run::Deadline::after(options_.join_timeout));
  const OpenSession wish = wish_for(site, deadline);
  const run::Liveness& liveness = job_->agent().liveness();
  const auto size = static_cast<uint32_t>(site.members.size());
  ServiceExecutor::Options options{
      .rank = site.rank,
      .size = size,
      .is_oversubscribed = job_->is_oversubscribed(),
      .own_name = job_->name_of(site.members, site.rank),
      // Holds the job, and so what the next one points to.
      .is_gone = [job = job_, members = std::move(site.members)](
                     uint32_t rank) { return job->agent().liveness().is_gone(members[rank]); },
      .gone_changes = &liveness.changes()};
  const auto means = std::make_shared<std::string>();
  const auto open_next = [link = link_, wish, options, means](const SessionMover::Opening& opening,
                                                              const run::Deadline& until) {
    OpenSession own = wish;
    ServiceExecutor::Options with_hooks = options;
    if (opening.generation > 0) own.communicator = mix(wish.communicator, opening.generation);
    own.join_timeout = milliseconds_for(until.left());
    with_hooks.fail_peers = opening.fail_peers;
    with_hooks.succeeded = opening.succeeded;
    std::unique_ptr<ServiceExecutor> executor = open(*link, own, with_hooks, until);
    if (opening.generation == 0) *means = executor->means();
    return executor;
  };
  auto executor = std::make_unique<MovingExecutor>(
      MovingExecutor::Options{.rank = site.rank,
                              .size = size,
                              .name = site.name,
                              .stays = options_.progress == run::Progress::by_nobody,
                              .send = std::move(site.send_text),
                              .fail_peers = std::move(site.send_failure),
                              .is_gone = options.is_gone,
                              .host_of_rank = wish.host_of_rank,
                              .find = [link = link_](const run::Deadline& until) { link->attachment(until); },
                              .open = open_next},
      deadline);
  return {.executor = std::move(executor), .means = "service, " + *means};
}

bool ServiceExecutors::are_all_here(const std::vector<uint32_t>& members) const {
  return std::all_of(members.begin(), members.end(), [&](uint32_t member) { return job_->is_here(member); });
}

struct ServiceExecutors::Record {
  run::SharedMemory memory = run::SharedMemory::with_pages(run::Recorder::kMemoryBytes);
  std::shared_ptr<const void> shown = {};
};

std::shared_ptr<std::byte> ServiceExecutors::record_memory(const std::vector<uint32_t>& members) {
  if (!are_all_here(members)) return nullptr;
  record_ = std::make_shared<Record>();
  return {record_, record_->memory.data()};
}

run::ExecutorFactory::Made ServiceExecutors::make_direct(run::ExecutorSite site) {
  const ShowRecord show{.communicator = site.id,
                        .name = site.name,
                        .tenant = tenant_,
                        .rank = site.rank,
                        .size = static_cast<uint32_t>(site.members.size())};
  Made made = run::DefaultExecutors(job_, options_).make(std::move(site));
  if (record_) show_record(show);
  return made;
}

// Ranks of one job have one capability. Where the first one has none, they do not belong together in any view.
void ServiceExecutors::show_record(ShowRecord show) {
  const auto& extras = job_->process(0).extras;
  const auto extra = extras.find(kExtra);
  const std::optional<ServiceCard> card = extra == extras.end() ? std::nullopt : parse_card(extra->second);
  if (!card) return;
  show.capability = card->capability;
  try {
    record_->shown = link_->records().show(std::move(show), record_->memory.take_file());
  } catch (const Error& error) {
    BANYAN_LOG(warning) << "operators do not see this communicator: " << error.what();
  }
}

// Again where the daemon is killed in the middle: the other ranks know nothing of it, since this rank has called
// nothing yet.
std::unique_ptr<ServiceExecutor> ServiceExecutors::open(ServiceLink& link, const OpenSession& wish,
                                                        const ServiceExecutor::Options& options,
                                                        const run::Deadline& deadline) {
  constexpr std::chrono::milliseconds kPause{20};
  for (;;) {
    const std::shared_ptr<Attachment> attachment = link.attachment(deadline);
    try {
      return std::make_unique<ServiceExecutor>(attachment, wish, options, deadline);
    } catch (const Error& error) {
      const bool is_lost =
          error.code() == ErrorCode::peer_lost && (attachment->has_gone() || attachment->is_succeeded());
      // The daemons of all hosts had come when the job's first communicator was made.
      const bool is_peer_missing = error.code() == ErrorCode::not_found && wish.communicator != kFirstOfJob;
      if ((!is_lost && !is_peer_missing) || deadline.has_passed()) throw;
    }
    std::this_thread::sleep_for(std::min(kPause, deadline.next_sleep()));
  }
}

OpenSession ServiceExecutors::wish_for(const run::ExecutorSite& site, const run::Deadline& deadline) const {
  OpenSession wish;
  wish.communicator = site.id;
  wish.name = site.name;
  wish.tenant = tenant_;
  wish.rank = site.rank;
  wish.members = site.members;
  wish.job_size = job_->size();
  wish.timeout = milliseconds_for(options_.timeout);
  wish.join_timeout = milliseconds_for(deadline.left());
  wish.checksums = options_.checksums;
  wish.capability = card_of(job_->process(0), "rank 0 of the job").capability;
  for (uint32_t rank = 0; rank < site.members.size(); ++rank) {
    const ServiceCard card = card_of(job_->process(site.members[rank]), job_->name_of(site.members, rank));
    const auto found = std::find(wish.hosts.begin(), wish.hosts.end(), card.host);
    wish.host_of_rank.push_back(static_cast<uint32_t>(found - wish.hosts.begin()));
    if (found == wish.hosts.end()) wish.hosts.push_back(card.host);
  }
  return wish;
}

}  // namespace banyan::service
