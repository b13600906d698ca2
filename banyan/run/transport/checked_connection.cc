#include "banyan/run/transport/checked_connection.h"

#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// The greeting is a frame of its own, which no damage and no other connection looks like.
constexpr uint32_t kGreetingSize = 0x6b63'6863, kGreetingDigest = 0x3173'6d75;

uint32_t digest_of(std::span<const std::byte> bytes, uint64_t frame) {
  return static_cast<uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), frame) >> 32);
}

}  // namespace

CheckedConnection::CheckedConnection(uint32_t peer, std::unique_ptr<Connection> inner)
    : peer_(peer),
      inner_(std::move(inner)),
      out_(std::make_unique_for_overwrite<Frame>()),
      in_(std::make_unique_for_overwrite<Frame>()) {}

// Whether all that was taken is on its way.
bool CheckedConnection::flush() {
  if (out_sent_ < out_size_) {
    const auto frame = std::as_bytes(std::span(out_.get(), 1)).first(out_size_);
    out_sent_ += inner_->write(frame.subspan(out_sent_), {});
  }
  return out_sent_ == out_size_;
}

// For who has taken bytes, and cannot say so by an error. What is wrong, the next call finds out.
bool CheckedConnection::try_to_flush() {
  try {
    return flush();
  } catch (const Error&) {
    return false;
  }
}

size_t CheckedConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  size_t taken = 0;
  if (out_size_ == 0 && head.size() + body.size() > 0) {
    out_->header = {.size = kGreetingSize, .digest = kGreetingDigest};
    out_size_ = sizeof(Header);
  }
  while (taken < head.size() + body.size() && (taken == 0 ? flush() : try_to_flush())) {
    const std::span<const std::byte> head_left = head.subspan(std::min(taken, head.size()));
    const std::span<const std::byte> body_left = body.subspan(taken - std::min(taken, head.size()));
    const size_t of_head = std::min(head_left.size(), kFrameBytes);
    const size_t of_body = std::min(body_left.size(), kFrameBytes - of_head);
    if (of_head > 0) std::memcpy(out_->bytes, head_left.data(), of_head);
    if (of_body > 0) std::memcpy(out_->bytes + of_head, body_left.data(), of_body);
    const size_t size = of_head + of_body;
    out_->header = {.size = static_cast<uint32_t>(size), .digest = digest_of({out_->bytes, size}, frames_out_++)};
    out_size_ = sizeof(Header) + size;
    out_sent_ = 0;
    taken += size;
    try_to_flush();
  }
  return taken;
}

// Reads what is missing of the first `size` bytes of a frame's part that begins at `from`. Gives up only when there is
// nothing, since only then the inner connection knows that it is waited for.
bool CheckedConnection::receive(std::byte* into, size_t from, size_t size) {
  while (in_came_ < from + size) {
    const size_t had = in_came_ - from;
    const size_t count = inner_->read({into + had, size - had});
    if (count == 0) return false;
    in_came_ += count;
  }
  return true;
}

std::span<const std::byte> CheckedConnection::peek() {
  const std::string peer = "rank " + std::to_string(peer_);
  while (!is_complete_) {
    Header& header = in_->header;
    if (in_came_ < sizeof header && !receive(reinterpret_cast<std::byte*>(&header), 0, sizeof header)) return {};
    if (frames_in_ == 0) {
      if (header.size != kGreetingSize || header.digest != kGreetingDigest) {
        throw Error(ErrorCode::mismatch, peer +
                                             " sends bytes without checksums, which this rank is told to expect: "
                                             "set BANYAN_CHECKSUMS alike on all ranks");
      }
      in_came_ = 0;
      ++frames_in_;
      continue;
    }
    const auto damaged = [&] {
      return Error(ErrorCode::io, "bytes from " + peer + " were damaged on their way (frame " +
                                      std::to_string(frames_in_) + " of its connection has another checksum)");
    };
    if (header.size == 0 || header.size > kFrameBytes) throw damaged();
    if (!receive(in_->bytes, sizeof header, header.size)) return {};
    if (digest_of({in_->bytes, header.size}, frames_in_ - 1) != header.digest) throw damaged();
    is_complete_ = true;
    consumed_ = 0;
  }
  return std::span<const std::byte>(in_->bytes, in_->header.size).subspan(consumed_);
}

void CheckedConnection::consume(size_t count) {
  if (count == 0) return;
  CHECK(is_complete_ && count <= in_->header.size - consumed_) << count << " bytes after " << consumed_;
  consumed_ += count;
  if (consumed_ < in_->header.size) return;
  is_complete_ = false;
  in_came_ = 0;
  ++frames_in_;
}

// Of one frame: to look for the next might throw, and these bytes have come.
size_t CheckedConnection::read(std::span<std::byte> into) {
  const std::span<const std::byte> arrived = peek();
  const size_t count = std::min(arrived.size(), into.size());
  if (count > 0) std::memcpy(into.data(), arrived.data(), count);
  consume(count);
  return count;
}

// Part of a frame is of no use.
size_t CheckedConnection::in_flight() const {
  const size_t of_frames = inner_->in_flight();
  if (of_frames > SIZE_MAX / 2) return of_frames;
  const size_t all = of_frames + out_size_ - out_sent_;
  return all == 0 ? 0 : all + kFrameBytes;
}

bool CheckedConnection::has_unsent() { return !flush(); }

short CheckedConnection::before_sleep() {
  flush();  // and where it cannot, the inner connection waits for room
  return inner_->before_sleep();
}

void CheckedConnection::after_sleep() {
  inner_->after_sleep();
  flush();
}

}  // namespace banyan::run
