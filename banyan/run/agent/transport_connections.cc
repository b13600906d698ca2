#include "banyan/run/agent/transport_connections.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/words.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/descriptor_use.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{5}, kLongestPause{250};
// Between looks at whether a rank that has left is among those who have still to say who they are.
constexpr milliseconds kLook{20};
constexpr size_t kClosedRemembered = 1024;
// Calls in a row that nobody has answered, some ten seconds.
constexpr uint32_t kWorthAWarning = 6;

std::string name_of(uint32_t peer) { return "rank " + std::to_string(peer); }

Error shortage(const std::string& of, const std::string& why) {
  return Error(ErrorCode::io, of + " was possible: " + why + " (this process may have " +
                                  std::to_string(allowed_descriptors()) + " descriptors: ulimit -n)");
}

}  // namespace

void AnswerQueue::put(Connector::Answer answer) {
  const std::lock_guard lock(mutex_);
  answers_.push_back(std::move(answer));
  if (!event_.set()) throw system_error("cannot wake a thread");
}

std::vector<Connector::Answer> AnswerQueue::take() {
  const std::lock_guard lock(mutex_);
  if (answers_.empty()) return {};
  if (!event_.clear()) throw system_error("cannot read an event");
  return std::exchange(answers_, {});
}

TransportConnections::~TransportConnections() {
  while (!groups_.empty()) close(groups_.begin()->first);
}

void TransportConnections::open(ConnectionGroup group, std::shared_ptr<AnswerQueue> answers) {
  const uint64_t communicator = group.communicator;
  const bool is_new =
      groups_.emplace(communicator, Group{std::move(group), std::move(answers), std::map<Key, Request>()}).second;
  CHECK(is_new) << "communicator " << communicator << " has two connectors";
  std::erase(closed_, communicator);
}

void TransportConnections::close(uint64_t communicator) {
  Group& group = groups_.at(communicator);
  while (!group.requests.empty()) take_request(Key(group.requests.begin()->first));
  groups_.erase(communicator);
  for (auto next = parked_.lower_bound(Key{communicator, 0, 0});
       next != parked_.end() && next->first.communicator == communicator;
       next = parked_.lower_bound(Key{communicator, 0, 0})) {
    unpark(Key(next->first));
  }
  closed_.push_back(communicator);
  if (closed_.size() > kClosedRemembered) closed_.pop_front();
}

void TransportConnections::request(uint64_t communicator, uint32_t peer, uint32_t lane, const Path& path) {
  Group& group = groups_.at(communicator);
  const Key key{communicator, peer, lane};
  const uint32_t world_rank = group.group.members[peer];
  const auto [position, is_new] = group.requests.try_emplace(key);
  CHECK(is_new) << "lane " << lane << " to " << name_of(peer) << " is requested twice";
  Request& request = position->second;
  request.path = path;
  aim(request, world_rank);
  uses_(world_rank, path);
  request.next_pause = kFirstPause;
  request.end.set_after(timers_, group.group.at_most, [this, key] { time_out(key); });
  // Even of a peer that is gone: what it sent before is in there.
  if (Admitted parked = unpark(key); parked.socket.is_open()) {
    succeed(key, std::move(parked));
  } else if (liveness_.is_gone(world_rank)) {
    lose(key);
  } else if (group.group.own < peer) {
    call(key);
  } else {
    CHECK(lane < Connector::kFirstTrial) << "rank " << group.group.own << " tries whether it can be called";
  }
}

void TransportConnections::aim(Request& request, uint32_t world_rank) const {
  request.target = targets_[world_rank];
  request.target.local_address = request.path.local_address;
  if (!request.path.peer_address.empty()) request.target.addresses = {request.path.peer_address};
}

void TransportConnections::retarget(uint32_t world_rank, ConnectTarget target) {
  targets_[world_rank] = std::move(target);
  for (auto& [communicator, group] : groups_) {
    for (auto& [key, request] : group.requests) {
      if (group.group.members[key.peer] == world_rank) aim(request, world_rank);
    }
  }
}

