// Exchange: the operations that are streamed.
#include <algorithm>

#include "banyan/run/host/exchange.h"

namespace banyan::run {

void Exchange::begin_stream() {
  stream_.collect_peer = 1;
  sees_counters_ = true;
  if (task_->kind == HostTask::Kind::move) {
    // A move: blocks of the peers' offers are collected. Those that do not stream are cut into blocks as well.
    take_own();
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_ || task_->taken[peer].bytes == 0) continue;
      Peer& state = peers_[peer];
      const Piece piece = task_->taken[peer];
      if (state.kind != OfferKind::streamed) {
        state.stride = offer_.block;
        state.front = 0;
      }
      if (state.front > 0) peer_regions_[peer]->read(state.address, {task_->output + piece.offset, state.front});
      stream_.collect.all = std::max(stream_.collect.all, blocks_of(piece.bytes - state.front, state.stride));
    }
    return;
  }
  // A reduction: blocks of this rank's share are reduced, and the others' shares collected, if it takes any.
  stream_.reduce.all = blocks_of(task_->offered[rank_].bytes, offer_.block);
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer != rank_)
      stream_.collect.all = std::max(stream_.collect.all, blocks_of(task_->taken[peer].bytes, offer_.block));
  }
  if (share_takers() == HostTask::kNobody) stream_.collect.all = 0;
}

// Does every step that is possible now; steps of one kind come in order. The three kinds depend on each other only by
// the counters that ranks publish: block b of a share is reduced when all have staged it, and collected when it is
// reduced.
bool Exchange::stream() {
  for (bool moved = true; moved;) {
    moved = false;
    if (stream_.stage.are_left() && may_stage_next() && stage_block()) moved = true;
    if (stream_.reduce.are_left() && reduce_block()) moved = true;
    if (stream_.collect.are_left() && collect_block()) moved = true;
    if (moved) ++steps_;
    if (!stream_.stage.are_left() && !stream_.reduce.are_left() && !stream_.collect.are_left()) return true;
  }
  return false;
}

// A block that is staged long before it is needed has left the cache by then.
bool Exchange::may_stage_next() {
  const bool has_other_work = stream_.reduce.are_left() || stream_.collect.are_left();
  return !has_other_work || stream_.stage.done < std::max(stream_.reduce.done, stream_.collect.done) + kLead;
}

bool Exchange::stage_block() {
  if (stream_.stage.done == 0) {
    // Peers may still read the blocks as whole offers of earlier operations, unless they have begun this one.
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_) continue;
      if (!reached(segment_.post(peer, operation_).sequence, peers_[peer].begun, operation_, peer)) return false;
    }
  }
  if (stream_.stage.done >= Segment::kBlocks) {
    // The blocks are a ring. The next one overwrites a block that each peer must have taken, or reduced, by now.
    const uint64_t freed = stream_.stage.done - Segment::kBlocks;  // the block that lay there
    for (uint32_t peer = 0; peer < ranks_; ++peer) {
      if (peer == rank_ || task_->offered[peer].bytes <= offer_.front + freed * offer_.block) continue;
      Peer& state = peers_[peer];
      const bool free = task_->kind == HostTask::Kind::move
                            ? reached(segment_.collected(peer).value, state.collected, counter(freed + 1), peer)
                            : reached(segment_.reduced(peer).value, state.reduced, counter(freed + 1), peer);
      if (!free) return false;
    }
  }
  // The counter is published after the bytes: who sees it may read the block.
  const uint64_t stride = task_->offered.is_single() ? 0 : offer_.block;
  std::byte* const block =
      segment_.staging_to_write(rank_, stream_.stage.done, stride == 0 ? offer_.block : ranks_ * stride);
  stage(block, stride, offer_.front + stream_.stage.done * offer_.block, offer_.block);
  segment_.publish(segment_.staged(rank_).value, counter(++stream_.stage.done));
  return true;
}

bool Exchange::is_staged(uint32_t peer, uint64_t block) {
  if (peers_[peer].kind != OfferKind::streamed) return true;
  return reached(segment_.staged(peer).value, peers_[peer].staged, counter(block + 1), peer);
}

