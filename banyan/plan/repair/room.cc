#include "banyan/plan/repair/room.h"

#include <algorithm>
#include <numeric>

#include "banyan/plan/bound/balanced_links.h"
#include "banyan/plan/bound/narrowest_cut.h"

namespace banyan::plan {

namespace {

// What the links carry, by arc of the network of the fabric.
std::vector<int64_t> carried_by_arc(const Network& network, const Network& carried) {
  std::vector<int64_t> rates(network.arcs().size(), 0);
  uint32_t next = 0;  // its arcs are in the same order
  for (uint32_t a = 0; a < carried.arcs().size(); ++a) {
    while (network.arcs()[next].link != carried.arcs()[a].link) ++next;
    rates[next] = carried.bandwidths()[a];
  }
  return rates;
}

Room room_of_direction(const Fabric& fabric, const Collective& collective, bool gathering, int64_t total,
                       Fraction& seconds_per_byte, PlanObserver* observer) {
  const Network network(fabric, collective, gathering);
  const CutWitness cut = narrowest_cut(fabric, collective, gathering, observer);
  const auto balanced = balance_links(fabric, collective, cut, observer);
  const CutWitness& narrowest = balanced ? balanced->cut : cut;
  const Network& carried = balanced ? balanced->network : network;
  seconds_per_byte = seconds_per_byte + (balanced ? balanced->seconds_per_byte() : cut.seconds_per_byte());
  return {.rates = carried_by_arc(network, carried),
          .time = narrowest.seconds_per_byte() * Fraction(total) * Fraction(static_cast<int128>(carried.unit()), 1)};
}

}  // namespace

Rooms whole_links(const Fabric& fabric, const Collective& collective, int64_t total, PlanObserver* observer) {
  Rooms result{.rooms = {}, .seconds_per_byte = Fraction(0)};
  for (const bool gathering : {true, false}) {
    if (gathering ? !collective.reduces() : !collective.spreads()) continue;
    result.rooms.push_back(room_of_direction(fabric, collective, gathering, total, result.seconds_per_byte, observer));
  }
  return result;
}

std::optional<Rooms> on_shares(const Network& network, const OverlapShares& shares, std::span<const int64_t> supply) {
  // The root that needs most of its share says how long all takes.
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
