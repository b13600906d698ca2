// Banyan: collective communication of host memory. The C++ interface, for C++20; link with -lbanyan.
//
//   #include <banyan/communicator.h>
//
//   banyan::Communicator world = banyan::Communicator::join();   // started by banyan run, torchrun, srun or mpirun
//   std::vector<float> gradients = ...;
//   world.all_reduce(gradients, banyan::ReduceOp::avg);          // in place; blocks
//   banyan::Request sum = world.start().all_reduce(gradients);   // the same in the background
//   sum.wait();
//
// banyan.h says once what the calls do, which variables of the environment count, what each thread may do, and how long
// each call may take; the destructor of a Request takes as long as banyan_wait, and that of a Communicator as long as
// banyan_comm_destroy. This is the same interface with types. It is a header over the functions there: no C++ type
// crosses the border of the library, so programs may be compiled with another compiler or standard library.
//
// BUFFERS are contiguous ranges (buffers.h). The compiler refuses temporaries, since a call may go on when they are
// gone: in the background, and in a group. A call whose sizes do not fit each other throws before anything happens.
//
// ERRORS are thrown as banyan::Error. After peer_lost, timed_out, mismatch, aborted or system_error the communicator is
// in error: every later call throws the same at once, and shrink() makes a new one of the ranks that live.
#pragma once

#include <banyan/cxx20.h>
#ifdef BANYAN_CXX20

#include <banyan/banyan.h>
#include <banyan/buffers.h>
#include <banyan/error.h>
#include <banyan/options.h>

