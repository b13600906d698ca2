// Communicator: a group of processes that make the same calls in the same order. See include/banyan/banyan.h for what
// the calls do; the interfaces for users (include/banyan, bindings/torch) stand on this one.
//
//   RegionPool pool;  // memory that ranks of this host share
//   Communicator world = Communicator::join(pool);
//   world.all_reduce<float>(gradients, sums);
//   Request later = world.start({...});  ...  later.wait();
//
// Errors are thrown as banyan::Error. After an operation has thrown peer_lost, timed_out, mismatch, aborted or io, the
// communicator is in error: every later call throws the same at once, and shrink() makes a new one of those who live.
//
// Calls of several threads exclude each other; that all ranks make them in the same order is the caller's business.
// abort() and error() may be called at any time.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/call/call.h"
#include "banyan/run/communicator/joined_processes.h"
#include "banyan/run/communicator/progress.h"
#include "banyan/run/communicator/statistics.h"
#include "banyan/run/execute/executor_factory.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/transport/channel_transport.h"

namespace banyan::run {

class Operation;

// An operation under way. A copyable handle; the operation goes on when it is dropped, and its buffers must stay until
// it is done.
class Request {
 public:
  Request() = default;  // of nothing, and done
  // True if it is done; does not wait. Throws its error when it has failed.
  bool test();
  // True if it is done or has failed; does not wait.
  bool is_over() const;
  // Waits until it is done. Throws its error.
  void wait();
  // Waits until it is done, or for so long at most; true if it is done. Throws its error. If it is not done, it goes
  // on.
  bool wait_for(std::chrono::milliseconds at_most);
  // Has the progress thread see to it at once (Communicator::Progress).
  void progress_at_once() const;
  // Calls `callback` once it is done or has failed: now, if it is or has already, or else in the thread that finds out.
  // The callback may start calls and wait for them; it throws nothing.
  void on_done(std::function<void()> callback) const;
  // Its error, if it is over and has failed.
  std::optional<Error> error() const;
  // The receiver or the sender of a message that is done.
  uint32_t peer() const;
  // Waits until one of them is done or has failed, and returns which; wait() on it tells how. At least one.
  static size_t wait_for_any(std::span<const Request> requests);

