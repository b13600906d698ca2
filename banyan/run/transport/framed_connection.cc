#include "banyan/run/transport/framed_connection.h"

#include <algorithm>
#include <cstring>

#include "banyan/base/check.h"

namespace banyan::run {

FramedConnection::Part FramedConnection::next_part(std::span<const std::byte> head, std::span<const std::byte> body,
                                                   size_t taken) {
  const std::span<const std::byte> head_left = head.subspan(std::min(taken, head.size()));
  const std::span<const std::byte> body_left = body.subspan(taken - std::min(taken, head.size()));
  const size_t of_head = std::min(head_left.size(), kFrameBytes);
  return {.head = head_left.first(of_head), .body = body_left.first(std::min(body_left.size(), kFrameBytes - of_head))};
}

bool FramedConnection::flush() {
  if (out_sent_ < out_size_) out_sent_ += inner_->write({out_.get() + out_sent_, out_size_ - out_sent_}, {});
  if (out_sent_ < out_size_) return false;
  out_sent_ = out_size_ = 0;
  return true;
}

bool FramedConnection::try_to_flush() {
  try {
    return flush();
  } catch (const Error&) {
    return false;
  }
}

size_t FramedConnection::take(std::span<const std::byte> arrived, std::span<std::byte> into) {
  const size_t count = std::min(arrived.size(), into.size());
  if (count > 0) std::memcpy(into.data(), arrived.data(), count);
  consume(count);
  return count;
}

void FramedConnection::consume(size_t count) {
  if (count == 0) return;
  CHECK(count <= opened_.size()) << count << " of " << opened_.size() << " bytes";
  opened_ = opened_.subspan(count);
}

// Part of a frame is of no use.
size_t FramedConnection::in_flight() const {
  const size_t of_frames = inner_->in_flight();
  if (of_frames > SIZE_MAX / 2) return of_frames;
  const size_t all = of_frames + out_size_ - out_sent_;
  return all == 0 ? 0 : all + kFrameBytes;
}

short FramedConnection::before_sleep() {
  flush();  // and where it cannot, the inner connection waits for room
  return inner_->before_sleep();
}

void FramedConnection::after_sleep() {
  inner_->after_sleep();
  flush();
}

}  // namespace banyan::run