#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <optional>
#include <ranges>
#include <span>
#include <stop_token>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace banyan {
inline namespace v0 {

// ---- Requests ----

inline constexpr int kAnyRank = BANYAN_ANY_RANK;

// An operation under way. Its buffers must stay until it is done; the destructor waits for that, and drops an error.
class Request {
 public:
  Request() = default;  // of nothing, and done
  Request(Request&& other) noexcept
      : handle_(std::exchange(other.handle_, nullptr)), source_(std::move(other.source_)) {}
  Request& operator=(Request&& other) noexcept {
    std::swap(handle_, other.handle_);
    std::swap(source_, other.source_);
    return *this;
  }
  ~Request() { banyan_wait(&handle_); }

  // Waits until it is done.
  void wait() { check(banyan_wait(&handle_)); }
  // True if it is done; does not wait.
  bool test() { return is_done(banyan_test(&handle_)); }
  // Waits for so long at most; true if it is done.
  template <typename Rep, typename Period>
  bool wait_for(std::chrono::duration<Rep, Period> at_most) {
    return is_done(banyan_wait_for(&handle_, std::chrono::duration<double>(at_most).count()));
  }
  // The rank that sent, after a receive that is done; else kAnyRank.
  int source() const { return source_ != nullptr ? *source_ : kAnyRank; }

  // Waits until one of them is done, and returns its index; nothing if none is under way.
  static std::optional<std::size_t> wait_any(std::span<Request> requests) {
    std::vector<banyan_request_t> handles;
    for (const Request& request : requests) handles.push_back(request.handle_);
    int index = -1;
    const banyan_result_t result = banyan_wait_any(handles.data(), static_cast<int>(handles.size()), &index);
    if (index >= 0) requests[static_cast<std::size_t>(index)].handle_ = nullptr;
    check(result);
    return index >= 0 ? std::optional(static_cast<std::size_t>(index)) : std::nullopt;
  }
  // Waits for all, then throws the first error, if any.
  static void wait_all(std::span<Request> requests) {
    std::optional<Error> first;
    for (Request& request : requests) {
      try {
        request.wait();
      } catch (const Error& error) {
        if (!first) first = error;
      }
    }
    if (first) throw *first;
  }

 private:
  friend class Starter;
  static bool is_done(banyan_result_t result) {
    if (result == BANYAN_IN_PROGRESS) return false;
    check(result);
    return true;
  }

  banyan_request_t handle_ = nullptr;
  std::unique_ptr<int> source_;  // stays where it is while the library writes to it
};

// All operations that `body` starts begin together, so that an exchange of sends and receives cannot deadlock. Blocking
// calls in it are over when group() returns.
template <std::invocable Body>
void group(Body&& body) {
  check(banyan_group_start());
  try {
    std::forward<Body>(body)();
  } catch (...) {
    banyan_group_end();
    throw;
  }
  check(banyan_group_end());
}

// ---- Calls ----

// The calls of a communicator: those of Communicator itself block, and those of start() return a Request.
template <typename Self, typename Result>
class Calls {
 public:
  // ---- Collectives ----
  //
  // With one buffer they are in place.

  // recv = the reduction of send over all ranks.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result all_reduce(S&& send, R&& recv, Reduction op = ReduceOp::sum) {
    expect_equal(count(send), count(recv), "all_reduce");
    return call(banyan_all_reduce, data(send), data(recv), count(send), type(send), op.op());
  }
  template <OutBuffer B>
  Result all_reduce(B&& buffer, Reduction op = ReduceOp::sum) {
    return all_reduce(buffer, buffer, op);
  }
  // The same at `root`; elsewhere recv may be empty.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result reduce(S&& send, R&& recv, int root, Reduction op = ReduceOp::sum) {
    if (rank() == root) expect_equal(count(send), count(recv), "reduce");
    return call(banyan_reduce, data(send), data(recv), count(send), type(send), op.op(), root);
  }
  // The sum takes the place of what `root` contributes; the buffers of others keep theirs.
  template <OutBuffer B>
  Result reduce(B&& buffer, int root, Reduction op = ReduceOp::sum) {
    return reduce(buffer, buffer, root, op);
  }
  template <OutBuffer B>
  Result broadcast(B&& buffer, int root) {
    return call(banyan_broadcast, data(buffer), data(buffer), count(buffer), type(buffer), root);
  }
  // recv holds size() * count(send).
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result all_gather(S&& send, R&& recv) {
    expect_equal(count(send) * ranks(), count(recv), "all_gather");
    return call(banyan_all_gather, data(send), data(recv), count(send), type(send));
  }
  // This rank's part is in its place already.
  template <OutBuffer B>
  Result all_gather(B&& buffer) {
    const std::size_t part = part_of(count(buffer), "all_gather");
    return call(banyan_all_gather, BANYAN_IN_PLACE, data(buffer), part, type(buffer));
  }
  // counts[r] elements of rank r, at displacements[r], or one after the other.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result all_gather_v(S&& send, R&& recv, std::span<const std::size_t> counts,
                                                  std::span<const std::size_t> displacements = {}) {
    expect_counts(counts, displacements, count(recv), "all_gather_v");
    expect_equal(count(send), counts[static_cast<std::size_t>(rank())], "all_gather_v");
    return call(banyan_all_gather_v, data(send), data(recv), counts.data(), pointer(displacements), type(send));
  }
  // send holds size() * count(recv).
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result reduce_scatter(S&& send, R&& recv, Reduction op = ReduceOp::sum) {
    expect_equal(count(recv) * ranks(), count(send), "reduce_scatter");
    return call(banyan_reduce_scatter, data(send), data(recv), count(recv), type(send), op.op());
  }
  // The result takes the place of this rank's part; the contents of the others are undefined afterwards.
  template <OutBuffer B>
  Result reduce_scatter(B&& buffer, Reduction op = ReduceOp::sum) {
    const std::size_t part = part_of(count(buffer), "reduce_scatter");
    return call(banyan_reduce_scatter, data(buffer), BANYAN_IN_PLACE, part, type(buffer), op.op());
  }
  // counts[r] elements for rank r, one after the other in send.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result reduce_scatter_v(S&& send, R&& recv, std::span<const std::size_t> counts,
                                                      Reduction op = ReduceOp::sum) {
    expect_counts(counts, {}, count(send), "reduce_scatter_v");
    expect_equal(count(recv), counts[static_cast<std::size_t>(rank())], "reduce_scatter_v");
    return call(banyan_reduce_scatter_v, data(send), data(recv), counts.data(), type(send), op.op());
  }
  // The p-th part of send goes to rank p.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result all_to_all(S&& send, R&& recv) {
    expect_equal(count(send), count(recv), "all_to_all");
    const std::size_t part = part_of(count(send), "all_to_all");
    return call(banyan_all_to_all, data(send), data(recv), part, type(send));
  }
  template <OutBuffer B>
  Result all_to_all(B&& buffer) {
    return all_to_all(buffer, buffer);
  }
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result all_to_all_v(S&& send, std::span<const std::size_t> send_counts, R&& recv,
                                                  std::span<const std::size_t> recv_counts,
                                                  std::span<const std::size_t> send_displacements = {},
                                                  std::span<const std::size_t> recv_displacements = {}) {
    expect_counts(send_counts, send_displacements, count(send), "all_to_all_v");
    expect_counts(recv_counts, recv_displacements, count(recv), "all_to_all_v");
    return call(banyan_all_to_all_v, data(send), send_counts.data(), pointer(send_displacements), data(recv),
                recv_counts.data(), pointer(recv_displacements), type(send));
  }
  // recv at `root` holds size() * count(send); elsewhere it may be empty.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result gather(S&& send, R&& recv, int root) {
    if (rank() == root) expect_equal(count(send) * ranks(), count(recv), "gather");
    return call(banyan_gather, data(send), data(recv), count(send), type(send), root);
  }
  // send at `root` holds size() * count(recv); elsewhere it may be empty.
  template <InBuffer S, OutBuffer R>
  requires SameElements<S, R> Result scatter(S&& send, R&& recv, int root) {
    if (rank() == root) expect_equal(count(recv) * ranks(), count(send), "scatter");
    return call(banyan_scatter, data(send), data(recv), count(recv), type(send), root);
  }
  Result barrier() { return call(banyan_barrier); }

  // ---- Between two ranks ----

  // The n-th send to a rank with a tag matches the n-th receive there from this one with it; counts must be equal.
  template <InBuffer S>
  Result send(S&& send, int peer, std::uint32_t tag = 0) {
    return call(banyan_send_tagged, data(send), count(send), type(send), peer, tag);
  }

 protected:
  // Has the function of the C interface called with these arguments, the communicator and a request, if there is one.
  template <typename Function, typename... Arguments>
  Result call(Function function, const Arguments&... arguments) {
    return static_cast<Self&>(*this).make(
        [&](banyan_request_t* request) { return function(arguments..., handle(), request); });
  }
  banyan_comm_t handle() const { return static_cast<const Self&>(*this).handle(); }
  int rank() const {
    int rank = 0;
    check(banyan_comm_user_rank(handle(), &rank));
    return rank;
  }
  std::size_t ranks() const {
    int size = 0;
    check(banyan_comm_count(handle(), &size));
    return static_cast<std::size_t>(size);
  }
  std::size_t part_of(std::size_t count, const char* call) const {
    if (count % ranks() == 0) return count / ranks();
    throw Error(ErrorCode::invalid_argument, std::string(call) + ": " + std::to_string(count) +
                                                 " elements do not divide into " + std::to_string(ranks()) + " parts");
  }
  static void expect_equal(std::size_t expected, std::size_t count, const char* call) {
    if (expected == count) return;
    throw Error(ErrorCode::invalid_argument, std::string(call) + ": a buffer has " + std::to_string(count) +
                                                 " elements, and must have " + std::to_string(expected));
  }
  // Throws unless there is one count for each rank, and all parts fit into the buffer.
  void expect_counts(std::span<const std::size_t> counts, std::span<const std::size_t> displacements,
                     std::size_t buffer, const char* call) const {
    if (counts.size() != ranks() || (!displacements.empty() && displacements.size() != ranks())) {
      throw Error(ErrorCode::invalid_argument,
                  std::string(call) + ": one count and one displacement per rank is needed");
    }
    std::size_t end = 0;
    for (std::size_t rank = 0; rank < counts.size(); ++rank) {
      const std::size_t begin = displacements.empty() ? end : displacements[rank];
      end = begin + counts[rank];
      if (end <= buffer) continue;
      throw Error(ErrorCode::invalid_argument, std::string(call) + ": the part of rank " + std::to_string(rank) +
                                                   " ends at " + std::to_string(end) + ", and the buffer at " +
                                                   std::to_string(buffer));
    }
  }
  static const std::size_t* pointer(std::span<const std::size_t> numbers) {
    return numbers.empty() ? nullptr : numbers.data();
  }
  template <typename R>
  static auto* data(R& range) {
    return std::ranges::data(range);
  }
  template <typename R>
  static std::size_t count(const R& range) {
    return static_cast<std::size_t>(std::ranges::size(range));
  }
  template <typename R>
  static banyan_type_t element_type(const R&) {
    return type_of<std::remove_cv_t<std::ranges::range_value_t<R>>>();
  }
  // The same, or the type of the code.
  template <typename R>
  static banyan_type_t type(const R& range) {
    if constexpr (requires {
                    { range.type() } -> std::same_as<banyan_type_t>;
                  }) {
      return range.type();
    } else {
      return element_type(range);
    }
  }
};

