#include "banyan/run/host/offer.h"

#include <algorithm>

namespace banyan::run {
namespace {

constexpr uint64_t round_up(uint64_t bytes, uint64_t unit) { return (bytes + unit - 1) / unit * unit; }

}  // namespace

OfferChoice::OfferChoice(const Limits& limits)
    : limits_(limits), block_of_rank_(limits.block_bytes / limits.ranks / kCacheLine * kCacheLine) {}

bool OfferChoice::everybody_reduces(const HostTask& task) const {
  if (task.kind != HostTask::Kind::all_reduce) return false;
  if (limits_.ranks == 1) return true;
  return task.input_bytes <= limits_.slot_bytes &&
         task.input_bytes * (limits_.ranks - 1) <= limits_.tuning.everybody_reduces;
}

void OfferChoice::choose(const HostTask& task, bool everybody_reduces, Offer& offer) const {
  offer.pieces = everybody_reduces ? Pieces::same(task.input_bytes) : task.offered;
  offer.largest = offer.pieces.largest(limits_.ranks);
  // Reductions need blocks of one size on all ranks, so the size follows from numbers that all ranks know: also a rank
  // that offers nothing to others looks at its own piece.
  offer.block = block_of(task, offer);
  offer.front = 0;
  if (offer.pieces.is_only_for(limits_.rank)) offer.largest = 0;
  offer.kind = kind_of(task, everybody_reduces, offer);
}

uint64_t OfferChoice::block_of(const HostTask& task, const Offer& offer) const {
  const uint64_t most = offer.pieces.is_single() ? limits_.block_bytes : block_of_rank_;
  // A block of a sum that is attached to costs a system call: so there are few.
  const uint64_t blocks = task.kind != HostTask::Kind::move && is_sum_attachable(offer.largest) ? 2 : 8;
  return std::clamp(round_up(offer.largest / blocks, kCacheLine), std::min(limits_.tuning.least_block, most), most);
}

// The ways, cheapest first: in the post, without a copy, by a copy that peers make, by a copy that this rank makes.
OfferKind OfferChoice::kind_of(const HostTask& task, bool everybody_reduces, Offer& offer) const {
  const uint64_t largest = offer.largest;
  if (largest == 0 || limits_.ranks == 1 || task.kind == HostTask::Kind::meet) return OfferKind::none;
  const uint64_t slots = offer.pieces.is_single() ? 1 : limits_.ranks;
  const bool shares_move = task.share_takers != HostTask::kNobody && !everybody_reduces;
  if (!shares_move && slots * largest <= Post::kInlineBytes) return OfferKind::inline_;
  // Where shares are reduced by their ranks, nobody overwrites what others still need.
  const bool may_be_viewed = shares_move || task.kind == HostTask::Kind::reduce || !task.overwrites_input;
  if (limits_.own_regions != nullptr && may_be_viewed && largest >= limits_.tuning.least_viewed) {
    offer.place = limits_.own_regions->find(task.input, task.input_bytes);
    if (offer.place.region != 0) return OfferKind::viewed;
  }
  const bool is_attachable =
      task.kind == HostTask::Kind::move ? is_move_attachable(task, offer) : is_sum_attachable(largest);
  if (is_attachable && may_be_viewed) {
    const bool is_broadcast =
        task.kind == HostTask::Kind::move && offer.pieces.is_for_all() && task.taken.is_only_for(limits_.rank);
    const bool has_size = largest >= limits_.tuning.least_split && largest <= limits_.tuning.most_split;
    if (!is_broadcast || !has_size || limits_.ranks != 2) return OfferKind::attached;
    offer.front = largest / 4 * 3 / kCacheLine * kCacheLine;
    return OfferKind::streamed;
  }
  const uint64_t needed = slots * round_up(largest, kCacheLine);
  const bool fits = needed <= std::min<uint64_t>(limits_.tuning.most_staged, limits_.slot_bytes);
  // What everybody reduces must be there whole; shares that move on need counters anyway.
  return everybody_reduces || (fits && !shares_move) ? OfferKind::staged : OfferKind::streamed;
}

bool OfferChoice::is_sum_attachable(uint64_t largest) const {
  // Each of the peers makes a system call for each of the others.
  const uint64_t peers = limits_.ranks - 1, least = limits_.tuning.least_attached_sum * peers * peers;
  return limits_.may_attach && largest >= least && largest <= limits_.tuning.most_attached_sum;
}

bool OfferChoice::is_move_attachable(const HostTask& task, const Offer& offer) const {
  uint64_t least = limits_.tuning.least_attached_move, most = limits_.tuning.most_attached_move;
  if (offer.pieces.is_for_all()) {
    // It is staged once, and would be attached to by each of the peers.
    const uint64_t peers = limits_.ranks - 1;
    least *= peers;
    if (task.taken.is_only_for(limits_.rank)) most = limits_.tuning.most_attached_broadcast / (peers * peers);
  }
  return limits_.may_attach && offer.largest >= least && offer.largest <= most;
}

}  // namespace banyan::run
