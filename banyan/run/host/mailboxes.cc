#include "banyan/run/host/mailboxes.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// Counters of messages and pieces go round after 2^32 messages.
bool has_reached(uint64_t counter, uint64_t value) { return static_cast<int64_t>(counter - value) >= 0; }

}  // namespace

Mailboxes::Mailboxes(const Segment& segment, const Options& options)
    : segment_(segment),
      options_(options),
      out_(segment.ranks()),
      in_(segment.ranks()),
      matcher_({.rank = options.rank, .ranks = segment.ranks(), .words = options.words}) {
  CHECK(options.own_regions != nullptr && options.peers.size() == segment.ranks());
}

Mailboxes::~Mailboxes() {
  if (fork_guard_.is_in_child()) return;  // all this is the parent's
  segment_.publish(segment_.farewell(options_.rank).value, 1);
  std::atomic_thread_fence(std::memory_order_release);  // before anything that its user stores in its buffers
  for (OutLine& line : out_) {
    if (line.memory != nullptr) options_.own_regions->free(line.memory);
  }
}

Mailboxes::Ticket Mailboxes::send(const MessageToSend& message) {
  CHECK(message.to < out_.size()) << message.to;
  out_[message.to].messages.push({.ticket = next_,
                                  .tag = message.tag,
                                  .bytes = message.bytes.data(),
                                  .size = message.bytes.size(),
                                  .type = message.type});
  ++sends_;
  return next_++;
}

Mailboxes::Ticket Mailboxes::receive(const MessageToReceive& message) {
  matcher_.post(
      {.ticket = next_, .peer = message.from, .tag = message.tag, .into = message.into, .type = message.type});
  return next_++;
}

std::optional<uint32_t> Mailboxes::waiting_for() const {
  const auto line = std::ranges::find_if(out_, [](const OutLine& each) { return !each.messages.empty(); });
  return line != out_.end() ? static_cast<uint32_t>(line - out_.begin()) : matcher_.waiting_for();
}

bool Mailboxes::advance(std::vector<MessageEnd>& ended) {
  if (is_idle()) return false;
  bool moved = false;
  const uint32_t ranks = segment_.ranks();
  // Not always from the same one, which might give to a receive from any before all others each time.
  first_ = first_ + 1 < ranks ? first_ + 1 : 0;
  for (uint32_t i = 0; i < ranks; ++i) {
    const uint32_t peer = first_ + i < ranks ? first_ + i : first_ + i - ranks;
    while (advance_sending(peer, ended)) moved = true;
    for (uint64_t step = 0; step < kStepsAtATime && advance_receiving(peer); ++step) moved = true;
  }
  return matcher_.hand_over(ended) || moved;
}

// ---- Sending ----

bool Mailboxes::advance_sending(uint32_t peer, std::vector<MessageEnd>& ended) {
  OutLine& line = out_[peer];
  if (line.messages.empty()) return false;
  Sending& message = line.messages.front();
  if (peer == options_.rank) {
    if (!matcher_.take_own(message.tag, {message.bytes, message.size}, message.type)) return false;
    finish(peer, ended);
    return true;
  }
  const Box& box = segment_.box(options_.rank, peer);
  const uint64_t taken = box.taken.value.load(std::memory_order_acquire);
  if (!message.is_offered) {
    // The box is free when the message before has been taken.
    if (line.number > 1 && !has_reached(taken, counter(line.number, 0))) return false;
    offer(peer, line, message);
    const auto kind = static_cast<Kind>(box.post.kind);
    if (kind == Kind::inline_ || kind == Kind::eager) finish(peer, ended);
    return true;
  }
  if (has_reached(taken, counter(line.number + 1, 0))) {
    finish(peer, ended);
    return true;
  }
  return static_cast<Kind>(box.post.kind) == Kind::streamed && send_piece(peer, line, message);
}

void Mailboxes::finish(uint32_t peer, std::vector<MessageEnd>& ended) {
  OutLine& line = out_[peer];
  ended.push_back({.ticket = line.messages.front().ticket, .peer = peer});
  line.messages.pop();
  ++line.number;
  --sends_;
}

std::byte* Mailboxes::memory_of(OutLine& line) {
  if (line.memory == nullptr) line.memory = options_.own_regions->allocate(2 * options_.piece_bytes);
  return line.memory;
}

void Mailboxes::offer(uint32_t peer, OutLine& line, Sending& message) {
  Box& box = segment_.box(options_.rank, peer);
  Post& post = box.post;
  Kind kind = Kind::inline_;
  if (message.size <= Post::kInlineBytes) {
    if (message.size > 0) std::memcpy(post.bytes, message.bytes, message.size);
  } else {
    const std::byte* shown = message.bytes;
    RegionPlace place;
    if (message.size <= std::min(options_.eager_bytes, segment_.box_bytes())) {
      kind = Kind::eager;
      std::memcpy(segment_.box_memory_to_write(options_.rank, peer, message.size), message.bytes, message.size);
    } else if (place = options_.own_regions->find(message.bytes, message.size); place.region != 0) {
      kind = Kind::viewed;
    } else if (options_.may_attach) {
      kind = Kind::attached;
    } else {
      kind = Kind::streamed;
      shown = memory_of(line);
      place = options_.own_regions->find(shown, 2 * options_.piece_bytes);
      box.sent.value.store(counter(line.number, 0), std::memory_order_relaxed);  // it may be far behind
    }
    post.views.input = {.region = place.region, .offset = place.offset};
    if (kind == Kind::attached) post.views.input.offset = reinterpret_cast<uintptr_t>(shown);
  }
  // Together, as those of an operation (exchange.cc).
  post.signature = MessageShape(message.size, message.type).word();
  post.tag = message.tag;
  post.kind = static_cast<uint32_t>(kind);
  message.is_offered = true;
  segment_.publish(post.sequence, line.number);
}

