#include "banyan/predict/simulation/kinds.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"

namespace banyan::predict {
namespace {

using Colour = uint64_t;

constexpr int kMostRounds = 100;
// Groups that are used in more ways are not compared: each way has a footprint of its own.
constexpr size_t kMostUses = 512;

size_t count_different(const std::vector<Colour>& colours) {
  return std::unordered_set<Colour>(colours.begin(), colours.end()).size();
}

// Numbers colours in the order of their first members.
void number_colours(const std::vector<Colour>& colours, std::vector<uint32_t>& kind_of, std::vector<uint32_t>* firsts,
                    std::vector<uint32_t>& like) {
  std::unordered_map<Colour, uint32_t> kinds;
  for (uint32_t i = 0; i < colours.size(); ++i) {
    const auto [found, is_new] = kinds.emplace(colours[i], static_cast<uint32_t>(like.size()));
    if (is_new) {
      like.push_back(0);
      if (firsts != nullptr) firsts->push_back(i);
    }
    kind_of[i] = found->second;
    ++like[found->second];
  }
}

}  // namespace

JobKinds::JobKinds(const Fabric& fabric, const std::vector<PlacedJob>& jobs, const JobSimulationOptions& options,
                   Changes changes)
    : jobs_(jobs) {
  for (size_t link = 0; link < fabric.links().size(); ++link) {
    const double efficiency = options.link_efficiency.empty() ? 1 : options.link_efficiency[link];
    usable_.push_back(static_cast<double>(fabric.links()[link].bandwidth.bytes_per_second()) * efficiency);
  }
  number();
  // Folding pays only if ranks share programs. Collectives by messages are never folded.
  bool may_fold = options.fold && options.collectives == CollectivesAs::flow && any_program_is_shared();
  find_uses(&may_fold);
  if (may_fold) {
    fold(fabric, options, changes);
  } else {
    keep_apart(fabric);
  }
}

void JobKinds::number() {
  uint32_t ranks = 0, groups = 0;
  for (uint32_t j = 0; j < jobs_.size(); ++j) {
    first_rank_.push_back(ranks);
    first_group_.push_back(groups);
    ranks += jobs_[j].job->rank_count();
    groups += static_cast<uint32_t>(jobs_[j].job->groups().size());
    // Ranks and groups of all jobs are numbered through, job by job.
    job_of_rank_.resize(ranks, j);
  }
  kind_of_rank_.resize(ranks);
  kind_of_group_.resize(groups);
}

bool JobKinds::any_program_is_shared() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const PlacedJob& placed) { return placed.job->programs().size() < placed.job->rank_count(); });
}

// Collects the uses of each group, and tells whether these, and the absence of receives from anybody, allow folding.
void JobKinds::find_uses(bool* may_fold) {
  uses_.resize(kind_of_group_.size());
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = *jobs_[j].job;
    // Each program is looked through once, then each rank takes over what its program does.
    std::vector<std::vector<std::set<Use>>> of_program;  // by slot
    for (const job::Program& program : job.programs()) {
      std::vector<std::set<Use>> slots(program.group_slots);
      std::vector<bool> sends(program.peer_slots, false);
      for (const job::Node& node : program.nodes) {
        if (node.kind == job::NodeKind::collective) slots[node.slot].insert({node.collective, node.tag, node.bytes});
        if (node.kind == job::NodeKind::send) sends[node.slot] = true;
        if (node.kind == job::NodeKind::receive &&
            (node.slot == job::Node::kAnyPeer || node.tag == job::Node::kAnyTag)) {
          has_any_ = true;
          *may_fold = false;
        }
      }
      of_program.push_back(std::move(slots));
      sends_.push_back(std::move(sends));
    }
    if (!*may_fold) continue;
    for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
      const auto& slots = of_program[job.program_number(rank)];
      for (uint32_t slot = 0; slot < slots.size(); ++slot) {
        std::vector<Use>& uses = uses_[first_group_[j] + job.group(rank, slot)];
        const std::set<Use>& more = slots[slot];
        // Most members use their group alike.
        if (std::includes(uses.begin(), uses.end(), more.begin(), more.end())) continue;
        std::vector<Use> all;
        std::set_union(uses.begin(), uses.end(), more.begin(), more.end(), std::back_inserter(all));
        uses = std::move(all);
        *may_fold &= uses.size() <= kMostUses;
      }
    }
  }
}

