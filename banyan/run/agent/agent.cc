#include "banyan/run/agent/agent.h"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/agent/core.h"
#include "banyan/run/agent/lane_connector.h"
#include "banyan/run/agent/looks.h"
#include "banyan/run/agent/socket_dialer.h"
#include "banyan/run/agent/transport_connections.h"
#include "banyan/run/join/acceptor.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/record/log.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/seal/sealed_stream.h"
#include "banyan/run/system/fork_guard.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/reactor.h"
#include "banyan/run/system/thread.h"

namespace banyan::run {
namespace {

// How much later than its deadline a call returns at most, should the agent's thread not come to run.
constexpr std::chrono::seconds kPatienceWithThread{1};

// How long a thread waits at most for what it tells to be on its way.
constexpr std::chrono::milliseconds kTimeToSend{200};

// Why an agent calls another one: to exchange messages.
constexpr const char* kAgentPurpose = "agent";

// Tells one world from another that the same processes, or others at the same ports, have made.
std::string name_of_world(const World& world) {
  WireWriter writer;
  for (const Member& member : world.members) {
    writer.text(member.host_id).number(static_cast<uint32_t>(member.pid)).number(member.start_time).number(member.port);
  }
  return hmac_sha256("world", writer.take()).substr(0, 16);
}

std::vector<std::string> names_of(const World& world) {
  std::vector<std::string> names;
  for (const Member& member : world.members) {
    names.push_back("process " + std::to_string(member.pid) + " on " + member.host_name);
  }
  return names;
}

std::vector<Looks::Process> visible_processes_of(const World& world) {
  const std::vector<std::string> names = names_of(world);
  std::vector<Looks::Process> processes;
  for (const Member& member : world.members) {
    const std::string address = member.addresses.empty() ? "" : member.addresses.front();
    const bool is_v6 = address.find(':') != std::string::npos;
    processes.push_back({.name = names[processes.size()],
                         .place = (is_v6 ? "[" + address + "]" : address) + ":" + std::to_string(member.port)});
  }
  return processes;
}

// Numbers that are equal on one host.
std::vector<uint32_t> hosts_of(const World& world) {
  std::map<std::string, uint32_t> numbers;
  std::vector<uint32_t> hosts;
  for (const Member& member : world.members) {
    hosts.push_back(numbers.try_emplace(member.host_id, static_cast<uint32_t>(numbers.size())).first->second);
  }
  return hosts;
}

std::vector<ConnectTarget> targets_of(const World& world) {
  std::vector<ConnectTarget> targets;
  for (const Member& member : world.members) {
    targets.push_back({.addresses = member.addresses, .port = member.port, .name = std::to_string(targets.size())});
  }
  return targets;
}

std::vector<SocketDialer::Peer> peers_of(const World& world, const std::string& world_name) {
  std::vector<SocketDialer::Peer> peers;
  std::vector<ConnectTarget> targets = targets_of(world);
  for (uint32_t rank = 0; rank < targets.size(); ++rank) {
    peers.push_back({.target = std::move(targets[rank]),
                     .greeting = {.purpose = kAgentPurpose,
                                  .payload = WireWriter().text(world_name).number(rank).number(world.rank).take()}});
  }
  return peers;
}

// Where a thread that asks something of the agent's waits for the answer. An agent that ends answers nobody any more,
// so nobody waits on for it.
class Answers {
 public:
  using Clock = Agent::Clock;

  template <typename T>
  void give(std::optional<T>& place, T answer) {
    {
      const std::lock_guard lock(mutex_);
      place = std::move(answer);
    }
    changed_.notify_all();
  }
  // Nothing at the deadline, or when the agent has ended.
  template <typename T>
  std::optional<T> wait(std::optional<T>& place, Clock::time_point deadline) {
    const auto is_over = [&] { return place || failure_; };
    std::unique_lock lock(mutex_);
    for (std::chrono::milliseconds sleep{1}; sleep.count() > 0 && !changed_.wait_for(lock, sleep, is_over);) {
      sleep = next_sleep(deadline);
    }
    return std::exchange(place, std::nullopt);
  }

