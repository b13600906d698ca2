// AgentConnections: connections between agents that carry messages, made when the first message is to be sent.
//
// Messages to a rank arrive once and in order, or not at all when it is given up. A connection that breaks is no death:
// both ends call again, for as long as nobody closes the rank, and what the peer has not confirmed is sent once more. A
// process that was stopped keeps its connections, and receives everything when it goes on. suspicion.h decides whether
// a rank that cannot be reached is dead.
//
// Several paths. The end that called first keeps a connection over each path (Dialer::paths) of a peer; worlds of more
// than 128 ranks would need too many descriptors for that, so there all but the first connection are made when
// something goes wrong. New messages go over the first connection; when the peer has confirmed nothing for 0.3 s, they
// go over all of them, and the next connection becomes the first. So a path that loses everything, in one direction or
// both, costs 0.3 s, once.
//
// The peer is called anew over every path when it has confirmed nothing for a second, and a new connection takes the
// place of the one before over its path. Otherwise a path that is whole again after some seconds would be used again
// only when the kernel retransmits, after as many more.
//
// Messages are numbered for each peer and direction. On every connection they are written in their order and without
// gaps, beginning with the first that was unconfirmed; a receiver drops those that it has. It confirms with every frame
// it sends, after 64 messages, and after 50 ms.
//
// Closed ranks. A rank that was closed with a notice gets the notice over every connection that there is or that it
// makes, and can send nothing any more but notices of its own; remind() calls it until it has received the notice.
#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/system/alarm.h"
#include "banyan/run/system/byte_stream.h"
#include "banyan/run/system/timers.h"

namespace banyan::run {

struct Message {
  uint8_t kind = 0;  // above zero, below 255
  std::string body{};
};

// One thread, that of the timers and of the dialer.
class AgentConnections {
 public:
  struct Options {
    uint32_t own = 0;  // rank
    uint32_t size = 0;
  };
  struct Events {
    std::function<void(uint32_t rank, Message message)> received;
    std::function<void(uint32_t rank)> connected;  // by a first connection, or again after none was left
    // A sign of life: a frame of the rank, or its kernel's answer that somebody listens at its port.
    std::function<void(uint32_t rank)> sign_of_life;
    // No connection is left, or a first call has failed. `is_orderly`: the last one was closed, not broken.
    std::function<void(uint32_t rank, std::string why, bool is_orderly)> unreachable;
    // The last calls over every path, all since it was connected, found its port closed.
    std::function<void(uint32_t rank)> refused;
    // So many calls over every path have found no answer, and none was ever answered, while the rank itself has called
    // this one: something drops what goes there first. May be empty.
    std::function<void(uint32_t rank, uint32_t calls, const std::string& why)> unanswered{};
    // Messages to the rank are dropped from now on, until it confirms some: so many bytes wait already. Said once until
    // then. May be empty.
    std::function<void(uint32_t rank, size_t waiting)> dropped{};
    // A rank that had said that it goes has gone (is closed now), or one that sends nonsense.
    std::function<void(uint32_t rank, std::string why)> lost;
    std::function<void(uint32_t rank, std::string notice)> noticed;  // the rank has closed this one
  };

  AgentConnections(Timers& timers, Dialer& dialer, Options options, Events events);
  ~AgentConnections();
  AgentConnections(const AgentConnections&) = delete;
  AgentConnections& operator=(const AgentConnections&) = delete;

  // Calls the peer, if need be. Messages to closed ones vanish, as do those to a peer that confirms nothing, when they
  // have become too many (kMaxQueued bytes; Events::dropped). Throws Error{unsupported} for a body longer than
  // kMaxMessage, which every peer would take for nonsense.
  void send(uint32_t rank, Message message);
  // Besides, all connections show that they carry something.
  void send_over_all(uint32_t rank, Message message);
  void call(uint32_t rank);
  // A connection by which `rank` called. False when it was closed before, and has no notice to hear.
  bool adopt(uint32_t rank, std::unique_ptr<ByteStream> stream);
  bool is_connected(uint32_t rank) const { return !entries_[rank].is_closed && !entries_[rank].connections.empty(); }
  bool has_unconfirmed(uint32_t rank) const { return !entries_[rank].unconfirmed.empty(); }
  // The failure of the last call that failed; empty if none did.
  const std::string& trouble(uint32_t rank) const { return entries_[rank].trouble; }
  // The rank has said that it goes: when its connection ends, it is lost at once.
  void expect_end(uint32_t rank) { entries_[rank].will_end = true; }
  // For ever. The rank hears `notice`, if it is not empty, whenever there is a connection.
  void close(uint32_t rank, std::string notice);
  // All, for ever, and without a word to anybody here.
  void close_all() noexcept;
  // Calls a rank that was closed with a notice, again and again with growing pauses, until it has heard it or its host
  // says that it is no more.
  void remind(uint32_t rank);

