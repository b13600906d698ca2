// AgentConnections: connections between agents that carry messages, made when the first message is to be sent.
//
// Messages to a rank arrive once and in order, or not at all when it is lost. A connection that breaks is no death:
// both ends call again, and what the peer has not confirmed is sent once more. A rank is *lost* when its host says that
// nobody listens at its address any more (its listener was open before anybody knew of it, and goes with its process),
// when it could not be reached for Options::lost_after, or when it hangs up again and again without a word, because it
// has given this one up. A process that was stopped keeps its connections, and hears everything when it goes on.
//
// Messages are numbered for each peer and direction. A receiver drops those that it has, and confirms with every frame
// it sends, or after kConfirmEvery messages. Between two agents there may be two connections, when both called at the
// same moment; each sends on the one that it got first.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

struct Message {
  uint8_t kind = 0;  // above zero
  std::string body;
};

// One thread, that of the timers and of the dialer.
class AgentConnections {
 public:
  struct Options {
    uint32_t own = 0;  // rank
    uint32_t size = 0;
    std::chrono::milliseconds lost_after{};
  };
  struct Events {
    std::function<void(uint32_t rank, Message message)> received;
    std::function<void(uint32_t rank)> connected;  // by a first connection, or again after none was left
    // It is closed now. Not called for a rank that was closed before.
    std::function<void(uint32_t rank, std::string why)> lost;
  };

  AgentConnections(Timers& timers, Dialer& dialer, Options options, Events events);
  ~AgentConnections();
  AgentConnections(const AgentConnections&) = delete;
  AgentConnections& operator=(const AgentConnections&) = delete;

  // OutgoingConnects the peer, if need be. Messages to closed ones vanish, as do those to a peer that confirms nothing,
  // when they have become too many (kMaxQueued bytes).
  void send(uint32_t rank, Message message);
  void call(uint32_t rank);
  // A connection by which `rank` called. False when it was closed before.
  bool adopt(uint32_t rank, std::unique_ptr<ByteStream> stream);
  bool is_connected(uint32_t rank) const { return !entries_[rank].connections.empty(); }
  // What came of the last call that failed; empty if none did.
  const std::string& trouble(uint32_t rank) const { return entries_[rank].trouble; }
  // The rank has said that it goes: when its connection ends, it is lost at once.
  void expect_end(uint32_t rank) { entries_[rank].will_end = true; }
  // For ever.
  void close(uint32_t rank);

  static constexpr size_t kMaxMessage = size_t{32} << 20;
  static constexpr size_t kMaxQueued = size_t{64} << 20;

 private:
  struct Connection {
    std::unique_ptr<ByteStream> stream;  // none when it was closed
    std::string in, out;
    bool awaits_room = false;
    bool has_received = false;
  };
  struct Entry {
    std::vector<std::shared_ptr<Connection>> connections;  // shared with the functions that serve it while it is closed
    std::deque<Message> unconfirmed;                       // sent, or to be sent by the first connection
    size_t unconfirmed_bytes = 0;
    uint64_t first_unconfirmed = 1;        // its number
    uint64_t received = 0, confirmed = 0;  // numbers of the last message from the peer; and that it knows of
    std::optional<uint64_t> call;
    std::optional<Timers::Timer> pause;
    std::chrono::milliseconds next_pause{};
    TimeSource::TimePoint calling_since;
    std::string trouble;       // of the last call that failed
    std::string break_reason;  // of the last connection, while there is none
    uint32_t hang_ups = 0;     // of connections one after the other, without a word
    bool will_end = false, is_closed = false;
  };

  void call_now(uint32_t rank);
  void call_again(uint32_t rank, bool nobody_listens);
  void call_ended(uint32_t rank, Dialer::Outcome outcome);
  void write(Entry& entry, Connection& connection, uint64_t number, const Message& message);
  void confirm(Entry& entry);
  void send_unconfirmed(Entry& entry);
  void serve(uint32_t rank, const std::shared_ptr<Connection>& connection, bool may_receive, bool may_send);
  // Why the connection is of no use any more, if so.
  std::optional<std::string> read(uint32_t rank, const std::shared_ptr<Connection>& connection);
  std::optional<std::string> deliver(uint32_t rank, const std::shared_ptr<Connection>& connection);
  void take(uint32_t rank, uint64_t number, Message message);
  void forget_confirmed(Entry& entry, uint64_t up_to);
  void flush(Connection& connection);
  void connection_broke(uint32_t rank, const std::shared_ptr<Connection>& connection, const std::string& why);
  void lose(uint32_t rank, const std::string& why);
  void end_pause(Entry& entry);
  void drop(Entry& entry);

  Timers& timers_;
  Dialer& dialer_;
  const Options options_;
  std::vector<Entry> entries_;  // by rank
  const Events events_;
};

}  // namespace banyan::run
