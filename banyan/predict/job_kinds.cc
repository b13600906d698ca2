#include "banyan/predict/job_kinds.h"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <unordered_map>
#include <unordered_set>

#include "banyan/base/check.h"

namespace banyan {
namespace {

using Colour = uint64_t;

constexpr int kMostRounds = 100;
// A group that is used in more ways is one of a trace, where nothing is alike.
constexpr size_t kMostUses = 64;

Colour mixed(Colour x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}
Colour mixed(Colour a, Colour b) { return mixed(a * 0x9e3779b97f4a7c15 + b + 0x632be59bd9b4e019); }

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
                   const LinkTimeline& timeline, Detours* detours)
    : jobs_(jobs) {
  for (size_t link = 0; link < fabric.links().size(); ++link) {
    const double efficiency = options.link_efficiency.empty() ? 1 : options.link_efficiency[link];
    usable_.push_back(static_cast<double>(fabric.links()[link].bandwidth.bytes_per_second()) * efficiency);
  }
  number();
  bool may_fold = options.fold && any_program_is_shared();
  find_uses(&may_fold);
  if (may_fold) {
    fold(fabric, options, timeline, detours);
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
    job_of_rank_.resize(ranks, j);
  }
  kind_of_rank_.resize(ranks);
  kind_of_group_.resize(groups);
}

bool JobKinds::any_program_is_shared() const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [](const PlacedJob& placed) { return placed.job->programs().size() < placed.job->rank_count(); });
}

