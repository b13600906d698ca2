#include "bindings/torch/process_group.h"

#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>
#include <utility>

#include "banyan/base/hash.h"
#include "banyan/run/communicator/joined_processes.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/record/log.h"
#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/joined_work.h"
#include "bindings/torch/task_buffers.h"
#include "bindings/torch/torch_store.h"

namespace banyan::pytorch {

struct ProcessGroupBanyan::Job {
  std::shared_ptr<run::JoinedProcesses> processes;
  std::map<std::string, uint64_t> uses;  // of names of groups; under worlds_mutex()
  bool is_exposed = false;               // what its ranks send each other can be changed on its way
};

namespace {

std::mutex& worlds_mutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}
using WeakGroup = c10::weak_intrusive_ptr<ProcessGroupBanyan>;
std::map<ProcessGroupBanyan*, WeakGroup>& groups() {  // those that exist; under worlds_mutex()
  static auto* const groups = new std::map<ProcessGroupBanyan*, WeakGroup>();
  return *groups;
}

uint64_t next_number() {
  static std::atomic<uint64_t> last{0};
  return ++last;
}

bool are_on_one_host(const run::JoinedProcesses& job) {
  for (uint32_t rank = 0; rank < job.size(); ++rank) {
    if (!job.is_here(rank)) return false;
  }
  return true;
}

// PyTorch sends objects as bytes, and to read them is to run what is in them. Once in a process.
void warn_of_objects(const run::Call& call) {
  using run::OperationKind;
  const bool moves = call.kind == OperationKind::broadcast || call.kind == OperationKind::all_gather ||
                     call.kind == OperationKind::gather || call.kind == OperationKind::scatter;
  if (!moves || call.type != element::DataType::uint8) return;
  static std::once_flag once;
  std::call_once(once, [] {
    BANYAN_LOG(warning) << "bytes go between hosts unauthenticated (BANYAN_ENCRYPTION=off, or UCX): where they are "
                           "pickles, as of broadcast_object_list, who changes them on their way runs programs here";
  });
}

std::shared_ptr<run::JoinedProcesses> join(const c10::intrusive_ptr<c10d::Store>& store,
                                           const ProcessGroupBanyan::Members& members,
                                           std::chrono::milliseconds at_most,
                                           const run::Communicator::Options& options) {
  const run::Deadline deadline = run::Deadline::after(at_most);
  TorchStore meeting(store);
  const auto rank = static_cast<uint32_t>(members.rank);
  // The same processes may meet here several times, one after the other.
  const int64_t meetings = meeting.add("banyan/meetings/" + std::to_string(rank), 1, deadline);
  const std::string prefix = "banyan/" + std::to_string(meetings) + "/";
  const run::Secret secret = members.size > 1 ? job_secret(meeting, prefix, rank, deadline) : run::Secret();
  auto job = run::JoinedProcesses::join(compose::region_pool(), meeting,
                                        {.url = {},
                                         .rank = rank,
                                         .size = static_cast<uint32_t>(members.size),
                                         .name = prefix,
                                         .encryption = options.encryption,
                                         .has_routes = options.has_routes,
                                         .extras = options.extras},
                                        secret, deadline);
  if (!are_on_one_host(*job) && rank == 0 && run::Secret::from_environment().is_empty()) {
    static std::once_flag once;
    std::call_once(once, [] {
      BANYAN_LOG(warning)
          << "the ranks are on several hosts and no secret is set: one was left in PyTorch's store, where "
             "whoever reaches its port can read it (set BANYAN_SECRET_FILE to the same on all hosts)";
    });
  }
  return job;
}

// Whether these are ranks of the job, this process among them.
bool are_in(const run::JoinedProcesses& job, const ProcessGroupBanyan::Members& members) {
  if (static_cast<size_t>(members.size) != members.global_ranks.size()) return false;
  if (job.rank() != members.global_ranks[static_cast<size_t>(members.rank)]) return false;
  return std::all_of(members.global_ranks.begin(), members.global_ranks.end(),
                     [&](int64_t rank) { return rank >= 0 && rank < job.size(); });
}

uint32_t tag_of(int tag, const Checks& checks) {
  checks.expect(tag >= 0, "Tag must be nonnegative, not " + std::to_string(tag));
  return static_cast<uint32_t>(tag);
}

}  // namespace

std::weak_ptr<ProcessGroupBanyan::Job>& ProcessGroupBanyan::world() {  // under worlds_mutex()
  static auto* const world = new std::weak_ptr<Job>();
  return *world;
}