  void fail(const Error& error) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (!failure_) failure_ = error;
    }
    changed_.notify_all();
  }
  void expect_no_failure() const {
    const std::lock_guard lock(mutex_);
    if (failure_) throw Error(*failure_);
  }
  bool has_failed() const {
    const std::lock_guard lock(mutex_);
    return failure_.has_value();
  }

 private:
  mutable std::mutex mutex_;  // protects the answers and failure_
  std::condition_variable changed_;
  std::optional<Error> failure_;
};

// The agents of this process, whose threads end when exit() is called: behind its back, libraries that they use clear
// away their things. What was registered last comes first, so before what OpenSSL has registered when it was loaded,
// maybe by somebody else (secret.cc keeps it from that when it can).
class StopsAtExit {
 public:
  // A forked process has its own: the threads of its parent's agents, and maybe the lock, are the parent's.
  static StopsAtExit& instance() {
    static std::atomic<StopsAtExit*> current{nullptr};
    StopsAtExit* stops = current.load(std::memory_order_acquire);
    while (stops == nullptr || stops->fork_guard_.is_in_child()) {
      auto fresh = std::make_unique<StopsAtExit>();
      if (current.compare_exchange_strong(stops, fresh.get())) return *fresh.release();
    }
    return *stops;
  }
  void add(const void* agent, std::function<void()> stop) {
    const std::lock_guard lock(mutex_);
    if (!std::exchange(is_registered_, true)) {
      CHECK_EQ(std::atexit([] { instance().stop_all(); }), 0) << "atexit";
    }
    stops_.insert_or_assign(agent, std::move(stop));
  }
  void remove(const void* agent) {
    const std::lock_guard lock(mutex_);
    stops_.erase(agent);
  }

 private:
  void stop_all() {
    const std::lock_guard lock(mutex_);
    for (const auto& [agent, stop] : stops_) stop();
  }

  const ForkGuard fork_guard_;
  std::mutex mutex_;  // protects the two
  bool is_registered_ = false;
  std::map<const void*, std::function<void()>> stops_;
};

}  // namespace

class Agent::Impl {
 public:
  Impl(Listener listener, const Secret& secret, World world, const Options& options)
      : world_(std::move(world)),
        world_name_(name_of_world(world_)),
        connects_(reactor_, secret, std::to_string(world_.rank), options.stranger_time),
        dialer_(reactor_, connects_, options.lost_after / 3, peers_of(world_, world_name_)),
        stream_lost_after_(options.lost_after / 3),
        watch_(reactor_, [this](uint32_t rank) { core_.process_ended(rank); }),
        core_(reactor_, dialer_, watch_,
              {.own = world_.rank,
               .names = names_of(world_),
               .hosts = hosts_of(world_),
               .heartbeat = options.heartbeat,
               .silent_after = options.silent_after,
               .lost_after = options.lost_after},
              {.joined = [this] { answers_.give(joined_, true); },
               .changed = [this](uint32_t rank) { connections_.changed(rank); },
               .unanswered = [this](uint32_t rank, uint32_t calls,
                                    const std::string& why) { warn_of_firewall(rank, calls, why); }}),
        connections_(
            reactor_, connects_, core_.liveness(), world_name_, targets_of(world_),
            [this](uint32_t rank, const Path& path) { dialer_.learn(rank, path.local_address, path.peer_address); },
            [this] { return acceptor_.has_strangers(); }),
        looks_(reactor_, {.rank = world_.rank, .processes = visible_processes_of(world_), .met = world_.place},
               [this](StateQueries::Done done) {
                 core_.queries().ask(kWholeProcess, reactor_.now() + kLookTime, std::move(done));
               }),
        acceptor_(reactor_, std::move(listener), secret, std::to_string(world_.rank),
                  {.stranger_time = options.stranger_time,
                   .stranger_limit = options.stranger_limit,
                   .is_short = [this](const Error& error) { connections_.cannot_be_called(error); }},
                  [this](const Greeting& greeting, Admitted& connection) { return admit(greeting, connection); }) {}