// What each group is used for, and whether that, and the absence of receives from anybody, allows folding.
void JobKinds::find_uses(bool* may_fold) {
  uses_.resize(kind_of_group_.size());
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = *jobs_[j].job;
    std::vector<std::vector<std::set<Use>>> of_program;  // by slot
    for (const JobProgram& program : job.programs()) {
      std::vector<std::set<Use>> slots(program.group_slots);
      std::vector<bool> sends(program.peer_slots, false);
      for (const JobNode& node : program.nodes) {
        if (node.kind == JobNodeKind::collective) slots[node.slot].insert({node.collective, node.tag, node.bytes});
        if (node.kind == JobNodeKind::send) sends[node.slot] = true;
        if (node.kind == JobNodeKind::receive && (node.slot == JobNode::kAnyPeer || node.tag == JobNode::kAnyTag)) {
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
        for (const Use& use : slots[slot]) {
          if (std::find(uses.begin(), uses.end(), use) == uses.end()) uses.push_back(use);
        }
        *may_fold &= uses.size() <= kMostUses;
      }
    }
  }
  for (std::vector<Use>& uses : uses_) std::sort(uses.begin(), uses.end());
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

void JobKinds::fold(const Fabric& fabric, const JobSimulationOptions& options, const LinkTimeline& timeline,
                    Detours* detours) {
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
  std::vector<std::vector<Crossing>> crossings(kind_of_group_.size());
  std::vector<Membership> memberships;
  std::vector<Talk> talks;
  std::vector<Colour> ranks(kind_of_rank_.size()), groups(kind_of_group_.size()), links(fabric.links().size());
  // The states of the fabric in which what crosses `hops` otherwise goes round a link that is down.
  const auto for_each_detour = [&](const auto& hops, auto link_of, auto visit) {
    for (uint32_t state = 1; detours != nullptr && state < timeline.states().size(); ++state) {
      const bool is_down =
          std::any_of(hops.begin(), hops.end(), [&](const auto& hop) { return timeline.is_down(state, link_of(hop)); });
      if (is_down) visit(state);
    }
  };

  Routing routing(fabric);
  size_t programs_before = 0;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    const Job& job = *jobs_[j].job;
    const std::vector<NodeId>& nodes = jobs_[j].nodes;
    for (uint32_t g = 0; g < job.groups().size(); ++g) {
      const uint32_t group = first_group_[j] + g;
      const JobGroup& members = job.groups()[g];
      std::vector<NodeId> on;
      for (const uint32_t rank : members.ranks) on.push_back(nodes[rank]);
      groups[group] = mixed(members.ranks.size(), j);
      for (size_t u = 0; u < uses_[group].size(); ++u) {
        const Use& use = uses_[group][u];
        groups[group] = mixed(mixed(groups[group], static_cast<Colour>(use.kind)), use.bytes);
        if (on.size() < 2) continue;
        const CollectiveCall call{.kind = use.kind, .members = on, .root = use.root, .bytes = use.bytes};
        const Footprint footprint = options.plans->footprint(call);
        const auto cross = [&](const Footprint& by, uint32_t state) {
          for (const FluidHop& hop : by.hops) {
            crossings[group].push_back({hop.link, mixed(mixed(std::bit_cast<Colour>(hop.coefficient), u), state)});
          }
        };
        cross(footprint, 0);
        for_each_detour(
            footprint.hops, [](const FluidHop& hop) { return LinkId{hop.link}; },
            [&](uint32_t state) {
              const std::optional<Footprint> detour = detours->footprint(state, call);
              groups[group] = mixed(groups[group], state);
              if (!detour) return;
              groups[group] = mixed(mixed(groups[group], static_cast<Colour>(detour->latency.count())),
                                    std::bit_cast<Colour>(detour->efficiency));
              cross(*detour, state);
            });
      }
    }
    for (uint32_t r = 0; r < job.rank_count(); ++r) {
      const uint32_t rank = first_rank_[j] + r;
      ranks[rank] = mixed(job.program_number(r), j);
      const JobProgram& program = job.program(r);
      for (uint32_t slot = 0; slot < program.group_slots; ++slot) {
        const JobGroup& group = job.groups()[job.group(r, slot)];
        const uint32_t number = first_group_[j] + job.group(r, slot);
        Colour how = slot;
        for (const Use& use : uses_[number]) how = mixed(how, is_rooted(use.kind) && group.ranks[use.root] == r);
        memberships.push_back({rank, number, how});
      }
      const std::vector<bool>& sends = sends_[programs_before + job.program_number(r)];
      for (uint32_t slot = 0; slot < program.peer_slots; ++slot) {
        const uint32_t peer = job.peer(r, slot);
        Talk talk{rank, first_rank_[j] + peer, mixed(slot, first_slot_of(job, peer, r)), {}};
        if (sends[slot] && nodes[r] != nodes[peer]) {
          std::vector<LinkId> way;
          routing.find(nodes[r], nodes[peer], 0, way);
          for (const LinkId link : way) talk.way.push_back({index(link), 0});
          for_each_detour(
              way, [](LinkId link) { return link; },
              [&](uint32_t state) {
                const auto detour = detours->way(state, nodes[r], nodes[peer]);
                talk.how = mixed(mixed(talk.how, state), detour.has_value());
                if (!detour) return;
                for (const LinkId link : *detour) talk.way.push_back({index(link), state});
              });
        }
        talks.push_back(std::move(talk));
      }
    }
    programs_before += job.programs().size();
  }
  for (size_t link = 0; link < links.size(); ++link) {
    links[link] =
        mixed(mixed(std::bit_cast<Colour>(usable_[link])), static_cast<Colour>(fabric.links()[link].latency.count()));
  }
  for (const LinkTimeline::Moment& moment : timeline.moments()) {
    for (const LinkEvent& change : moment.changes) {
      const Colour what = change.bandwidth ? change.bandwidth->bytes_per_second() : ~Colour{0};
      Colour& link = links[index(change.link)];
      link = mixed(mixed(link, static_cast<Colour>(moment.time.count())), what);
    }
  }

  size_t kinds = 0;
  for (int round = 0;; ++round) {
    if (round == kMostRounds) return keep_apart(fabric);
    std::vector<Colour> of_groups(groups.size(), 0), of_ranks(ranks.size(), 0), of_links(links.size(), 0);
    for (const Membership& membership : memberships) {
      of_groups[membership.group] += mixed(ranks[membership.rank], membership.how);
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const Crossing& crossing : crossings[g]) of_groups[g] += mixed(links[crossing.link], crossing.what);
      groups[g] = mixed(groups[g], of_groups[g]);
    }
    for (const Membership& membership : memberships) {
      of_ranks[membership.rank] += mixed(groups[membership.group], membership.how);
    }
    for (const Talk& talk : talks) {
      Colour way = ranks[talk.peer];
      for (const Crossing& crossing : talk.way) way += mixed(links[crossing.link], crossing.what);
      of_ranks[talk.rank] += mixed(way, talk.how);
    }
    for (size_t g = 0; g < groups.size(); ++g) {
      for (const Crossing& crossing : crossings[g]) of_links[crossing.link] += mixed(groups[g], crossing.what);
    }
    for (const Talk& talk : talks) {
      for (const Crossing& crossing : talk.way) {
        of_links[crossing.link] += mixed(ranks[talk.rank], mixed(talk.how, crossing.what));
      }
    }
    for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = mixed(ranks[r], of_ranks[r]);
    for (size_t link = 0; link < links.size(); ++link) links[link] = mixed(links[link], of_links[link]);
    const size_t now = count_different(ranks) + count_different(groups) + count_different(links);
    if (now == kinds) break;
    kinds = now;
  }

  number_colours(ranks, kind_of_rank_, &ranks_, ranks_like_);
  number_colours(groups, kind_of_group_, &groups_, groups_like_);
  kind_of_link_.resize(links.size());
  std::vector<uint32_t> firsts;
  number_colours(links, kind_of_link_, &firsts, links_like_);
  for (const uint32_t link : firsts) {
    capacities_.push_back(usable_[link]);
  }
}

std::vector<FluidHop> JobKinds::folded(std::span<const FluidHop> hops, uint32_t times) const {
  std::map<uint32_t, double> sums;
  for (const FluidHop& hop : hops) sums[kind_of_link_[hop.link]] += hop.coefficient;
  std::vector<FluidHop> result;
  for (const auto& [kind, sum] : sums) result.push_back({kind, sum * times / links_like_[kind]});
  return result;
}

}  // namespace banyan
