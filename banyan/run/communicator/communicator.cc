#include "banyan/run/communicator/communicator.h"

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/run/communicator/core.h"
#include "banyan/run/join/environment.h"
#include "banyan/run/join/rendezvous.h"
#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

// For those who have all met just before the deadline.
constexpr std::chrono::seconds kLastSteps{2};

}  // namespace

// ---- The interface ----

Communicator::Communicator(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members,
                           Options options)
    : impl_(std::make_shared<Impl>(std::move(job), id, std::move(members), std::move(options))) {}

Communicator Communicator::join(RegionPool& pool, const JoinedProcesses::Invitation& invitation, Options options) {
  JoinedProcesses::Invitation complete = invitation;
  complete.encryption = options.encryption;
  complete.has_routes = options.has_routes;
  complete.extras = options.extras;
  const Deadline deadline = Deadline::after(options.join_timeout).unless(options.stop);
  options.joins_by = deadline.later(kLastSteps);
  try {
    std::shared_ptr<JoinedProcesses> job = JoinedProcesses::join(pool, complete, Secret::from_environment(), deadline);
    std::vector<uint32_t> members(invitation.size);
    std::iota(members.begin(), members.end(), 0u);
    return {std::move(job), 1, std::move(members), std::move(options)};
  } catch (const Error& error) {
    if (!deadline.is_stopped() || error.code() != ErrorCode::timed_out) throw;
    throw Error(ErrorCode::aborted, "rank " + std::to_string(invitation.rank) + " gave up joining, as it was told to");
  }
}

Communicator Communicator::join(RegionPool& pool, Options options) {
  // Several meetings of the same processes at one place are told apart by their number.
  static std::atomic<uint64_t> meetings{0};
  if (const std::optional<Invitation> invitation = invitation_from(Surroundings::real())) {
    return join(pool,
                {.url = invitation->url,
                 .rank = invitation->rank,
                 .size = invitation->size,
                 .name = invitation->job + "#" + std::to_string(meetings.fetch_add(1))},
                std::move(options));
  }
  const char* const is_meant = std::getenv("BANYAN_ALONE");
  if (is_meant == nullptr || std::string_view(is_meant) != "1") {
    BANYAN_LOG(warning) << "no launcher found: this process is alone in its communicator '" << options.name
                        << "' (start it by banyan run, torchrun, srun or mpirun; BANYAN_ALONE=1 if that is meant)";
  }
  const UniqueId alone = make_unique_id();
  return join(pool, {.url = alone.text, .rank = 0, .size = 1, .name = {}}, std::move(options));
}

Communicator::Communicator(Communicator&&) noexcept = default;

Communicator& Communicator::operator=(Communicator&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Communicator::~Communicator() {
  if (impl_ != nullptr) impl_->close();
}

uint32_t Communicator::rank() const { return impl_->rank(); }
uint32_t Communicator::size() const { return static_cast<uint32_t>(impl_->members().size()); }
const std::string& Communicator::name() const { return impl_->options().name; }
const Communicator::Options& Communicator::options() const { return impl_->options(); }
const JoinedProcesses& Communicator::job() const { return *impl_->job(); }
const std::shared_ptr<JoinedProcesses>& Communicator::shared_job() const { return impl_->job(); }
bool Communicator::is_on_one_host() const { return impl_->is_on_one_host(); }
const SurvivorRule& Communicator::survivors() const { return impl_->options().survivors; }
std::chrono::milliseconds Communicator::timeout() const { return impl_->options().timeout; }

void Communicator::run(const Call& call) { impl_->run(call); }

Request Communicator::start(const Call& call) { return Request(std::move(impl_->start({&call, 1}).front())); }

std::vector<Request> Communicator::start_group(std::span<const Call> calls) {
  std::vector<Request> requests;
  requests.reserve(calls.size());  // once they are under way, nothing may fail
  for (std::shared_ptr<Operation>& operation : impl_->start(calls)) requests.push_back(Request(std::move(operation)));
  return requests;
}

std::optional<Communicator> Communicator::split(int color, int key, Options options) {
  // Threads of a rank may split at once. Each split takes the number that rank 0 has given it, so that all ranks name
  // its parts alike.
  struct Wish {
    int32_t color = 0, key = 0, number = 0;
  };
  const Wish own{color, key, impl_->next_child()};
  std::vector<Wish> wishes(size());
  run({.kind = OperationKind::all_gather,
       .type = element::DataType::int32,
       .send = reinterpret_cast<const std::byte*>(&own),
       .recv = reinterpret_cast<std::byte*>(wishes.data()),
       .count = 3});
  const uint64_t id = impl_->child_id(wishes[0].number, static_cast<uint64_t>(color));
  if (color < 0) return std::nullopt;
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size(); ++rank) {
    if (wishes[rank].color == color) ranks.push_back(rank);
  }
  std::ranges::stable_sort(ranks, [&](uint32_t a, uint32_t b) { return wishes[a].key < wishes[b].key; });
  std::vector<uint32_t> members;
  for (const uint32_t rank : ranks) members.push_back(impl_->members()[rank]);
  return Communicator(impl_->job(), id, std::move(members), std::move(options));
}