  // Calls over a path while there is another connection; then it is not tried again before something breaks.
  static constexpr uint32_t kSpareTries = 6;

  static constexpr size_t kMaxMessage = size_t{32} << 20;
  static constexpr size_t kMaxQueued = size_t{64} << 20;

 private:
  struct Connection {
    std::unique_ptr<ByteStream> stream;  // none when it was closed
    std::string in, out;
    bool awaits_room = false;
    std::optional<uint32_t> path;  // by which this rank called; none: the peer did
    uint64_t written = 0;          // number of the last message that was
    bool has_received = false;
  };
  // Calls over one path, one after the other.
  struct Attempts {
    std::optional<uint64_t> call;
    Alarm pause;
    std::chrono::milliseconds next_pause{};
    uint32_t failures = 0;  // since there was reason to hope
    bool was_refused = false, was_answered = false;
  };
  struct Entry {
    std::vector<std::shared_ptr<Connection>> connections;  // shared with the functions that serve it while it is closed
    std::deque<Message> unconfirmed;                       // sent, or to be sent by the first connection
    size_t unconfirmed_bytes = 0;
    uint64_t first_unconfirmed = 1;        // its number
    uint64_t received = 0, confirmed = 0;  // numbers of the last message from the peer; and that it knows of
    Alarm confirmation, resend;
    std::chrono::milliseconds next_resend{};
    bool is_stalled = false;  // nothing was confirmed for about a second
    bool drops = false;       // messages to it, as was told
    bool confirms_over_all = false;
    std::map<uint32_t, Attempts> attempts;  // by path
    std::string trouble;                    // of the last call that failed
    bool is_reported = false;               // that it is unreachable
    uint32_t unanswered = 0;                // calls over every path, as far as that was told
    bool will_end = false, is_closed = false, is_reminded = false;
    std::string notice;  // for the closed
  };

  // Calling
  void start_calls(uint32_t rank);
  void call_now(uint32_t rank, uint32_t path);
  void call_ended(uint32_t rank, uint32_t path, Dialer::Outcome outcome);
  void call_again(uint32_t rank, uint32_t path);
  void judge(uint32_t rank, const Dialer::Outcome& outcome);
  void judge_silence(uint32_t rank);
  bool has_path(const Entry& entry, uint32_t path) const;
  static void replace_others(Entry& entry, const std::shared_ptr<Connection>& connection);
  bool add(uint32_t rank, std::unique_ptr<ByteStream> stream, std::optional<uint32_t> path);
  // Sending
  void write(Entry& entry, Connection& connection, uint64_t number, const Message& message);
  void catch_up(Entry& entry, Connection& connection);
  void confirm(Entry& entry, Connection& connection);
  void confirm_later(uint32_t rank, const std::shared_ptr<Connection>& connection, bool came_twice);
  void watch_confirmations(uint32_t rank);
  void resend(uint32_t rank, uint64_t first);
  void flush(Connection& connection);
  // Receiving
  void serve(uint32_t rank, const std::shared_ptr<Connection>& connection, bool may_receive, bool may_send);
  struct Ending {
    std::string why;
    bool is_orderly = false, is_said = false;
  };
  // Why the connection is of no use any more, if so.
  std::optional<Ending> read(uint32_t rank, const std::shared_ptr<Connection>& connection);
  std::optional<Ending> deliver(uint32_t rank, const std::shared_ptr<Connection>& connection);
  struct Frame {
    uint64_t number = 0, confirmed = 0;  // of its message; of the last message that the sender has
    Message message;
  };
  void take_frame(uint32_t rank, const std::shared_ptr<Connection>& connection, Frame frame);
  void forget_confirmed(Entry& entry, uint64_t up_to);
  void connection_broke(uint32_t rank, const std::shared_ptr<Connection>& connection, const Ending& ending);
  void lose(uint32_t rank, const std::string& why);
  void drop(Entry& entry) noexcept;

  Timers& timers_;
  Dialer& dialer_;
  const Options options_;
  std::vector<Entry> entries_;  // by rank
  const Events events_;
};

}  // namespace banyan::run
