#include "banyan/run/execute/net_plans.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <optional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/element/data_type.h"
#include "banyan/run/engine/direct_plan.h"
#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

// A receiver keeps so much of a stream, so that its sender need not wait for credit on a network with queues.
constexpr uint64_t kWindowBytes = 512 << 10;
constexpr uint32_t kLeastWindow = 4;
constexpr size_t kSeparatePaths = 3;
// Along a lane: less fills no queue. The kernel takes a new rate slowly: behind a call of some bytes, at the small rate
// that its plan has for a lane, a large one along the same lane has been seen to take a third longer.
constexpr uint64_t kLeastPacedBytes = 16 << 10;

// The kind of the schedule that a call follows; nothing for those that follow none.
std::optional<CollectiveKind> planned_kind(OperationKind kind) {
  const auto collective = collective_of(kind);
  return collective && is_planned(*collective) ? collective : std::nullopt;
}

bool has_blocks(OperationKind kind) {
  return kind == OperationKind::all_gather_v || kind == OperationKind::reduce_scatter_v ||
         kind == OperationKind::all_to_all_v;
}

std::vector<Block> blocks_of(std::span<const size_t> counts, std::span<const size_t> displacements) {
  std::vector<Block> blocks;
  uint64_t next = 0;
  for (size_t rank = 0; rank < counts.size(); ++rank) {
    const uint64_t at = displacements.empty() ? next : displacements[rank];
    blocks.push_back({.at = at, .count = counts[rank]});
    next = at + counts[rank];
  }
  return blocks;
}

// Of the whole buffer that is gathered, reduced or dealt out; 0 where a rank does not know.
uint64_t elements_of(const Call& call, uint32_t ranks) {
  if (call.kind == OperationKind::all_to_all_v) return 0;
  if (has_blocks(call.kind)) {
    uint64_t sum = 0;
    for (const size_t count : call.kind == OperationKind::all_gather_v ? call.recv_counts : call.send_counts) {
      sum += count;
    }
    return sum;
  }
  return is_sharded(*collective_of(call.kind)) ? call.count * ranks : call.count;
}

// Of a code: the number of blocks is the power of two that is nearest, within 13 % of the bytes. Else chunks of a power
// of two of values would leave a sliver behind each slice: of 256 KiB as int8 between two boxes that took 30 % longer.
uint64_t slice_bytes_of(const Call& call, uint64_t slice_bytes) {
  if (!call.codec || slice_bytes == 0) return slice_bytes;
  const uint64_t block = call.wire_type().bytes(codec::kBlockValues);
  const uint64_t blocks = std::max<uint64_t>(1, slice_bytes / block);
  return std::bit_floor(blocks + blocks * 2 / 5) * block;
}

// Whether each pair that exchanges anything has a path; a schedule for a traffic matrix may leave pairs out.
bool has_paths(const Schedule& schedule, std::span<const uint64_t> counts) {
  const Collective& collective = schedule.collective();
  if (!collective.has_traffic()) return true;
  const size_t ranks = collective.participants().size();
  for (size_t from = 0; from < ranks; ++from) {
    for (size_t to = 0; to < ranks; ++to) {
      if (from != to && counts[from * ranks + to] > 0 && collective.traffic(from, to) == 0) return false;
    }
  }
  return true;
}

}  // namespace

NetPlans::NetPlans(Options options, FabricUpdate adopted)
    : options_(std::move(options)),
      may_reroute_(options_.ranks > 1 && options_.has_paths && options_.source->knows_ways()),
      adopted_(std::move(adopted)) {}

std::unique_ptr<NetPlans> NetPlans::revised(const FabricUpdate& update) const {
  CHECK(may_revise());
  Options options = options_;
  options.source = options_.source->revised(update);
  return std::make_unique<NetPlans>(std::move(options), update);
}

