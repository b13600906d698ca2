#include "banyan/compose/all_to_all_choice.h"

#include <algorithm>
#include <bit>
#include <chrono>

#include "banyan/base/error.h"
#include "banyan/compose/call_traffic.h"
#include "banyan/fabric/shortest_paths.h"
#include "banyan/run/record/log.h"
#include "banyan/schedule/cost.h"

namespace banyan::compose {
namespace {

double seconds_of_a_message() { return std::chrono::duration<double>(schedule::AlphaBeta{}.per_message).count(); }

}  // namespace

bool AllToAllChoice::must_forward() {
  if (must_forward_) return *must_forward_;
  fabric::ShortestPaths paths(book_.fabric());
  must_forward_ = std::any_of(ranks_.begin(), ranks_.end(), [&](NodeId to) {
    paths.search(to, {});
    return std::any_of(ranks_.begin(), ranks_.end(),
                       [&](NodeId from) { return paths.hops(from) == fabric::ShortestPaths::kFar; });
  });
  return *must_forward_;
}

const plan::Candidate* AllToAllChoice::plan_for(Bytes total) {
  const uint64_t power = std::bit_floor(total.count());
  const auto [found, is_new] = chosen_.try_emplace(power, nullptr);
  if (is_new) found->second = quickest(Bytes(power));
  return found->second;
}

const plan::Candidate* AllToAllChoice::quickest(Bytes total) {
  if (must_forward()) {
    const std::vector<plan::Candidate>& all = candidates();
    return all.empty() ? nullptr : &plan::choose(all, total);
  }
  if (ranks_.size() > kMostToCompare) return nullptr;
  if (least_seconds_per_byte() >= straight_per_byte() * (1 - kLeastGain)) return nullptr;
  const plan::Candidate* best = nullptr;
  double least = straight_seconds(total) * (1 - kLeastGain);
  for (const plan::Candidate& each : candidates()) {
    const auto [per_byte, is_new] = per_byte_.try_emplace(&each, 0);
    if (is_new) per_byte->second = seconds_per_byte_of(each.schedule);
    const double seconds =
        estimate_seconds(each.schedule, Bytes(0)) + per_byte->second * static_cast<double>(total.count());
    if (seconds >= least) continue;
    least = seconds;
    best = &each;
  }
  return best;
}

// Those that planners have.
const std::vector<plan::Candidate>& AllToAllChoice::candidates() {
  static const std::vector<plan::Candidate> kNone;
  if (has_none_) return kNone;
  try {
    return book_.candidates({.kind = CollectiveKind::all_to_all, .members = ranks_});
  } catch (const Error& error) {
    // Ranks that take no part may stand between.
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_input) throw;
    BANYAN_LOG(warning) << "all-to-alls are not planned here, and go straight from rank to rank: " << error.what();
    has_none_ = true;
    return kNone;
  }
}

// ---- What it takes, by the loads of links ----

// Seconds of the link that is busiest.
double AllToAllChoice::busiest(const std::vector<double>& bytes) const {
  const std::span<const Link> links = book_.fabric().links();
  double most = 0;
  for (size_t i = 0; i < links.size(); ++i) {
    most = std::max(most, bytes[i] / static_cast<double>(links[i].bandwidth.bytes_per_second()));
  }
  return most;
}

// What no plan can do without: each rank sends and receives all but its own part.
double AllToAllChoice::least_seconds_per_byte() const {
  const Fabric& fabric = book_.fabric();
  const auto rate = [&](std::span<const LinkId> links) {
    double sum = 0;
    for (const LinkId link : links) sum += static_cast<double>(fabric.link(link).bandwidth.bytes_per_second());
    return sum;
  };
  const double bytes = 1 - 1.0 / static_cast<double>(ranks_.size());
  double most = 0;
  for (const NodeId rank : ranks_) {
    most = std::max(most, bytes / std::min(rate(fabric.out_links(rank)), rate(fabric.in_links(rank))));
  }
  return most;
}

double AllToAllChoice::straight_per_byte() {
  if (straight_per_byte_) return *straight_per_byte_;
  const double block = 1.0 / static_cast<double>(ranks_.size());
  std::vector<NodeFlow> flows;
  for (const NodeId to : ranks_) {
    for (const NodeId from : ranks_) {
      if (from != to) flows.push_back({.from = from, .to = to, .bytes = block});
    }
  }
  straight_per_byte_ = busiest(bytes_by_shortest_ways(book_.fabric(), flows));
  return *straight_per_byte_;
}

double AllToAllChoice::straight_busy_seconds(Bytes total) {
  return straight_per_byte() * static_cast<double>(total.count());
}

double AllToAllChoice::straight_seconds(Bytes total) { return seconds_of_a_message() + straight_busy_seconds(total); }

double AllToAllChoice::seconds_per_byte_of(const Schedule& schedule) const {
  if (chooses_ways_) return seconds_per_byte(schedule).to_double();
  std::vector<double> on_routes(schedule.route_count(), 0);
  for (size_t i = 0; i < schedule.chunk_count(); ++i) {
    const Chunk chunk = schedule.chunk(i);
    for (const RouteId route : chunk.out_tree) on_routes[index(route)] += static_cast<double>(chunk.units);
  }
  std::map<std::pair<NodeId, NodeId>, double> between;  // by receiver and sender
  for (uint32_t route = 0; route < on_routes.size(); ++route) {
    const auto [from, to, links] = schedule.route(RouteId{route});
    between[{to, from}] += on_routes[route];
  }
  const double per_unit =
      schedule.collective().carried_per_byte().to_double() / static_cast<double>(schedule.total_units());
  std::vector<NodeFlow> flows;
  for (const auto& [ends, units] : between) {
    flows.push_back({.from = ends.second, .to = ends.first, .bytes = units * per_unit});
  }
  return busiest(bytes_by_shortest_ways(book_.fabric(), flows));
}

}  // namespace banyan::compose