// The calls of a communicator in the background.
class Starter : public Calls<Starter, Request> {
 public:
  explicit Starter(banyan_comm_t comm) : handle_(comm) {}

  // Receives from `peer`, which may be kAnyRank; Request::source() then tells which rank has sent.
  template <OutBuffer R>
  Request recv(R&& recv, int peer, std::uint32_t tag = 0) {
    auto source = std::make_unique<int>(kAnyRank);
    Request request = call(banyan_recv_tagged, data(recv), count(recv), element_type(recv), peer, tag, source.get());
    request.source_ = std::move(source);
    return request;
  }

 private:
  friend class Calls<Starter, Request>;
  template <typename Body>
  Request make(const Body& body) {
    Request request;
    check(body(&request.handle_));
    return request;
  }
  banyan_comm_t handle() const { return handle_; }
  banyan_comm_t handle_;
};

// ---- Communicators ----

// A meeting point that one rank makes; its text is carried to the others by the application's own means.
inline banyan_unique_id_t make_unique_id() {
  banyan_unique_id_t id;
  check(banyan_get_unique_id(&id));
  return id;
}

// A group of processes. Movable; calls of several threads exclude each other.
class Communicator : public Calls<Communicator, void> {
 public:
  // Collective over all processes that the launcher started; alone, with a warning, when there is no launcher.
  static Communicator join(const Options& options = {}) { return joined(options, banyan_comm_init_env); }
  // Collective at a meeting point: "tcp://host:port" or "file:///path".
  static Communicator join(const std::string& url, int size, int rank, const Options& options = {}) {
    return joined(options, banyan_comm_init_url, url.c_str(), size, rank);
  }
  static Communicator join(const banyan_unique_id_t& id, int size, int rank, const Options& options = {}) {
    return joined(options, banyan_comm_init_rank, size, id, rank);
  }
  // For a newcomer, while the others call grow().
  static Communicator join_grown(const banyan_unique_id_t& id, int size, int rank, const Options& options = {}) {
    return made_of(options, nullptr, banyan_comm_grow, size, id, rank);
  }
  // Takes over a communicator that the C interface has made.
  explicit Communicator(banyan_comm_t handle) : handle_(handle) {}

