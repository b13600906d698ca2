#include "banyan/run/net/messenger.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr uint32_t kMagic = 0x336c'6e62;  // "bnl3", the 3 being the version

}  // namespace

Messenger::Messenger(MessageStreams& streams, const Options& options)
    : streams_(streams),
      rank_(options.rank),
      budget_(options.budget),
      out_(options.ranks),
      in_(options.ranks),
      matcher_({.rank = options.rank, .ranks = options.ranks, .keeper = options.keeper, .words = options.words}) {}

Messenger::Ticket Messenger::send(const MessageToSend& message) {
  CHECK(message.to < out_.size()) << message.to;
  out_[message.to].push(
      {.ticket = next_,
       .bytes = message.bytes,
       .done = 0,
       .header = {
           .magic = kMagic, .tag = message.tag, .shape = MessageShape(message.bytes.size(), message.type).word()}});
  ++sends_;
  return next_++;
}

Messenger::Ticket Messenger::receive(const MessageToReceive& message) {
  matcher_.post(
      {.ticket = next_, .peer = message.from, .tag = message.tag, .into = message.into, .type = message.type});
  return next_++;
}

std::optional<uint32_t> Messenger::waiting_for() const {
  const auto line = std::find_if(out_.begin(), out_.end(), [](const auto& messages) { return !messages.empty(); });
  return line != out_.end() ? static_cast<uint32_t>(line - out_.begin()) : matcher_.waiting_for();
}

bool Messenger::advance(std::vector<MessageEnd>& ended) {
  if (is_idle()) return false;
  bool moved = false;
  const auto ranks = static_cast<uint32_t>(out_.size());
  // Not always from the same one, which might give to a receive from any before all others each time.
  first_ = first_ + 1 < ranks ? first_ + 1 : 0;
  left_ = budget_ ? budget_->bytes : SIZE_MAX;
  for (uint32_t i = 0; i < ranks; ++i) {
    const uint32_t peer = (first_ + i) % ranks;
    for (uint64_t step = 0; step < kStepsAtATime && left_ > 0 && write(peer, ended); ++step) moved = true;
    for (uint64_t step = 0; step < kStepsAtATime && left_ > 0 && receive_from(peer); ++step) moved = true;
  }
  return matcher_.hand_over(ended) || moved;
}

bool Messenger::write(uint32_t peer, std::vector<MessageEnd>& ended) {
  Queue<Sending>& line = out_[peer];
  if (line.empty()) return false;
  if (peer == rank_) return write_to_self(ended);
  Sending& message = line.front();
  const auto header = std::as_bytes(std::span(&message.header, 1));
  const size_t size = header.size() + message.bytes.size(), before = message.done;
  if (before < size) {
    const size_t of_header = std::min(before, header.size());
    const std::span<const std::byte> body = message.bytes.subspan(before - of_header);
    message.done += streams_.write(peer, header.subspan(of_header), body.first(std::min(body.size(), left_)));
    left_ -= std::min(left_, message.done - before);
  }
  const bool moved = message.done > before;
  if (message.done < size || streams_.has_unsent(peer)) return moved;
  ended.push_back({.ticket = message.ticket, .peer = peer});
  line.pop();
  --sends_;
  return true;
}

// A large one in several steps, too.
bool Messenger::write_to_self(std::vector<MessageEnd>& ended) {
  const Sending& message = out_[rank_].front();
  TagMatcher::Arrival* arrival = matcher_.arriving(rank_);
  if (arrival == nullptr) {
    if (!matcher_.awaits_own()) return false;
    arrival = &matcher_.begin(rank_, message.header.tag, MessageShape::of_word(message.header.shape));
  }
  const size_t size = std::min<size_t>(arrival->size - arrival->taken, left_);
  if (size > 0) std::memcpy(arrival->bytes + arrival->taken, message.bytes.data() + arrival->taken, size);
  arrival->taken += size;
  left_ -= size;
  if (arrival->taken < arrival->size) return true;
  matcher_.end(rank_);
  ended.push_back({.ticket = message.ticket, .peer = rank_});
  out_[rank_].pop();
  --sends_;
  return true;
}

// ---- Receiving ----

// Whether a message of the peer has begun.
bool Messenger::is_engaged(uint32_t peer) { return in_[peer].read > 0; }

bool Messenger::receive_from(uint32_t peer) {
  if (peer == rank_) return false;  // it is taken when it is sent
  if (is_engaged(peer) || matcher_.names(peer)) return read(peer);
  if (!matcher_.awaits(peer)) return false;
  try {
    return streams_.listen(peer) && read(peer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost || is_engaged(peer)) throw;
    matcher_.lose(peer, error);
    return true;
  }
}

bool Messenger::read(uint32_t peer) {
  Coming& coming = in_[peer];
  const size_t before = coming.read;
  TagMatcher::Arrival* const arrival = read_header(peer);
  if (arrival == nullptr) return coming.read > before;
  size_t count = coming.read - before;
  if (arrival->taken < arrival->size) {
    const size_t most = std::min<size_t>(arrival->size - arrival->taken, left_);
    const size_t of_body = streams_.read(peer, {arrival->bytes + arrival->taken, most});
    left_ -= of_body;
    arrival->taken += of_body;
    count += of_body;
  }
  if (arrival->taken == arrival->size) {
    matcher_.end(peer);
    coming.read = 0;
  }
  return count > 0;
}

// The message, once its header is there and it may be taken.
TagMatcher::Arrival* Messenger::read_header(uint32_t peer) {
  if (TagMatcher::Arrival* const arrival = matcher_.arriving(peer)) return arrival;
  Coming& coming = in_[peer];
  const auto header = std::as_writable_bytes(std::span(&coming.header, 1));
  if (!matcher_.awaits(peer)) return nullptr;
  coming.read += streams_.read(peer, header.subspan(coming.read));
  if (coming.read < header.size()) return nullptr;
  if (coming.header.magic != kMagic) {
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(peer) + " sent what is no message; it may run another version of banyan");
  }
  return &matcher_.begin(peer, coming.header.tag, MessageShape::of_word(coming.header.shape));
}

}  // namespace banyan::run
