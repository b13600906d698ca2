#include "banyan/run/host/exchange.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

// The history of a rank is a polynomial in this number, whose coefficients are the signatures of its calls: an odd one,
// so that no call is forgotten. Signatures are hashes, so different histories meet in one case of 2^64.
constexpr uint64_t kHistoryFactor = 0x9e3779b97f4a7c15;

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

Exchange::Exchange(const Segment& segment, Options options)
    : segment_(segment),
      rank_(options.rank),
      ranks_(segment.ranks()),
      choice_({.rank = options.rank,
               .ranks = segment.ranks(),
               .block_bytes = segment.block_bytes(),
               .slot_bytes = segment.slot_bytes(),
               .own_regions = options.own_regions,
               .may_attach = options.may_attach,
               .tuning = options.tuning}),
      peer_regions_(std::move(options.peers)),
      peers_(segment.ranks()),
      sources_(segment.ranks()) {
  CHECK(rank_ < ranks_) << rank_ << " of " << ranks_;
  CHECK(peer_regions_.size() == ranks_ || (own_regions() == nullptr && !may_attach())) << peer_regions_.size();
}

void Exchange::start(const HostTask& task) {
  task_ = &task;
  begin();
  everybody_reduces_ = choice_.everybody_reduces(task);
  choice_.choose(task, everybody_reduces_, offer_);
}

// How large offers are made depends on the regions that there are now.
void Exchange::start_again() {
  if (offer_.largest >= tuning().least_viewed) return start(*task_);
  begin();
}

void Exchange::begin() {
  CHECK(phase_ == Phase::idle) << "operation " << operation_ << " is under way";
  // The history takes in every call, so that one that nobody compared shows at the next post.
  history_ = history_ * kHistoryFactor + task_->signature;
  ++operation_;
  phase_ = Phase::claim;
  sees_counters_ = shares_viewed_ = false;
  next_peer_ = 1;
  stream_.stage = stream_.reduce = stream_.collect = {};
}

bool Exchange::advance() {
  switch (phase_) {
    case Phase::idle:
      return true;
    case Phase::claim:
      // Each phase is passed once, and begun again where it stood when it had to wait.
      if (!claim()) return false;
      offer();
      next_peer_ = 1;
      phase_ = Phase::meet;
      [[fallthrough]];
    case Phase::meet:
      if (!meet()) return false;
      ++steps_;
      if (consume()) return release();
      begin_stream();
      phase_ = Phase::stream;
      [[fallthrough]];
    case Phase::stream:
      return stream() && release();
    case Phase::settle:
      return settle();
  }
  return false;
}

// Whether `word` of a peer has come to `value`; `seen` is what it was when last looked at.
bool Exchange::reached(const std::atomic<uint64_t>& word, uint64_t& seen, uint64_t value, uint32_t peer) {
  // Counters go round after 2^40 operations, and so the difference counts.
  const auto has_come = [&] { return static_cast<int64_t>(seen - value) >= 0; };
  if (has_come()) return true;
  seen = word.load(std::memory_order_acquire);
  if (has_come()) return true;
  waiting_for_ = peer;
  return false;
}

bool Exchange::has_finished(uint32_t peer, uint64_t operation) {
  Peer& state = peers_[peer];
  if (state.begun > operation) return true;
  return reached(segment_.collected(peer).value, state.collected, (operation + 1) << Segment::kBlockBits, peer);
}

// ---- Offering ----

// This rank's post and staging memory are free when nobody reads any more what they held. Two facts tell so: a rank
// that has begun an operation has finished all before it; and a rank whose counter `collected` has passed an operation
// no longer reads the buffers of that one (`draining`: this rank streamed, and went on without waiting for that).
bool Exchange::claim() {
  const uint64_t kept = operations_kept();
  for (; next_peer_ < ranks_; ++next_peer_) {
    const uint32_t peer = peer_at(next_peer_);
    Peer& state = peers_[peer];
    if (operation_ >= kept && state.begun <= operation_ - kept) {
      // Each look takes a cache line away from the peer: so one finds room for several operations.
      const uint64_t begun = operation_ - kept / 2;
      if (!reached(segment_.post(peer, begun).sequence, state.begun, begun, peer)) return false;
    }
    if (state.draining == 0) continue;
    if (!has_finished(peer, state.draining)) return false;
    state.draining = 0;
  }
  return true;
}

// After how many operations the memory that this one uses comes round again.
uint64_t Exchange::operations_kept() const {
  if (announces_pieces() || offer_.kind == OfferKind::streamed) return Segment::kBlocks;
  return offer_.kind == OfferKind::staged ? Segment::kSlots : Segment::kPosts;
}