c10::intrusive_ptr<ProcessGroupBanyan> ProcessGroupBanyan::create(const c10::intrusive_ptr<c10d::Store>& store,
                                                                  const Members& members,
                                                                  const compose::Settings& settings) {
  return guarded([&] {
    run::Communicator::Options options = options_from(settings);
    const bool is_world = members.global_ranks.empty();
    std::shared_ptr<Job> job;
    if (!is_world) {
      const std::lock_guard lock(worlds_mutex());
      job = world().lock();
    }
    if (job != nullptr && are_in(*job->processes, members)) {
      std::vector<uint32_t> ranks(members.global_ranks.begin(), members.global_ranks.end());
      return of_job({std::move(job), std::move(ranks)}, members, settings, std::move(options));
    }
    job = job_of(store, members, options.join_timeout, options);
    if (is_world) {
      const std::lock_guard lock(worlds_mutex());
      world() = job;
    }
    return of_all(std::move(job), members, settings, std::move(options));
  });
}

std::shared_ptr<ProcessGroupBanyan::Job> ProcessGroupBanyan::job_of(const c10::intrusive_ptr<c10d::Store>& store,
                                                                    const Members& members,
                                                                    std::chrono::milliseconds at_most,
                                                                    const run::Communicator::Options& options) {
  auto job = std::make_shared<Job>();
  job->processes = join(store, members, at_most, options);
  const bool is_sealed = job->processes->seals().sealing && options.transports != run::Communicator::Transports::ucx;
  const bool has_service = !options.extras.empty();  // whose lanes are sealed
  job->is_exposed = !is_sealed && !has_service && !are_on_one_host(*job->processes);
  return job;
}

ProcessGroupBanyan::GroupPtr ProcessGroupBanyan::of_all(std::shared_ptr<Job> job, const Members& members,
                                                        const compose::Settings& settings,
                                                        run::Communicator::Options options) {
  std::vector<uint32_t> ranks(static_cast<size_t>(members.size));
  std::iota(ranks.begin(), ranks.end(), 0u);
  return of_job({std::move(job), std::move(ranks)}, members, settings, std::move(options));
}

ProcessGroupBanyan::GroupPtr ProcessGroupBanyan::of_job(Place place, const Members& members, compose::Settings settings,
                                                        run::Communicator::Options options) {
  settings.timeout = std::chrono::duration<double>(options.timeout).count();
  uint64_t id = 0;
  {
    const std::lock_guard lock(worlds_mutex());
    id = mix(std::string_view(members.name + "#" + std::to_string(place.job->uses[members.name]++)));
  }
  run::Communicator communicator(place.job->processes, id, place.ranks, std::move(options));
  auto group =
      c10::make_intrusive<ProcessGroupBanyan>(members, std::move(place), std::move(settings), std::move(communicator));
  const std::lock_guard lock(worlds_mutex());
  groups().emplace(group.get(), WeakGroup(group));
  return group;
}

ProcessGroupBanyan::ProcessGroupBanyan(const Members& members, Place place, compose::Settings settings,
                                       run::Communicator communicator)
    : BackendBase(members.rank, members.size),
      number_(next_number()),
      global_ranks_(members.global_ranks),
      place_(std::move(place)),
      settings_(std::move(settings)),
      communicator_(std::move(communicator)) {}

// The last to hold it may be anybody, with the interpreter's lock in hand, for which a thread of ours may wait: to call
// back, or to drop a tensor.
ProcessGroupBanyan::~ProcessGroupBanyan() {
  std::optional<pybind11::gil_scoped_release> release;
  if (Py_IsInitialized() && PyGILState_Check()) release.emplace();
  finish();
}

// Nobody holds it any more, but for the weak pointer in groups(). There is no other, which would put off its end.
void ProcessGroupBanyan::release_resources() {
  const std::lock_guard lock(worlds_mutex());
  groups().erase(this);
}

void ProcessGroupBanyan::finish() {
  const run::Deadline patience = run::Deadline::after(std::chrono::seconds(10));
  if (!fork_guard_.is_in_child()) communicator_.drain(patience.left());
  if (run::SparseQueue* const queue = sparse_queue_.load()) {
    queue->drain(patience.left());
    queue->close();
  }
  communicator_.close();
}

void finish_all_groups() {
  std::vector<c10::intrusive_ptr<ProcessGroupBanyan>> all;
  {
    const std::lock_guard lock(worlds_mutex());
    for (const auto& [place, weak] : groups()) {
      if (auto group = weak.lock()) all.push_back(std::move(group));
    }
  }
  for (const auto& group : all) group->finish();
}

