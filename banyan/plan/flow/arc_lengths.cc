#include "banyan/plan/flow/arc_lengths.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

constexpr int kVertexBits = 20;  // a fabric has at most 10^6 nodes; so a distance is below 2^44, and both fit

}  // namespace

ShortestPaths::ShortestPaths(const Network& network)
    : network_(&network), distance_(network.vertex_count()), came_by_(network.vertex_count()) {
  // The arcs out of a vertex lie side by side, since a search reads them all.
  for (uint32_t v = 0; v < network.vertex_count(); ++v) {
    first_.push_back(static_cast<uint32_t>(ids_.size()));
    for (const uint32_t a : network.out_arcs(v)) {
      heads_.push_back(network.arcs()[a].head);
      ids_.push_back(a);
    }
  }
  first_.push_back(static_cast<uint32_t>(ids_.size()));
}

void ShortestPaths::search(std::span<const uint64_t> lengths, uint32_t source) {
  source_ = source;
  std::fill(distance_.begin(), distance_.end(), kUnreached);
  distance_[source] = 0;
  // An entry is a distance and a vertex in one number. Equal distances go by vertex, so that ways are the same
  // everywhere.
  heap_.assign(1, source);
  while (!heap_.empty()) {
    std::pop_heap(heap_.begin(), heap_.end(), std::greater<>());
    const uint64_t distance = heap_.back() >> kVertexBits;
    const uint32_t v = static_cast<uint32_t>(heap_.back() & ((uint64_t{1} << kVertexBits) - 1));
    heap_.pop_back();
    // A shorter way to the vertex was found after this entry was made.
    if (distance != distance_[v]) continue;
    for (uint32_t i = first_[v]; i < first_[v + 1]; ++i) {
      const uint64_t longer = distance + lengths[ids_[i]];
      if (longer >= distance_[heads_[i]]) continue;
      distance_[heads_[i]] = longer;
      came_by_[heads_[i]] = ids_[i];
      heap_.push_back(longer << kVertexBits | heads_[i]);
      std::push_heap(heap_.begin(), heap_.end(), std::greater<>());
    }
  }
}

std::span<const uint32_t> ShortestPaths::path_to(uint32_t vertex) {
  CHECK(distance_[vertex] != kUnreached) << vertex;
  way_.clear();
  for (uint32_t v = vertex; v != source_; v = network_->arcs()[came_by_[v]].tail) way_.push_back(came_by_[v]);
  std::reverse(way_.begin(), way_.end());
  return way_;
}

Fraction least_load(const Network& network, const Demand& demand, std::span<const uint64_t> lengths) {
  // All arcs together carry so much of the lengths in a second.
  int128 crossed = 0, carried = 0;
  for (size_t a = 0; a < lengths.size(); ++a) carried += static_cast<int128>(lengths[a]) * network.bandwidths()[a];
  ShortestPaths ways(network);
  for (uint32_t s = 0; s < demand.terminals(); ++s) {
    if (demand.out_of(s) == 0) continue;
    network.tell_observer();
    // A demand crosses at least the distance from its source, whatever paths it takes.
    ways.search(lengths, s);
    for (uint32_t t = 0; t < demand.terminals(); ++t) {
      const int64_t amount = demand.of(s, t);
      if (amount == 0) continue;
      CHECK(ways.distance(t) != ShortestPaths::kUnreached) << s << " to " << t;
      crossed += static_cast<int128>(ways.distance(t)) * amount;
    }
  }
  return Fraction(crossed, carried);
}

uint64_t most_length(const Network& network, int128 divisor) {
  // Less would prove too little: what then does not fit is told when it is divided.
  constexpr double kLeast = 0x1p20, kFits = 0x1p126;
  double bandwidth = 0;
  for (const int64_t of_arc : network.bandwidths()) bandwidth += static_cast<double>(of_arc);
  const double most = kFits / bandwidth / static_cast<double>(divisor);
  return static_cast<uint64_t>(std::clamp(most, kLeast, static_cast<double>(ShortestPaths::kMostLength)));
}

std::vector<uint64_t> whole_lengths(std::span<const double> values, uint64_t most) {
  constexpr uint64_t kMostUnits = 5000;  // common denominators that are tried
  constexpr double kNearWhole = 1e-6;
  const double greatest = *std::max_element(values.begin(), values.end());
  CHECK(greatest > 0);
  // A small common denominator, if there is one, gives back the fractions that the solver had in mind.
  double units = 0;
  for (uint64_t tried = 1; tried <= kMostUnits && units == 0; ++tried) {
    const bool fits = std::all_of(values.begin(), values.end(), [&](double value) {
      const double scaled = value / greatest * static_cast<double>(tried);
      return std::abs(scaled - std::round(scaled)) < kNearWhole * static_cast<double>(tried);
    });
    if (fits) units = static_cast<double>(tried);
  }
  // There is none: the numbers are as fine as they may be, and prove a little less.
  if (units == 0) units = static_cast<double>(most);
  std::vector<uint64_t> lengths;
  for (const double value : values) lengths.push_back(static_cast<uint64_t>(std::llround(value / greatest * units)));
  return lengths;
}

}  // namespace banyan::plan
