#include "bindings/torch/process_group.h"

#include <Python.h>
#include <pybind11/pybind11.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <numeric>
#include <utility>

#include "banyan/run/joined_processes.h"
#include "bindings/torch/buffers.h"
#include "bindings/torch/checks.h"
#include "bindings/torch/elements.h"
#include "bindings/torch/torch_store.h"

namespace banyan::pytorch {
namespace {

// The default group's processes, from which other groups are made.
struct World {
  std::weak_ptr<JoinedProcesses> job;
  std::map<std::string, uint64_t> uses;  // of names of groups
};

std::mutex& worlds_mutex() {
  static auto* const mutex = new std::mutex();
  return *mutex;
}
World& world() {  // under worlds_mutex()
  static auto* const world = new World();
  return *world;
}
using WeakGroup = c10::weak_intrusive_ptr<ProcessGroupBanyan>;
std::map<ProcessGroupBanyan*, WeakGroup>& groups() {  // those that exist; under worlds_mutex()
  static auto* const groups = new std::map<ProcessGroupBanyan*, WeakGroup>();
  return *groups;
}

// Calls `body`; what it throws reaches Python as banyan_torch.Error, or as RuntimeError where an argument is wrong.
template <typename Body>
auto guarded(const Body& body) {
  try {
    return body();
  } catch (const Error& error) {
    TORCH_CHECK(error.code() != ErrorCode::invalid_input, error.what());
    throw CommunicationError(error);
  }
}

// FNV-1a: the same number on all members.
uint64_t number_of(const std::string& name) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const unsigned char letter : name) hash = (hash ^ letter) * 0x100000001b3u;
  return hash;
}

std::shared_ptr<JoinedProcesses> join(const c10::intrusive_ptr<c10d::Store>& store,
                                      const ProcessGroupBanyan::Members& members, std::chrono::milliseconds at_most) {
  const Deadline deadline = Deadline::after(at_most);
  TorchStore meeting(store);
  const auto rank = static_cast<uint32_t>(members.rank);
  // The same processes may meet here several times, one after the other.
  const int64_t meetings = meeting.add("banyan/meetings/" + std::to_string(rank), 1, deadline);
  const std::string prefix = "banyan/" + std::to_string(meetings) + "/";
  const Secret secret = members.size > 1 ? job_secret(meeting, prefix, rank, deadline) : Secret();
  return JoinedProcesses::join(region_pool(), meeting,
                               {.url = {}, .rank = rank, .size = static_cast<uint32_t>(members.size), .name = prefix},
                               secret, deadline.left());
}

// The job of the default group, if these are ranks of it.
std::shared_ptr<JoinedProcesses> job_around(const ProcessGroupBanyan::Members& members) {
  if (members.global_ranks.empty()) return nullptr;
  std::shared_ptr<JoinedProcesses> job = world().job.lock();
  if (job == nullptr || static_cast<size_t>(members.size) != members.global_ranks.size()) return nullptr;
  if (job->rank() != members.global_ranks[static_cast<size_t>(members.rank)]) return nullptr;
  const bool are_in_it = std::all_of(members.global_ranks.begin(), members.global_ranks.end(),
                                     [&](int64_t rank) { return rank >= 0 && rank < job->size(); });
  return are_in_it ? job : nullptr;
}

uint32_t tag_of(int tag, const Checks& checks) {
  checks.expect(tag >= 0, "Tag must be nonnegative, not " + std::to_string(tag));
  return static_cast<uint32_t>(tag);
}

}  // namespace

