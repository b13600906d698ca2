#include "banyan/run/message/tag_matcher.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <random>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// Odd, and drawn: a product's upper bits depend on all of the key, in a way that others cannot know.
uint64_t mixed(uint64_t key) {
  static const uint64_t factor = [] {
    std::random_device random;
    return uint64_t{random()} << 32 | random() | 1;
  }();
  return key * factor;
}

}  // namespace

size_t TagMatcher::HashOfTag::operator()(uint32_t tag) const { return mixed(tag) >> 32; }

TagMatcher::TagMatcher(const Options& options)
    : options_(options),
      chains_(kFewestChains),
      named_(options.ranks),
      is_lost_(options.ranks),
      last_loss_(ErrorCode::peer_lost, "there is no other rank that it could come from"),
      incoming_(options.ranks) {
  CHECK(options.rank < options.ranks) << options.rank << " of " << options.ranks;
  lose(options.rank, last_loss_);
}

std::string TagMatcher::words_of(const MessageShape& shape) const {
  if (options_.words != nullptr) return options_.words(shape);
  return std::to_string(shape.bytes()) + " bytes of type " + std::to_string(shape.type());
}

Error TagMatcher::mismatch(uint32_t peer, const MessageShape& sent, const Receive& receive) const {
  const bool are_alike = sent.type() == receive.type;
  return Error(ErrorCode::mismatch, "rank " + std::to_string(peer) + " sends " +
                                        (are_alike ? std::to_string(sent.bytes()) + " bytes" : words_of(sent)) +
                                        " where this rank, " + std::to_string(options_.rank) + ", receives " +
                                        (are_alike ? std::to_string(receive.into.size()) : words_of(receive.shape())) +
                                        " (tag " + std::to_string(receive.tag) + ")" +
                                        (are_alike ? "" : ": the types differ"));
}

// ---- Posted receives ----

// By a number that is drawn for the process: two keys fall together in one of half as many cases as there are chains.
TagMatcher::Chain& TagMatcher::chain_of(uint32_t peer, uint32_t tag) {
  const int bits = std::countr_zero(chains_.size());
  return chains_[mixed(uint64_t{peer} << 32 | tag) >> (64 - bits)];
}

TagMatcher::Place TagMatcher::find(uint32_t peer, uint32_t tag) {
  Place place{.chain = &chain_of(peer, tag)};
  for (place.at = place.chain->first; place.at != kNone; place.at = waiting_[place.at].next) {
    const Receive& receive = waiting_[place.at].receive;
    if (receive.peer == peer && receive.tag == tag) break;
    place.before = place.at;
  }
  return place;
}

std::optional<TagMatcher::Receive> TagMatcher::match(uint32_t peer, uint32_t tag) {
  const Place named = named_[peer] > 0 ? find(peer, tag) : Place();
  const Place from_any = from_any_ > 0 ? find(kAnyPeer, tag) : Place();
  if (named.at == kNone && from_any.at == kNone) return std::nullopt;
  const bool is_named =
      from_any.at == kNone || (named.at != kNone && waiting_[named.at].number < waiting_[from_any.at].number);
  return remove(is_named ? named : from_any);
}

void TagMatcher::wait(const Receive& receive) {
  uint32_t at = free_;
  if (at == kNone) {
    at = static_cast<uint32_t>(waiting_.size());
    waiting_.emplace_back();
  } else {
    free_ = waiting_[at].next;
  }
  waiting_[at] = {.receive = receive, .number = ++posted_, .next = kNone};
  if (waiting_.size() > chains_.size()) add_chains();
  append(at);
  ++(receive.peer == kAnyPeer ? from_any_ : named_[receive.peer]);
}

void TagMatcher::append(uint32_t at) {
  Chain& chain = chain_of(waiting_[at].receive.peer, waiting_[at].receive.tag);
  (chain.first == kNone ? chain.first : waiting_[chain.last].next) = at;
  chain.last = at;
  waiting_[at].next = kNone;
}

void TagMatcher::add_chains() {
  const std::vector<Chain> before = std::exchange(chains_, std::vector<Chain>(2 * chains_.size()));
  for (const Chain& chain : before) {
    for (uint32_t at = chain.first; at != kNone;) append(std::exchange(at, waiting_[at].next));
  }
}

TagMatcher::Receive TagMatcher::remove(const Place& place) {
  Waiting& waiting = waiting_[place.at];
  (place.before == kNone ? place.chain->first : waiting_[place.before].next) = waiting.next;
  if (place.chain->last == place.at) place.chain->last = place.before;
  waiting.next = free_;
  free_ = place.at;
  --(waiting.receive.peer == kAnyPeer ? from_any_ : named_[waiting.receive.peer]);
  return waiting.receive;
}

void TagMatcher::post(const Receive& receive) {
  CHECK(receive.peer == kAnyPeer || receive.peer < options_.ranks) << receive.peer;
  ++open_;
  if (unexpected_.empty() || !take_unexpected(receive)) wait(receive);
}

// ---- Messages ----

TagMatcher::Arrival& TagMatcher::begin(uint32_t peer, uint32_t tag, const MessageShape& shape) {
  Incoming& incoming = incoming_[peer];
  CHECK(!incoming.is_open && (awaits(peer) || peer == options_.rank))
      << "a message of rank " << peer << " is taken before its time";
  incoming = {};
  incoming.size = shape.bytes();
  if (const std::optional<Receive> receive = match(peer, tag)) {
    if (receive->shape() != shape) throw mismatch(peer, shape, *receive);
    incoming.bytes = receive->into.data();
    incoming.ticket = receive->ticket;
  } else {
    incoming.unexpected = &keep_unexpected(peer, tag, shape);
    incoming.bytes = incoming.unexpected->bytes.get();
  }
  incoming.is_open = true;
  ++arriving_;
  return incoming;
}