  Communicator(Communicator&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Communicator& operator=(Communicator&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  // Waits for operations under way, as finalize() does, and drops errors; when an exception unwinds the stack, aborts,
  // so that the other ranks do not wait for this one. To be run before main() returns: a communicator that is a global
  // variable leaves no good-bye, so that the other ranks take this one for dead.
  ~Communicator() {
    if (handle_ == nullptr) return;
    if (std::uncaught_exceptions() > exceptions_) banyan_comm_abort(handle_);
    banyan_comm_destroy(handle_);
  }

  int rank() const { return number(banyan_comm_user_rank); }
  int size() const { return number(banyan_comm_count); }
  // The number of times that calls under way were begun again because links or connections were lost.
  int reroutes() const { return number(banyan_comm_get_reroutes); }
  // The counts and times of this rank's calls: of all, or of those of one function, such as "all_reduce".
  banyan_statistics_t statistics(const char* call = nullptr) const {
    banyan_statistics_t statistics = BANYAN_STATISTICS_INIT;
    check(banyan_comm_get_statistics(handle_, call, &statistics));
    return statistics;
  }
  std::string name() const {
    const char* name = nullptr;
    check(banyan_comm_get_name(handle_, &name));
    return name;
  }
  banyan_comm_t handle() const { return handle_; }

  // ---- Groups and ends ----

  // Collective: ranks with an equal color >= 0 form a new communicator, ordered by key, then by rank.
  std::optional<Communicator> split(int color, int key, const Options& options = {}) {
    const banyan_config_t config = options.config();
    banyan_comm_t part = nullptr;
    check(banyan_comm_split(handle_, color, key, &part, &config));
    return part != nullptr ? std::optional<Communicator>(std::in_place, part) : std::nullopt;
  }
  // Collective among the ranks that live: a communicator without the dead and the excluded.
  Communicator shrink(std::span<const int> excluded = {}, const Options& options = {}) {
    const int count = static_cast<int>(excluded.size());
    return made_of(options, handle_, banyan_comm_shrink, excluded.data(), count);
  }
  // Collective among the ranks that live, also in error: the bitwise and of the flags of all that took part, the same
  // on all of them. `lost` names the ranks that are missing now and were not missing in the agreement before.
  struct Agreed {
    int flag = 0;
    std::optional<Error> lost;
  };
  Agreed agree(int flag) {
    const banyan_result_t result = banyan_comm_agree(handle_, &flag);
    if (result != BANYAN_PEER_LOST) {
      check(result);
      return {flag, std::nullopt};
    }
    return {flag, Error(ErrorCode::peer_lost, banyan_last_error(handle_))};
  }
  // Collective with newcomers that call join_grown().
  Communicator grow(const banyan_unique_id_t& id, int size, const Options& options = {}) {
    return made_of(options, handle_, banyan_comm_grow, size, id, rank());
  }
  // Waits for all operations under way, and says good-bye; no calls after that.
  void finalize() { check(banyan_comm_finalize(handle_)); }
  // Ends all operations under way, here and, soon, at the other ranks. Any thread.
  void abort() { check(banyan_comm_abort(handle_)); }
  // The error that it is in, if any. Any thread; does not wait.
  std::optional<Error> error() const {
    banyan_result_t result = BANYAN_SUCCESS;
    check(banyan_comm_get_async_error(handle_, &result));
    if (result == BANYAN_SUCCESS) return std::nullopt;
    return Error(static_cast<ErrorCode>(result), banyan_last_error(handle_));
  }
  // Sets the timeout of operations that begin from now on; zero: as in the options.
  template <typename Rep, typename Period>
  void set_timeout(std::chrono::duration<Rep, Period> timeout) {
    check(banyan_comm_set_timeout(handle_, std::chrono::duration<double>(timeout).count()));
  }
  // Makes this rank and all others that can be reached write their flight records.
  void dump(const std::string& why) { check(banyan_comm_dump(handle_, why.c_str())); }
  ScaledSum scaled_sum(double factor) { return ScaledSum(handle_, factor); }
  FeedbackSum feedback_sum(const Residual& residual, ReduceOp op = ReduceOp::sum) {
    return FeedbackSum(handle_, residual, op);
  }

  // The calls are those of Calls, and these:
  Starter start() { return Starter(handle_); }
  // Receives from `peer`, which may be kAnyRank, and blocks; returns the rank that sent.
  template <OutBuffer R>
  int recv(R&& recv, int peer, std::uint32_t tag = 0) {
    int source = kAnyRank;
    call(banyan_recv_tagged, data(recv), count(recv), element_type(recv), peer, tag, &source);
    return source;
  }
  // Sends and receives at once, so that all ranks may do it in a ring. Returns the rank that sent.
  template <InBuffer S, OutBuffer R>
  int send_recv(S&& send, int to, R&& recv, int from, std::uint32_t tag = 0) {
    Request received = start().recv(recv, from, tag);
    this->send(send, to, tag);
    received.wait();
    return received.source();
  }

 private:
  friend class Calls<Communicator, void>;
  template <typename Body>
  void make(const Body& body) {
    check(body(nullptr));
  }
  // Makes one by a function of the C interface that joins processes, with these arguments.
  template <typename Function, typename... Arguments>
  static Communicator joined(const Options& options, Function join, const Arguments&... arguments) {
    return made_by(
        options, [&](banyan_comm_t* comm, const banyan_config_t* config) { return join(comm, arguments..., config); });
  }
  // Makes one by a function that makes a communicator of another, which may be null.
  template <typename Function, typename... Arguments>
  static Communicator made_of(const Options& options, banyan_comm_t other, Function make,
                              const Arguments&... arguments) {
    return made_by(options, [&](banyan_comm_t* comm, const banyan_config_t* config) {
      return make(other, arguments..., comm, config);
    });
  }
  template <typename Join>
  static Communicator made_by(const Options& options, const Join& join) {
    banyan_config_t config = options.config();
    if (options.stop.stop_possible()) config.blocking = 0;
    banyan_comm_t comm = nullptr;
    const banyan_result_t result = join(&comm, &config);
    if (result != BANYAN_IN_PROGRESS) {
      check(result);
      return Communicator(comm);
    }
    Communicator made(comm);
    made.await_joined(options.stop);
    return made;
  }
  void await_joined(const std::stop_token& stop) const {
    banyan_result_t result = BANYAN_IN_PROGRESS;
    for (; result == BANYAN_IN_PROGRESS; check(banyan_comm_get_async_error(handle_, &result))) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      if (stop.stop_requested()) check(banyan_comm_abort(handle_));
    }
    check(result);
  }
  int number(banyan_result_t (*ask)(banyan_comm_t, int*)) const {
    int number = 0;
    check(ask(handle_, &number));
    return number;
  }

  banyan_comm_t handle_ = nullptr;
  int exceptions_ = std::uncaught_exceptions();
};

}  // namespace v0
}  // namespace banyan

#endif  // BANYAN_CXX20
