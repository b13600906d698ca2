// The part of a schedule that both export formats need: its trees as a list of transfers of whole format chunks, in one
// order that all ranks follow.
//
// The order is by time, which a transfer gets from the trees: later than everything its data depends on. If each of a
// rank's sequences of work follows it, nothing can deadlock: the first transfer that is not finished has its data, and
// both its ends have finished all that stands before it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::schedule {

struct ExportTransfer {
  uint32_t from = 0, to = 0;  // participants, by position
  uint32_t chunk = 0;         // of the schedule
  bool reduces = false;       // an in-tree edge: `to` adds what it gets; else `to` just takes it
  uint32_t time = 0;
  uint64_t offset = 0;  // first format chunk of the whole buffer; of an all-to-all, of all buffers one after the other
  uint64_t count = 0;
  std::optional<uint32_t> after;  // the transfer, by number, that `from` must have received and added before
};

struct ExportProgram {
  uint32_t ranks = 0;
  uint32_t root = 0;            // participant
  uint64_t total_chunks = 0;    // format chunks of the whole buffer; a multiple of ranks where it is sharded
  uint64_t shard_chunks = 0;    // of one shard, or what a rank has for another; total_chunks where there are none
  uint64_t trees_per_rank = 0;  // schedule chunks that one root has, at most
  std::vector<ExportTransfer> transfers;  // in the order that all follow

  // The offset of the rank's shard in the whole buffer.
  uint64_t shard_begin(uint32_t rank) const { return rank * shard_chunks; }
};

// A schedule chunk of more than `largest` format chunks becomes several transfers an edge.
// Throws Error{unsupported} for shards of unequal size, which the formats cannot express.
ExportProgram make_export_program(const Schedule& schedule, uint64_t largest);

// A place in one of a rank's buffers: input 'i', output 'o' or scratch 's', in format chunks.
struct BufferPlace {
  char buffer = 'i';
  uint64_t offset = 0;
};

// The places of all data on each rank. Out of place nothing is ever written to an input; data on its way through a rank
// that has no output for it lives in scratch.
class BufferMap {
 public:
  BufferMap(CollectiveKind kind, bool in_place, const ExportProgram& program)
      : kind_(kind), in_place_(in_place), program_(program), scratch_(program.ranks, 0) {}

  // The place of the rank's own contribution to the transfer's piece of the buffer.
  BufferPlace input(const ExportTransfer& transfer, uint32_t rank) const;
  // The place of that piece on the rank once something was received or added.
  BufferPlace result(const ExportTransfer& transfer, uint32_t rank);
  // A place of its own in scratch.
  BufferPlace new_scratch(uint32_t rank, uint64_t count);
  uint64_t scratch_chunks(uint32_t rank) const { return scratch_[rank]; }

 private:
  CollectiveKind kind_;
  bool in_place_;
  const ExportProgram& program_;
  std::vector<uint64_t> scratch_;
  std::map<std::pair<uint32_t, uint64_t>, BufferPlace> sums_;  // by rank and offset in the buffer
};

// A piece of its own contribution that a rank must copy to its result because no message brings it there.
struct OwnPiece {
  uint32_t rank = 0;
  BufferPlace source, destination;
  uint64_t count = 0;
};
std::vector<OwnPiece> own_pieces(CollectiveKind kind, bool in_place, const ExportProgram& program);

// The refusal of a plan that needs too much: "needs 91 thread blocks on gpu3, MSCCL has 64; plan with --trees 2".
struct ExportExcess {
  std::string what, where;  // "thread blocks", "gpu3"
  uint64_t needed, allowed;
};
[[noreturn]] void refuse_export(const std::string& format, const ExportExcess& excess, uint64_t trees_per_rank);

}  // namespace banyan::schedule
