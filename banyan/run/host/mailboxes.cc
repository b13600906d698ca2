#include "banyan/run/host/mailboxes.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/base/check.h"

namespace banyan {

Mailboxes::Mailboxes(const Segment& segment, const Options& options)
    : segment_(segment), options_(options), out_(segment.ranks()), in_(segment.ranks()) {
  CHECK(options.own_regions != nullptr && options.peers.size() == segment.ranks());
}

Mailboxes::~Mailboxes() {
  for (Line& line : out_) {
    if (line.memory != nullptr) options_.own_regions->free(line.memory);
  }
}

Mailboxes::Ticket Mailboxes::send(uint32_t to, std::span<const std::byte> bytes) {
  CHECK(to < out_.size()) << to;
  out_[to].messages.push_back({.ticket = next_, .bytes = const_cast<std::byte*>(bytes.data()), .size = bytes.size()});
  ++open_;
  return next_++;
}

Mailboxes::Ticket Mailboxes::receive(uint32_t from, std::span<std::byte> bytes) {
  CHECK(from < in_.size()) << from;
  in_[from].messages.push_back({.ticket = next_, .bytes = bytes.data(), .size = bytes.size()});
  ++open_;
  return next_++;
}

bool Mailboxes::is_done(Ticket ticket) const {
  const auto is_open = [&](const Line& line) {
    return std::any_of(line.messages.begin(), line.messages.end(),
                       [&](const Message& message) { return message.ticket == ticket; });
  };
  return std::none_of(out_.begin(), out_.end(), is_open) && std::none_of(in_.begin(), in_.end(), is_open);
}

std::optional<uint32_t> Mailboxes::waiting_for() const {
  for (uint32_t peer = 0; peer < in_.size(); ++peer) {
    if (!in_[peer].messages.empty() || !out_[peer].messages.empty()) return peer;
  }
  return std::nullopt;
}

bool Mailboxes::advance() {
  if (open_ == 0) return false;
  bool moved = false;
  for (uint32_t peer = 0; peer < out_.size(); ++peer) {
    while (advance_sending(peer)) moved = true;
    while (advance_receiving(peer)) moved = true;
  }
  return moved;
}

void Mailboxes::finish(Line& line) {
  line.messages.pop_front();
  ++line.number;
  --open_;
}

// ---- Sending ----

bool Mailboxes::advance_sending(uint32_t peer) {
  Line& line = out_[peer];
  if (line.messages.empty()) return false;
  Message& message = line.messages.front();
  const Box& box = segment_.box(options_.rank, peer);
  const uint64_t taken = box.taken.value.load(std::memory_order_acquire);
  if (!message.is_offered) {
    // The box is free when the message before has been taken.
    if (taken < line.number << 32 && line.number > 1) return false;
    offer(peer, line, message);
    const auto way = static_cast<Way>(box.post.way);
    if (way == Way::inline_ || way == Way::eager) finish(line);
    return true;
  }
  if (taken >= (line.number + 1) << 32) {
    finish(line);
    return true;
  }
  return static_cast<Way>(box.post.way) == Way::streamed && send_piece(peer, line, message);
}

std::byte* Mailboxes::memory_of(Line& line) {
  if (line.memory == nullptr) line.memory = options_.own_regions->allocate(2 * options_.piece_bytes);
  return line.memory;
}

void Mailboxes::offer(uint32_t peer, Line& line, Message& message) {
  Box& box = segment_.box(options_.rank, peer);
  Post& post = box.post;
  post.signature = message.size;
  Way way = Way::inline_;
  if (message.size <= Post::kInlineBytes) {
    if (message.size > 0) std::memcpy(post.bytes, message.bytes, message.size);
  } else {
    const std::byte* shown = message.bytes;
    RegionPlace place;
    if (message.size <= std::min(options_.eager_bytes, segment_.box_bytes())) {
      way = Way::eager;
      std::memcpy(segment_.box_memory(options_.rank, peer), message.bytes, message.size);
    } else if (place = options_.own_regions->find(message.bytes, message.size); place.region != 0) {
      way = Way::viewed;
    } else if (options_.may_attach) {
      way = Way::attached;
    } else {
      way = Way::streamed;
      shown = memory_of(line);
      place = options_.own_regions->find(shown, 2 * options_.piece_bytes);
    }
    post.views.input = {.region = place.region, .offset = place.offset};
    if (way == Way::attached) post.views.input.offset = reinterpret_cast<uintptr_t>(shown);
  }
  post.way = static_cast<uint32_t>(way);
  post.stride = static_cast<uint32_t>(options_.piece_bytes);
  message.is_offered = true;
  segment_.publish(post.sequence, line.number);
}

// Two pieces may be on their way.
bool Mailboxes::send_piece(uint32_t peer, Line& line, Message& message) {
  const uint64_t begin = message.pieces * options_.piece_bytes;
  if (begin >= message.size) return false;
  Box& box = segment_.box(options_.rank, peer);
  if (message.pieces >= 2 && box.taken.value.load(std::memory_order_acquire) < counter(line, message.pieces - 1)) {
    return false;
  }
  std::memcpy(line.memory + message.pieces % 2 * options_.piece_bytes, message.bytes + begin,
              std::min(options_.piece_bytes, message.size - begin));
  segment_.publish(box.sent.value, counter(line, ++message.pieces));
  return true;
}

// ---- Receiving ----

bool Mailboxes::advance_receiving(uint32_t peer) {
  Line& line = in_[peer];
  if (line.messages.empty()) return false;
  Message& message = line.messages.front();
  Box& box = segment_.box(peer, options_.rank);
  const Post& post = box.post;
  if (post.sequence.load(std::memory_order_acquire) < line.number) return false;
  if (post.signature != message.size) {
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(peer) + " sends " + std::to_string(post.signature) +
                                         " bytes where this rank, " + std::to_string(options_.rank) + ", receives " +
                                         std::to_string(message.size));
  }
  const Post::View view = post.views.input;
  switch (static_cast<Way>(post.way)) {
    case Way::inline_:
      if (message.size > Post::kInlineBytes) return false;
      if (message.size > 0) std::memcpy(message.bytes, post.bytes, message.size);
      break;
    case Way::eager:
      if (message.size > segment_.box_bytes()) return false;
      std::memcpy(message.bytes, segment_.box_memory(peer, options_.rank), message.size);
      break;
    case Way::viewed:
      std::memcpy(message.bytes, options_.peers[peer]->at(view.region, view.offset, message.size), message.size);
      break;
    case Way::attached:
      options_.peers[peer]->read(view.offset, {message.bytes, message.size});
      break;
    case Way::streamed:
      if (!take_pieces(peer, post, line, message)) return false;
      if (message.pieces * post.stride < message.size) return true;
      break;
  }
  segment_.publish(box.taken.value, (line.number + 1) << 32);
  finish(line);
  return true;
}

// True when a piece was taken.
bool Mailboxes::take_pieces(uint32_t peer, const Post& post, Line& line, Message& message) {
  Box& box = segment_.box(peer, options_.rank);
  if (box.sent.value.load(std::memory_order_acquire) < counter(line, message.pieces + 1)) return false;
  const uint64_t begin = message.pieces * post.stride;
  const uint64_t bytes = std::min<uint64_t>(post.stride, message.size - begin);
  const Post::View view = post.views.input;
  const std::byte* const from =
      options_.peers[peer]->at(view.region, view.offset + message.pieces % 2 * post.stride, bytes);
  std::memcpy(message.bytes + begin, from, bytes);
  segment_.publish(box.taken.value, counter(line, ++message.pieces));
  return true;
}

}  // namespace banyan