std::optional<PlanSource::Question> NetPlans::question(const Call& call) const {
  // A schedule is asked for if the kind has one, others take part, and anything is to be moved.
  const std::optional<CollectiveKind> kind = planned_kind(call.kind);
  if (!kind || options_.ranks == 1) return std::nullopt;
  if (is_personal(*kind) && !options_.source->plans_all_to_all()) return std::nullopt;
  const uint64_t elements = elements_of(call, options_.ranks);
  if (elements == 0 && call.kind != OperationKind::all_to_all_v) return std::nullopt;
  return PlanSource::Question{.kind = *kind,
                              .root = is_rooted(call.kind) ? call.other : 0,
                              .total = Bytes(call.wire_type().bytes(elements)),
                              .is_even = call.kind != OperationKind::all_to_all_v};
}

std::set<NetPlans::Lane> NetPlans::lanes() const {
  std::set<Lane> lanes;
  const auto take = [&](const StreamEnd& end) { lanes.insert({.peer = end.peer, .lane = end.lane}); };
  for (const Kept& kept : kept_) {
    for (const Role& role : kept.plan->roles) {
      std::for_each(role.in_children.begin(), role.in_children.end(), take);
      std::for_each(role.out_children.begin(), role.out_children.end(), take);
      if (role.in_parent) take(*role.in_parent);
      if (role.out_parent) take(*role.out_parent);
    }
  }
  return lanes;
}

std::vector<CallShape> NetPlans::shapes() const {
  std::vector<CallShape> shapes;
  for (const Kept& kept : kept_) shapes.push_back(kept.shape);
  return shapes;
}

std::shared_ptr<const RankPlan> NetPlans::plan(const Call& call, std::span<const uint64_t> counts) {
  if (options_.ranks == 1) return std::make_shared<RankPlan>(alone(call));
  std::optional<PlanSource::Question> question = this->question(call);
  // 1. Calls without a schedule go straight from rank to rank.
  if (!question) return finished(direct(call));
  if (!counts.empty()) {
    const uint64_t all = std::accumulate(counts.begin(), counts.end(), uint64_t{0});
    question->total = Bytes(call.wire_type().bytes(all / options_.ranks));
  }
  // 2. The planner's answer. It may be that straight is best.
  const PlanSource::Answer answer = options_.source->plan(*question);
  if (answer.schedule == nullptr) return finished(direct(call));
  // 3. The schedule decides; with the counts of all ranks only if it has a path for each pair.
  if (counts.empty()) return by_schedule(call, answer);
  if (!has_paths(*answer.schedule, counts)) return finished(direct(call));
  return completed(by_counts(call, *answer.schedule, counts), call, answer);
}

bool NetPlans::needs_counts(const Call& call) {
  if (call.kind != OperationKind::all_to_all_v) return false;
  const std::optional<PlanSource::Question> question = this->question(call);
  if (!question) return false;
  const PlanSource::Answer answer = options_.source->plan(*question);
  return answer.schedule != nullptr && answer.elements == 0;
}

Call NetPlans::counts_call(const uint64_t* own, uint64_t* all) const {
  return {.kind = OperationKind::all_gather,
          .type = element::DataType::uint64,
          .send = reinterpret_cast<const std::byte*>(own),
          .recv = reinterpret_cast<std::byte*>(all),
          .count = options_.ranks};
}

std::shared_ptr<const RankPlan> NetPlans::finished(RankPlan plan) const {
  if (may_revise()) {
    std::vector<uint32_t> all(options_.ranks);
    std::iota(all.begin(), all.end(), 0u);
    add_confirmation(plan, all);
  }
  return std::make_shared<const RankPlan>(std::move(plan));
}

// Pieces, lanes, rates and confirmation.
std::shared_ptr<const RankPlan> NetPlans::completed(RankPlan plan, const Call& call, const PlanSource::Answer& answer) {
  plan.slice_bytes = slice_bytes_of(call, answer.slice_bytes);
  plan.window = plan.slice_bytes == 0
                    ? 0
                    : static_cast<uint32_t>(std::max<uint64_t>(kLeastWindow, kWindowBytes / plan.slice_bytes));
  take_lanes(plan);
  plan.busy_seconds = answer.busy_seconds;
  set_rates(plan, call, answer);
  return finished(std::move(plan));
}

