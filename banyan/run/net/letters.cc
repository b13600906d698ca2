#include "banyan/run/net/letters.h"

#include <algorithm>
#include <string>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr uint32_t kMagic = 0x326c'6e62;  // "bnl2", the 2 being the version

}  // namespace

Letters::Letters(Transport& transport, const Options& options)
    : transport_(transport),
      rank_(options.rank),
      out_(options.ranks),
      in_(options.ranks),
      receives_({.rank = options.rank, .ranks = options.ranks}) {
  for (uint32_t peer = 0; peer < options.ranks; ++peer) {
    channels_.push_back(options.channel && peer != options.rank ? options.channel(peer) : peer);
  }
}

Letters::Ticket Letters::send(const Sent& letter) {
  CHECK(letter.to < out_.size()) << letter.to;
  out_[letter.to].push({.ticket = next_,
                        .bytes = letter.bytes,
                        .done = 0,
                        .header = {.magic = kMagic, .tag = letter.tag, .size = letter.bytes.size()}});
  ++sends_;
  return next_++;
}

Letters::Ticket Letters::receive(const Received& letter) {
  receives_.post({.ticket = next_, .peer = letter.from, .tag = letter.tag, .into = letter.into});
  return next_++;
}

std::optional<uint32_t> Letters::waiting_for() const {
  const auto line = std::find_if(out_.begin(), out_.end(), [](const auto& letters) { return !letters.empty(); });
  return line != out_.end() ? static_cast<uint32_t>(line - out_.begin()) : receives_.waiting_for();
}

bool Letters::advance(std::vector<MessageEnd>& ended) {
  if (is_idle()) return false;
  bool moved = false;
  const auto ranks = static_cast<uint32_t>(out_.size());
  // Not always from the same one, which might give to a receive from any before all others each time.
  first_ = first_ + 1 < ranks ? first_ + 1 : 0;
  for (uint32_t i = 0; i < ranks; ++i) {
    const uint32_t peer = (first_ + i) % ranks;
    for (uint64_t step = 0; step < kStepsAtATime && write(peer, ended); ++step) moved = true;
    for (uint64_t step = 0; step < kStepsAtATime && hear(peer); ++step) moved = true;
  }
  return receives_.hand_over(ended) || moved;
}

bool Letters::write(uint32_t peer, std::vector<MessageEnd>& ended) {
  Queue<Sending>& line = out_[peer];
  if (line.empty()) return false;
  Sending& letter = line.front();
  if (peer == rank_) {
    if (!receives_.take_own(letter.header.tag, letter.bytes)) return false;
    ended.push_back({.ticket = letter.ticket, .peer = peer});
    line.pop();
    --sends_;
    return true;
  }
  const auto header = std::as_bytes(std::span(&letter.header, 1));
  const size_t size = header.size() + letter.bytes.size(), before = letter.done;
  if (before < size) {
    const size_t of_header = std::min(before, header.size());
    letter.done +=
        transport_.write(channels_[peer], header.subspan(of_header), letter.bytes.subspan(before - of_header));
  }
  const bool moved = letter.done > before;
  if (letter.done < size || transport_.has_unsent(channels_[peer])) return moved;
  ended.push_back({.ticket = letter.ticket, .peer = peer});
  line.pop();
  --sends_;
  return true;
}

// ---- Receiving ----

// Whether a letter of the peer has begun.
bool Letters::is_engaged(uint32_t peer) { return in_[peer].read > 0; }

bool Letters::hear(uint32_t peer) {
  if (peer == rank_) return false;  // it is taken when it is sent
  if (is_engaged(peer) || receives_.names(peer)) return read(peer);
  if (!receives_.awaits(peer)) return false;
  try {
    return transport_.listen(channels_[peer]) && read(peer);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::peer_lost || is_engaged(peer)) throw;
    receives_.lose(peer, error);
    return true;
  }
}

bool Letters::read(uint32_t peer) {
  Coming& coming = in_[peer];
  const size_t before = coming.read;
  Receives::Arrival* const arrival = read_header(peer);
  if (arrival == nullptr) return coming.read > before;
  size_t count = coming.read - before;
  if (arrival->taken < arrival->size) {
    const size_t of_body =
        transport_.read(channels_[peer], {arrival->bytes + arrival->taken, arrival->size - arrival->taken});
    arrival->taken += of_body;
    count += of_body;
  }
  if (arrival->taken == arrival->size) {
    receives_.end(peer);
    coming.read = 0;
  }
  return count > 0;
}

// The letter, once its header is there and it may be taken.
Receives::Arrival* Letters::read_header(uint32_t peer) {
  if (Receives::Arrival* const arrival = receives_.arriving(peer)) return arrival;
  Coming& coming = in_[peer];
  const auto header = std::as_writable_bytes(std::span(&coming.header, 1));
  if (!receives_.awaits(peer)) return nullptr;
  coming.read += transport_.read(channels_[peer], header.subspan(coming.read));
  if (coming.read < header.size()) return nullptr;
  if (coming.header.magic != kMagic) {
    throw Error(ErrorCode::mismatch,
                "rank " + std::to_string(peer) + " sent what is no message; it may run another version of banyan");
  }
  return &receives_.begin(peer, coming.header.tag, coming.header.size);
}

}  // namespace banyan::run