// `bytes` from the beginning of a block of what a peer offers to this rank, once is_staged().
const std::byte* Exchange::source(uint32_t peer, uint64_t block, uint64_t bytes) {
  const Peer& state = peers_[peer];
  if (state.kind == OfferKind::streamed) {
    return segment_.staging(peer, block) + (task_->offered.is_single() ? 0 : rank_ * state.stride);
  }
  // An all_reduce shows the whole buffer, of which the share is a part.
  const uint64_t share = task_->kind == HostTask::Kind::all_reduce ? task_->offered[rank_].offset : 0;
  return offered_bytes(peer, share + block * offer_.block, bytes);
}

// The next block of this rank's share, once all peers have staged theirs. The result goes to the output, if this rank
// keeps it, and to a block of results, if peers take it and cannot view the output.
bool Exchange::reduce_block() {
  const Piece share = task_->offered[rank_];
  const uint64_t begin = stream_.reduce.done * offer_.block, bytes = std::min(offer_.block, share.bytes - begin);
  for (uint32_t i = 1; i < ranks_; ++i) {
    if (!is_staged(peer_at(i), stream_.reduce.done)) return false;
  }
  const bool shows = share_takers() != HostTask::kNobody && share_takers() != rank_ && !shares_viewed_;
  if (shows && !is_result_free()) return false;
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    sources_[peer] = peer == rank_ ? task_->input + share.offset + begin : source(peer, stream_.reduce.done, bytes);
  }
  std::byte* const shown = shows ? segment_.results_to_write(rank_, stream_.reduce.done, bytes) : nullptr;
  element::ReduceTask reduction = task_->reduction;
  if (task_->taken[rank_].bytes > 0) {
    reduction.streaming = shows && writes_past_caches();
    reduce(reduction, task_->output + task_->taken[rank_].offset + begin, shown, sources_,
           bytes / task_->element_bytes);
  } else {
    reduce(reduction, shown, nullptr, sources_, bytes / task_->element_bytes);
  }
  segment_.publish(segment_.reduced(rank_).value, counter(++stream_.reduce.done));
  return true;
}

// Whether the peers that take this rank's share have taken the block that the next result would overwrite.
bool Exchange::is_result_free() {
  if (stream_.reduce.done < Segment::kBlocks) return true;
  const uint64_t freed = stream_.reduce.done - Segment::kBlocks;
  for (uint32_t peer = 0; peer < ranks_; ++peer) {
    if (peer == rank_ || (share_takers() != HostTask::kAll && share_takers() != peer)) continue;
    if (!reached(segment_.collected(peer).value, peers_[peer].collected, counter(freed + 1), peer)) return false;
  }
  return true;
}

// The next block from every peer: of its offer in a move, of its reduced share otherwise. When a peer is not so far,
// the next call goes on with that peer.
bool Exchange::collect_block() {
  const bool moves = task_->kind == HostTask::Kind::move;
  for (; stream_.collect_peer < ranks_; ++stream_.collect_peer) {
    const uint32_t peer = peer_at(stream_.collect_peer);
    Peer& state = peers_[peer];
    const Piece piece = task_->taken[peer];
    const uint64_t block = moves ? state.stride : offer_.block;
    const uint64_t begin = (moves ? state.front : 0) + stream_.collect.done * block;
    if (begin >= piece.bytes) continue;
    const Piece to{piece.offset + begin, std::min(block, piece.bytes - begin)};
    // An offer that is there as a whole needs no counter.
    if (moves && state.kind != OfferKind::streamed) {
      take_bytes(peer, begin, to);
      continue;
    }
    const std::byte* from = nullptr;
    if (moves) {
      if (!is_staged(peer, stream_.collect.done)) return false;
      from = source(peer, stream_.collect.done, to.bytes);
    } else {
      if (!reached(segment_.reduced(peer).value, state.reduced, counter(stream_.collect.done + 1), peer)) return false;
      from = state.shares != nullptr ? state.shares + begin : segment_.results(peer, stream_.collect.done);
    }
    element::copy(task_->output + to.offset, from, to.bytes, writes_past_caches());
  }
  stream_.collect_peer = 1;
  segment_.publish(segment_.collected(rank_).value, counter(++stream_.collect.done));
  return true;
}

}  // namespace banyan::run
