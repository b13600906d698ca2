// The elements that each collective moves and reduces, by the meaning of its name alone, for tests that compare every
// element of a result. Counts are of elements.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/run/call/operation.h"

namespace banyan::testing {

struct CallShape {
  run::OperationKind kind = run::OperationKind::all_reduce;  // a group is a ring of messages, each to the next rank
  uint32_t ranks = 1;
  uint64_t count = 0;  // of the call
  uint32_t root = 0;
  // Of kinds with a count for each rank: in an allgatherv and a reduce-scatterv, the part of each rank; in an
  // all-to-allv, ranks a and b give each other parts[(a + b) % ranks].
  std::vector<uint64_t> parts = {};
  uint64_t gap = 0;  // behind each piece of an all-to-allv, in both buffers

  // Elements of a result that come one after the other: those from `there` on of what rank `from` sends. Without
  // `from`, they are the reduction of what all ranks send there.
  struct Piece {
    std::optional<uint32_t> from = {};
    uint64_t there = 0, here = 0, count = 0;
  };
  std::vector<Piece> pieces(uint32_t rank) const;

  // What lies before the part of a rank, and where the piece for a peer begins.
  uint64_t before(uint32_t rank) const { return std::accumulate(parts.begin(), parts.begin() + rank, uint64_t{0}); }
  uint64_t between(uint32_t a, uint32_t b) const { return parts[(a + b) % ranks]; }
  uint64_t place(uint32_t rank, uint32_t peer) const {
    uint64_t sum = 0;
    for (uint32_t other = 0; other < peer; ++other) sum += between(rank, other) + gap;
    return sum;
  }
  // The lists of a call of this rank; both buffers of an all-to-allv have the same.
  std::vector<size_t> counts(uint32_t rank) const;
  std::vector<size_t> displacements(uint32_t rank) const;

  // The sizes of both buffers.
  uint64_t sent(uint32_t rank) const;
  uint64_t received(uint32_t rank) const;
  // In place, one buffer begins so many elements behind the other.
  uint64_t send_place(uint32_t rank) const;
  uint64_t recv_place(uint32_t rank) const;
};

inline std::vector<CallShape::Piece> CallShape::pieces(uint32_t rank) const {
  using Kind = run::OperationKind;
  std::vector<Piece> all;
  const auto from_each = [&](auto piece_of) {
    for (uint32_t peer = 0; peer < ranks; ++peer) all.push_back(piece_of(peer));
    return all;
  };
  if ((kind == Kind::reduce || kind == Kind::gather) && rank != root) return {};
  switch (kind) {
    case Kind::all_reduce:
    case Kind::reduce:
      return {{.count = count}};
    case Kind::reduce_scatter:
      return {{.there = rank * count, .count = count}};
    case Kind::broadcast:
      return {{.from = root, .count = count}};
    case Kind::scatter:
      return {{.from = root, .there = rank * count, .count = count}};
    case Kind::all_gather:
    case Kind::gather:
      return from_each([&](uint32_t peer) { return Piece{.from = peer, .here = peer * count, .count = count}; });
    case Kind::all_to_all:
      return from_each([&](uint32_t peer) {
        return Piece{.from = peer, .there = rank * count, .here = peer * count, .count = count};
      });
    case Kind::all_gather_v:
      return from_each([&](uint32_t peer) { return Piece{.from = peer, .here = before(peer), .count = parts[peer]}; });
    case Kind::reduce_scatter_v:
      return {{.there = before(rank), .count = parts[rank]}};
    case Kind::all_to_all_v:
      return from_each([&](uint32_t peer) {
        return Piece{.from = peer, .there = place(peer, rank), .here = place(rank, peer), .count = between(rank, peer)};
      });
    case Kind::group:
      return {{.from = (rank + ranks - 1) % ranks, .count = count}};
    default:
      CHECK(kind == Kind::barrier) << static_cast<int>(kind);
      return {};
  }
}

inline std::vector<size_t> CallShape::counts(uint32_t rank) const {
  std::vector<size_t> all(parts.begin(), parts.end());
  if (kind != run::OperationKind::all_to_all_v) return all;
  for (uint32_t peer = 0; peer < ranks; ++peer) all[peer] = between(rank, peer);
  return all;
}

inline std::vector<size_t> CallShape::displacements(uint32_t rank) const {
  std::vector<size_t> all;
  for (uint32_t peer = 0; peer < parts.size(); ++peer) all.push_back(place(rank, peer));
  return all;
}

inline uint64_t CallShape::sent(uint32_t rank) const {
  using Kind = run::OperationKind;
  if (kind == Kind::reduce_scatter || kind == Kind::scatter || kind == Kind::all_to_all) return count * ranks;
  if (kind == Kind::all_gather_v) return parts[rank];
  if (kind == Kind::reduce_scatter_v) return before(ranks);
  if (kind == Kind::all_to_all_v) return place(rank, ranks);
  return kind == Kind::barrier ? 0 : count;
}

inline uint64_t CallShape::received(uint32_t rank) const {
  uint64_t end = 0;
  for (const Piece& piece : pieces(rank)) end = std::max(end, piece.here + piece.count);
  return end;
}

inline uint64_t CallShape::send_place(uint32_t rank) const {
  using Kind = run::OperationKind;
  if (kind == Kind::all_gather_v) return before(rank);
  return kind == Kind::all_gather || kind == Kind::gather ? rank * count : 0;
}

inline uint64_t CallShape::recv_place(uint32_t rank) const {
  using Kind = run::OperationKind;
  if (kind == Kind::reduce_scatter_v) return before(rank);
  return kind == Kind::reduce_scatter || kind == Kind::scatter ? rank * count : 0;
}

// Parts that differ, and of which some are empty.
inline std::vector<uint64_t> uneven_parts(uint32_t ranks, uint64_t count) {
  std::vector<uint64_t> parts;
  for (uint32_t rank = 0; rank < ranks; ++rank) parts.push_back(count * (3 * rank % 4));
  return parts;
}

}  // namespace banyan::testing
