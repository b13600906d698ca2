#include "banyan/run/transport/sealed_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr size_t kSizeBytes = 4;

// In front of a frame, least significant byte first.
void write_size(size_t size, std::byte* at) {
  for (size_t i = 0; i < kSizeBytes; ++i) at[i] = static_cast<std::byte>(size >> (8 * i));
}

}  // namespace

SealedConnection::SealedConnection(uint32_t peer, std::unique_ptr<TcpConnection> inner, const SessionKeys& keys,
                                   Sealing sealing, uint64_t frames_per_key)
    : peer_(peer),
      sealing_(sealing),
      inner_(std::move(inner)),
      sealer_(keys.sending, sealing, frames_per_key),
      opener_(keys.receiving, sealing, frames_per_key),
      out_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)),
      in_(std::make_unique_for_overwrite<std::byte[]>(kBufferBytes)) {}

// Whether all that was taken is on its way.
bool SealedConnection::flush() {
  if (out_sent_ < out_size_) out_sent_ += inner_->write({out_.get() + out_sent_, out_size_ - out_sent_}, {});
  if (out_sent_ < out_size_) return false;
  out_sent_ = out_size_ = 0;
  return true;
}

// For who has taken bytes, and cannot say so by an error. What is wrong, the next call finds out.
bool SealedConnection::try_to_flush() {
  try {
    return flush();
  } catch (const Error&) {
    return false;
  }
}

SealedConnection::Part SealedConnection::next_part(std::span<const std::byte> head, std::span<const std::byte> body,
                                                   size_t taken) {
  const std::span<const std::byte> head_left = head.subspan(std::min(taken, head.size()));
  const std::span<const std::byte> body_left = body.subspan(taken - std::min(taken, head.size()));
  const size_t of_head = std::min(head_left.size(), kFrameBytes);
  return {.head = head_left.first(of_head), .body = body_left.first(std::min(body_left.size(), kFrameBytes - of_head))};
}

size_t SealedConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  return sealing_ == Sealing::encrypted ? write_encrypted(head, body) : write_signed(head, body);
}

size_t SealedConnection::write_encrypted(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t all = head.size() + body.size();
  size_t taken = 0;
  while (taken < all && (taken == 0 ? flush() : try_to_flush())) {
    while (taken < all && out_size_ + kSealedBytes <= kBufferBytes) {
      const Part part = next_part(head, body, taken);
      std::byte* const frame = out_.get() + out_size_;
      write_size(part.size(), frame);
      sealer_.seal({frame, kHeadBytes}, part.head, part.body, frame + kHeadBytes);
      out_size_ += kHeadBytes + part.size() + kSealSize;
      taken += part.size();
    }
    try_to_flush();
  }
  return taken;
}

// The bytes are sent from where they are. Only what the socket does not take is kept.
size_t SealedConnection::write_signed(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t all = head.size() + body.size();
  size_t taken = 0;
  while (taken < all && (taken == 0 ? flush() : try_to_flush())) {
    std::array<std::array<std::byte, kHeadBytes + kSealSize>, kFramesAtOnce> trims;
    std::array<std::span<const std::byte>, 4 * kFramesAtOnce> pieces;
    static_assert(pieces.size() <= TcpConnection::kMostPieces);
    size_t count = 0;
    for (std::span<std::byte> trim : trims) {
      if (taken == all) break;
      const Part part = next_part(head, body, taken);
      const std::span<std::byte> size = trim.first(kHeadBytes), seal = trim.last(kSealSize);
      write_size(part.size(), size.data());
      sealer_.sign(size, part.head, part.body, seal.data());
      for (const std::span<const std::byte> piece :
           {std::span<const std::byte>(size), part.head, part.body, std::span<const std::byte>(seal)}) {
        pieces[count++] = piece;
      }
      taken += part.size();
    }
    const auto frames = std::span(pieces).first(count);
    size_t sent = 0;
    try {
      sent = inner_->write_pieces(frames);
    } catch (const Error&) {  // the next call finds out
    }
    keep_rest(frames, sent);
  }
  return taken;
}

