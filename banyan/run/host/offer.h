// Offer: how one rank makes its data of one operation available to the other ranks of its host.
//
// The choice looks only at the task, at limits that are equal on all ranks, and at where the input lies. It has no
// effect, so it is tested without shared memory. exchange.h tells what the ways are and what is done with an offer.
#pragma once

#include <cstdint>

#include "banyan/run/host/regions.h"
#include "banyan/run/host/segment.h"
#include "banyan/run/host/task.h"

namespace banyan::run {

// Sizes at which one way gives way to another. All ranks must hold the same.
struct ExchangeTuning {
  // An all_reduce up to so many bytes is reduced by every rank for itself; divided by the number of peers.
  uint64_t everybody_reduces = 64 << 10;
  // The same where all ranks offer views and none works in place; and for two ranks, who read a third more that way
  // than when they share the work, and need not wait for each other's share.
  uint64_t everybody_reduces_views = 768 << 10;
  uint64_t two_reduce_views = UINT64_MAX;
  // Less than this is staged even where it could be viewed: a view costs one more flag at the end.
  uint64_t least_viewed = 2 << 10;
  uint64_t most_staged = 32 << 10;  // larger offers are streamed, so that copying in and out overlap
  uint64_t least_block = 8 << 10;   // of a stream
  // Ordinary buffers that are reduced, or moved, are attached to between these sizes of a piece.
  uint64_t least_attached_sum = 12 << 10, most_attached_sum = 1 << 20;
  uint64_t least_attached_move = 12 << 10, most_attached_move = UINT64_MAX;
  // The most bytes of a broadcast that are attached to, since its root has time to stage; divided by the square of the
  // number of peers, who would all lock its memory for each other. An offer that all peers want is attached to from
  // `least_attached_move` times their number on.
  uint64_t most_attached_broadcast = 1200 << 10;
  // Between these sizes, the root of a broadcast between two ranks that is attached to stages the last quarter
  // meanwhile: it has nothing else to do, and to attach to bytes that it has just written is slow.
  uint64_t least_split = 64 << 10, most_split = 128 << 10;
  uint64_t streaming_stores = 32 << 20;  // outputs from so many bytes on are written past the caches
};

enum class OfferKind : uint32_t { none, inline_, staged, viewed, attached, streamed };

struct Offer {
  Pieces pieces;         // to whom; where every rank reduces everything, the same to all
  uint64_t largest = 0;  // bytes of the largest piece that another rank gets
  uint64_t block = 0;    // bytes of each piece that one block of a stream holds
  uint64_t front = 0;    // bytes of a streamed piece that peers attach to; the stream is of those after them
  OfferKind kind = OfferKind::none;
  RegionPlace place;  // of the input, when it is viewed
};

class OfferChoice {
 public:
  struct Limits {
    uint32_t rank = 0, ranks = 1;
    uint64_t block_bytes = 0, slot_bytes = 0;  // of the segment
    const RegionPool* own_regions = nullptr;   // none: no buffer is viewed
    bool may_attach = false;                   // every rank can attach to every other's memory; equal on all ranks
    ExchangeTuning tuning = {};
  };
  explicit OfferChoice(const Limits& limits);

  const Limits& limits() const { return limits_; }
  // True if an all_reduce is so small that every rank reduces all of it for itself. Equal on all ranks.
  bool everybody_reduces(const HostTask& task) const;
  // Writes the offer of this rank. `everybody_reduces`: as the function of that name says of this task.
  void choose(const HostTask& task, bool everybody_reduces, Offer& offer) const;

 private:
  uint64_t block_of(const HostTask& task, const Offer& offer) const;
  OfferKind kind_of(const HostTask& task, bool everybody_reduces, Offer& offer) const;
  bool is_sum_attachable(uint64_t largest) const;
  bool is_move_attachable(const HostTask& task, const Offer& offer) const;

  const Limits limits_;
  const uint64_t block_of_rank_;  // of a block that holds something for every rank
};

}  // namespace banyan::run