std::shared_ptr<const RankPlan> NetPlans::by_schedule(const Call& call, const PlanSource::Answer& answer) {
  if (has_blocks(call.kind)) return completed(by_blocks(call, answer), call, answer);
  const uint64_t elements = elements_of(call, options_.ranks);
  const auto found = std::find_if(kept_.begin(), kept_.end(), [&](const Kept& kept) {
    return kept.schedule == answer.schedule && kept.type == call.wire_type() && kept.elements == elements &&
           kept.slice_bytes == answer.slice_bytes;
  });
  if (found != kept_.end()) {
    // Plans are kept by the order of their last use; the oldest goes.
    kept_.splice(kept_.begin(), kept_, found);
    return kept_.front().plan;
  }
  auto shared = completed(make_rank_plan(*answer.schedule, elements, options_.rank), call, answer);
  BANYAN_LOG(debug) << to_string(call.kind) << " of " << Bytes(elements * size_of(call.type)).to_string()
                    << (call.codec ? " as " + to_string(*call.codec) : "") << ": " << answer.planner << ", slices of "
                    << Bytes(shared->slice_bytes).to_string() << ", estimated at " << answer.seconds * 1e6 << " us";
  kept_.push_front({.shape = {.kind = call.kind,
                              .root = is_rooted(call.kind) ? call.other : 0,
                              .type = call.wire_type(),
                              .count = call.count},
                    .schedule = answer.schedule,
                    .type = call.wire_type(),
                    .elements = elements,
                    .slice_bytes = answer.slice_bytes,
                    .plan = shared});
  if (kept_.size() > kKept) kept_.pop_back();
  return shared;
}

RankPlan NetPlans::by_blocks(const Call& call, const PlanSource::Answer& answer) const {
  if (call.kind == OperationKind::all_to_all_v) return by_pairs(call, answer);
  const bool gathers = call.kind == OperationKind::all_gather_v;
  return make_block_plan(*answer.schedule,
                         blocks_of(gathers ? call.recv_counts : call.send_counts,
                                   gathers ? call.recv_displacements : std::span<const size_t>()),
                         options_.rank);
}

RankPlan NetPlans::by_pairs(const Call& call, const PlanSource::Answer& answer) const {
  // The schedule was made for a traffic matrix: this rank's counts must be those of the matrix.
  const Collective& collective = answer.schedule->collective();
  const PairBlocks blocks{
      .elements = [&](uint32_t from, uint32_t to) { return collective.block_elements(from, to, answer.elements); },
      .send = blocks_of(call.send_counts, call.send_displacements),
      .receive = blocks_of(call.recv_counts, call.recv_displacements)};
  for (uint32_t peer = 0; peer < options_.ranks; ++peer) {
    const uint64_t sent = blocks.elements(options_.rank, peer), received = blocks.elements(peer, options_.rank);
    if (blocks.send[peer].count == sent && blocks.receive[peer].count == received) continue;
    throw Error(ErrorCode::invalid_input, "an all-to-all-v with " + std::to_string(blocks.send[peer].count) +
                                              " elements for rank " + std::to_string(peer) + " and " +
                                              std::to_string(blocks.receive[peer].count) +
                                              " from it does not follow the plan, which has " + std::to_string(sent) +
                                              " and " + std::to_string(received));
  }
  return make_pair_plan(*answer.schedule, blocks, options_.rank);
}

RankPlan NetPlans::by_counts(const Call& call, const Schedule& schedule, std::span<const uint64_t> counts) const {
  const uint32_t own = options_.rank, ranks = options_.ranks;
  const PairBlocks blocks{.elements = [&](uint32_t from, uint32_t to) { return counts[size_t{from} * ranks + to]; },
                          .send = blocks_of(call.send_counts, call.send_displacements),
                          .receive = blocks_of(call.recv_counts, call.recv_displacements)};
  for (uint32_t from = 0; from < ranks; ++from) {
    // A rank that sends another number of elements than this one expects is named.
    if (blocks.elements(from, own) == blocks.receive[from].count) continue;
    throw Error(ErrorCode::mismatch, "rank " + std::to_string(from) + " sends " +
                                         std::to_string(blocks.elements(from, own)) + " elements where rank " +
                                         std::to_string(own) + " expects " +
                                         std::to_string(blocks.receive[from].count));
  }
  return make_pair_plan(schedule, blocks, own);
}