c10::intrusive_ptr<ProcessGroupBanyan> ProcessGroupBanyan::create(const c10::intrusive_ptr<c10d::Store>& store,
                                                                  Members members, const Settings& settings) {
  return guarded([&] {
    Communicator::Options options = options_from(settings);
    std::shared_ptr<JoinedProcesses> job;
    uint64_t id = 1;
    {
      const std::lock_guard lock(worlds_mutex());
      job = job_around(members);
      if (job != nullptr) id = number_of(members.name + "#" + std::to_string(world().uses[members.name]++));
    }
    std::vector<uint32_t> ranks(static_cast<size_t>(members.size));
    if (job != nullptr) {
      std::copy(members.global_ranks.begin(), members.global_ranks.end(), ranks.begin());
    } else {
      job = join(store, members, options.join_timeout);
      std::iota(ranks.begin(), ranks.end(), 0u);
      const std::lock_guard lock(worlds_mutex());
      if (members.global_ranks.empty()) world() = {.job = job, .uses = {}};
    }
    auto group = c10::make_intrusive<ProcessGroupBanyan>(
        members, Communicator(std::move(job), id, std::move(ranks), std::move(options)));
    const std::lock_guard lock(worlds_mutex());
    groups().emplace(group.get(), WeakGroup(group));
    return group;
  });
}

ProcessGroupBanyan::ProcessGroupBanyan(const Members& members, Communicator communicator)
    : BackendBase(members.rank, members.size), communicator_(std::move(communicator)) {}

// The last to hold it may be anybody, with the interpreter's lock in hand, for which a thread of ours may wait: to call
// back, or to drop a tensor.
ProcessGroupBanyan::~ProcessGroupBanyan() {
  std::optional<pybind11::gil_scoped_release> release;
  if (Py_IsInitialized() && PyGILState_Check()) release.emplace();
  finish();
}

// Nobody holds it any more, but for the weak pointer in groups().
void ProcessGroupBanyan::release_resources() {
  const std::lock_guard lock(worlds_mutex());
  groups().erase(this);
}