  ~Impl() {
    stops_.remove(this);
    stop();
  }

  // Nobody else's thread runs here after that.
  void stop() {
    if (!thread_.joinable()) return;
    reactor_.stop();
    thread_.join();
  }

  // True when the hub is connected, or there is none but this rank.
  bool start(const Deadline& deadline) {
    const Member& own = world_.members[world_.rank];
    for (uint32_t rank = 0; rank < world_.members.size(); ++rank) {
      const Member& member = world_.members[rank];
      // Threads of one process can be a world too.
      if (rank == world_.rank || member.host_id != own.host_id || member.pid == own.pid) continue;
      watch_.watch(rank, member.pid, member.start_time);
    }
    core_.start();
    run();
    do {
      // Not until the deadline: it may be stopped.
      if (answers_.wait(joined_, Clock::now() + deadline.next_sleep())) return true;
      answers_.expect_no_failure();
    } while (!deadline.has_passed());
    return false;
  }

  bool is_on_thread() const { return std::this_thread::get_id() == thread_.get_id(); }
  // Locks and threads that a fork has copied are of no use.
  bool is_of_this_process() const { return pid_ == getpid(); }
  // Runs `task` on the agent's thread, some time.
  void check_process() const {
    if (is_of_this_process()) return;
    throw Error(ErrorCode::unsupported, "process " + std::to_string(getpid()) + " was forked from process " +
                                            std::to_string(pid_) +
                                            ", which had joined; a forked process has to join anew");
  }
  // False when it never will, since the thread has ended.
  bool post(std::function<void()> task) {
    check_process();
    return reactor_.mailbox()->post(std::move(task));
  }
  // Runs `ask` on the agent's thread, which gives it the function to answer by; nothing when there is no answer at the
  // deadline, or no agent.
  template <typename T, typename Ask>
  std::optional<T> ask(Ask ask, Clock::time_point deadline) {
    const auto place = std::make_shared<std::optional<T>>();
    const bool is_posted = post([this, ask = std::move(ask), place] {
      ask([this, place](T answer) { answers_.give(*place, std::move(answer)); });
    });
    if (!is_posted) return std::nullopt;
    return answers_.wait(*place, deadline);
  }

  const World& world() const { return world_; }
  AgentCore& core() { return core_; }
  const AgentCore& core() const { return core_; }
  TransportConnections& connections() { return connections_; }
  const Acceptor& acceptor() const { return acceptor_; }
  const std::shared_ptr<Mailbox>& mailbox() const { return reactor_.mailbox(); }
  const std::shared_ptr<std::atomic<uint32_t>>& expectations() const { return expectations_; }
  const Answers& answers() const { return answers_; }

 private:
  void run() {
    thread_ = start_thread("banyan-agent", [this] { reactor_.run([this](const Error& error) { fail(error); }); });
    stops_.add(this, [this] { stop(); });
  }

  // What the thread was about is half done, so that this process can be a member no longer. Its communicators fail, and
  // its peers, who are hung up on, take it for dead.
  void fail(const Error& error) noexcept {
    if (answers_.has_failed()) return;
    const Error why = as_end(error);
    answers_.fail(why);
    acceptor_.close();
    looks_.close();
    core_.fail(why);
    reactor_.stop();
    BANYAN_LOG(warning) << why.what();
  }

  // A warning after two calls, since one may be lost; and calls for data wait no longer when there are no more.
  void warn_of_firewall(uint32_t rank, uint32_t calls, const std::string& why) {
    const std::vector<std::string> names = names_of(world_);
    const std::string own = "rank " + std::to_string(world_.rank) + " (" + names[world_.rank] + ")";
    const std::string other = "rank " + std::to_string(rank) + " (" + names[rank] + ")";
    const std::string text = own + " cannot call " + other + ", which can call it (" + why +
                             "): a firewall drops what the first host sends to ports of the second; open them";
    if (calls == 2) BANYAN_LOG(warning) << text;
    if (calls == AgentConnections::kSpareTries) connections_.is_closed_to_calls(rank, text);
  }

