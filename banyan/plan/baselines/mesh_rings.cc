#include "banyan/plan/baselines/mesh_rings.h"

#include <algorithm>
#include <limits>

namespace banyan::plan {
namespace {

constexpr int kMostSteps = 200'000;

using Places = std::vector<uint32_t>;

// How often each member has a link to each other, row by row.
Places links_between(const Fabric& fabric, std::span<const NodeId> members) {
  const size_t n = members.size();
  std::vector<uint64_t> widths(n * n, 0);
  uint64_t narrowest = std::numeric_limits<uint64_t>::max();
  for (size_t from = 0; from < n; ++from) {
    for (const LinkId out : fabric.out_links(members[from])) {
      const Link& link = fabric.link(out);
      const auto to = std::find(members.begin(), members.end(), link.to);
      if (to == members.end()) continue;
      uint64_t& width = widths[from * n + static_cast<size_t>(to - members.begin())];
      width = std::max(width, link.bandwidth.bytes_per_second());
      narrowest = std::min(narrowest, width);
    }
  }
  Places links;
  for (const uint64_t width : widths) links.push_back(static_cast<uint32_t>(width / narrowest));
  return links;
}

// Where all links go both ways alike, a ring is taken in both directions at once.
class Search {
 public:
  explicit Search(Places links, size_t members) : links_(std::move(links)), n_(members) {
    wanted_ = std::numeric_limits<uint32_t>::max();
    for (uint32_t a = 0; a < n_; ++a) {
      uint32_t out = 0, in = 0;
      for (uint32_t b = 0; b < n_; ++b) {
        out += at(a, b);
        in += at(b, a);
        both_ways_ = both_ways_ && at(a, b) == at(b, a);
      }
      wanted_ = std::min({wanted_, out, in});
    }
    if (both_ways_) wanted_ /= 2;
  }

  std::vector<Places> run() {
    if (wanted_ > 0) go_on({0});
    std::vector<Places> rings;
    for (const Places& ring : best_) {
      rings.push_back(ring);
      if (both_ways_) rings.emplace_back(ring.rbegin(), ring.rend());
      if (both_ways_) std::rotate(rings.back().begin(), rings.back().end() - 1, rings.back().end());
    }
    return rings;
  }

 private:
  uint32_t& at(uint32_t from, uint32_t to) { return links_[from * n_ + to]; }

  void take(uint32_t from, uint32_t to, int sign) {
    at(from, to) -= static_cast<uint32_t>(sign);
    if (both_ways_) at(to, from) -= static_cast<uint32_t>(sign);
  }

  // Completes `ring`, then finds others. True when there is no more to look for.
  bool go_on(Places ring) {
    if (++steps_ > kMostSteps) return true;
    const uint32_t last = ring.back();
    if (ring.size() == n_) {
      if (at(last, 0) == 0) return false;
      take(last, 0, 1);
      found_.push_back(ring);
      if (found_.size() > best_.size()) best_ = found_;
      const bool done = best_.size() >= wanted_ || go_on({0});
      found_.pop_back();
      take(last, 0, -1);
      return done;
    }
    for (const uint32_t next : nexts(ring)) {
      take(last, next, 1);
      ring.push_back(next);
      const bool done = go_on(ring);
      ring.pop_back();
      take(last, next, -1);
      if (done) return true;
    }
    return false;
  }

  // The next places of the ring, those with most links left first.
  Places nexts(const Places& ring) {
    const uint32_t last = ring.back();
    Places nexts;
    for (uint32_t to = 0; to < n_; ++to) {
      if (at(last, to) > 0 && std::find(ring.begin(), ring.end(), to) == ring.end()) nexts.push_back(to);
    }
    std::stable_sort(nexts.begin(), nexts.end(), [&](uint32_t a, uint32_t b) { return at(last, a) > at(last, b); });
    return nexts;
  }

  Places links_;
  const size_t n_;
  bool both_ways_ = true;
  uint32_t wanted_ = 0;
  int steps_ = 0;
  std::vector<Places> found_, best_;
};

}  // namespace

std::vector<MeshRings::Places> MeshRings::find_places(const Fabric& fabric, std::span<const NodeId> members) {
  if (members.size() < 3 || members.size() > kMostMembers) return {};
  Places links = links_between(fabric, members);
  auto known = known_.find(links);
  if (known == known_.end()) {
    std::vector<Places> rings = Search(links, members.size()).run();
    known = known_.emplace(std::move(links), std::move(rings)).first;
  }
  return known->second;
}

std::vector<std::vector<NodeId>> MeshRings::find(const Fabric& fabric, std::span<const NodeId> members) {
  std::vector<std::vector<NodeId>> rings;
  for (const Places& places : find_places(fabric, members)) {
    std::vector<NodeId>& ring = rings.emplace_back();
    for (const uint32_t place : places) ring.push_back(members[place]);
  }
  return rings;
}

}  // namespace banyan::plan