void TagMatcher::end(uint32_t peer) {
  Incoming& incoming = incoming_[peer];
  CHECK(incoming.is_open && incoming.taken == incoming.size) << incoming.taken << " of " << incoming.size << " bytes";
  if (incoming.unexpected == nullptr) ended_.push_back({.ticket = incoming.ticket, .peer = peer});
  incoming = {};
  --arriving_;
}

bool TagMatcher::hand_over(std::vector<MessageEnd>& ended) {
  if (failure_) throw Error(*failure_);
  const size_t count = ended_.size();
  ended.insert(ended.end(), ended_.begin(), ended_.end());
  ended_.clear();
  open_ -= count;
  if (from_any_ > 0 && lost_ == options_.ranks) throw Error(last_loss_);
  return count > 0;
}

// ---- Unexpected messages ----

TagMatcher::Unexpected& TagMatcher::keep_unexpected(uint32_t peer, uint32_t tag, const MessageShape& shape) {
  const uint64_t size = shape.bytes();
  // Of a message alone with its tag: nodes of two maps and a list, its bytes and the keeper's, as malloc has them.
  constexpr uint64_t kAddressable = uint64_t{1} << 48, kEach = 400;
  try {
    if (size > kAddressable) throw std::bad_alloc();
    std::shared_ptr<void> kept = options_.keeper ? options_.keeper(size + kEach) : nullptr;
    std::list<Unexpected> one;
    one.push_back({.peer = peer,
                   .shape = shape,
                   .bytes = std::make_unique_for_overwrite<std::byte[]>(size),
                   .kept = std::move(kept),
                   .number = ++kept_});
    std::list<Unexpected>& line = unexpected_[tag][peer];  // which is never empty: from here on nothing throws
    line.splice(line.end(), one);
    return line.back();
  } catch (const std::bad_alloc&) {
    throw Error(ErrorCode::io, "rank " + std::to_string(peer) + " sends " + std::to_string(size) + " bytes (tag " +
                                   std::to_string(tag) + ") before this rank, " + std::to_string(options_.rank) +
                                   ", receives them, and there is no memory to keep them");
  }
}

// The peer whose message began first.
TagMatcher::Kept::iterator TagMatcher::first_of(Kept& kept) {
  return std::min_element(kept.begin(), kept.end(), [](const auto& a, const auto& b) {
    return a.second.front().number < b.second.front().number;
  });
}

// False when none of them matches.
bool TagMatcher::take_unexpected(const Receive& receive) {
  const auto with_tag = unexpected_.find(receive.tag);
  if (with_tag == unexpected_.end()) return false;
  Kept& kept = with_tag->second;
  const auto of_peer = receive.peer == kAnyPeer ? first_of(kept) : kept.find(receive.peer);
  if (of_peer == kept.end()) return false;
  const Unexpected& message = of_peer->second.front();
  if (message.shape != receive.shape()) {
    failure_ = mismatch(message.peer, message.shape, receive);
    return true;
  }
  take(message, receive);
  of_peer->second.pop_front();
  if (of_peer->second.empty()) kept.erase(of_peer);
  if (kept.empty()) unexpected_.erase(with_tag);
  return true;
}

// All of it, or what is there of it: the rest will come into the receive.
void TagMatcher::take(const Unexpected& message, const Receive& receive) {
  Incoming& incoming = incoming_[message.peer];
  const bool is_whole = incoming.unexpected != &message;
  const uint64_t there = is_whole ? message.shape.bytes() : incoming.taken;
  if (there > 0) std::memcpy(receive.into.data(), message.bytes.get(), there);
  if (is_whole) {
    ended_.push_back({.ticket = receive.ticket, .peer = message.peer});
    return;
  }
  incoming.bytes = receive.into.data();
  incoming.ticket = receive.ticket;
  incoming.unexpected = nullptr;
}

bool TagMatcher::take_own(uint32_t tag, std::span<const std::byte> bytes, uint8_t type) {
  if (named_[options_.rank] == 0 && from_any_ == 0) return false;
  Arrival& arrival = begin(options_.rank, tag, {bytes.size(), type});
  if (!bytes.empty()) std::memcpy(arrival.bytes, bytes.data(), bytes.size());
  arrival.taken = arrival.size;
  end(options_.rank);
  return true;
}

// ---- Whose move it is ----

void TagMatcher::lose(uint32_t peer, Error why) {
  if (is_lost_[peer]) return;
  is_lost_[peer] = true;
  ++lost_;
  last_loss_ = std::move(why);
}

std::optional<uint32_t> TagMatcher::waiting_for() const {
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    const Incoming& incoming = incoming_[peer];
    if (named_[peer] > 0 || (incoming.is_open && incoming.unexpected == nullptr)) return peer;
  }
  if (from_any_ == 0) return std::nullopt;
  const uint32_t turn = asked_++ / kAsksInARow;
  for (uint32_t i = 0; i < options_.ranks; ++i) {
    const uint32_t peer = (turn + i) % options_.ranks;
    if (!is_lost_[peer]) return peer;
  }
  return options_.rank;  // there is nobody else
}

}  // namespace banyan::run
