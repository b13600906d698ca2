#include "banyan/plan/forest/cut_ledger.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::plan {

bool CutLedger::learn(const VertexSet& cut, int64_t slack, std::span<const uint32_t> arc_uses,
                      std::span<const uint8_t> members) {
  if (!known_.insert(key(cut)).second) return false;
  // A cut that is learnt while a tree grows counts what this tree has done already: its entries, and its members
  // inside.
  const uint32_t id = static_cast<uint32_t>(cuts_.size());
  Cut row{.inside = cut, .slack = slack, .holds_root = cut[root_] != 0};
  for (uint32_t a = 0; a < network_.arcs().size(); ++a) {
    const Arc& arc = network_.arcs()[a];
    if (!cut[arc.head] || cut[arc.tail]) continue;
    entering_[a].push_back(id);
    if (!arc_uses.empty()) row.entered += static_cast<int32_t>(arc_uses[a]);
  }
  for (uint32_t t = 0; t < members.size(); ++t) row.joined += members[t] && cut[t];
  cuts_.push_back(std::move(row));
  return true;
}

std::vector<int64_t> CutLedger::slacks() const {
  std::vector<int64_t> slacks;
  for (const Cut& cut : cuts_) slacks.push_back(cut.slack);
  return slacks;
}

void CutLedger::restore_slacks(std::span<const int64_t> slacks) {
  // No cut may have been learnt in between.
  CHECK_EQ(slacks.size(), cuts_.size());
  for (size_t i = 0; i < slacks.size(); ++i) cuts_[i].slack = slacks[i];
}

void CutLedger::take_back(uint32_t root, int64_t units, std::span<const uint32_t> arcs) {
  // The reverse of commit(): each entry gives its units back, but for the one that the tree owed to a cut outside its
  // root.
  for (Cut& cut : cuts_) cut.slack -= cut.inside[root] ? 0 : units;
  for (const uint32_t a : arcs) {
    for (const uint32_t id : entering_[a]) cuts_[id].slack += units;
  }
}

void CutLedger::begin_tree(uint32_t root, int64_t units) {
  root_ = root;
  units_ = units;
  // A new tree has entered nothing yet. It owes an entry to each cut that does not hold its root.
  for (Cut& cut : cuts_) {
    cut.entered = 0;
    cut.joined = 0;
    cut.holds_root = cut.inside[root] != 0;
  }
}

int32_t CutLedger::count_entering(uint32_t cut, std::span<const uint32_t> path) const {
  // A path may enter a cut several times; all entries count at once.
  const VertexSet& inside = cuts_[cut].inside;
  int32_t count = 0;
  work_ += path.size();
  for (const uint32_t a : path) count += inside[network_.arcs()[a].head] && !inside[network_.arcs()[a].tail];
  return count;
}

bool CutLedger::allows(std::span<const uint32_t> path, uint32_t to) const {
  // Only cuts that the path enters can object to it. Each is asked with all entries of the path.
  for (const uint32_t a : path) {
    for (const uint32_t id : entering_[a]) {
      if (overdraws(cuts_[id], count_entering(id, path), cuts_[id].inside[to])) return false;
    }
  }
  return true;
}

bool CutLedger::allows_arc(uint32_t arc, uint32_t to) const {
  // Each cut counts this one entry. A path that enters a cut twice must be asked about as a whole (allows).
  const auto& cuts = entering_[arc];
  return std::ranges::none_of(cuts, [&](uint32_t id) { return overdraws(cuts_[id], 1, cuts_[id].inside[to]); });
}

bool CutLedger::closes(uint32_t arc) const {
  // Even if the path's end joined inside, which is the most that a cut allows for, this entry would overdraw the cut.
  const auto& cuts = entering_[arc];
  return std::ranges::any_of(cuts, [&](uint32_t id) { return overdraws(cuts_[id], 1, true); });
}

void CutLedger::take(std::span<const uint32_t> path, uint32_t to) {
  for (const uint32_t a : path) {
    for (const uint32_t id : entering_[a]) {
      ++cuts_[id].entered;
      cuts_[id].joined += cuts_[id].inside[to];
    }
  }
}

void CutLedger::commit(int64_t units) {
  // One entry of each cut outside the root was owed; only what goes beyond it uses up slack.
  work_ += cuts_.size();
  for (Cut& cut : cuts_) {
    cut.slack -= units * (cut.entered - (cut.holds_root ? 0 : 1));
    CHECK(cut.slack >= 0) << "a committed tree overdraws a cut by " << -cut.slack;
  }
}

}  // namespace banyan::plan
