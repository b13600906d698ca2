#include "banyan/run/transport/sealed_connection.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {

SealedConnection::SealedConnection(uint32_t peer, std::unique_ptr<Connection> inner, const SessionKeys& keys,
                                   Sealing sealing, uint64_t frames_per_key)
    : peer_(peer),
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

size_t SealedConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t all = head.size() + body.size();
  size_t taken = 0;
  while (taken < all && flush()) {
    while (taken < all && out_size_ + kSealedBytes <= kBufferBytes) {
      const std::span<const std::byte> head_left = head.subspan(std::min(taken, head.size()));
      const std::span<const std::byte> body_left = body.subspan(taken - std::min(taken, head.size()));
      const std::span<const std::byte> of_head = head_left.first(std::min(head_left.size(), kFrameBytes));
      const std::span<const std::byte> of_body =
          body_left.first(std::min(body_left.size(), kFrameBytes - of_head.size()));
      const size_t size = of_head.size() + of_body.size();
      std::byte* const frame = out_.get() + out_size_;
      for (size_t i = 0; i < kHeadBytes; ++i) frame[i] = static_cast<std::byte>(size >> (8 * i));
      sealer_.seal({frame, kHeadBytes}, of_head, of_body, frame + kHeadBytes);
      out_size_ += kHeadBytes + size + kSealSize;
      taken += size;
    }
    flush();
  }
  return taken;
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
    if (count == 0) return {};
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