Communicator Communicator::shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience,
                                  Options options) {
  return impl_->shrink(excluded, patience, std::move(options));
}

Communicator::Agreed Communicator::agree(int32_t flag, std::chrono::milliseconds at_most) {
  return impl_->agree(flag, at_most);
}

void Communicator::finalize() { impl_->finalize(); }

bool Communicator::has_failed_operations() const { return impl_->has_failed_operations(); }

void Communicator::drain(std::chrono::milliseconds at_most) { impl_->drain(at_most); }

void Communicator::close() { impl_->close(); }

void Communicator::abort(const std::string& why) { impl_->abort(why); }

void Communicator::dump(const std::string& why) { impl_->dump(why); }

Statistics Communicator::statistics() const { return impl_->statistics(); }

uint32_t Communicator::reroutes() const { return impl_->reroutes(); }

void Communicator::revise(const PlanWish& wish) { impl_->revise(wish); }

uint32_t Communicator::generation() const { return impl_->generation(); }

std::optional<Error> Communicator::error() const { return impl_->first_error(); }

bool Request::test() {
  if (operation_ != nullptr && !operation_->driver().test(*operation_)) return false;
  operation_.reset();
  return true;
}

void Request::wait() {
  if (operation_ == nullptr) return;
  const std::shared_ptr<Operation> operation = std::exchange(operation_, nullptr);
  operation->driver().wait(*operation);
}

bool Request::is_over() const { return operation_ == nullptr || operation_->driver().poke(*operation_); }

bool Request::wait_for(std::chrono::milliseconds at_most) {
  return operation_ == nullptr || operation_->driver().wait_for(*operation_, at_most);
}

void Request::progress_at_once() const {
  if (operation_ != nullptr && !operation_->is_over()) operation_->driver().progress_at_once();
}

void Request::on_done(std::function<void()> callback) const {
  if (operation_ == nullptr) return callback();
  operation_->on_done(std::move(callback));
}

std::optional<Error> Request::error() const {
  return operation_ != nullptr && operation_->is_over() ? operation_->error() : std::nullopt;
}

uint32_t Request::peer() const { return operation_ != nullptr ? operation_->peer : kNoRank; }

// Requests of one communicator are driven, and slept for, like a single one. Those of several are looked at in turn,
// since a thread can sleep in one executor only.
size_t Request::wait_for_any(std::span<const Request> requests) {
  CHECK(!requests.empty());
  std::vector<Operation*> operations;
  Driver* driver = nullptr;
  bool is_one_driver = true;
  for (size_t i = 0; i < requests.size(); ++i) {
    Operation* const operation = requests[i].operation_.get();
    if (operation == nullptr || operation->is_over()) return i;
    is_one_driver = is_one_driver && (driver == nullptr || driver == &operation->driver());
    driver = &operation->driver();
    operations.push_back(operation);
  }
  if (is_one_driver) return driver->wait_for_any(operations);
  for (BackOff back_off(true);;) {
    for (size_t i = 0; i < operations.size(); ++i) {
      if (operations[i]->driver().poke(*operations[i])) return i;
    }
    if (back_off.pause()) continue;
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    back_off.slept();
  }
}

}  // namespace banyan::run