// Two pieces may be on their way.
bool Mailboxes::send_piece(uint32_t peer, OutLine& line, Sending& message) {
  const uint64_t begin = message.pieces * options_.piece_bytes;
  if (begin >= message.size) return false;
  Box& box = segment_.box(options_.rank, peer);
  const uint64_t taken = box.taken.value.load(std::memory_order_acquire);
  if (message.pieces >= 2 && !has_reached(taken, counter(line.number, message.pieces - 1))) return false;
  std::memcpy(line.memory + message.pieces % 2 * options_.piece_bytes, message.bytes + begin,
              std::min<uint64_t>(options_.piece_bytes, message.size - begin));
  segment_.publish(box.sent.value, counter(line.number, ++message.pieces));
  return true;
}

// ---- Receiving ----

bool Mailboxes::advance_receiving(uint32_t peer) {
  if (peer == options_.rank) return false;  // it is taken when it is sent
  InLine& line = in_[peer];
  TagMatcher::Arrival* arrival = matcher_.arriving(peer);
  if (arrival == nullptr && !matcher_.awaits(peer)) return false;
  Box& box = segment_.box(peer, options_.rank);
  if (arrival == nullptr) {
    // Looked at before its box, in which its last words may lie.
    const bool has_left = !matcher_.names(peer) && segment_.farewell(peer).value.load(std::memory_order_acquire) != 0;
    if (box.post.sequence.load(std::memory_order_acquire) < line.number || !can_be_taken(box.post)) {
      if (has_left) matcher_.lose(peer, left(peer));
      return false;
    }
    arrival = &matcher_.begin(peer, box.post.tag, MessageShape::of_word(box.post.signature));
  }
  try {
    if (!take(peer, box.post, *arrival)) return false;
  } catch (const Error&) {
    expect_there(peer);
    throw;
  }
  if (arrival->taken < arrival->size) return true;
  matcher_.end(peer);
  line.pieces = 0;
  segment_.publish(box.taken.value, counter(++line.number, 0));
  return true;
}

Error Mailboxes::left(uint32_t peer) const {
  const std::unique_ptr<PeerRegions>& known = options_.peers[peer];
  const std::string name = known != nullptr ? known->name() : "rank " + std::to_string(peer);
  return Error(ErrorCode::peer_lost, name + " has left");
}

// A sender that has left may use its buffer for something else, or free it: so it is asked after its memory was read.
void Mailboxes::expect_there(uint32_t peer) const {
  std::atomic_thread_fence(std::memory_order_acquire);
  if (segment_.farewell(peer).value.load(std::memory_order_relaxed) != 0) throw left(peer);
}

// Whether what it says of itself can be.
bool Mailboxes::can_be_taken(const Post& post) const {
  switch (static_cast<Kind>(post.kind)) {
    case Kind::inline_:
      return MessageShape::of_word(post.signature).bytes() <= Post::kInlineBytes;
    case Kind::eager:
      return MessageShape::of_word(post.signature).bytes() <= segment_.box_bytes();
    case Kind::viewed:
    case Kind::attached:
    case Kind::streamed:
      return true;
  }
  return false;
}

// False when nothing was there to be taken.
bool Mailboxes::take(uint32_t peer, const Post& post, TagMatcher::Arrival& arrival) {
  const Post::View view = post.views.input;
  const std::byte* from = post.bytes;
  bool is_senders = false;  // the memory
  switch (static_cast<Kind>(post.kind)) {
    case Kind::inline_:
      break;
    case Kind::eager:
      from = segment_.box_memory(peer, options_.rank);
      break;
    case Kind::viewed:
      from = options_.peers[peer]->at(view.region, view.offset, arrival.size);
      is_senders = true;
      break;
    case Kind::attached:
      options_.peers[peer]->read(view.offset, {arrival.bytes, arrival.size});
      expect_there(peer);
      arrival.taken = arrival.size;
      return true;
    case Kind::streamed:
      return take_piece(peer, post, arrival);
  }
  if (arrival.size > 0) std::memcpy(arrival.bytes, from, arrival.size);
  if (is_senders) expect_there(peer);
  arrival.taken = arrival.size;
  return true;
}

bool Mailboxes::take_piece(uint32_t peer, const Post& post, TagMatcher::Arrival& arrival) {
  InLine& line = in_[peer];
  Box& box = segment_.box(peer, options_.rank);
  const uint64_t sent = box.sent.value.load(std::memory_order_acquire);
  if (!has_reached(sent, counter(line.number, line.pieces + 1))) return false;
  const uint64_t bytes = std::min<uint64_t>(options_.piece_bytes, arrival.size - arrival.taken);
  const Post::View view = post.views.input;
  const std::byte* const from =
      options_.peers[peer]->at(view.region, view.offset + line.pieces % 2 * options_.piece_bytes, bytes);
  std::memcpy(arrival.bytes + arrival.taken, from, bytes);
  arrival.taken += bytes;
  segment_.publish(box.taken.value, counter(line.number, ++line.pieces));
  return true;
}

}  // namespace banyan::run