// A peer that looks at the post takes its cache line away, and each way costs as much as all else here: so its words
// are written at the end, together.
void Exchange::offer() {
  Post& post = segment_.post(rank_, operation_);
  segment_.call_record(rank_, operation_).write(task_->record);
  const uint64_t slots = offer_.pieces.is_single() ? 1 : ranks_;
  uint32_t stride = 0;
  if (announces_pieces()) write_table();
  if (offer_.kind == OfferKind::inline_) {
    if (slots > 1) stride = static_cast<uint32_t>(offer_.largest);
    stage(post.bytes, stride, 0, offer_.largest);
  } else if (offer_.kind == OfferKind::staged) {
    if (slots > 1) stride = static_cast<uint32_t>(round_up(offer_.largest, kCacheLine));
    const uint64_t bytes = slots > 1 ? slots * stride : offer_.largest;
    stage(segment_.slot_to_write(rank_, operation_, bytes), stride, 0, offer_.largest);
  } else {
    if (offer_.kind == OfferKind::streamed) {
      stride = static_cast<uint32_t>(offer_.block);
      stream_.stage.all = blocks_of(offer_.largest - offer_.front, offer_.block);
    } else if (task_->overwrites_input) {
      stride = kInPlace;
    }
    offer_views(post);
  }
  post.signature = history_;
  post.stride = stride;
  post.kind = static_cast<uint32_t>(offer_.kind);
  segment_.publish(post.sequence, operation_);
  ++steps_;
}

void Exchange::offer_views(Post& post) {
  post.views.input = {.region = offer_.place.region, .offset = offer_.place.offset};
  post.views.output = {};
  post.views.front = offer_.front;
  if (is_attached_to()) post.views.input.offset = reinterpret_cast<uintptr_t>(task_->input);
  if (!shows_shares()) return;
  if (own_regions() == nullptr || task_->taken[rank_].bytes == 0) return;
  const RegionPlace output = own_regions()->find(task_->output, task_->output_bytes);
  shares_viewed_ = output.region != 0;
  post.views.output = {.region = output.region, .offset = output.offset};
}

// Tells peers where listed pieces lie and how long they are, so that they can compare with what they expect. The table
// lies in a block for results, which is free: a move reduces no shares.
void Exchange::write_table() const {
  auto* const table = reinterpret_cast<Piece*>(segment_.results_to_write(rank_, operation_, ranks_ * sizeof(Piece)));
  for (uint32_t peer = 0; peer < ranks_; ++peer) table[peer] = task_->offered[peer];
}

// Copies bytes [begin, begin + bytes) of each piece to its slot.
void Exchange::stage(std::byte* slots, uint64_t stride, uint64_t begin, uint64_t bytes) const {
  const Pieces& offered = offer_.pieces;
  if (offered.is_single()) {
    const uint64_t end = std::min(offered.largest(ranks_), begin + bytes);
    if (begin < end) std::memcpy(slots, task_->input + begin, end - begin);
    return;
  }
  for (uint32_t i = 1; i < ranks_; ++i) {
    const uint32_t peer = peer_at(i);
    const Piece piece = offered[peer];
    const uint64_t end = std::min(piece.bytes, begin + bytes);
    if (begin < end) std::memcpy(slots + peer * stride, task_->input + piece.offset + begin, end - begin);
  }
}

// ---- Meeting ----

// Whether this rank needs the peer's post: data comes from it, or it might offer data that is not expected.
bool Exchange::awaits(uint32_t peer) const {
  switch (task_->kind) {
    case HostTask::Kind::move:
      return announces_pieces() || task_->taken[peer].bytes > 0;  // it may offer what is not expected
    case HostTask::Kind::reduce:
      return task_->offered[rank_].bytes > 0 || task_->taken[peer].bytes > 0;
    case HostTask::Kind::all_reduce:
    case HostTask::Kind::meet:
      break;
  }
  return true;
}

bool Exchange::meet() {
  for (; next_peer_ < ranks_; ++next_peer_) {
    const uint32_t peer = peer_at(next_peer_);
    if (!awaits(peer)) {
      peers_[peer].kind = OfferKind::none;
      continue;
    }
    if (!reached(segment_.post(peer, operation_).sequence, peers_[peer].begun, operation_, peer)) return false;
    read_post(peer);
  }
  return true;
}

Error Exchange::mismatch(uint32_t peer) {
  mismatched_ = peer;
  return Error(ErrorCode::mismatch,
               "rank " + std::to_string(peer) + " called something else in operation " + std::to_string(operation_));
}

uint64_t Exchange::first_difference(uint32_t peer) const {
  const uint64_t oldest = operation_ < Segment::kPosts ? 1 : operation_ - Segment::kPosts + 1;
  for (uint64_t operation = oldest; operation < operation_; ++operation) {
    const bool differs = segment_.call_record(peer, operation).read() != segment_.call_record(rank_, operation).read();
    if (differs && segment_.is_kept(peer, operation)) return operation;  // else a later one may lie there by now
  }
  return operation_;
}