 private:
  friend class Communicator;
  explicit Request(std::shared_ptr<Operation> operation) : operation_(std::move(operation)) {}
  std::shared_ptr<Operation> operation_;
};

class Communicator {
 public:
  enum class Transports : uint8_t { automatic, shared_memory, tcp, ucx };
  using Progress = run::Progress;  // progress_at_once() spares the delay of `soon`
  static constexpr std::chrono::milliseconds kSoon = run::kSoon;
  struct Options {
    std::string name = "world";                  // in messages
    std::chrono::milliseconds timeout{300'000};  // without a move, while somebody waits (patience.h)
    std::chrono::milliseconds join_timeout{300'000};
    // Ends joining when it is requested, soon, with Error{aborted}: on this rank, and on those that have come and wait.
    std::stop_token stop = {};
    // The deadline of joining, if that began before the communicator is made. None: join_timeout from the making on.
    std::optional<Deadline> joins_by = {};
    Progress progress = Progress::at_once;
    // Automatic: shared memory within a host, TCP between hosts. UCX only when it is asked for.
    Transports transports = Transports::automatic;
    // Calls follow plans even if all ranks are on one host, where shared memory is quicker.
    bool follows_plans = false;
    // Bytes that links carry by TCP are checked against what was sent. The same on all ranks.
    bool checksums = false;
    // Authentication or encryption of what goes by TCP: see transport/sealed_connection.h. Chosen when processes join,
    // the same on all of them, and for all communicators of theirs; ignored later.
    Encryption encryption = Encryption::automatic;
    // Peers may call any address of this host, and not only those of BANYAN_ADDRESS. Used at joining.
    bool has_routes = false;
    // TCP sends long pieces out of the buffers themselves where the kernel can: see transport/tcp_connection.h.
    bool zero_copy = false;
    // The number of TCP connections with each peer among which streams without a route of their own are dealt out, 1 to
    // 16. The same on all ranks.
    uint32_t connections = 1;
    // The least part of the last group with which shrink() makes a new one; the same on all ranks.
    SurvivorRule survivors = {};
    // Makes the source of plans for a communicator over connections.
    std::function<std::shared_ptr<PlanSource>(const RankLayout& layout)> plans = {};
    // Makes the factory of executors for a communicator with these options. None: DefaultExecutors.
    std::function<std::unique_ptr<ExecutorFactory>(std::shared_ptr<JoinedProcesses> job, const Options& options)>
        executors = {};
    // Facts that the other processes are told of this one when they meet (JoinedProcesses::Invitation). Used at
    // joining.
    std::map<std::string, std::string> extras = {};
    // Calls between hosts keep what revise() needs to repeat them by other plans, which costs a confirmation at the end
    // of each. Always so where routes are known. The same on all ranks.
    bool revises_plans = false;
    // Puts something around the transport of a communicator over connections: for those who count what it carries.
    std::function<std::unique_ptr<ChannelTransport>(std::unique_ptr<ChannelTransport>)> around_transport = {};
  };

  // Collective over `members` (ranks of the job, this process among them; rank i of the communicator is members[i]).
  // `id` is equal on all of them and used once in a job. Throws what JoinedProcesses::meet_on_host throws.
  Communicator(std::shared_ptr<JoinedProcesses> job, uint64_t id, std::vector<uint32_t> members, Options options);
  // Collective over all processes that the launcher started (join/environment.h), or alone when there is no launcher.
  // `pool` outlives the communicator. Throws what JoinedProcesses::join throws.
  static Communicator join(RegionPool& pool, Options options);
  static Communicator join(RegionPool& pool) { return join(pool, {}); }
  // The same by an explicit invitation.
  static Communicator join(RegionPool& pool, const JoinedProcesses::Invitation& invitation, Options options);

  Communicator(Communicator&&) noexcept;
  Communicator& operator=(Communicator&&) noexcept;
  // Closes it; finalize() first, to wait for what is under way.
  ~Communicator();

  uint32_t rank() const;
  uint32_t size() const;
  const std::string& name() const;
  const Options& options() const;  // as it was made with
  const JoinedProcesses& job() const;
  const std::shared_ptr<JoinedProcesses>& shared_job() const;
  // True if the ranks exchange through shared memory, all being on one host.
  bool is_on_one_host() const;
  const SurvivorRule& survivors() const;
  std::chrono::milliseconds timeout() const;

  // Makes the call and blocks until it is done on this rank. Throws Error{invalid_input} for what no rank could do,
  // before anything has happened; and the errors of the operation.
  void run(const Call& call);
  // The same in the background. Counts are copied, buffers are not.
  Request start(const Call& call);
  // Several at once, so that sends and receives cannot wait for each other in a circle.
  std::vector<Request> start_group(std::span<const Call> calls);

  // Collective: those with the same color >= 0 form a new communicator, ordered by key, then by rank. Nothing for those
  // with a negative one.
  std::optional<Communicator> split(int color, int key, Options options);
  // Collective among those who live: a new communicator without the dead and without those whom anybody excludes. Ends
  // what is under way on this one. Ranks that do not call within `patience` are left out. Throws Error{peer_lost} at a
  // rank that was left out, or when the survivors are too few for options.survivors, and Error{timed_out} when there
  // was no agreement within twice the patience and 10 s.
  Communicator shrink(std::span<const uint32_t> excluded, std::chrono::milliseconds patience, Options options);

  // Survivors get one value, the bitwise and of the flags of those who took part. Collective among those who live, as
  // MPIX_Comm_agree of ULFM: works on a communicator in error, and while ranks die. Ranks that do not come within half
  // of `at_most` are left out. Throws Error{timed_out} when there was no agreement within `at_most`, or this rank was
  // left out, Error{aborted} where it is fenced out. Any thread, one at a time.
  struct Agreed {
    int32_t flag = 0;
    // Names the ranks that took no part and did in the agreement before; the same on all that get the value. An
    // agreement acknowledges who is missing: the next one says nothing of them.
    std::optional<Error> lost{};
  };
  Agreed agree(int32_t flag, std::chrono::milliseconds at_most);

  // Waits for everything under way, no longer than the timeout without a move. Throws the error of an operation that
  // has ended with one.
  void finalize();
  // True if an operation has ended with an error. Any thread.
  bool has_failed_operations() const;
  // Waits until no call under way is for all ranks, or for so long at most. Throws nothing: it may have failed.
  void drain(std::chrono::milliseconds at_most);
  // Ends it as the destructor does: calls under way fail with Error{aborted}, at the other ranks, too; messages only
  // here. Its threads are gone then. Later calls throw Error{aborted}.
  void close();
  // Ends everything under way with Error{aborted}, here and, soon, at the other ranks. Any thread.
  void abort(const std::string& why);
  // Writes the flight record of this rank, and has the others write theirs, where they can be reached; does not wait
  // for them. A record that a failure has written stays. Any thread.
  void dump(const std::string& why);
  // Counts of what this rank has done. Any thread.
  Statistics statistics() const;
  // The number of times that calls went on without a link that was lost. Any thread.
  uint32_t reroutes() const;
  // Has all ranks plan for a network that has changed, or follow another plan, from a call on that they agree on: no
  // call stops or is repeated. Returns at once; all ranks adopt it or none, and generation() tells when calls follow
  // it. One rank is enough to ask. Throws Error{unsupported} where calls follow no plans or Options::revises_plans is
  // not set. Any thread.
  void revise(const PlanWish& wish);
  // Grows whenever the ranks have agreed on other plans, or on refusing a wish. Any thread.
  uint32_t generation() const;
  // Why it is in error, if it is. Any thread; does not wait.
  std::optional<Error> error() const;

  // ---- The calls, typed ----

  template <typename T>
  void all_reduce(std::span<const T> send, std::span<T> recv, element::ReduceOp op = element::ReduceOp::sum) {
    run({.kind = OperationKind::all_reduce,
         .type = data_type_of<T>(),
         .op = op,
         .send = reinterpret_cast<const std::byte*>(send.data()),
         .recv = reinterpret_cast<std::byte*>(recv.data()),
         .count = send.size()});
  }
  template <typename T>
  void broadcast(std::span<T> buffer, uint32_t root) {
    run({.kind = OperationKind::broadcast,
         .type = data_type_of<T>(),
         .other = root,
         .send = reinterpret_cast<const std::byte*>(buffer.data()),
         .recv = reinterpret_cast<std::byte*>(buffer.data()),
         .count = buffer.size()});
  }
  // recv holds size() * send.size().
  template <typename T>
  void all_gather(std::span<const T> send, std::span<T> recv) {
    run({.kind = OperationKind::all_gather,
         .type = data_type_of<T>(),
         .send = reinterpret_cast<const std::byte*>(send.data()),
         .recv = reinterpret_cast<std::byte*>(recv.data()),
         .count = send.size()});
  }
  void barrier() { run({.kind = OperationKind::barrier}); }

  template <typename T>
  static constexpr element::DataType data_type_of() {
    if constexpr (std::is_same_v<T, float>) return element::DataType::float32;
    if constexpr (std::is_same_v<T, double>) return element::DataType::float64;
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double> || std::is_integral_v<T>);
    constexpr bool is_signed = std::is_signed_v<T>;
    if constexpr (sizeof(T) == 1) return is_signed ? element::DataType::int8 : element::DataType::uint8;
    if constexpr (sizeof(T) == 2) return is_signed ? element::DataType::int16 : element::DataType::uint16;
    if constexpr (sizeof(T) == 4) return is_signed ? element::DataType::int32 : element::DataType::uint32;
    return is_signed ? element::DataType::int64 : element::DataType::uint64;
  }

 private:
  friend class Operation;
  friend class Request;
  class Impl;
  std::shared_ptr<Impl> impl_;  // shared with operations under way and with their requests
};

}  // namespace banyan::run
