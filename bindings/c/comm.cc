// Joining, new groups, and the end.
#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/compose/settings.h"
#include "banyan/run/join/rendezvous.h"
#include "bindings/c/config.h"
#include "bindings/c/handles.h"

using banyan::Error;
using banyan::ErrorCode;
using banyan::c::expect_pointer;
using banyan::c::guarded;
using banyan::c::guarded_on;
using banyan::run::Communicator;
using banyan::run::Deadline;
using banyan::run::JoinedProcesses;

namespace {

// The meeting points that this process has opened and that have not been used yet.
class OpenIds {
 public:
  void add(banyan::run::UniqueId id) {
    const std::lock_guard lock(mutex_);
    ids_.insert_or_assign(id.text, std::move(id));
  }
  // Gives up the one with this text, if it is ours.
  std::unique_ptr<banyan::run::StoreServer> take(const std::string& text) {
    const std::lock_guard lock(mutex_);
    const auto found = ids_.find(text);
    if (found == ids_.end()) return nullptr;
    std::unique_ptr<banyan::run::StoreServer> server = std::move(found->second.server);
    ids_.erase(found);
    return server;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, banyan::run::UniqueId> ids_;
};

OpenIds& open_ids() {
  static auto* const ids = new OpenIds();
  return *ids;
}

// Meetings of this process at places that have no name of their own are counted, so that each is another one.
std::string next_meeting() {
  static std::atomic<uint64_t> count{0};
  return "url#" + std::to_string(count.fetch_add(1));
}

void expect_rank(int size, int rank) {
  if (size < 1) throw Error(ErrorCode::invalid_input, "a size of " + std::to_string(size) + " is below 1");
  if (rank < 0 || rank >= size) {
    throw Error(ErrorCode::invalid_input,
                "rank " + std::to_string(rank) + " is not from 0 to " + std::to_string(size - 1));
  }
}

// Of "all_reduce", "all-reduce" and "allreduce".
std::string letters_of(std::string_view name) {
  std::string letters;
  std::copy_if(name.begin(), name.end(), std::back_inserter(letters), [](char c) { return c != '_' && c != '-'; });
  return letters;
}

banyan::run::OperationKind call_named(const std::string& name) {
  std::string known;
  for (size_t i = 0; i <= static_cast<size_t>(banyan::run::OperationKind::recv); ++i) {
    const auto kind = static_cast<banyan::run::OperationKind>(i);
    if (letters_of(to_string(kind)) == letters_of(name)) return kind;
    known += (known.empty() ? "" : ", ") + std::string(to_string(kind));
  }
  throw Error(ErrorCode::invalid_input, "there is no call " + banyan::in_quotes(name) + "; known are " + known);
}

banyan_statistics_t statistics_of(const banyan::run::Statistics& statistics, const char* call) {
  const auto kind = call == nullptr ? statistics.calls.all() : statistics.calls.of(call_named(call));
  banyan_statistics_t found = BANYAN_STATISTICS_INIT;
  found.calls = kind.calls;
  found.bytes = kind.bytes;
  found.seconds = static_cast<double>(kind.nanoseconds) / 1e9;
  for (size_t rank = 0; rank < statistics.calls.waited.size(); ++rank) {
    const double seconds = static_cast<double>(statistics.calls.waited[rank]) / 1e9;
    found.waiting_seconds += seconds;
    if (seconds <= found.longest_wait) continue;
    found.longest_wait = seconds;
    found.longest_wait_rank = static_cast<int>(rank);
  }
  found.reroutes = static_cast<int>(statistics.reroutes);
  found.lost_peers = static_cast<int>(statistics.lost_peers);
  return found;
}

banyan_comm_t wrap(Communicator communicator) { return new banyan_comm{.made = std::move(communicator)}; }

// Has `join(options)` make the communicator, now or in the background.
template <typename Join>
void join_by(banyan_comm_t* comm, const banyan_config_t* config, const Join& join) {
  Communicator::Options options = banyan::c::options_from(config);
  if (banyan::c::is_blocking(config)) {
    *comm = wrap(join(options));
    return;
  }
  *comm = new banyan_comm{.made = {}, .joining = std::make_unique<banyan::c::Joining>([=](std::stop_token stop) {
                                        Communicator::Options own = options;
                                        own.stop = std::move(stop);
                                        return join(own);
                                      })};
}

Communicator join_at(const JoinedProcesses::Invitation& invitation, const Communicator::Options& options) {
  return Communicator::join(banyan::compose::region_pool(), invitation, options);
}

Communicator join_by_id(const banyan_unique_id_t& id, int size, int rank, const Communicator::Options& options) {
  if (std::memchr(id.text, '\0', sizeof id.text) == nullptr || id.text[0] == '\0') {
    throw Error(ErrorCode::invalid_input, "this is no id of banyan_get_unique_id");
  }
  // Its maker keeps the meeting point until all have met.
  const std::unique_ptr<banyan::run::StoreServer> server = open_ids().take(id.text);
  constexpr std::chrono::seconds kFarewell{1};
  const Deadline deadline = Deadline::after(options.join_timeout).unless(options.stop);
  try {
    Communicator joined =
        join_at({.url = id.text, .rank = static_cast<uint32_t>(rank), .size = static_cast<uint32_t>(size), .name = {}},
                options);
    if (server != nullptr) server->finish(deadline.later(kFarewell));
    return joined;
  } catch (...) {
    if (server != nullptr) server->finish(Deadline::after(kFarewell));  // the others have still to read why
    throw;
  }
}

// For functions that join: BANYAN_IN_PROGRESS where it goes on in the background.
template <typename Body>
banyan_result_t initialized(banyan_comm_t* comm, const Body& body) {
  const banyan_result_t result = guarded(nullptr, [&] {
    expect_pointer(comm, "comm");
    *comm = nullptr;
    body();
  });
  return result == BANYAN_SUCCESS && (*comm)->joining != nullptr ? BANYAN_IN_PROGRESS : result;
}

// For functions that make a communicator, if any, of another one.
template <typename Body>
banyan_result_t made_of(banyan_comm_t comm, banyan_comm_t* result, const Body& body) {
  return guarded_on(comm, [&] {
    expect_pointer(result, "result");
    *result = nullptr;
    std::optional<Communicator> made = body();
    if (made) *result = wrap(std::move(*made));
  });
}

// For functions that put at `place` what `ask` finds.
template <typename T, typename Ask>
banyan_result_t answered(banyan_comm_t comm, T* place, const char* name, const Ask& ask) {
  return guarded_on(comm, [&] {
    expect_pointer(place, name);
    *place = static_cast<T>(ask(comm->communicator()));
  });
}

// Whether an operation has ended with an error of which no function has told yet.
bool has_secret_error(banyan_comm& comm) {
  return comm.communicator().has_failed_operations() && !comm.last_error->has_told;
}

// Throws the error with which any of them ended, unless the program knows it.
void end_operations(banyan_comm& comm) {
  if (comm.is_finalized || !comm.has_joined()) return;
  if (const std::optional<Error> error = comm.communicator().error()) {
    if (has_secret_error(comm)) throw Error(*error);
    return;
  }
  try {
    comm.communicator().finalize();
  } catch (const Error&) {
    if (has_secret_error(comm)) throw;  // otherwise another rank has ended the communicator just now
  }
}

}  // namespace

BANYAN_CALL(get_unique_id, banyan_unique_id_t* id) {
  return guarded(nullptr, [&] {
    expect_pointer(id, "id");
    banyan::run::UniqueId made = banyan::run::make_unique_id();
    if (made.text.size() >= sizeof id->text) {
      throw Error(ErrorCode::unsupported, "the id '" + made.text.substr(0, 40) + "...' is too long");
    }
    std::memset(id->text, 0, sizeof id->text);
    std::memcpy(id->text, made.text.data(), made.text.size());
    open_ids().add(std::move(made));
  });
}

BANYAN_CALL(comm_init_rank, banyan_comm_t* comm, int size, banyan_unique_id_t id, int rank,
            const banyan_config_t* config) {
  return initialized(comm, [&] {
    expect_rank(size, rank);
    join_by(comm, config, [=](const Communicator::Options& options) { return join_by_id(id, size, rank, options); });
  });
}

BANYAN_CALL(comm_init_url, banyan_comm_t* comm, const char* url, int size, int rank, const banyan_config_t* config) {
  return initialized(comm, [&] {
    expect_pointer(url, "url");
    expect_rank(size, rank);
    const JoinedProcesses::Invitation invitation{
        .url = url, .rank = static_cast<uint32_t>(rank), .size = static_cast<uint32_t>(size), .name = next_meeting()};
    join_by(comm, config, [=](const Communicator::Options& options) { return join_at(invitation, options); });
  });
}

BANYAN_CALL(comm_init_env, banyan_comm_t* comm, const banyan_config_t* config) {
  return initialized(comm, [&] {
    join_by(comm, config, [](const Communicator::Options& options) {
      return Communicator::join(banyan::compose::region_pool(), options);
    });
  });
}

BANYAN_CALL(comm_split, banyan_comm_t comm, int color, int key, banyan_comm_t* result, const banyan_config_t* config) {
  return made_of(comm, result,
                 [&] { return comm->communicator().split(color, key, banyan::c::options_from(config, *comm)); });
}

BANYAN_CALL(comm_shrink, banyan_comm_t comm, const int* excluded, int excluded_count, banyan_comm_t* result,
            const banyan_config_t* config) {
  return made_of(comm, result, [&] {
    if (excluded_count < 0) throw Error(ErrorCode::invalid_input, "excluded_count is negative");
    if (excluded_count > 0) expect_pointer(excluded, "excluded");
    const std::vector<uint32_t> ranks(excluded, excluded + excluded_count);
    return comm->communicator().shrink(ranks, banyan::c::shrink_patience(config),
                                       banyan::c::options_from(config, *comm));
  });
}

BANYAN_CALL(comm_agree, banyan_comm_t comm, int* flag) {
  return guarded_on(comm, [&] {
    expect_pointer(flag, "flag");
    const std::chrono::milliseconds own = comm->timeout;
    const Communicator::Agreed agreed =
        comm->communicator().agree(*flag, own.count() > 0 ? own : comm->communicator().timeout());
    *flag = agreed.flag;
    if (agreed.lost) throw Error(*agreed.lost);
  });
}

BANYAN_CALL(comm_grow, banyan_comm_t comm, int size, banyan_unique_id_t id, int rank, banyan_comm_t* result,
            const banyan_config_t* config) {
  return guarded(comm, [&] {
    expect_pointer(result, "result");
    *result = nullptr;
    const Communicator::Options options =
        comm != nullptr ? banyan::c::options_from(config, *comm) : banyan::c::options_from(config);
    if (comm != nullptr) {
      if (size < static_cast<int>(comm->communicator().size())) {
        throw Error(ErrorCode::invalid_input, "a communicator of " + std::to_string(comm->communicator().size()) +
                                                  " cannot grow to " + std::to_string(size));
      }
      rank = static_cast<int>(comm->communicator().rank());
    }
    expect_rank(size, rank);
    *result = wrap(join_by_id(id, size, rank, options));
  });
}

BANYAN_CALL(comm_finalize, banyan_comm_t comm) {
  return guarded_on(comm, [&] {
    if (comm->is_finalized) throw Error(ErrorCode::invalid_usage, "the communicator has been finalized before");
    comm->communicator().finalize();
    comm->is_finalized = true;
  });
}

BANYAN_CALL(comm_destroy, banyan_comm_t comm) {
  if (comm == nullptr) return BANYAN_SUCCESS;
  const banyan_result_t result = guarded(nullptr, [&] { end_operations(*comm); });
  delete comm;
  return result;
}

BANYAN_CALL(comm_abort, banyan_comm_t comm) {
  return guarded_on(comm, [&] {
    comm->last_error->has_told = true;  // with what its operations end, the program knows
    if (comm->joining != nullptr) comm->joining->stop();
    if (comm->has_joined()) comm->communicator().abort("banyan_comm_abort was called");
  });
}

BANYAN_CALL(comm_get_async_error, banyan_comm_t comm, banyan_result_t* error) {
  return guarded_on(comm, [&] {
    expect_pointer(error, "error");
    if (comm->joining != nullptr && !comm->joining->is_over()) {
      *error = BANYAN_IN_PROGRESS;
      return;
    }
    const std::optional<Error> why = comm->has_joined() ? comm->communicator().error() : comm->joining->error();
    *error = why ? banyan::c::result_of(*why) : BANYAN_SUCCESS;
    if (why) banyan::c::fail(comm->last_error.get(), *error, *why);
  });
}

BANYAN_CALL(comm_get_reroutes, banyan_comm_t comm, int* reroutes) {
  return answered(comm, reroutes, "reroutes", [](Communicator& of) { return of.reroutes(); });
}

BANYAN_CALL(comm_get_statistics, banyan_comm_t comm, const char* call, banyan_statistics_t* statistics) {
  return guarded_on(comm, [&] {
    expect_pointer(statistics, "statistics");
    if (statistics->size < offsetof(banyan_statistics_t, waiting_seconds) || statistics->size > 65536) {
      throw Error(ErrorCode::invalid_input, "the statistics have a size of " + std::to_string(statistics->size) +
                                                " bytes; initialise them with BANYAN_STATISTICS_INIT");
    }
    const banyan_statistics_t found = statistics_of(comm->communicator().statistics(), call);
    const size_t size = statistics->size;
    std::memcpy(statistics, &found, std::min(size, sizeof found));
    statistics->size = size;
  });
}

BANYAN_CALL(comm_count, banyan_comm_t comm, int* size) {
  return answered(comm, size, "size", [](Communicator& of) { return of.size(); });
}

BANYAN_CALL(comm_user_rank, banyan_comm_t comm, int* rank) {
  return answered(comm, rank, "rank", [](Communicator& of) { return of.rank(); });
}

BANYAN_CALL(comm_get_name, banyan_comm_t comm, const char** name) {
  return answered(comm, name, "name", [](Communicator& of) { return of.name().c_str(); });
}

BANYAN_CALL(comm_set_timeout, banyan_comm_t comm, double seconds) {
  return guarded_on(comm, [&] {
    comm->timeout =
        seconds <= 0 ? std::chrono::milliseconds(0) : banyan::compose::milliseconds_of(seconds, "the timeout");
  });
}

BANYAN_CALL(comm_dump, banyan_comm_t comm, const char* why) {
  return guarded_on(comm, [&] { comm->communicator().dump(why != nullptr ? why : "banyan_comm_dump was called"); });
}