void TransportConnections::know(uint64_t communicator, uint32_t peer, const Path& path) {
  uses_(groups_.at(communicator).group.members[peer], path);
}

void TransportConnections::call(const Key& key) {
  const Group& group = groups_.at(key.communicator);
  Request& request = groups_.at(key.communicator).requests.at(key);
  Greeting greeting{.purpose = "lane",
                    .payload = WireWriter()
                                   .text(world_)
                                   .number(group.group.members[key.peer])
                                   .number(key.communicator)
                                   .number(group.group.own)
                                   .number(key.peer)
                                   .number(key.lane)
                                   .take()};
  request.call = connects_.connect(request.target, std::move(greeting), [this, key](OutgoingConnects::Outcome outcome) {
    call_ended(key, std::move(outcome));
  });
}

void TransportConnections::call_ended(const Key& key, OutgoingConnects::Outcome outcome) {
  Request& request = groups_.at(key.communicator).requests.at(key);
  request.call.reset();
  if (outcome.socket.is_open()) {
    closed_to_calls_.erase(groups_.at(key.communicator).group.members[key.peer]);
    succeed(key, {.socket = std::move(outcome.socket), .keys = std::move(outcome.keys)});
    return;
  }
  if (outcome.is_short) return fail(key, shortage("no connection to " + name_of(key.peer), outcome.failure));
  const uint32_t world_rank = groups_.at(key.communicator).group.members[key.peer];
  const bool is_unanswered = !outcome.nobody_listens && !outcome.somebody_listens;
  if (const auto found = closed_to_calls_.find(world_rank); found != closed_to_calls_.end() && is_unanswered) {
    return fail(key, Error(ErrorCode::timed_out, found->second));
  }
  // Even where nobody listens: whether the peer lives, others know better.
  request.trouble = std::move(outcome.failure);
  request.unanswered = is_unanswered ? request.unanswered + 1 : 0;
  if (request.unanswered == kWorthAWarning) {
    BANYAN_LOG(warning) << "no connection to " << name_of(key.peer) << " yet, which lives, as far as is known ("
                        << request.trouble << "): a firewall may drop what goes there";
  }
  request.pause.set_after(timers_, request.next_pause, [this, key] { call(key); });
  request.next_pause = std::min(request.next_pause * 2, kLongestPause);
  if (failed_call_) failed_call_(world_rank);
}

void TransportConnections::is_closed_to_calls(uint32_t world_rank, std::string why) {
  closed_to_calls_.insert_or_assign(world_rank, std::move(why));
}

void TransportConnections::cannot_be_called(const Error& why) {
  for (auto& [communicator, group] : groups_) {
    std::vector<Key> waiting;
    for (const auto& [key, request] : group.requests) {
      if (key.peer < group.group.own) waiting.push_back(key);
    }
    for (const Key& key : waiting) fail(key, shortage("no connection from " + name_of(key.peer), why.message()));
  }
}

std::map<TransportConnections::Key, TransportConnections::Request>::node_type TransportConnections::take_request(
    const Key& key) {
  auto node = groups_.at(key.communicator).requests.extract(key);
  if (node.mapped().call) connects_.cancel(*node.mapped().call);
  return node;
}

void TransportConnections::succeed(const Key& key, Admitted connection) {
  take_request(key);
  groups_.at(key.communicator)
      .answers->put({.peer = key.peer,
                     .lane = key.lane,
                     .socket = std::move(connection.socket),
                     .keys = std::move(connection.keys)});
}

void TransportConnections::fail(const Key& key, Error failure) {
  take_request(key);
  groups_.at(key.communicator).answers->put({.peer = key.peer, .lane = key.lane, .failure = std::move(failure)});
}

