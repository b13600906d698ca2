// Links: connections between agents that carry messages, made when the first message is to be sent.
//
// Between two agents there may be two links, when both called at the same moment; each sends all its messages on the
// one that it got first, so that they arrive in order. A link that breaks is a process that has ended, since nobody
// closes one before: its rank is *lost*, and so is one at whose addresses nobody listens any more. A process that was
// stopped keeps its links, and hears everything when it goes on.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/join/calls.h"
#include "banyan/run/system/reactor.h"

namespace banyan::run {

struct Message {
  uint8_t kind = 0;
  std::string body;
};

// On the reactor's thread.
class Links {
 public:
  struct Options {
    uint32_t own = 0;                        // rank
    std::chrono::milliseconds lost_after{};  // without an acknowledgement from the peer's host
  };
  struct Peer {
    CallTarget target;
    Greeting greeting;
  };
  struct Events {
    std::function<void(uint32_t rank, Message message)> received;
    std::function<void(uint32_t rank)> linked;  // by the first link
    // It is closed now. Not called for a rank that was closed before.
    std::function<void(uint32_t rank, std::string why)> lost;
  };

  Links(Reactor& reactor, Calls& calls, Options options, std::vector<Peer> peers, Events events);
  ~Links();
  Links(const Links&) = delete;
  Links& operator=(const Links&) = delete;

  // Calls the peer, if need be. Messages to closed ones vanish, as do those to a peer that takes nothing, when they
  // have become too many (kMaxQueued bytes).
  void send(uint32_t rank, Message message);
  void call(uint32_t rank);
  // A connection by which `rank` called. False when it was closed before.
  bool adopt(uint32_t rank, FileDescriptor socket);
  bool is_linked(uint32_t rank) const { return !entries_[rank].links.empty(); }
  // What came of the last call that failed; empty if none did.
  const std::string& trouble(uint32_t rank) const { return entries_[rank].trouble; }
  // For ever.
  void close(uint32_t rank);

  static constexpr size_t kMaxMessage = size_t{32} << 20;
  static constexpr size_t kMaxQueued = size_t{64} << 20;

 private:
  struct Link {
    FileDescriptor socket;
    std::string in, out;
    bool awaits_room = false;
  };
  struct Entry {
    Peer peer;
    std::vector<std::shared_ptr<Link>> links;  // shared with the functions that serve it while it is closed
    std::string waiting;                       // frames for the first link
    std::optional<uint64_t> call;
    std::optional<Reactor::Timer> pause;
    std::chrono::milliseconds next_pause{};
    Reactor::Clock::time_point calling_since;
    std::string trouble;
    bool is_closed = false;
  };

  void call_again(uint32_t rank);
  void call_ended(uint32_t rank, Calls::Outcome outcome);
  void serve(uint32_t rank, const std::shared_ptr<Link>& link, uint32_t events);
  // Why the link is of no use any more, if so.
  std::optional<std::string> read(uint32_t rank, const std::shared_ptr<Link>& link);
  std::optional<std::string> deliver(uint32_t rank, const std::shared_ptr<Link>& link);
  void flush(Link& link);
  void lose(uint32_t rank, const std::string& why);
  void end_pause(Entry& entry);
  void drop(Entry& entry);

  Reactor& reactor_;
  Calls& calls_;
  Options options_;
  std::vector<Entry> entries_;  // by rank
  Events events_;
};

}  // namespace banyan::run