// What a schedule says nothing about, or nothing is to be moved for.
RankPlan NetPlans::direct(const Call& call) const {
  const RankAndSize own{.rank = options_.rank, .ranks = options_.ranks};
  const std::vector<Block> equal = equal_blocks(options_.ranks, call.count);
  switch (call.kind) {
    case OperationKind::all_to_all:
      return make_all_to_all_plan(own, equal, equal);
    case OperationKind::all_to_all_v:
      return make_all_to_all_plan(own, blocks_of(call.send_counts, call.send_displacements),
                                  blocks_of(call.recv_counts, call.recv_displacements));
    case OperationKind::gather:
      return make_gather_plan(own, call.other, call.count, call.other == options_.rank ? equal : std::vector<Block>());
    case OperationKind::scatter:
      return make_scatter_plan(own, call.other, call.other == options_.rank ? equal : std::vector<Block>(), call.count);
    default:
      return make_barrier_plan(own);
  }
}

// One rank gives itself what it has.
RankPlan NetPlans::alone(const Call& call) const {
  const RankAndSize own{.rank = 0, .ranks = 1};
  const Block sent{.at = call.send_displacements.empty() ? 0 : call.send_displacements[0],
                   .count = call.kind == OperationKind::all_to_all_v ? call.send_counts[0] : call.send_elements(0, 1)};
  const Block received{.at = call.recv_displacements.empty() ? 0 : call.recv_displacements[0], .count = sent.count};
  return make_all_to_all_plan(own, std::span(&sent, 1), std::span(&received, 1));
}

// ---- Connections ----

void NetPlans::take_lanes(RankPlan& plan) {
  // In the order of the plan's lanes, so that the other end gives them the same numbers.
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> taken;  // by peer and lane of the plan
  for (PlanLane& lane : plan.lanes) {
    const std::optional<PlanSource::Way> way = may_reroute_ ? options_.source->way(options_.rank, lane) : std::nullopt;
    const uint32_t number = way ? lane_of(lane.peer, *way) : kSharedLane;
    taken.emplace(std::pair(lane.peer, lane.lane), number);
    lane.lane = number;
  }
  const auto take = [&](StreamEnd& end) {
    end.lane = taken.at({end.peer, end.lane});
    if (end.lane == kSharedLane) end.lane = shared_lane(end);
  };
  for (Role& role : plan.roles) {
    for (StreamEnd& end : role.in_children) take(end);
    for (StreamEnd& end : role.out_children) take(end);
    if (role.in_parent) take(*role.in_parent);
    if (role.out_parent) take(*role.out_parent);
  }
}

// Both ends know a stream by the same number.
uint32_t NetPlans::shared_lane(const StreamEnd& end) const {
  const uint32_t place = end.number % options_.shared_lanes;
  return place == 0 ? kSharedLane : kLanes - place;
}

// Of the lanes that have a connection of their own: what they send, over the time that the slowest link needs.
void NetPlans::set_rates(RankPlan& plan, const Call& call, const PlanSource::Answer& answer) const {
  std::map<std::pair<uint32_t, uint32_t>, uint64_t> elements;
  for (const Role& role : plan.roles) {
    for (const StreamEnd& end : role.out_children) elements[{end.peer, end.lane}] += role.length;
    if (role.in_parent) elements[{role.in_parent->peer, role.in_parent->lane}] += role.length;
  }
  for (PlanLane& lane : plan.lanes) {
    // Straight from host to host the kernel itself holds back what the link does not take.
    const bool has_switch = std::max(lane.to_peer.size(), lane.from_peer.size()) > 1;
    if (lane.lane < kFirstOwnLane || !has_switch || answer.busy_seconds <= 0) continue;
    // At the rate of the plan and no faster: more would fill queues of switches, and packets would be lost.
    const uint64_t bytes = call.wire_type().bytes(elements[{lane.peer, lane.lane}]);
    if (bytes < kLeastPacedBytes) continue;
    lane.bytes_per_second = static_cast<uint64_t>(static_cast<double>(bytes) / answer.busy_seconds);
  }
}