std::vector<int> ProcessGroupBanyan::ranks_here() const {
  std::vector<int> here;
  for (int rank = 0; rank < size_; ++rank) {
    if (place_.job->processes->is_here(place_.ranks[static_cast<size_t>(rank)])) here.push_back(rank);
  }
  return here;
}

std::string ProcessGroupBanyan::error() const {
  std::optional<Error> error = communicator_.error();
  run::SparseQueue* const queue = sparse_queue_.load();
  if (!error && queue != nullptr) error = queue->communicator().error();
  return error ? error->what() : "";
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::start(BanyanWork::Task task, const run::Call& call,
                                                         std::chrono::milliseconds timeout) {
  if (place_.job->is_exposed) warn_of_objects(call);
  OwnWorkPtr work = begin(std::move(task), call, timeout);
  calls_.fetch_add(1, std::memory_order_relaxed);
  return work;
}

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::begin(BanyanWork::Task task, run::Call call,
                                                         std::chrono::milliseconds timeout) {
  if (timeout.count() <= 0) timeout = timeout_.load();
  if (timeout.count() > 0) call.timeout = timeout;
  auto work = c10::make_intrusive<BanyanWork>(rank_, std::move(task));
  work->follow(guarded([&] { return communicator_.start(call); }));
  return begun(std::move(work));
}

// ---- Several calls as one ----

ProcessGroupBanyan::OwnWorkPtr ProcessGroupBanyan::begun(OwnWorkPtr work) {
  const std::lock_guard lock(coalesced_mutex_);
  if (coalesced_) coalesced_->push_back(work);
  return work;
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::as_one(c10d::OpType type, std::vector<OwnWorkPtr> works) const {
  if (works.size() == 1) return std::move(works.front());
  return c10::make_intrusive<JoinedWork>(rank_, type, std::move(works));
}

#ifdef BANYAN_BACKEND_COALESCES
void ProcessGroupBanyan::startCoalescing() {
  const std::lock_guard lock(coalesced_mutex_);
  coalesced_.emplace();  // a program that failed before endCoalescing() may begin anew
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::endCoalescing() {
  std::optional<std::vector<OwnWorkPtr>> works;
  {
    const std::lock_guard lock(coalesced_mutex_);
    works = std::exchange(coalesced_, std::nullopt);
  }
  TORCH_CHECK(works, "ProcessGroupBanyan::endCoalescing: startCoalescing() was not called");
  return as_one(c10d::OpType::COALESCED, std::move(*works));
}
#endif

// ---- Groups of groups ----

compose::Settings ProcessGroupBanyan::own_settings(const std::string& name) const {
  compose::Settings settings = settings_;
  settings.name = name;
  if (const std::chrono::milliseconds changed = timeout_.load(); changed.count() > 0) {
    settings.timeout = std::chrono::duration<double>(changed).count();
  }
  return settings;
}

ProcessGroupBanyan::GroupPtr ProcessGroupBanyan::offspring(const Members& members, Place place) {
  const compose::Settings settings = own_settings(members.name);
  GroupPtr group = of_job(std::move(place), members, settings, options_from(settings));
  const std::lock_guard lock(worlds_mutex());
  group->maker_ = number_;
  return group;
}

c10::intrusive_ptr<ProcessGroupBanyan> ProcessGroupBanyan::twin() {
  const std::string name = settings_.name.value_or("") + ", second calls";
  return guarded(
      [&] { return offspring({.rank = rank_, .size = size_, .name = name, .global_ranks = global_ranks_}, place_); });
}

c10::intrusive_ptr<ProcessGroupBanyan> ProcessGroupBanyan::among(const std::vector<int>& members,
                                                                 const std::string& purpose) {
  return guarded([&] {
    auto [own, place] = members_among(members, settings_.name.value_or("") + ", " + purpose);
    TORCH_INTERNAL_ASSERT(own.rank >= 0);
    return offspring(own, std::move(place));
  });
}

std::unique_ptr<Survivors> ProcessGroupBanyan::survivors(std::chrono::milliseconds patience) {
  return guarded([&] {
    run::Communicator::Options options = options_from(own_settings(settings_.name.value_or("") + ", survivors"));
    return std::make_unique<Survivors>(communicator_.shrink({}, patience, std::move(options)), rank_, size_);
  });
}

void ProcessGroupBanyan::abort(const std::string& why) {
  communicator_.abort(why);
  if (run::SparseQueue* const queue = sparse_queue_.load()) queue->abort(why);
  std::vector<GroupPtr> all;
  {
    const std::lock_guard lock(worlds_mutex());
    for (const auto& [place, weak] : groups()) {
      if (place->maker_ != number_) continue;
      if (GroupPtr group = weak.lock()) all.push_back(std::move(group));
    }
  }
  for (const GroupPtr& group : all) group->abort(why);
}

std::pair<ProcessGroupBanyan::Members, ProcessGroupBanyan::Place> ProcessGroupBanyan::members_among(
    const std::vector<int>& ranks, const std::string& name) const {
  Members members{.rank = -1, .size = static_cast<int>(ranks.size()), .name = name, .global_ranks = {}};
  Place place{.job = place_.job, .ranks = {}};
  for (const int rank : ranks) {
    TORCH_CHECK_INDEX(rank >= 0 && rank < size_, "rank ", rank, " is not in this group of ", size_);
    if (rank == rank_) members.rank = static_cast<int>(place.ranks.size());
    place.ranks.push_back(place_.ranks[static_cast<size_t>(rank)]);
    members.global_ranks.push_back(global_ranks_.empty() ? rank : global_ranks_[static_cast<size_t>(rank)]);
  }
  return {std::move(members), std::move(place)};
}

#ifdef BANYAN_BACKEND_SPLITS
c10::intrusive_ptr<c10d::Backend::Options> ProcessGroupBanyan::getBackendOptions() {
  const std::chrono::milliseconds changed = timeout_.load();
  auto options = c10::make_intrusive<Options>(
      getBackendName(), changed.count() > 0 ? changed : compose::milliseconds_of(*settings_.timeout, "timeout"));
  options->group_name = settings_.name.value_or("");
  options->global_ranks_in_group.assign(global_ranks_.begin(), global_ranks_.end());
  return options;
}

compose::Settings ProcessGroupBanyan::settings_of(const Options& options) const {
  compose::Settings settings = settings_;
  settings.name = options.group_name;
  settings.timeout = std::chrono::duration<double>(options.timeout).count();
  return settings;
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupBanyan::split(const c10::intrusive_ptr<c10d::Store>& /*store*/,
                                                            const std::vector<int>& members,
                                                            const c10::intrusive_ptr<Options>& options) {
  const std::pair<Members, Place> own = members_among(members, options->group_name);
  if (own.first.rank < 0) return nullptr;
  return guarded([&] {
    const compose::Settings settings = settings_of(*options);
    return of_job(own.second, own.first, settings, options_from(settings));
  });
}

c10::intrusive_ptr<c10d::Backend> ProcessGroupBanyan::merge(const c10::intrusive_ptr<c10d::Store>& store,
                                                            const c10::intrusive_ptr<Options>& options, const int& rank,
                                                            const int& size) {
  // Where the groups had different names, so has what they become.
  const Members members{.rank = rank, .size = size, .name = {}, .global_ranks = {}};
  return guarded([&] {
    const compose::Settings settings = settings_of(*options);
    run::Communicator::Options own = options_from(settings);
    return of_all(job_of(store, members, options->timeout, own), members, settings, std::move(own));
  });
}
#endif

// ---- Messages ----

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::start_message(BanyanWork::Task task, Tensors& tensors, uint32_t peer,
                                                              int tag) {
  const bool is_send = task.type == c10d::OpType::SEND, is_from_any = task.type == c10d::OpType::RECVANYSOURCE;
  const Checks checks(is_send ? "send" : "recv");
  checks.expect(tensors.size() == 1, "takes a single tensor");
  checks.expect(!tensors.front().is_sparse(), "tensor has to be dense");
  checks.dense(tensors);
  TORCH_CHECK_INDEX(is_from_any || peer < ranks(), "rank ", static_cast<int>(peer), " is not in this group of ",
                    ranks());
  const at::Tensor buffer = is_send ? read(tensors.front(), task) : written(tensors.front(), task, true);
  task.outputs = {tensors};
  run::Call call = moving_call(is_send ? run::OperationKind::send : run::OperationKind::recv, buffer, buffer);
  call.other = peer;
  call.tag = tag_of(tag, checks);
  return begin(std::move(task), call, {});
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::send(Tensors& tensors, int to, int tag) {
  return start_message({c10d::OpType::SEND, "banyan:send", tensors, {}}, tensors, static_cast<uint32_t>(to), tag);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recv(Tensors& tensors, int from, int tag) {
  return start_message({c10d::OpType::RECV, "banyan:recv", tensors, {}}, tensors, static_cast<uint32_t>(from), tag);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recvAnysource(Tensors& tensors, int tag) {
  return start_message({c10d::OpType::RECVANYSOURCE, "banyan:recvAnySource", tensors, {}}, tensors, run::kAnyRank, tag);
}

}  // namespace banyan::pytorch