  static Error as_end(const Error& error) noexcept {
    try {
      return Error(error.code(),
                   "this process can take part no longer, since its agent had to end: " + error.message());
    } catch (...) {
      return error;
    }
  }

  std::optional<std::string> admit(const Greeting& greeting, Admitted& connection) {
    if (greeting.purpose == kLookPurpose) {
      auto stream = std::make_unique<SocketStream>(reactor_, std::move(connection.socket), stream_lost_after_);
      looks_.admit(std::make_unique<SealedStream>(std::move(stream), connection.keys));
      return {};
    }
    if (greeting.purpose != kAgentPurpose && greeting.purpose != "lane") {
      return "a process called for '" + greeting.purpose.substr(0, 32) + "', which is not served here";
    }
    WireReader payload(greeting.payload);
    if (payload.text() != world_name_ || payload.number<uint32_t>() != world_.rank) {
      return "a process called that takes this one for another; its group is not ours";
    }
    if (greeting.purpose == "lane") return connections_.admit(payload, connection);
    const uint32_t rank = payload.number<uint32_t>();
    payload.end();
    if (rank >= core_.liveness().size() || rank == world_.rank || std::to_string(rank) != greeting.from) {
      return "a process called that says to be a rank there is not";
    }
    auto stream = std::make_unique<SocketStream>(reactor_, std::move(connection.socket), stream_lost_after_);
    if (!core_.adopt(rank, std::make_unique<SealedStream>(std::move(stream), connection.keys))) {
      return "rank " + std::to_string(rank) + " called, though it was given up: " + core_.liveness().why(rank);
    }
    return {};
  }

  // In the order in which they need each other.
  pid_t pid_ = getpid();
  StopsAtExit& stops_ = StopsAtExit::instance();  // made here, where that may fail
  World world_;
  std::string world_name_;
  std::shared_ptr<std::atomic<uint32_t>> expectations_ =
      std::make_shared<std::atomic<uint32_t>>(0);  // with their holders
  Answers answers_;
  std::optional<bool> joined_;
  Reactor reactor_;
  OutgoingConnects connects_;
  SocketDialer dialer_;
  const std::chrono::milliseconds stream_lost_after_;  // a third: see suspicion.h
  ProcessWatch watch_;
  AgentCore core_;
  TransportConnections connections_;
  Looks looks_;
  Acceptor acceptor_;
  std::thread thread_;
};

Agent::Agent(Listener listener, Secret secret, World world, Options options, const Deadline& deadline) {
  CHECK(world.rank < world.members.size()) << "rank=" << world.rank << " of " << world.members.size();
  impl_ = std::make_unique<Impl>(std::move(listener), secret, std::move(world), options);
  if (impl_->start(deadline)) return;
  impl_->stop();
  const uint32_t hub = impl_->core().hub().rank();
  const Member& member = impl_->world().members[hub];
  const std::string& trouble = impl_->core().connections().trouble(hub);
  throw Error(ErrorCode::timed_out, "rank " + std::to_string(hub) + " (process " + std::to_string(member.pid) + " on " +
                                        member.host_name + ") could not be joined: " +
                                        (trouble.empty() ? "it has not answered a call to port " +
                                                               std::to_string(member.port) + " of its host"
                                                         : trouble));
}

Agent::~Agent() {
  if (!impl_->is_of_this_process()) static_cast<void>(impl_.release());  // its thread and its locks are not ours
}

uint32_t Agent::rank() const { return impl_->world().rank; }
const std::vector<Member>& Agent::members() const { return impl_->world().members; }
const Liveness& Agent::liveness() const { return impl_->core().liveness(); }