uint32_t NetPlans::lane_of(uint32_t peer, const PlanSource::Way& way) {
  ways_.resize(options_.ranks);
  std::vector<PlanSource::Way>& known = ways_[peer];
  const auto found =
      std::find_if(known.begin(), known.end(), [&](const PlanSource::Way& each) { return each.path == way.path; });
  const auto number = kFirstOwnLane + static_cast<uint32_t>(found - known.begin());
  // Numbers of lanes are few. Ways beyond them share one.
  if (number > kLanes - options_.shared_lanes) return kSharedLane;
  if (found == known.end()) known.push_back(way);
  return number;
}

std::optional<PlanSource::Way> NetPlans::way(uint32_t peer, uint32_t transport_lane) const {
  const uint32_t lane = transport_lane % kLanes;
  if (!may_reroute_ || !has(transport_lane)) return std::nullopt;
  const bool is_shared = lane < kFirstOwnLane || lane > kLanes - options_.shared_lanes;
  if (is_shared) {
    const std::vector<PlanSource::Way> ways = options_.source->ways_between(options_.rank, peer);
    return ways.empty() ? std::nullopt : std::optional(ways.front());
  }
  if (peer >= ways_.size() || lane - kFirstOwnLane >= ways_[peer].size()) return std::nullopt;
  return ways_[peer][lane - kFirstOwnLane];
}

Path NetPlans::path(uint32_t peer, uint32_t transport_lane) const {
  const std::optional<PlanSource::Way> way = this->way(peer, transport_lane);
  return way ? way->path : Path();
}

std::vector<uint32_t> NetPlans::cables(uint32_t peer, uint32_t transport_lane) const {
  std::optional<PlanSource::Way> way = this->way(peer, transport_lane);
  return way ? std::move(way->cables) : std::vector<uint32_t>();
}

std::vector<Path> NetPlans::separate_paths(uint32_t peer) const {
  if (!may_reroute_ || peer == options_.rank) return {};
  std::vector<PlanSource::Way> ways = options_.source->ways_between(options_.rank, peer);
  std::vector<Path> paths;
  std::map<uint32_t, uint32_t> crossed;  // how often each cable is
  while (!ways.empty() && paths.size() < kSeparatePaths) {
    const auto in_common = [&](const PlanSource::Way& way) {
      uint32_t count = 0;
      for (const uint32_t cable : way.cables) count += crossed[cable];
      return count;
    };
    // The next path is the one that has fewest cables in common with those before.
    const auto best = std::min_element(ways.begin(), ways.end(),
                                       [&](const auto& a, const auto& b) { return in_common(a) < in_common(b); });
    for (const uint32_t cable : best->cables) ++crossed[cable];
    paths.push_back(best->path);
    ways.erase(best);
  }
  return paths;
}

std::vector<LostPaths::PeerPath> NetPlans::paths_across(const std::set<uint32_t>& cables) const {
  std::vector<LostPaths::PeerPath> found;
  const auto take = [&](uint32_t peer, const PlanSource::Way& way) {
    const bool crosses =
        std::any_of(way.cables.begin(), way.cables.end(), [&](uint32_t cable) { return cables.contains(cable); });
    if (crosses) found.push_back({.peer = peer, .path = way.path, .cables = way.cables});
  };
  for (uint32_t peer = options_.rank + 1; peer < options_.ranks && !cables.empty(); ++peer) {
    const std::vector<PlanSource::Way> direct = options_.source->ways_between(options_.rank, peer);
    if (!direct.empty()) take(peer, direct.front());
    if (peer >= ways_.size()) continue;
    for (const PlanSource::Way& way : ways_[peer]) take(peer, way);
  }
  return found;
}

}  // namespace banyan::run
