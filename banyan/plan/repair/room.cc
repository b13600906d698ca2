#include "banyan/plan/repair/room.h"

#include <algorithm>
#include <numeric>

namespace banyan::plan {

Rooms whole_links(const Network& network, std::span<const Fraction> bounds, int64_t total) {
  const auto bandwidths = network.bandwidths();
  Rooms result{.rooms = {}, .seconds_per_byte = Fraction(0)};
  for (const Fraction& bound : bounds) {
    result.rooms.push_back({.rates = {bandwidths.begin(), bandwidths.end()},
                            .time = bound * Fraction(total) * Fraction(static_cast<int128>(network.unit()), 1)});
    result.seconds_per_byte = result.seconds_per_byte + bound;
  }
  return result;
}

std::optional<Rooms> on_shares(const Network& network, const OverlapShares& shares, std::span<const int64_t> supply) {
  Fraction time(0);
  for (size_t t = 0; t < supply.size(); ++t) {
    if (supply[t] == 0) continue;
    if (shares.supply[t] == 0) return std::nullopt;
    time = std::max(time, Fraction(supply[t], shares.supply[t]));
  }
  const int64_t total = std::accumulate(supply.begin(), supply.end(), int64_t{0});
  return Rooms{
      .rooms = {{.rates = shares.gather, .time = time}, {.rates = shares.spread, .time = time}},
      .seconds_per_byte = time * shares.parts / Fraction(int128{total} * static_cast<int128>(network.unit()), 1)};
}

}  // namespace banyan::plan
