#include "banyan/plan/flow/link_lengths.h"

#include <algorithm>
#include <cstdio>
#include <queue>

namespace banyan::plan {
namespace {

constexpr uint64_t kMostLength = uint64_t{1} << 32;  // so that no sum of a million of them overflows
constexpr uint64_t kFar = UINT64_MAX;

// From one node to all others, over what takes part.
std::vector<uint64_t> distances(const Fabric& fabric, const std::vector<bool>& takes_part,
                                const std::vector<uint64_t>& length, NodeId from) {
  std::vector<uint64_t> distance(fabric.nodes().size(), kFar);
  using Entry = std::pair<uint64_t, NodeId>;
  std::priority_queue<Entry, std::vector<Entry>, std::greater<>> waiting;
  distance[index(from)] = 0;
  waiting.emplace(0, from);
  while (!waiting.empty()) {
    const auto [so_far, node] = waiting.top();
    waiting.pop();
    if (so_far > distance[index(node)]) continue;
    for (const LinkId id : fabric.out_links(node)) {
      const NodeId next = fabric.link(id).to;
      const uint64_t longer = so_far + length[index(id)];
      // Ranks that do not take part forward nothing: no path goes through them.
      if (!takes_part[index(next)] || longer >= distance[index(next)]) continue;
      distance[index(next)] = longer;
      waiting.emplace(longer, next);
    }
  }
  return distance;
}

std::vector<bool> those_that_take_part(const Fabric& fabric, const Collective& collective) {
  std::vector<bool> takes_part(fabric.nodes().size());
  for (uint32_t v = 0; v < takes_part.size(); ++v) takes_part[v] = !fabric.is_rank(NodeId{v});
  for (const NodeId id : collective.participants()) takes_part[index(id)] = true;
  return takes_part;
}

std::string rounded(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", value);
  return text;
}

}  // namespace

Fraction LinkLengths::seconds_per_byte(const Collective& collective) const {
  return Fraction(crossed, carried) *
         (collective.carried_per_byte() / Fraction(static_cast<int128>(collective.total_weight()), 1));
}

bool holds(const LinkLengths& lengths, const Fabric& fabric, const Collective& collective) {
  // A proof has a length for each link, none so long that sums overflow.
  if (!collective.is_personal() || lengths.length.size() != fabric.links().size()) return false;
  if (std::ranges::any_of(lengths.length, [](uint64_t length) { return length > kMostLength; })) return false;
  const std::vector<bool> takes_part = those_that_take_part(fabric, collective);
  // The capacity side: links both ends of which take part.
  int128 crossed = 0, carried = 0;
  for (size_t l = 0; l < lengths.length.size(); ++l) {
    const Link& link = fabric.links()[l];
    if (takes_part[index(link.from)] && takes_part[index(link.to)])
      carried += int128{lengths.length[l]} * int128{link.bandwidth.bytes_per_second()};
  }
  const auto participants = collective.participants();
  for (size_t s = 0; s < participants.size(); ++s) {
    if (collective.weights()[s] == 0) continue;
    // The traffic side: distances are measured anew, so nothing is taken on trust but the lengths.
    const std::vector<uint64_t> distance = distances(fabric, takes_part, lengths.length, participants[s]);
    for (size_t t = 0; t < participants.size(); ++t) {
      if (s == t || collective.traffic(s, t) == 0) continue;
      if (distance[index(participants[t])] == kFar) return false;
      crossed += int128{distance[index(participants[t])]} * int128{collective.traffic(s, t)};
    }
  }
  return carried > 0 && crossed == lengths.crossed && carried == lengths.carried;
}

std::string describe(const LinkLengths& lengths, const Fabric& fabric, const Collective& collective) {
  const std::vector<bool> takes_part = those_that_take_part(fabric, collective);
  size_t links = 0, counted = 0;
  uint64_t least = kFar, most = 0;
  for (size_t l = 0; l < lengths.length.size(); ++l) {
    const Link& link = fabric.links()[l];
    if (!takes_part[index(link.from)] || !takes_part[index(link.to)]) continue;
    ++links;
    if (lengths.length[l] == 0) continue;
    ++counted;
    least = std::min(least, lengths.length[l]);
    most = std::max(most, lengths.length[l]);
  }
  // In units of the longest link.
  const double unit = static_cast<double>(std::max<uint64_t>(1, most));
  const double average = static_cast<double>(lengths.crossed) / unit / static_cast<double>(collective.total_weight());
  const double gigabytes = static_cast<double>(lengths.carried) / unit / 1e9;
  const std::string which = counted == links ? "all " + std::to_string(links) + " links"
                                             : std::to_string(counted) + " of " + std::to_string(links) + " links";
  return "on its way a byte crosses " + rounded(average) + " of " + which + " on average" +
         (least < most ? ", counted as " + rounded(static_cast<double>(least) / unit) + " to 1 each" : "") +
         ", and so counted they carry " + rounded(gigabytes) + " GB/s together";
}

}  // namespace banyan::plan
