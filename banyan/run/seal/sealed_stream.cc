#include "banyan/run/seal/sealed_stream.h"

#include <algorithm>
#include <array>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::run {
namespace {

// Sealed at once; more waits at its owner, who may have to forget it.
constexpr size_t kMostAhead = size_t{256} << 10;

}  // namespace

SealedStream::SealedStream(std::unique_ptr<ByteStream> inner, const SessionKeys& keys)
    : inner_(std::move(inner)), is_sealed_(!keys.sending.empty()), sealer_(keys.sending), opener_(keys.receiving) {}

SealedStream::~SealedStream() {
  try {
    sealer_.end(out_);
  } catch (const Error&) {  // memory is short: the peer takes it for a connection that was cut off
  }
  flush();
}

// Whether all that was taken is on its way.
bool SealedStream::flush() {
  size_t done = 0;
  while (done < out_.size()) {
    const size_t sent = inner_->send(std::string_view(out_).substr(done));
    if (sent == 0) break;
    done += sent;
  }
  out_.erase(0, done);
  return out_.empty();
}

void SealedStream::await() {
  const bool on = user_awaits_room_ || !out_.empty();
  if (on == awaits_room_) return;
  awaits_room_ = on;
  inner_->await_room(on);
}

void SealedStream::watch(Ready ready) {
  inner_->watch([this, ready = std::move(ready)](bool may_receive, bool may_send) {
    bool has_room = false;
    if (may_send) {
      has_room = flush() && user_awaits_room_;
      await();
    }
    if (may_receive || has_room) ready(may_receive, has_room);  // which may be the end of this object
  });
}

void SealedStream::await_room(bool on) {
  user_awaits_room_ = on;
  await();
}

size_t SealedStream::send(std::string_view bytes) {
  if (!flush()) return 0;
  const std::string_view taken = bytes.substr(0, kMostAhead);
  sealer_.seal(taken, out_);
  flush();
  await();
  return taken.size();
}

ByteStream::Received SealedStream::receive(std::span<char> buffer) {
  Received ending;
  while (in_.empty() && !(is_sealed_ && opener_.has_ended())) {
    std::array<char, 64 * 1024> sealed;
    ending = inner_->receive(sealed);
    if (ending.count == 0) break;
    try {
      opener_.open({sealed.data(), ending.count}, in_);
    } catch (const Error& error) {
      return {.count = 0, .is_over = true, .why = std::string("its connection failed: ") + error.message()};
    }
  }
  if (in_.empty() && is_sealed_ && opener_.has_ended()) {
    return {.count = 0, .is_over = true, .is_orderly = true, .is_said = true, .why = "it has closed its connection"};
  }
  if (in_.empty()) {
    ending.is_said = ending.is_orderly && !is_sealed_;
    return ending;
  }
  const size_t count = std::min(in_.size(), buffer.size());
  std::copy_n(in_.data(), count, buffer.data());
  in_.erase(0, count);
  return {.count = count, .is_over = false, .why = ""};
}

}  // namespace banyan::run