void ProcessGroupBanyan::finish() {
  constexpr std::chrono::seconds kPatience{10};
  if (!fork_guard_.is_in_child()) communicator_.drain(kPatience);
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

std::string ProcessGroupBanyan::error() const {
  const std::optional<Error> error = communicator_.error();
  return error ? error->what() : "";
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::start(BanyanWork::Task task, Call call,
                                                      std::chrono::milliseconds timeout) {
  if (timeout.count() > 0) call.timeout = timeout;
  auto work = c10::make_intrusive<BanyanWork>(rank_, std::move(task));
  work->follow(guarded([&] { return communicator_.start(call); }));
  calls_.fetch_add(1, std::memory_order_relaxed);
  return work;
}

void ProcessGroupBanyan::run(const Call& call) {
  guarded([&] { communicator_.run(call); });
  calls_.fetch_add(1, std::memory_order_relaxed);
}

// ---- Messages ----

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::start_message(BanyanWork::Task task, OperationKind kind,
                                                              Tensors& tensors, uint32_t peer, int tag) {
  const Checks checks(kind == OperationKind::send ? "send" : "recv");
  checks.expect(tensors.size() == 1, "takes a single tensor");
  checks.expect(!tensors.front().is_sparse(), "tensor has to be dense");
  checks.dense(tensors);
  const bool is_from_any = task.type == c10d::OpType::RECVANYSOURCE;
  TORCH_CHECK_INDEX(is_from_any || peer < ranks(), "rank ", static_cast<int>(peer), " is not in this group of ",
                    ranks());
  at::Tensor buffer = tensors.front();
  if (!buffer.is_contiguous()) {
    buffer = buffer.contiguous();
    task.held.push_back(buffer);
    if (kind == OperationKind::recv) task.at_end = [tensor = tensors.front(), buffer] { tensor.copy_(buffer); };
  }
  task.outputs = {tensors};
  const ElementMove move = move_of(buffer);
  Call call{.kind = kind,
            .type = move.type,
            .other = peer,
            .count = static_cast<uint64_t>(buffer.numel()) * move.elements_each,
            .tag = tag_of(tag, checks)};
  (kind == OperationKind::send) ? (void)(call.send = bytes_of(buffer)) : (void)(call.recv = mutable_bytes_of(buffer));
  auto work = c10::make_intrusive<BanyanWork>(rank_, std::move(task));
  work->follow(guarded([&] { return communicator_.start(call); }));
  return work;
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::send(Tensors& tensors, int to, int tag) {
  return start_message(
      {.type = c10d::OpType::SEND, .title = "banyan:send", .inputs = tensors, .outputs = {}, .held = {}, .at_end = {}},
      OperationKind::send, tensors, static_cast<uint32_t>(to), tag);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recv(Tensors& tensors, int from, int tag) {
  return start_message(
      {.type = c10d::OpType::RECV, .title = "banyan:recv", .inputs = tensors, .outputs = {}, .held = {}, .at_end = {}},
      OperationKind::recv, tensors, static_cast<uint32_t>(from), tag);
}

ProcessGroupBanyan::WorkPtr ProcessGroupBanyan::recvAnysource(Tensors& tensors, int tag) {
  return start_message({.type = c10d::OpType::RECVANYSOURCE,
                        .title = "banyan:recvAnySource",
                        .inputs = tensors,
                        .outputs = {},
                        .held = {},
                        .at_end = {}},
                       OperationKind::recv, tensors, kAnyRank, tag);
}

// Every rank tells rank 0 that it has come, and is told how it went: nothing, or what is wrong.
void ProcessGroupBanyan::monitoredBarrier(const c10d::BarrierOptions& options, bool wait_all_ranks) {
  constexpr size_t kVerdictBytes = 1024;
  constexpr uint32_t kTags = 1u << 31;  // beyond those of programs
  const uint32_t tag = kTags | static_cast<uint32_t>(barriers_.fetch_add(1) & (kTags - 1));
  const auto timeout = options.timeout.count() > 0 ? options.timeout : std::chrono::milliseconds(30 * 60 * 1000);
  const Deadline deadline = Deadline::after(timeout);
  const std::string time = std::to_string(timeout.count()) + " ms";
  const auto message = [&](OperationKind kind, uint32_t peer, const std::shared_ptr<std::string>& text) {
    auto* const bytes = reinterpret_cast<std::byte*>(text->data());
    const Request request = guarded([&] {
      return communicator_.start({.kind = kind,
                                  .type = DataType::uint8,
                                  .other = peer,
                                  .send = bytes,
                                  .recv = bytes,
                                  .count = text->size(),
                                  .tag = tag});
    });
    request.on_done([text] {});  // which stays until then
    return request;
  };
  const auto has_come = [&](Request request) {
    return guarded([&] { return request.wait_for(std::max(deadline.left(), std::chrono::milliseconds(1))); });
  };
  if (rank_ != 0) {
    message(OperationKind::send, 0, std::make_shared<std::string>(1, '.'));
    const auto verdict = std::make_shared<std::string>(kVerdictBytes, '\0');
    TORCH_CHECK(has_come(message(OperationKind::recv, 0, verdict)), "[Rank ", rank_,
                "]: Rank 0 failed to pass monitoredBarrier in ", time);
    TORCH_CHECK(
        verdict->front() == '\0', "[Rank ", rank_,
        "]: Successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 0. "
        "Please check rank 0 logs for faulty rank. It says: ",
        verdict->c_str());
    return;
  }
  std::vector<Request> arrivals(ranks());
  for (uint32_t rank = 1; rank < ranks(); ++rank) {
    arrivals[rank] = message(OperationKind::recv, rank, std::make_shared<std::string>(1, '\0'));
  }
  std::vector<uint32_t> missing;
  for (uint32_t rank = 1; rank < ranks() && (wait_all_ranks || missing.empty()); ++rank) {
    if (!has_come(arrivals[rank])) missing.push_back(rank);
  }
  std::string verdict;
  for (const uint32_t rank : missing) verdict += (verdict.empty() ? "" : ", ") + std::to_string(rank);
  if (!missing.empty()) {
    verdict =
        std::string(wait_all_ranks ? "Ranks " : "Rank ") + verdict + " failed to pass monitoredBarrier in " + time;
  }
  std::vector<Request> told;
  for (uint32_t rank = 1; rank < ranks(); ++rank) {
    if (std::find(missing.begin(), missing.end(), rank) != missing.end() || !arrivals[rank].is_over()) continue;
    auto text = std::make_shared<std::string>(verdict);
    text->resize(kVerdictBytes);
    told.push_back(message(OperationKind::send, rank, text));
  }
  for (const Request& each : told) has_come(each);
  TORCH_CHECK(missing.empty(), "[Rank 0]: ", verdict);
}

}  // namespace banyan::pytorch