// Its peer is gone. One that has left in peace may have called before it left. For the caller, a connection stands as
// soon as the greeting is sent, and messages follow at once. When the greeting is lost on the way, TCP sends it again,
// perhaps after the good-bye, which takes another connection. So the request waits while any caller has still to say
// who it is; strangers can hold it up until its own deadline, and no longer.
void TransportConnections::lose(const Key& key) {
  const Group& group = groups_.at(key.communicator);
  const bool has_left = liveness_.state(group.group.members[key.peer]) == Health::left;
  if (!has_left || key.peer > group.group.own || !has_strangers_()) return fail(key, loss_of(group, key.peer));
  groups_.at(key.communicator).requests.at(key).pause.set_after(timers_, kLook, [this, key] { lose(key); });
}

void TransportConnections::time_out(const Key& key) {
  const Group& group = groups_.at(key.communicator);
  if (liveness_.is_gone(group.group.members[key.peer])) return fail(key, loss_of(group, key.peer));
  const std::string time = format_timeout(group.group.at_most);
  if (group.group.own > key.peer) {
    fail(key, Error(ErrorCode::timed_out, name_of(key.peer) + " has not called this rank within " + time));
    return;
  }
  const std::string& trouble = group.requests.at(key).trouble;
  fail(key, Error(ErrorCode::timed_out, "no connection to " + name_of(key.peer) + " was possible within " + time +
                                            (trouble.empty() ? "" : " (" + trouble + ")")));
}

Error TransportConnections::loss_of(const Group& group, uint32_t peer) const {
  return Error(ErrorCode::peer_lost, name_of(peer) + " was lost: " + liveness_.why(group.group.members[peer]));
}

void TransportConnections::changed(uint32_t world_rank) {
  if (!liveness_.is_gone(world_rank)) return;
  for (auto& [communicator, group] : groups_) {
    std::vector<Key> lost;
    for (const auto& [key, request] : group.requests) {
      if (group.group.members[key.peer] == world_rank) lost.push_back(key);
    }
    for (const Key& key : lost) lose(key);
  }
}

std::optional<std::string> TransportConnections::admit(WireReader payload, Admitted& connection) {
  Key key;
  key.communicator = payload.number<uint64_t>();
  key.peer = payload.number<uint32_t>();
  const uint32_t own = payload.number<uint32_t>();
  key.lane = payload.number<uint32_t>();
  payload.end();
  if (std::ranges::find(closed_, key.communicator) != closed_.end()) {
    return name_of(key.peer) + " called for a communicator that this rank has closed";
  }
  const auto found = groups_.find(key.communicator);
  if (key.lane >= Connector::kFirstTrial) return {};  // that it came was all
  if (found == groups_.end()) {
    park(key, std::move(connection));
    return {};
  }
  const Group& group = found->second;
  // Only those below call.
  if (own != group.group.own || key.peer >= own) {
    return name_of(key.peer) + " called for a lane to " + name_of(own) + ", which this is not, or not so";
  }
  const uint32_t caller = group.group.members[key.peer];
  if (liveness_.is_gone(caller) && !liveness_.is_certain(caller)) {
    return name_of(key.peer) + " called for a lane, though it is fenced out: " + liveness_.why(caller);
  }
  if (group.requests.contains(key)) {
    succeed(key, std::move(connection));
  } else {
    park(key, std::move(connection));
  }
  return {};
}

void TransportConnections::park(const Key& key, Admitted connection) {
  unpark(key);  // who calls twice has given up the first
  if (parked_.size() >= std::max(kMaxParked, kMaxParkedOfRank * liveness_.size())) {
    const auto oldest = std::min_element(
        parked_.begin(), parked_.end(), [](const auto& a, const auto& b) { return a.second.number < b.second.number; });
    unpark(Key(oldest->first));
  }
  parked_.emplace(key, Parked{std::move(connection), ++next_number_});
}

Admitted TransportConnections::unpark(const Key& key) {
  auto node = parked_.extract(key);
  return node.empty() ? Admitted() : std::move(node.mapped().connection);
}

}  // namespace banyan::run