void JobKinds::keep_apart(const Fabric& fabric) {
  for (uint32_t rank = 0; rank < kind_of_rank_.size(); ++rank) ranks_.push_back(kind_of_rank_[rank] = rank);
  for (uint32_t group = 0; group < kind_of_group_.size(); ++group) groups_.push_back(kind_of_group_[group] = group);
  ranks_like_.assign(ranks_.size(), 1);
  groups_like_.assign(groups_.size(), 1);
  links_like_.assign(fabric.links().size(), 1);
  for (uint32_t link = 0; link < links_like_.size(); ++link) {
    kind_of_link_.push_back(link);
    capacities_.push_back(usable_[link]);
  }
}

uint32_t JobKinds::first_slot_of(const Job& job, uint32_t rank, uint32_t peer) {
  const uint32_t slots = job.program(rank).peer_slots;
  for (uint32_t slot = 0; slot < slots; ++slot) {
    if (job.peer(rank, slot) == peer) return slot;
  }
  return kUnused;
}

// Colours of ranks, groups and links, made of those of what they depend on until no more of them differ.
class JobKinds::Colours {
 public:
  Colours(const JobKinds& kinds, const Fabric& fabric, const JobSimulationOptions& options, Changes changes)
      : kinds_(kinds),
        options_(options),
        timeline_(changes.timeline),
        rerouting_(changes.rerouting),
        routing_(fabric),
        crossings_(kinds.kind_of_group_.size()),
        ranks_(kinds.kind_of_rank_.size()),
        groups_(kinds.kind_of_group_.size()),
        links_(fabric.links().size()) {
    size_t programs_before = 0;
    for (size_t j = 0; j < kinds.jobs_.size(); ++j) {
      const Job& job = *kinds.jobs_[j].job;
      for (uint32_t group = 0; group < job.groups().size(); ++group) add_group(j, group);
      for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
        add_rank(j, rank, kinds.sends_[programs_before + job.program_number(rank)]);
      }
      programs_before += job.programs().size();
    }
    add_links(fabric);
  }

  // False when it takes more rounds than are worth it.
  bool refine() {
    size_t kinds = 0;
    for (int round = 0; round < kMostRounds; ++round) {
      // Colours only part, never join. Once no more of them differ, all of one colour stay alike.
      refine_once();
      const size_t now = count_different(ranks_) + count_different(groups_) + count_different(links_);
      if (now == kinds) return true;
      kinds = now;
    }
    return false;
  }

  const std::vector<Colour>& ranks() const { return ranks_; }
  const std::vector<Colour>& groups() const { return groups_; }
  const std::vector<Colour>& links() const { return links_; }

 private:
  struct Crossing {
    uint32_t link;
    Colour what;  // how much, of which use, while which links are down
  };
  struct Membership {
    uint32_t rank, group;
    Colour how;  // slot, whether it is a root
  };
  struct Talk {
    uint32_t rank, peer;
    Colour how;  // slots at both ends
    std::vector<Crossing> way;
  };

  // Visits the states of the fabric in which what crosses `hops` otherwise goes round a link that is down.
  template <typename Hops, typename LinkOf, typename Visit>
  void for_each_detour(const Hops& hops, LinkOf link_of, Visit visit) const {
    for (uint32_t state = 1; rerouting_ != nullptr && state < timeline_.states().size(); ++state) {
      const bool is_down = std::any_of(hops.begin(), hops.end(),
                                       [&](const auto& hop) { return timeline_.is_down(state, link_of(hop)); });
      if (is_down) visit(state);
    }
  }

  void add_group(size_t j, uint32_t g) {
    const job::Group& members = kinds_.jobs_[j].job->groups()[g];
    const uint32_t group = kinds_.first_group_[j] + g;
    std::vector<NodeId> on;
    for (const uint32_t rank : members.ranks) on.push_back(kinds_.jobs_[j].nodes[rank]);
    // A group is told by its size, its job, and the footprints of its uses.
    groups_[group] = mix(members.ranks.size(), j);
    for (size_t u = 0; u < kinds_.uses_[group].size(); ++u) {
      const Use& use = kinds_.uses_[group][u];
      groups_[group] = mix(mix(groups_[group], static_cast<Colour>(use.kind)), use.bytes);
      if (on.size() < 2) continue;
      const CollectiveCall call{.kind = use.kind, .members = on, .root = use.root, .bytes = use.bytes};
      // The footprint on the whole fabric, and one for each state in which some of its links are down.
      const Footprint footprint = options_.plans->footprint(call);
      add_footprint(group, footprint, u, 0);
      for_each_detour(
          footprint.hops, [](const FluidHop& hop) { return LinkId{hop.link}; },
          [&](uint32_t state) {
            groups_[group] = mix(groups_[group], state);
            if (const std::optional<Footprint> detour = rerouting_->footprint(state, call)) {
              add_footprint(group, *detour, u, state);
            }
          });
    }
  }

  void add_footprint(uint32_t group, const Footprint& footprint, size_t use, uint32_t state) {
    groups_[group] = mix(mix(groups_[group], static_cast<Colour>(footprint.latency.count())),
                         std::bit_cast<Colour>(footprint.efficiency));
    for (const FluidHop& hop : footprint.hops) {
      crossings_[group].push_back({hop.link, mix(mix(std::bit_cast<Colour>(hop.coefficient), use), state)});
    }
  }

  void add_rank(size_t j, uint32_t r, const std::vector<bool>& sends) {
    const Job& job = *kinds_.jobs_[j].job;
    const uint32_t rank = kinds_.first_rank_[j] + r;
    ranks_[rank] = mix(job.program_number(r), j);
    const job::Program& program = job.program(r);
    for (uint32_t slot = 0; slot < program.group_slots; ++slot) {
      const job::Group& group = job.groups()[job.group(r, slot)];
      const uint32_t number = kinds_.first_group_[j] + job.group(r, slot);
      // A membership is told by the slot, and by whether the rank is a root there.
      Colour how = slot;
      for (const Use& use : kinds_.uses_[number]) how = mix(how, is_rooted(use.kind) && group.ranks[use.root] == r);
      memberships_.push_back({rank, number, how});
    }
    for (uint32_t slot = 0; slot < program.peer_slots; ++slot) {
      const uint32_t peer = job.peer(r, slot);
      Talk talk{rank, kinds_.first_rank_[j] + peer, mix(slot, first_slot_of(job, peer, r)), {}};
      if (sends[slot]) add_way(talk, kinds_.jobs_[j].nodes[r], kinds_.jobs_[j].nodes[peer]);
      talks_.push_back(std::move(talk));
    }
  }

  void add_way(Talk& talk, NodeId from, NodeId to) {
    if (from == to) return;
    std::vector<LinkId> way;
    routing_.find(from, to, 0, way);
    for (const LinkId link : way) talk.way.push_back({index(link), 0});
    for_each_detour(
        way, [](LinkId link) { return link; },
        [&](uint32_t state) {
          // Messages go other ways while links are down, and these count, too.
          const auto detour = rerouting_->way(state, from, to);
          talk.how = mix(mix(talk.how, state), detour.has_value());
          if (!detour) return;
          for (const LinkId link : *detour) talk.way.push_back({index(link), state});
        });
  }

  void add_links(const Fabric& fabric) {
    for (size_t link = 0; link < links_.size(); ++link) {
      // Links of one capacity and latency are alike at first, if the same happens to them at the same times.
      links_[link] = mix(mix(std::bit_cast<Colour>(kinds_.usable_[link])),
                         static_cast<Colour>(fabric.links()[link].latency.count()));
    }
    for (const LinkTimeline::Moment& moment : timeline_.moments()) {
      for (const LinkEvent& change : moment.changes) {
        const Colour what = change.bandwidth ? change.bandwidth->bytes_per_second() : ~Colour{0};
        Colour& link = links_[index(change.link)];
        link = mix(mix(link, static_cast<Colour>(moment.time.count())), what);
      }
    }
  }

  void refine_once() {
    // A new colour is the old one and a sum over all that it depends on: sums, so that the order does not matter.
    std::vector<Colour> of_groups(groups_.size(), 0), of_ranks(ranks_.size(), 0), of_links(links_.size(), 0);
    for (const Membership& membership : memberships_) {
      of_groups[membership.group] += mix(ranks_[membership.rank], membership.how);
    }
    for (size_t g = 0; g < groups_.size(); ++g) {
      for (const Crossing& crossing : crossings_[g]) of_groups[g] += mix(links_[crossing.link], crossing.what);
      groups_[g] = mix(groups_[g], of_groups[g]);
      for (const Crossing& crossing : crossings_[g]) of_links[crossing.link] += mix(groups_[g], crossing.what);
    }
    for (const Membership& membership : memberships_) {
      of_ranks[membership.rank] += mix(groups_[membership.group], membership.how);
    }
    // Ranks that are alike talk to ranks that are alike over ways that are alike, and their messages load links alike.
    for (const Talk& talk : talks_) {
      Colour way = ranks_[talk.peer];
      for (const Crossing& crossing : talk.way) {
        way += mix(links_[crossing.link], crossing.what);
        of_links[crossing.link] += mix(ranks_[talk.rank], mix(talk.how, crossing.what));
      }
      of_ranks[talk.rank] += mix(way, talk.how);
    }
    for (size_t r = 0; r < ranks_.size(); ++r) ranks_[r] = mix(ranks_[r], of_ranks[r]);
    for (size_t link = 0; link < links_.size(); ++link) links_[link] = mix(links_[link], of_links[link]);
  }

  const JobKinds& kinds_;
  const JobSimulationOptions& options_;
  const LinkTimeline& timeline_;
  Rerouting* const rerouting_;
  fabric::Routing routing_;
  std::vector<std::vector<Crossing>> crossings_;  // by group
  std::vector<Membership> memberships_;
  std::vector<Talk> talks_;
  std::vector<Colour> ranks_, groups_, links_;
};

