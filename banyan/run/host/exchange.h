// Exchange: carries out the operations of one rank with the other ranks of its host, in shared memory, one at a time.
//
// Every operation begins with a post (segment.h), in which a rank offers its data in one of five ways:
//   inline   a little data lies in the post itself;
//   staged   the whole offer was copied into a slot of the staging memory;
//   viewed   peers read the buffer itself, because it lies in a region (regions.h);
//   attached peers copy out of the buffer by process_vm_readv(2), where the system permits it;
//   streamed the offer passes through the staging blocks, block by block, as the `staged` counter says; peers may have
//            to attach to the front of it first, while the rest is staged.
// A receiver looks at the post and takes the data accordingly, so every rank chooses for itself. Only a choice that
// changes the pattern of an operation must be the same on all ranks: in an all_reduce of few bytes, or of two ranks
// that view each other's buffers, every rank reduces everything for itself; in others each rank reduces a share. This
// choice depends on the size and, where sizes leave it open, on all posts, which all ranks see alike.
//
// Phases of an operation, in this order:
//   claim   waits until nobody reads any more what this rank's post and staging memory held before
//   meet    waits for the posts of the peers that data comes from
//   stream  moves and reduces block by block; passed over when nobody streams, then everything is taken at once
//   settle  tells peers that their buffers are no longer read, and waits for those that read this rank's buffers
//
// Streaming. In step t a rank stages block t, reduces block t - 1 of its share, and takes block t - 2 of the others'
// shares, so it waits for peers while it has work of its own; a rank that is ahead waits when it would overwrite a
// block that somebody still reads. It cannot deadlock: among the ranks that have not finished, the one whose steps are
// the furthest behind waits for nobody, since every step needs only earlier steps of others.
//
// Reductions run over the ranks in ascending order on every path, so equal inputs give equal bits.
//
// Disagreement. Peers compare signatures, each of which stands for the whole history of calls. So a rank whose
// differing call nobody looked at (a second root) is found at the next call.
//
// Nothing waits here: advance() returns false and is called again. One thread.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/host/offer.h"
#include "banyan/run/host/regions.h"
#include "banyan/run/host/segment.h"
#include "banyan/run/host/task.h"

namespace banyan::run {

class Exchange {
 public:
  struct Options {
    uint32_t rank = 0;
    const RegionPool* own_regions = nullptr;  // none: no buffer is viewed
    // The peers' memory, indexed by rank, none for this one. Needed only if a peer has regions or may be attached to.
    std::vector<std::unique_ptr<PeerRegions>> peers = {};
    bool may_attach = false;  // every rank can attach to every other's memory; equal on all ranks
    ExchangeTuning tuning = {};
  };
  Exchange(const Segment& segment, Options options);
  Exchange(const Exchange&) = delete;
  Exchange& operator=(const Exchange&) = delete;

  // Begins the next operation, when none is under way. The task is the caller's, and stays as it is until the operation
  // is over.
  void start(const HostTask& task);
  void start(const HostTask&& task) = delete;
  // The same with the task of the last operation, which the caller has left as it was: spares looking at it once more.
  void start_again();
  // Goes on as far as it can now; true when the operation is over. Throws Error{mismatch} naming the peer that called
  // something else, and what PeerRegions throws; the group is of no use after that.
  bool advance();

  std::span<const std::unique_ptr<PeerRegions>> peers() const { return peer_regions_; }
  const RegionPool* own_regions() const { return choice_.limits().own_regions; }
  bool may_attach() const { return choice_.limits().may_attach; }
  bool is_busy() const { return phase_ != Phase::idle; }
  // The number of the operation under way or last begun; counts from 1.
  uint64_t operation() const { return operation_; }
  // The rank that was waited for when advance() returned false.
  uint32_t waiting_for() const { return waiting_for_; }
  // True if the operation read buffers of peers in place, or was streamed. A peer that has failed may have reused the
  // memory: so if the group turns out to be broken afterwards, the data that was read is not to be trusted.
  bool has_read_peers() const { return sees_counters_; }
  // The peer that called something else, when advance() has thrown for that.
  std::optional<uint32_t> mismatched() const { return mismatched_; }
  // The first operation in which `peer` called something else, as far as its records go back; else the last.
  uint64_t first_difference(uint32_t peer) const;
  // Grows whenever something was done.
  uint64_t steps() const { return steps_; }

 private:
  enum class Phase : uint8_t { idle, claim, meet, stream, settle };

  // As many blocks may be staged before the first of them is reduced or taken.
  static constexpr uint64_t kLead = 2;
  // The stride of a post that views a buffer which its owner will overwrite.
  static constexpr uint32_t kInPlace = UINT32_MAX;