// But for the first bytes, which are on their way.
void SealedConnection::keep_rest(std::span<const std::span<const std::byte>> pieces, size_t sent) {
  for (std::span<const std::byte> piece : pieces) {
    const size_t gone = std::min(sent, piece.size());
    sent -= gone;
    piece = piece.subspan(gone);
    if (!piece.empty()) std::memcpy(out_.get() + out_size_, piece.data(), piece.size());
    out_size_ += piece.size();
  }
}

// Gives up only when there is nothing to read, since only then the inner connection knows that it is waited for.
std::span<std::byte> SealedConnection::next_frame() {
  while (true) {
    const size_t came = in_end_ - in_begin_;
    size_t wanted = kHeadBytes;
    if (came >= kHeadBytes) {
      size_t size = 0;
      for (size_t i = 0; i < kHeadBytes; ++i) size |= std::to_integer<size_t>(in_[in_begin_ + i]) << (8 * i);
      if (size == 0 || size > kFrameBytes) {
        throw Error(ErrorCode::io, "rank " + std::to_string(peer_) +
                                       " sends bytes that are not sealed, or they were changed on their way");
      }
      wanted += size + kSealSize;
      if (came >= wanted) return {in_.get() + in_begin_ + kHeadBytes, size + kSealSize};
    }
    if (in_begin_ + kSealedBytes > kBufferBytes) {  // the rest would not fit
      std::memmove(in_.get(), in_.get() + in_begin_, came);
      in_begin_ = 0;
      in_end_ = came;
    }
    const size_t count = inner_->read({in_.get() + in_end_, kBufferBytes - in_end_});
    if (count == 0) {  // time to spare
      sealer_.prepare();
      opener_.prepare();
      return {};
    }
    in_end_ += count;
  }
}

void SealedConnection::open(std::span<std::byte> frame, std::byte* into) {
  if (!opener_.open({frame.data() - kHeadBytes, kHeadBytes}, frame, into)) {
    throw Error(ErrorCode::io, "bytes from rank " + std::to_string(peer_) + " were changed on their way");
  }
  in_begin_ += kHeadBytes + frame.size();
  if (in_begin_ == in_end_) in_begin_ = in_end_ = 0;
}

std::span<const std::byte> SealedConnection::peek() {
  if (!opened_.empty()) return opened_;
  const std::span<std::byte> frame = next_frame();
  if (frame.empty()) return {};
  open(frame, frame.data());
  opened_ = frame.first(frame.size() - kSealSize);
  return opened_;
}

void SealedConnection::consume(size_t count) {
  if (count == 0) return;
  CHECK(count <= opened_.size()) << count << " of " << opened_.size() << " bytes";
  opened_ = opened_.subspan(count);
}

// Of one frame: to look for the next might throw, and these bytes have come. One that fits is opened where it is to be.
size_t SealedConnection::read(std::span<std::byte> into) {
  if (opened_.empty()) {
    const std::span<std::byte> frame = next_frame();
    if (frame.empty()) return 0;
    const size_t size = frame.size() - kSealSize;
    if (size <= into.size()) {
      open(frame, into.data());
      return size;
    }
  }
  const std::span<const std::byte> arrived = peek();
  const size_t count = std::min(arrived.size(), into.size());
  if (count > 0) std::memcpy(into.data(), arrived.data(), count);
  consume(count);
  return count;
}

// Part of a frame is of no use.
size_t SealedConnection::in_flight() const {
  const size_t of_frames = inner_->in_flight();
  if (of_frames > SIZE_MAX / 2) return of_frames;
  const size_t all = of_frames + out_size_ - out_sent_;
  return all == 0 ? 0 : all + kFrameBytes;
}

bool SealedConnection::has_unsent() { return !flush(); }

short SealedConnection::before_sleep() {
  flush();  // and where it cannot, the inner connection waits for room
  return inner_->before_sleep();
}

void SealedConnection::after_sleep() {
  inner_->after_sleep();
  flush();
}

}  // namespace banyan::run