void JobKinds::fold(const Fabric& fabric, const JobSimulationOptions& options, Changes changes) {
  Colours colours(*this, fabric, options, changes);
  if (!colours.refine()) return keep_apart(fabric);
  is_folded_ = true;
  // The first of each kind is simulated for all.
  number_colours(colours.ranks(), kind_of_rank_, &ranks_, ranks_like_);
  number_colours(colours.groups(), kind_of_group_, &groups_, groups_like_);
  kind_of_link_.resize(colours.links().size());
  std::vector<uint32_t> firsts;
  number_colours(colours.links(), kind_of_link_, &firsts, links_like_);
  for (const uint32_t link : firsts) capacities_.push_back(usable_[link]);
}

std::vector<FluidHop> JobKinds::folded(std::span<const FluidHop> hops, uint32_t times) const {
  // Each link is of a kind of its own.
  if (!is_folded_) {
    std::vector<FluidHop> result(hops.begin(), hops.end());
    std::sort(result.begin(), result.end(), [](const FluidHop& a, const FluidHop& b) { return a.link < b.link; });
    return result;
  }
  // Links of a kind share what all alike put on the kind: each has its part of it.
  std::map<uint32_t, double> sums;
  for (const FluidHop& hop : hops) sums[kind_of_link_[hop.link]] += hop.coefficient;
  std::vector<FluidHop> result;
  for (const auto& [kind, sum] : sums) result.push_back({kind, sum * times / links_like_[kind]});
  return result;
}

}  // namespace banyan::predict
