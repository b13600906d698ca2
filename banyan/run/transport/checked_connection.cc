#include "banyan/run/transport/checked_connection.h"

#include <xxhash.h>

#include <cstring>
#include <string>
#include <utility>

namespace banyan::run {
namespace {

// The greeting is a frame of its own, which no damage and no other connection looks like.
constexpr uint32_t kGreetingSize = 0x6b63'6863, kGreetingDigest = 0x3173'6d75;

uint32_t digest_of(std::span<const std::byte> bytes, uint64_t frame) {
  return static_cast<uint32_t>(XXH3_64bits_withSeed(bytes.data(), bytes.size(), frame) >> 32);
}

}  // namespace

CheckedConnection::CheckedConnection(uint32_t peer, std::unique_ptr<Connection> inner)
    : FramedConnection(std::move(inner), sizeof(Frame)), peer_(peer), in_(std::make_unique_for_overwrite<Frame>()) {}

// Of a frame with so many bytes, which are there.
void CheckedConnection::put_header(const Header& header, size_t size) {
  std::memcpy(out_.get(), &header, sizeof header);
  out_size_ = sizeof header + size;
  out_sent_ = 0;
}

size_t CheckedConnection::write(std::span<const std::byte> head, std::span<const std::byte> body) {
  const size_t all = head.size() + body.size();
  size_t taken = 0;
  if (all > 0 && !std::exchange(has_greeted_, true)) put_header({.size = kGreetingSize, .digest = kGreetingDigest}, 0);
  while (taken < all && (taken == 0 ? flush() : try_to_flush())) {
    const Part part = next_part(head, body, taken);
    std::byte* const bytes = out_.get() + sizeof(Header);
    if (!part.head.empty()) std::memcpy(bytes, part.head.data(), part.head.size());
    if (!part.body.empty()) std::memcpy(bytes + part.head.size(), part.body.data(), part.body.size());
    const size_t size = part.size();
    put_header({.size = static_cast<uint32_t>(size), .digest = digest_of({bytes, size}, frames_out_++)}, size);
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
  while (opened_.empty()) {
    Header& header = in_->header;
    if (in_came_ < sizeof header && !receive(reinterpret_cast<std::byte*>(&header), 0, sizeof header)) return {};
    if (frames_in_ == 0) {
      if (header.size != kGreetingSize || header.digest != kGreetingDigest) {
        throw Error(ErrorCode::mismatch, "rank " + std::to_string(peer_) +
                                             " sends bytes without checksums, which this rank is told to expect: "
                                             "set BANYAN_CHECKSUMS alike on all ranks");
      }
      in_came_ = 0;
      ++frames_in_;
      continue;
    }
    const auto damaged = [&] {
      return Error(ErrorCode::io, "bytes from rank " + std::to_string(peer_) + " were damaged on their way (frame " +
                                      std::to_string(frames_in_) + " of its connection has another checksum)");
    };
    if (header.size == 0 || header.size > kFrameBytes) throw damaged();
    if (!receive(in_->bytes, sizeof header, header.size)) return {};
    if (digest_of({in_->bytes, header.size}, frames_in_ - 1) != header.digest) throw damaged();
    opened_ = {in_->bytes, header.size};
    in_came_ = 0;
    ++frames_in_;
  }
  return opened_;
}

}  // namespace banyan::run