Agent::Expectation Agent::expect() {
  impl_->check_process();
  const auto adjust = [mailbox = impl_->mailbox(), &hub = impl_->core().hub(), count = impl_->expectations()] {
    mailbox->post([&hub, count] { hub.expect(count->load() > 0); });
  };
  if (impl_->expectations()->fetch_add(1) == 0) impl_->post([adjust] { adjust(); });
  return {impl_.get(), [adjust, pid = getpid(), count = impl_->expectations()](void*) {
            if (pid != getpid() || count->fetch_sub(1) != 1) return;
            try {
              adjust();
            } catch (...) {  // then agents go on asking each other for signs of life, which costs messages and no more
            }
          }};
}

void Agent::leave(Clock::time_point deadline) {
  if (!impl_->is_of_this_process()) return;
  const auto ask = [&hub = impl_->core().hub()](const std::function<void(bool)>& answer) {
    hub.leave([answer] { answer(true); });
  };
  impl_->ask<bool>(ask, deadline);
}

std::unique_ptr<Connector> Agent::connector(uint64_t communicator, std::vector<uint32_t> members, uint32_t own,
                                            std::chrono::milliseconds at_most) {
  CHECK(own < members.size() && members[own] == rank()) << "own=" << own << " of " << members.size();
  impl_->check_process();
  impl_->answers().expect_no_failure();
  return std::make_unique<LaneConnector>(
      impl_->mailbox(), impl_->connections(),
      ConnectionGroup{.communicator = communicator, .members = std::move(members), .own = own, .at_most = at_most});
}

HookRegistration Agent::attach(uint64_t communicator, CommunicatorHooks hooks) {
  impl_->check_process();
  return impl_->core().hooks()->attach(communicator, std::move(hooks));
}

std::vector<PeerReport> Agent::ask_states(uint64_t communicator, Clock::time_point deadline) {
  using Reports = std::vector<PeerReport>;
  const auto ask = [&queries = impl_->core().queries(), communicator, deadline](std::function<void(Reports)> answer) {
    queries.ask(communicator, deadline, std::move(answer));
  };
  std::optional<Reports> reports = impl_->ask<Reports>(ask, deadline + kPatienceWithThread);
  return reports ? std::move(*reports) : Reports(liveness().size());
}

void Agent::broadcast(uint64_t communicator, const std::string& reason) {
  impl_->post([&queries = impl_->core().queries(), communicator, reason] { queries.broadcast(communicator, reason); });
}

void Agent::broadcast_now(uint64_t communicator, const std::string& reason) {
  const auto ask = [&queries = impl_->core().queries(), communicator, reason](const std::function<void(bool)>& answer) {
    queries.broadcast(communicator, reason);
    answer(true);
  };
  if (impl_->is_on_thread()) return broadcast(communicator, reason);  // a hook may call this, and hooks run one by one
  impl_->ask<bool>(ask, Clock::now() + kTimeToSend);
}

Survivors Agent::agree(const SurvivorQuestion& question) {
  const std::vector<uint32_t>& candidates = question.candidates;
  const bool is_ascending = std::ranges::adjacent_find(candidates, std::greater_equal<>()) == candidates.end();
  CHECK(is_ascending && !candidates.empty() && candidates.back() < liveness().size() &&
        std::ranges::binary_search(candidates, rank()))
      << "candidates=" << candidates.size() << " of " << liveness().size();
  using Outcome = Membership::Outcome;
  const auto ask = [&membership = impl_->core().membership(), question](std::function<void(Outcome)> answer) {
    membership.agree(question, std::move(answer));
  };
  std::optional<Outcome> found = impl_->ask<Outcome>(ask, question.deadline + kPatienceWithThread);
  if (!found) {
    impl_->answers().expect_no_failure();
    throw Error(ErrorCode::timed_out, "the survivors did not agree in time: this process was not given time to run");
  }
  if (found->failure) throw Error(*found->failure);
  return std::move(*found->survivors);
}

Agent::Refusals Agent::refusals() const {
  Acceptor::Refusals refusals = impl_->acceptor().refusals();
  return {.count = refusals.count, .last = {refusals.last.begin(), refusals.last.end()}};
}

}  // namespace banyan::run
