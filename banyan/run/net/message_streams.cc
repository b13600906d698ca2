#include "banyan/run/net/message_streams.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

// Bodies that are shorter are copied at once.
constexpr size_t kLeastLent = size_t{4} << 10;
// Copies are put together up to this size. The kernel is asked what has been acknowledged when there are more bytes.
constexpr size_t kMostTogether = size_t{16} << 10, kMuch = size_t{64} << 10;

}  // namespace

MessageStreams::MessageStreams(Transport& transport, Options options)
    : transport_(transport), options_(std::move(options)), streams_(options_.ranks) {
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    const bool is_own = peer == options_.rank;
    streams_[peer].channel = options_.channel && !is_own ? options_.channel(peer) : peer;
    streams_[peer].lasts = options_.control != nullptr && !is_own;
  }
}

// Moves something, unless the connection was reset: then it is to be renewed, and `otherwise` is the answer.
template <typename Move, typename Result>
Result MessageStreams::attempt(uint32_t peer, const Move& move, Result otherwise) {
  Stream& stream = streams_[peer];
  try {
    return move();
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost || is_gone(peer)) throw;
    stream.is_broken = stream.is_broken || options_.control->was_reset(stream.channel);
    if (!stream.is_broken) throw;
    has_broken_ = true;
    return otherwise;
  }
}

bool MessageStreams::needs_renewal() const {
  for (uint32_t peer = 0; has_broken_ && peer < options_.ranks; ++peer) {
    if (streams_[peer].is_broken && !is_gone(peer)) return true;
  }
  return false;
}

// ---- Sending ----

size_t MessageStreams::write(uint32_t peer, std::span<const std::byte> head, std::span<const std::byte> body) {
  Stream& stream = streams_[peer];
  if (!stream.lasts) return transport_.write(stream.channel, head, body);
  if (is_stopped_) return 0;
  const auto move = [&]() -> size_t {
    if (!is_settled(peer)) return 0;
    const size_t count = transport_.write(stream.channel, head, body);
    const size_t of_head = std::min(count, head.size());
    keep(stream, head.first(of_head));
    keep(stream, body.first(count - of_head));
    return count;
  };
  return attempt(peer, move, size_t{0});
}

// Long ones stay the caller's until the message is over.
void MessageStreams::keep(Stream& stream, std::span<const std::byte> bytes) {
  if (bytes.empty()) return;
  stream.is_used = true;
  stream.sent += bytes.size();
  stream.kept_size += bytes.size();
  if (bytes.size() >= kLeastLent) {
    stream.kept.push_back({.own = {}, .bytes = bytes});
    return;
  }
  const bool fits = !stream.kept.empty() && !stream.kept.back().own.empty() &&
                    stream.kept.back().own.size() + bytes.size() <= kMostTogether;
  if (!fits) stream.kept.emplace_back().own.reserve(kMostTogether);
  Piece& piece = stream.kept.back();
  const size_t dropped = piece.own.size() - piece.bytes.size();
  piece.own.insert(piece.own.end(), bytes.begin(), bytes.end());
  piece.bytes = std::span<const std::byte>(piece.own).subspan(dropped);
}

bool MessageStreams::has_unsent(uint32_t peer) {
  Stream& stream = streams_[peer];
  if (!stream.lasts) return transport_.has_unsent(stream.channel);
  if (is_stopped_) return true;
  const auto move = [&] {
    if (!is_settled(peer) || transport_.has_unsent(stream.channel)) return true;
    settle_message(stream);
    return false;
  };
  return attempt(peer, move, true);
}

// The memory of the caller is given back.
void MessageStreams::settle_message(Stream& stream) {
  const auto is_lent = [](const Piece& piece) { return piece.own.empty(); };
  const bool has_lent = std::any_of(stream.kept.begin(), stream.kept.end(), is_lent);
  if (!has_lent && stream.kept_size <= kMuch) return;
  const size_t in_flight = options_.control->in_flight(stream.channel);
  if (in_flight < stream.kept_size) drop_front(stream, stream.kept_size - in_flight);
  for (Piece& piece : stream.kept) {
    if (!is_lent(piece)) continue;
    piece.own.assign(piece.bytes.begin(), piece.bytes.end());
    piece.bytes = piece.own;
  }
}

void MessageStreams::drop_front(Stream& stream, size_t count) {
  stream.kept_size -= count;
  while (count > 0) {
    Piece& piece = stream.kept.front();
    const size_t here = std::min(count, piece.bytes.size());
    piece.bytes = piece.bytes.subspan(here);
    count -= here;
    if (piece.bytes.empty()) stream.kept.pop_front();
  }
}

// ---- Receiving ----

size_t MessageStreams::read(uint32_t peer, std::span<std::byte> into) {
  Stream& stream = streams_[peer];
  if (!stream.lasts) return transport_.read(stream.channel, into);
  if (const size_t early = read_early(stream, into); early > 0 || is_stopped_) return early;
  const auto move = [&]() -> size_t {
    if (!has_greeted(peer)) return 0;
    const size_t count = transport_.read(stream.channel, into);
    stream.received += count;
    stream.is_used = stream.is_used || count > 0;
    return count;
  };
  return attempt(peer, move, size_t{0});
}