// Checks the post of a peer and notes where its offer lies. Sizes and places are the peer's word: they are held against
// the bounds of the memory that they point into.
void Exchange::read_post(uint32_t peer) {
  const Post& post = segment_.post(peer, operation_);
  if (post.signature != history_) [[unlikely]]
    throw mismatch(peer);
  // If this rank only takes, the peer may be far ahead: its next post is fetched while this one is dealt with.
  if (offer_.kind == OfferKind::none) __builtin_prefetch(&segment_.post(peer, operation_ + 2));
  Peer& state = peers_[peer];
  state.kind = static_cast<OfferKind>(post.kind);
  state.stride = post.stride;
  state.offer = state.shares = nullptr;
  if (announces_pieces() && announced_piece(peer).bytes != expected_from(peer)) {
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(peer) + " sends " +
                                         std::to_string(announced_piece(peer).bytes) +
                                         " bytes in an all-to-allv to rank " + std::to_string(rank_) +
                                         ", which expects " + std::to_string(expected_from(peer)));
  }
  if (announces_pieces() && expected_from(peer) == 0)
    state.kind = OfferKind::none;  // it need not keep its buffer for this rank
  const uint64_t slot = task_->offered.is_single() || everybody_reduces_ ? 0 : rank_ * state.stride;
  switch (state.kind) {
    case OfferKind::none:
      break;
    case OfferKind::inline_:
      if (slot + expected_from(peer) > Post::kInlineBytes) throw mismatch(peer);
      state.offer = post.bytes + slot;
      return;
    case OfferKind::staged:
      if (slot + expected_from(peer) > segment_.slot_bytes()) throw mismatch(peer);
      state.offer = segment_.slot(peer, operation_) + slot;
      return;
    case OfferKind::viewed:
    case OfferKind::attached:
      sees_counters_ = true;
      view_offer(peer, post);
      break;
    case OfferKind::streamed: {
      sees_counters_ = true;
      const bool is_of_all = task_->kind != HostTask::Kind::move;
      state.front = post.views.front;
      state.address = post.views.input.offset;
      if (state.stride == 0 || slot + state.stride > segment_.block_bytes() ||
          (is_of_all && state.stride != offer_.block) ||
          (state.front > 0 && (is_of_all || !may_attach() || state.front > expected_from(peer)))) {
        throw mismatch(peer);
      }
      break;
    }
  }
  if (!shows_shares()) return;
  const Post::View view = post.views.output;
  const Piece share = task_->taken[peer];
  if (view.region != 0 && share.bytes > 0) {
    state.shares = peer_regions_[peer]->at(view.region, view.offset + share.offset, share.bytes);
  }
}

// The bytes that a peer must offer to this rank.
uint64_t Exchange::expected_from(uint32_t peer) const {
  if (task_->kind == HostTask::Kind::move) return task_->taken[peer].bytes;
  return everybody_reduces_ ? task_->input_bytes : task_->offered[rank_].bytes;
}

// What a peer says that it offers to this rank, in bytes of its own input. Not to be trusted.
Piece Exchange::announced_piece(uint32_t peer) const {
  return reinterpret_cast<const Piece*>(segment_.results(peer, operation_))[rank_];
}

// What a peer offers to this rank, in the peer's own memory.
void Exchange::view_offer(uint32_t peer, const Post& post) {
  Piece piece = task_->offered[rank_];
  if (task_->kind == HostTask::Kind::move) {
    // The peer's pieces, of which this rank's own may be none (scatter): even ones are as long as what is taken.
    const uint64_t bytes = task_->taken[peer].bytes;
    piece = {task_->offered.is_single() ? 0 : rank_ * bytes, bytes};
    if (announces_pieces()) piece.offset = announced_piece(peer).offset;
  } else if (task_->kind == HostTask::Kind::all_reduce) {
    piece = {0, task_->input_bytes};  // maybe all of it, maybe a share
  }
  const Post::View view = post.views.input;
  if (peers_[peer].kind == OfferKind::attached) {
    peers_[peer].address = view.offset + piece.offset;
    return;
  }
  peers_[peer].offer = peer_regions_[peer]->at(view.region, view.offset + piece.offset, piece.bytes);
}

// ---- Taking everything at once ----

