// TransportConnections: the connections that transports ask for. One end connects, the other waits to be connected to.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/agent/liveness.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/system/alarm.h"
#include "banyan/run/system/event.h"
#include "banyan/run/system/timers.h"
#include "banyan/run/transport/connector.h"

namespace banyan::run {

// A queue in which the agent's thread leaves answers for the thread of a transport.
class AnswerQueue {
 public:
  AnswerQueue() = default;  // throws Error{io}
  void put(Connector::Answer answer);
  std::vector<Connector::Answer> take();
  int event_fd() const { return event_.fd(); }

 private:
  Event event_;
  std::mutex mutex_;  // protects answers_
  std::vector<Connector::Answer> answers_;
};

struct ConnectionGroup {
  uint64_t communicator = 0;
  std::vector<uint32_t> members;  // world ranks
  uint32_t own = 0;               // index in them
  std::chrono::milliseconds at_most{};
};

// On the thread of the timers.
class TransportConnections {
 public:
  // `targets` and `world` (its name) are for calls, `targets` by world rank. `uses` is told of the paths that are
  // known, by world rank. `has_strangers`: whether there are callers that have still to say who they are.
  using Uses = std::function<void(uint32_t world_rank, const Path& path)>;
  TransportConnections(Timers& timers, OutgoingConnects& calls, const Liveness& liveness, std::string world,
                       std::vector<ConnectTarget> targets, Uses uses, std::function<bool()> has_strangers)
      : timers_(timers),
        connects_(calls),
        liveness_(liveness),
        world_(std::move(world)),
        targets_(std::move(targets)),
        uses_(std::move(uses)),
        has_strangers_(std::move(has_strangers)) {}
  ~TransportConnections();
  TransportConnections(const TransportConnections&) = delete;
  TransportConnections& operator=(const TransportConnections&) = delete;

  void open(ConnectionGroup group, std::shared_ptr<AnswerQueue> answers);
  void close(uint64_t communicator);
  void request(uint64_t communicator, uint32_t peer, uint32_t lane, const Path& path);
  void know(uint64_t communicator, uint32_t peer, const Path& path);

  // A caller that has proved itself; `payload` is what its greeting says after the name of the world. Why it is not let
  // in, if so. Throws Error{invalid_input}.
  std::optional<std::string> admit(WireReader payload, Admitted& connection);
  // Callers cannot be answered, for want of descriptors: a request that waits for them waits in vain.
  void cannot_be_called(const Error& why);
  // Calls to a rank find no answer, though it calls this one: its next one that finds none is the last.
  void is_closed_to_calls(uint32_t world_rank, std::string why);
  // The state of a rank has changed.
  void changed(uint32_t world_rank);
  // A rank is to be called elsewhere from now on, also by requests that are under way.
  void retarget(uint32_t world_rank, ConnectTarget target);
  // `failed` is told of ranks that could not be reached by a call; there will be another one. It may retarget.
  void on_failed_call(std::function<void(uint32_t world_rank)> failed) { failed_call_ = std::move(failed); }

  // A rank that is ahead calls for lanes before this one asks for them; they are parked until then. The oldest is hung
  // up on when more are parked than kMaxParked, and than kMaxParkedOfRank for each rank of the world.
  static constexpr size_t kMaxParked = 1024, kMaxParkedOfRank = 64;

 private:
  using TimePoint = TimeSource::TimePoint;
  struct Key {
    uint64_t communicator = 0;
    uint32_t peer = 0, lane = 0;
    auto operator<=>(const Key&) const = default;
  };
  struct Request {
    Path path;
    ConnectTarget target;
    std::optional<uint64_t> call;
    Alarm pause;  // until the next call, or the next look at who calls
    Alarm end;
    std::chrono::milliseconds next_pause{};
    std::string trouble;      // of the last call
    uint32_t unanswered = 0;  // calls in a row
  };
  struct Group {
    ConnectionGroup group;
    std::shared_ptr<AnswerQueue> answers;  // shared with the connector
    std::map<Key, Request> requests;
  };
  struct Parked {
    Admitted connection;
    uint64_t number = 0;  // grows
  };

  void aim(Request& request, uint32_t world_rank) const;
  void call(const Key& key);
  void call_ended(const Key& key, OutgoingConnects::Outcome outcome);
  void fail(const Key& key, Error failure);
  void lose(const Key& key);
  void time_out(const Key& key);
  void succeed(const Key& key, Admitted connection);
  std::map<Key, Request>::node_type take_request(const Key& key);
  Error loss_of(const Group& group, uint32_t peer) const;
  void park(const Key& key, Admitted connection);
  Admitted unpark(const Key& key);

  Timers& timers_;
  OutgoingConnects& connects_;
  const Liveness& liveness_;
  std::string world_;
  std::vector<ConnectTarget> targets_;
  Uses uses_;
  std::function<bool()> has_strangers_;
  std::function<void(uint32_t world_rank)> failed_call_;
  std::map<uint32_t, std::string> closed_to_calls_;  // by world rank: why
  std::map<uint64_t, Group> groups_;
  std::map<Key, Parked> parked_;
  std::deque<uint64_t> closed_;  // communicators that are no more, the last ones
  uint64_t next_number_ = 0;
};

}  // namespace banyan::run
