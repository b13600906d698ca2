#include "banyan/predict/simulation/collectives.h"

#include <utility>

#include "banyan/base/error.h"

namespace banyan::predict {
namespace {

// Of a group, so many are kept at once: a trace may call with ever new sizes.
constexpr size_t kMostFootprints = 64;

}  // namespace

JobCollectives::JobCollectives(const JobKinds& kinds, const JobRanks& ranks, CollectivePlans& plans, JobLinks& links)
    : kinds_(kinds), ranks_(ranks), plans_(plans), links_(links), groups_(kinds.groups().size()) {
  for (uint32_t rank = 0; rank < ranks.count(); ++rank) {
    const uint32_t slots = ranks[rank].program->group_slots;
    calls_.emplace_back(slots);
    for (uint32_t slot = 0; slot < slots; ++slot) {
      // Several slots of a rank may mean one group: it is one member of it.
      if (first_slot(rank, slot) == slot) ++groups_[kind_of_group(rank, slot)].members;
    }
  }
}

uint32_t JobCollectives::kind_of_group(uint32_t rank, uint32_t slot) const {
  const JobRanks::Rank& row = ranks_[rank];
  return kinds_.kind_of_group(kinds_.first_group(row.job) + ranks_.job_of(rank).group(row.in_job, slot));
}

uint32_t JobCollectives::first_slot(uint32_t rank, uint32_t slot) const {
  const Job& job = ranks_.job_of(rank);
  const uint32_t in_job = ranks_[rank].in_job;
  for (uint32_t other = 0; other < slot; ++other) {
    if (job.group(in_job, other) == job.group(in_job, slot)) return other;
  }
  return slot;
}

std::optional<JobCall> JobCollectives::arrive(RankNode place, Picoseconds now) {
  const uint32_t slot = ranks_.node(place).slot;
  const uint32_t kind = kind_of_group(place.rank, slot);
  GroupKind& group = groups_[kind];
  // The n-th call of a rank on a group is the n-th of all its members.
  const uint64_t number = calls_[place.rank][first_slot(place.rank, slot)]++;
  while (group.open.size() <= number - group.first_open) group.open.emplace_back();
  OpenCall& call = group.open[number - group.first_open];
  // All members must call the same.
  if (!call.members.empty()) expect_same(call.members.front().place, place);
  call.members.push_back({place, now});
  if (call.members.size() < group.members) return std::nullopt;
  // Calls may become complete out of order; only complete ones in front are forgotten.
  call.is_complete = true;
  JobCall complete{.group = kind, .members = std::move(call.members)};
  while (!group.open.empty() && group.open.front().is_complete) {
    group.open.pop_front();
    ++group.first_open;
  }
  return complete;
}

void JobCollectives::expect_same(RankNode a, RankNode b) const {
  const job::Node &one = ranks_.node(a), &other = ranks_.node(b);
  if (one.collective == other.collective && one.bytes == other.bytes && one.tag == other.tag) return;
  throw Error(ErrorCode::mismatch, "group '" + ranks_.group(b).name + "': " + described(a) + " but " + described(b));
}

// "rank 3 calls allreduce of 1024 bytes ('grads')"
std::string JobCollectives::described(RankNode place) const {
  const job::Node& node = ranks_.node(place);
  return "rank " + std::to_string(ranks_[place.rank].in_job) + " calls " + std::string(to_string(node.collective)) +
         " of " + std::to_string(node.bytes) + " bytes ('" + ranks_.name(place) + "')";
}

std::vector<NodeId> JobCollectives::sites(const JobCall& call) const {
  std::vector<NodeId> sites;
  for (const uint32_t member : ranks_.group(call.first()).ranks) {
    sites.push_back(ranks_.site(call.first().rank, member));
  }
  return sites;
}

TransferGraph JobCollectives::transfers(const JobCall& call, Picoseconds alpha) {
  const job::Node& node = ranks_.node(call.first());
  try {
    if (plans_.messages() == nullptr) {
      throw Error(ErrorCode::unsupported,
                  "its plans say what it puts on links, not which messages it is; use --collectives flow");
    }
    const std::vector<NodeId> members = sites(call);
    return plans_.messages()->transfers(
        {.kind = node.collective, .members = members, .root = node.tag, .bytes = node.bytes}, alpha);
  } catch (const Error& error) {
    throw error.within("collective '" + ranks_.name(call.first()) + "' of group '" + ranks_.group(call.first()).name +
                       "'");
  }
}

const Footprint& JobCollectives::footprint(const JobCall& call) {
  GroupKind& group = groups_[call.group];
  const job::Node& node = ranks_.node(call.first());
  const JobKinds::Use use{node.collective, node.tag, node.bytes};
  const auto ask = [&](auto&& plans) {
    const std::vector<NodeId> members = sites(call);
    return plans({.kind = use.kind, .members = members, .root = use.root, .bytes = use.bytes});
  };
  // The ordinary footprint is made once for each size and kind of call.
  auto ordinary = group.footprints.find(use);
  if (ordinary == group.footprints.end()) {
    if (group.footprints.size() >= kMostFootprints) group.footprints.clear();
    Footprint made = ask([&](const CollectiveCall& asked) { return plans_.footprint(asked); });
    ordinary = group.footprints.emplace(use, std::move(made)).first;
  }
  if (links_.rerouting() == nullptr || !links_.is_blocked(ordinary->second.hops)) return ordinary->second;
  // A footprint round failed links holds for one state of the links: in another one all are made anew.
  const bool is_other_state = std::exchange(group.state_of_rerouted, links_.state()) != links_.state();
  auto detour = group.rerouted.find(use);
  if (is_other_state || detour == group.rerouted.end()) {
    if (is_other_state || group.rerouted.size() >= kMostFootprints) group.rerouted.clear();
    auto made = ask([&](const CollectiveCall& asked) { return links_.rerouting()->footprint(links_.state(), asked); });
    detour = group.rerouted.emplace(use, std::move(made)).first;
  }
  return detour->second ? *detour->second : ordinary->second;
}

void JobCollectives::name_waiting(std::vector<std::string>& phrases) const {
  for (const GroupKind& group : groups_) {
    for (const OpenCall& call : group.open) {
      if (call.is_complete || call.members.empty()) continue;
      const RankNode first = call.members.front().place;
      if (ranks_.is_given_up(first.rank)) continue;
      phrases.push_back(described(first) + " on '" + ranks_.group(first).name + "' and waits for " +
                        std::to_string(group.members - call.members.size()) + " more");
    }
  }
}

}  // namespace banyan::predict