  struct Peer {
    uint64_t begun = 0;                               // operations, as last seen
    uint64_t staged = 0, reduced = 0, collected = 0;  // counters as last seen
    uint64_t draining = 0;                            // an operation in which it may still read our blocks
    // The state of the operation under way.
    OfferKind kind = OfferKind::none;
    uint64_t stride = 0;
    const std::byte* offer = nullptr;   // to this rank, where it is in this process's memory
    uint64_t address = 0;               // the same in the peer's, when attached
    uint64_t front = 0;                 // of the stream: so many bytes before it are there
    const std::byte* shares = nullptr;  // its reduced share, when viewed
    std::vector<std::byte> copy{};      // of attached memory, to be reduced
  };

  void begin();
  bool claim();
  uint64_t operations_kept() const;
  void offer();
  void offer_views(Post& post);
  bool is_attached_to() const { return offer_.kind == OfferKind::attached || offer_.front > 0; }
  void write_table() const;
  void stage(std::byte* slots, uint64_t stride, uint64_t begin, uint64_t bytes) const;

  bool meet();
  bool awaits(uint32_t peer) const;
  void read_post(uint32_t peer);
  uint64_t expected_from(uint32_t peer) const;
  bool announces_pieces() const { return task_->kind == HostTask::Kind::move && task_->offered.is_listed(); }
  Piece announced_piece(uint32_t peer) const;
  void view_offer(uint32_t peer, const Post& post);

  bool consume();
  bool all_are_free_to_view() const;
  void reduce_whole(const Piece& piece, std::byte* result);
  void take_own();

  void begin_stream();
  bool stream();
  bool stage_block();
  bool may_stage_next();
  bool reduce_block();
  bool is_result_free();
  bool collect_block();
  const std::byte* source(uint32_t peer, uint64_t block, uint64_t bytes);

  bool release();
  bool settle();
  // Peers take this rank's share, or may reduce it.
  bool shows_shares() const { return share_takers() != HostTask::kNobody && !everybody_reduces_; }
  uint32_t share_takers() const { return ranks_ == 1 ? HostTask::kNobody : task_->share_takers; }
  // Peers read blocks of this rank's staging memory, or its buffers.
  bool streams() const { return offer_.kind == OfferKind::streamed || (shows_shares() && !shares_viewed_); }
  bool is_viewed() const { return offer_.kind == OfferKind::viewed || is_attached_to() || shares_viewed_; }

  bool reached(const std::atomic<uint64_t>& word, uint64_t& seen, uint64_t value, uint32_t peer);
  bool has_finished(uint32_t peer, uint64_t operation);
  const std::byte* offered_bytes(uint32_t peer, uint64_t begin, uint64_t bytes);
  void take_bytes(uint32_t peer, uint64_t begin, const Piece& to);
  bool is_staged(uint32_t peer, uint64_t block);
  bool writes_past_caches() const { return task_->output_bytes >= tuning().streaming_stores; }
  const ExchangeTuning& tuning() const { return choice_.limits().tuning; }
  Error mismatch(uint32_t peer);
  // Peers in an order that differs from rank to rank, so that not all look at the same one. i from 1.
  uint32_t peer_at(uint32_t i) const { return rank_ + i < ranks_ ? rank_ + i : rank_ + i - ranks_; }
  uint64_t counter(uint64_t blocks) const { return operation_ << Segment::kBlockBits | blocks; }
  static uint64_t blocks_of(uint64_t bytes, uint64_t block) { return (bytes + block - 1) / block; }

  // Blocks of one step of a stream.
  struct Blocks {
    uint64_t all = 0, done = 0;
    bool are_left() const { return done < all; }
  };
  // The progress of a streamed operation.
  struct Stream {
    Blocks stage, reduce, collect;
    uint32_t collect_peer = 1;  // the next one whose part of a block is collected; counts as peer_at() does
  };

  // For the life of the exchange.
  const Segment& segment_;
  const uint32_t rank_, ranks_;
  const OfferChoice choice_;
  const std::vector<std::unique_ptr<PeerRegions>> peer_regions_;

  // From operation to operation.
  uint64_t operation_ = 0;
  uint64_t history_ = 0;  // of all signatures, the operation's own among them
  uint64_t steps_ = 0;
  uint32_t waiting_for_ = 0;
  std::optional<uint32_t> mismatched_;
  std::vector<Peer> peers_;
  std::vector<const std::byte*> sources_;  // by rank, of one reduction

  // For the operation under way.
  const HostTask* task_ = nullptr;
  Phase phase_ = Phase::idle;
  uint32_t next_peer_ = 1;  // of a phase that goes from peer to peer; counts as peer_at() does
  Offer offer_;
  Stream stream_;
  bool everybody_reduces_ = false;
  bool shares_viewed_ = false;  // peers read this rank's share in its output
  bool sees_counters_ = false;  // somebody may wait for this rank's counters
};

}  // namespace banyan::run
