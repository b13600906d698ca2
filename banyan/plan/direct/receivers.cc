#include "banyan/plan/direct/receivers.h"

#include <algorithm>
#include <bit>

#include "banyan/base/check.h"

namespace banyan::plan {

ReceiverSolver::ReceiverSolver(const Network& network, std::span<const uint64_t> weights)
    : network_(network), weights_(weights) {
  CHECK_EQ(network.vertex_count(), network.terminal_count());
  size_t most = 1;
  for (uint32_t v = 0; v < network.vertex_count(); ++v) most = std::max(most, network.in_arcs(v).size());
  words_ = (most + 63) / 64;
  usable_.resize(network.vertex_count() * words_);
}

// Backwards from the receiver. A source may use the arcs that its successors one step nearer may use.
bool ReceiverSolver::search(uint32_t receiver) {
  std::fill(usable_.begin(), usable_.end(), 0);
  distance_.assign(network_.vertex_count(), -1);
  distance_[receiver] = 0;
  order_.assign(1, receiver);
  const std::span<const uint32_t> in = network_.in_arcs(receiver);
  for (size_t i = 0; i < order_.size(); ++i) {
    const uint32_t v = order_[i];
    for (size_t place = 0; place < network_.in_arcs(v).size(); ++place) {
      const uint32_t w = network_.arcs()[network_.in_arcs(v)[place]].tail;
      if (distance_[w] < 0) {
        distance_[w] = distance_[v] + 1;
        order_.push_back(w);
      }
      if (distance_[w] != distance_[v] + 1) continue;
      if (v == receiver) {
        usable(w)[place / 64] |= uint64_t{1} << place % 64;
      } else {
        for (size_t word = 0; word < words_; ++word) usable(w)[word] |= usable(v)[word];
      }
    }
  }
  return order_.size() == network_.vertex_count() && !in.empty();
}

std::optional<std::vector<Fraction>> ReceiverSolver::solve(uint32_t receiver, ReceiverRow* row) {
  network_.tell_observer();
  if (!search(receiver)) return std::nullopt;
  if (row) {
    row->arc.assign(network_.vertex_count(), ReceiverRow::kNone);
    row->pieces.clear();
  }
  std::vector<Fraction> loads;
  for (size_t begin = 1, end = 1; begin < order_.size(); begin = end) {
    while (end < order_.size() && distance_[order_[end]] == distance_[order_[begin]]) ++end;
    loads.push_back(solve_step(std::span(order_).subspan(begin, end - begin), network_.in_arcs(receiver), row));
  }
  if (row) {
    std::sort(row->pieces.begin(), row->pieces.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return loads;
}

Fraction ReceiverSolver::solve_step(std::span<const uint32_t> sources, std::span<const uint32_t> arcs,
                                    ReceiverRow* row) {
  // Sources with the same arcs stand together, in the order of their numbers.
  std::vector<uint32_t> sorted(sources.begin(), sources.end());
  const auto same = [&](uint32_t a, uint32_t b) { return std::ranges::equal(usable(a), usable(b)); };
  std::sort(sorted.begin(), sorted.end(), [&](uint32_t a, uint32_t b) {
    const auto left = usable(a), right = usable(b);
    const auto [x, y] = std::mismatch(left.begin(), left.end(), right.begin());
    return x == left.end() ? a < b : *x < *y;
  });
  std::vector<SourceGroup> groups;
  std::vector<std::span<const uint32_t>> members;
  for (size_t begin = 0, end = 0; begin < sorted.size(); begin = end) {
    SourceGroup group;
    for (; end < sorted.size() && same(sorted[begin], sorted[end]); ++end)
      group.weight += static_cast<int64_t>(weights_[sorted[end]]);
    for (size_t word = 0; word < words_; ++word) {
      for (uint64_t bits = usable(sorted[begin])[word]; bits != 0; bits &= bits - 1)
        group.arcs.push_back(static_cast<uint32_t>(word * 64 + static_cast<size_t>(std::countr_zero(bits))));
    }
    if (group.weight == 0) continue;  // nothing to receive, and no tree that would need an edge
    groups.push_back(std::move(group));
    members.push_back(std::span(sorted).subspan(begin, end - begin));
  }
  if (groups.empty()) return Fraction(0);
  std::vector<int64_t> capacity;
  for (const uint32_t a : arcs) capacity.push_back(network_.bandwidths()[a]);
  const Balance balanced = balance(groups, capacity);
  if (row) {
    for (size_t g = 0; g < groups.size(); ++g)
      deal_out(members[g], groups[g], balanced.parts[g], balanced.load.denominator(), arcs, *row);
  }
  return balanced.load;
}

// Member after member is filled up from arc after arc, so that few are cut.
void ReceiverSolver::deal_out(std::span<const uint32_t> members, const SourceGroup& group,
                              std::span<const int128> parts, int128 unit, std::span<const uint32_t> arcs,
                              ReceiverRow& row) const {
  size_t place = 0;
  int128 left = parts[0];
  for (const uint32_t source : members) {
    const int128 whole = unit * static_cast<int128>(weights_[source]);
    if (whole == 0) continue;
    ShardPieces pieces;
    for (int128 filled = 0; filled < whole;) {
      while (left == 0) left = parts[++place];
      const int128 piece = std::min(left, whole - filled);
      filled += piece;
      left -= piece;
      pieces.push_back({.arc = arcs[group.arcs[place]], .end = filled, .unit = unit});
    }
    row.arc[source] = pieces.size() == 1 ? pieces.front().arc : ReceiverRow::kInPieces;
    if (pieces.size() > 1) row.pieces.emplace_back(source, std::move(pieces));
  }
}

}  // namespace banyan::plan