size_t MessageStreams::read_early(Stream& stream, std::span<std::byte> into) {
  const size_t count = std::min(stream.early.size() - stream.early_read, into.size());
  if (count == 0) return 0;
  std::memcpy(into.data(), stream.early.data() + stream.early_read, count);
  stream.early_read += count;
  if (stream.early_read == stream.early.size()) {
    stream.early = {};
    stream.early_read = 0;
  }
  return count;
}

bool MessageStreams::listen(uint32_t peer) {
  Stream& stream = streams_[peer];
  if (!stream.lasts) return transport_.listen(stream.channel);
  if (!stream.early.empty()) return true;
  if (is_stopped_) return false;
  return attempt(
      peer, [&] { return transport_.listen(stream.channel); }, false);
}

// ---- Renewing ----

void MessageStreams::stop() {
  is_stopped_ = true;
  // Peers of lower ranks call; a connection that one has made waits until it is asked for.
  for (uint32_t peer = 0; peer < options_.rank; ++peer) {
    Stream& stream = streams_[peer];
    if (stream.lasts)
      attempt(
          peer, [&] { return transport_.listen(stream.channel); }, false);
  }
}

void MessageStreams::renew() {
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    Stream& stream = streams_[peer];
    if (!stream.lasts) continue;
    const std::vector<std::byte> came = options_.control->drain(stream.channel);
    const size_t of_greeting = stream.renewal ? stream.renewal->peers.size() - stream.renewal->read : 0;
    const auto rest = std::span(came).subspan(std::min(of_greeting, came.size()));
    stream.early.insert(stream.early.end(), rest.begin(), rest.end());
    stream.received += rest.size();
    stream.is_used = stream.is_used || !rest.empty();
    is_renewing_ = is_renewing_ || stream.is_used;
    stream.channel = options_.channel(peer);
    stream.is_broken = false;
    stream.renewal = Renewal();
    std::memcpy(stream.renewal->own.data(), &stream.received, sizeof stream.received);
  }
  is_stopped_ = has_broken_ = false;
}

bool MessageStreams::advance() {
  if (is_stopped_ || !is_renewing_) return false;
  bool moved = false;
  is_renewing_ = false;
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    Stream& stream = streams_[peer];
    if (!stream.is_used || !stream.renewal) continue;
    const uint64_t before = steps_;
    attempt(
        peer, [&] { return transport_.listen(stream.channel) && is_settled(peer); }, false);
    moved = moved || steps_ != before;
    is_renewing_ = is_renewing_ || stream.renewal;
  }
  return moved;
}

// Whether both ends have said what they have.
bool MessageStreams::has_greeted(uint32_t peer) {
  Stream& stream = streams_[peer];
  if (!stream.renewal) return true;
  Renewal& renewal = *stream.renewal;
  const size_t sent = transport_.write(stream.channel, std::span(renewal.own).subspan(renewal.sent), {});
  renewal.sent += sent;
  if (renewal.read < renewal.peers.size()) {
    const size_t read = transport_.read(stream.channel, std::span(renewal.peers).subspan(renewal.read));
    renewal.read += read;
    steps_ += sent + read;
    if (renewal.read == renewal.peers.size()) take_greeting(peer);
  }
  return renewal.sent == renewal.own.size() && renewal.read == renewal.peers.size();
}

void MessageStreams::take_greeting(uint32_t peer) {
  Stream& stream = streams_[peer];
  uint64_t theirs = 0;
  std::memcpy(&theirs, stream.renewal->peers.data(), sizeof theirs);
  const uint64_t first = stream.sent - stream.kept_size;
  if (theirs < first || theirs > stream.sent) {
    throw Error(ErrorCode::peer_lost, "the connection to rank " + std::to_string(peer) + " was lost with bytes " +
                                          std::to_string(theirs) + " to " + std::to_string(first) + " of the " +
                                          std::to_string(stream.sent) + " that this rank has sent it in messages");
  }
  drop_front(stream, theirs - first);
}

// Whether nothing has to be sent again any more.
bool MessageStreams::is_settled(uint32_t peer) {
  Stream& stream = streams_[peer];
  if (!stream.renewal) return true;
  if (!has_greeted(peer)) return false;
  size_t& again = stream.renewal->sent_again;
  size_t skipped = 0;
  for (const Piece& piece : stream.kept) {
    while (again < skipped + piece.bytes.size()) {
      const size_t count = transport_.write(stream.channel, {}, piece.bytes.subspan(again - skipped));
      if (count == 0) return false;
      again += count;
      steps_ += count;
    }
    skipped += piece.bytes.size();
  }
  stream.renewal.reset();
  return true;
}

}  // namespace banyan::run