// Does the rest of the operation when nobody streams; false when it has to be streamed.
bool Exchange::consume() {
  if (task_->kind == HostTask::Kind::meet) return true;
  // The choice that everybody reduces for itself may depend on all posts; they are here now.
  if (task_->kind == HostTask::Kind::all_reduce && !everybody_reduces_) everybody_reduces_ = all_are_free_to_view();
  if (everybody_reduces_) {
    reduce_whole({0, task_->input_bytes}, task_->output);
    return true;
  }
  // Streams, and shares that others take, need steps in turn. All else is taken at once.
  if (offer_.kind == OfferKind::streamed || share_takers() != HostTask::kNobody) return false;
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_ && peers_[peer].kind == OfferKind::streamed) return false;
  }
  if (task_->kind == HostTask::Kind::reduce) {
    reduce_whole(task_->offered[rank_], task_->output + task_->taken[rank_].offset);
    return true;
  }
  take_own();
  for (uint32_t i = 1; i < ranks_; ++i) {
    const uint32_t peer = peer_at(i);
    const Piece piece = task_->taken[peer];
    if (piece.bytes > 0) take_bytes(peer, 0, piece);
  }
  return true;
}

// All ranks see the same posts, so all come to the same answer.
bool Exchange::all_are_free_to_view() const {
  const uint64_t most = ranks_ == 2 ? tuning().two_reduce_views : tuning().everybody_reduces_views / (ranks_ - 1);
  if (task_->input_bytes > most) return false;
  if (offer_.kind != OfferKind::viewed || task_->overwrites_input) return false;
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_ && (peers_[peer].kind != OfferKind::viewed || peers_[peer].stride == kInPlace)) return false;
  }
  return true;
}

// Bytes of what a peer offers to this rank, wherever they are, unless it streams them. Valid until the next call about
// this peer.
const std::byte* Exchange::offered_bytes(uint32_t peer, uint64_t begin, uint64_t bytes) {
  Peer& state = peers_[peer];
  if (state.kind == OfferKind::attached) {
    std::vector<std::byte>& copy = state.copy;
    if (copy.size() < bytes) copy.resize(bytes);
    peer_regions_[peer]->read(state.address + begin, {copy.data(), bytes});
    return copy.data();
  }
  if (state.offer == nullptr) throw mismatch(peer);
  return state.offer + begin;
}

// Moves bytes of what a peer offers, from `begin` on, to their place in the output.
void Exchange::take_bytes(uint32_t peer, uint64_t begin, const Piece& to) {
  const Peer& state = peers_[peer];
  std::byte* const place = task_->output + to.offset;
  if (state.kind == OfferKind::attached) return peer_regions_[peer]->read(state.address + begin, {place, to.bytes});
  element::copy(place, offered_bytes(peer, begin, to.bytes), to.bytes, writes_past_caches());
}

// Reduces a piece of the input, of which every peer's offer is the same piece.
void Exchange::reduce_whole(const Piece& piece, std::byte* result) {
  if (piece.bytes == 0) return;
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    sources_[peer] = peer == rank_ ? task_->input + piece.offset : offered_bytes(peer, 0, piece.bytes);
  }
  element::ReduceTask reduction = task_->reduction;
  reduction.streaming = writes_past_caches();
  reduce(reduction, result, nullptr, sources_, piece.bytes / task_->element_bytes);
}

// Of a move, what this rank gives to itself.
void Exchange::take_own() {
  const Piece from = task_->offered[rank_], to = task_->taken[rank_];
  const std::byte* const source = task_->input + from.offset;
  if (to.bytes == 0 || source == task_->output + to.offset) return;
  element::copy(task_->output + to.offset, source, to.bytes, writes_past_caches());
}

// ---- The end ----

// Says to peers that their buffers are no longer read.
bool Exchange::release() {
  // Counters are published only where somebody may look at them: it costs a line of the cache.
  if (sees_counters_ || streams() || is_viewed()) {
    segment_.publish(segment_.collected(rank_).value, (operation_ + 1) << Segment::kBlockBits);
  }
  next_peer_ = 1;
  phase_ = Phase::settle;
  return settle();
}

// Waits for those that read this rank's own memory in place: the caller may change it when the operation is over.
// Staging blocks are this group's memory, so nobody waits for their readers here: claim() of a later operation does.
bool Exchange::settle() {
  const bool streams = this->streams(), is_viewed = this->is_viewed();
  if (streams || is_viewed) {
    for (; next_peer_ < ranks_; ++next_peer_) {
      const uint32_t peer = peer_at(next_peer_);
      const bool reads_offer = everybody_reduces_ || task_->offered[peer].bytes > 0;
      const bool reads_share = shows_shares() && (share_takers() == HostTask::kAll || share_takers() == peer);
      if (!reads_offer && !reads_share) continue;
      if (streams) peers_[peer].draining = operation_;
      if (is_viewed && !has_finished(peer, operation_)) return false;
    }
  }
  phase_ = Phase::idle;
  ++steps_;
  return true;
}

}  // namespace banyan::run
