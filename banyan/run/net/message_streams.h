// MessageStreams: the streams that carry messages between this rank and its peers, one with each, along a lane of the
// transport.
//
// Some of them *last*: when the connection breaks, or when plans are revised, another one takes its place, and the
// stream goes on where it was. For that, all ranks first stop() and know of each other that they have (revision.h);
// then each renew()s its streams, on lanes that were not used before. The first eight bytes of a renewed lane say, both
// ways, how many bytes of the stream have come; the rest is sent again.
//
// Bytes that may have to be sent again are kept: those that this host's kernel has not seen acknowledged, and some
// more. Acknowledged bytes are in the kernel of the peer. They stay there until the peer reads them, which it does
// before it says how much has come. Since nobody writes after stop(), and no acknowledgement counts any more, nothing
// can be dropped here that is not there. Bytes of a message that is under way are kept where they are, and copied only
// when the message is over while they are still on their way.
//
// One case is lost: the peer has just made a connection when the network breaks, and this rank's agent does not know of
// it yet. Then bytes that the kernel has acknowledged may be gone, and the peer gets Error{peer_lost} that says which.
//
// One thread. Nothing waits. Functions throw what the transport throws, but for the loss of a connection that is to be
// renewed: then the stream stands still, and needs_renewal().
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "banyan/run/transport/channel_transport.h"
#include "banyan/run/transport/transport.h"

namespace banyan::run {

class MessageStreams {
 public:
  struct Options {
    uint32_t rank = 0, ranks = 0;
    std::function<uint32_t(uint32_t peer)> channel = {};  // of the transport, as it is; empty: the peer's number
    LaneControl* control = nullptr;                       // of the transport, where streams last; else none does
    std::function<bool(uint32_t peer)> is_gone = {};      // dead, or has left: then nothing is renewed
  };
  MessageStreams(Transport& transport, Options options);
  MessageStreams(const MessageStreams&) = delete;
  MessageStreams& operator=(const MessageStreams&) = delete;

  // As in Transport. The body stays where it is until has_unsent() is false.
  size_t write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body);
  bool has_unsent(uint32_t peer);
  size_t read(uint32_t peer, std::span<std::byte> into);
  bool listen(uint32_t peer);

  // A connection has broken, and its peer is not known to be gone.
  bool needs_renewal() const;
  // Nothing moves until renew(). Connections that peers have made and this rank has not asked for yet are asked for.
  void stop();
  // All have stopped. `channel` gives other numbers now; the old ones are not used any more.
  void renew();
  // Bytes that are kept for a peer.
  size_t kept(uint32_t peer) const { return streams_[peer].kept_size; }
  // True while there is something to do for peers, although this rank wants nothing: advance() goes on with it.
  bool is_renewing() const { return is_renewing_; }
  // True when something has moved.
  bool advance();

 private:
  // A part of what was sent.
  struct Piece {
    std::vector<std::byte> own;  // or empty: they are the caller's
    std::span<const std::byte> bytes;
  };
  // The progress of a connection that takes the place of another one.
  struct Renewal {
    std::array<std::byte, sizeof(uint64_t)> own{}, peers{};  // bytes that have come, as they are said
    size_t sent = 0, read = 0;                               // of these
    size_t sent_again = 0;                                   // of what is kept
  };
  struct Stream {
    uint32_t channel = 0;
    bool lasts = false;
    bool is_used = false;  // something has gone or come
    bool is_broken = false;
    // Since the beginning: bytes that were sent, the last ones of which are kept, and that have come.
    uint64_t sent = 0, received = 0;
    std::deque<Piece> kept;
    size_t kept_size = 0;
    std::vector<std::byte> early;  // came by an earlier connection; not all of it is read
    size_t early_read = 0;
    std::optional<Renewal> renewal;
  };

  template <typename Move, typename Result>
  Result attempt(uint32_t peer, const Move& move, Result otherwise);
  bool is_gone(uint32_t peer) const { return options_.is_gone && options_.is_gone(peer); }
  void keep(Stream& stream, std::span<const std::byte> bytes);
  void settle_message(Stream& stream);
  static void drop_front(Stream& stream, size_t count);
  static size_t read_early(Stream& stream, std::span<std::byte> into);
  bool has_greeted(uint32_t peer);
  void take_greeting(uint32_t peer);
  bool is_settled(uint32_t peer);

  Transport& transport_;
  const Options options_;
  std::vector<Stream> streams_;  // by peer
  bool is_stopped_ = false, has_broken_ = false, is_renewing_ = false;
  uint64_t steps_ = 0;  // bytes that were said and sent again
};

}  // namespace banyan::run
