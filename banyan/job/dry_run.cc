#include "banyan/job/dry_run.h"

#include <numeric>
#include <utility>

namespace banyan::job {

DryRun::DryRun(const Job& job, Bytes eager, Observer observer)
    : job_(job), eager_(eager), observer_(std::move(observer)), groups_(job.groups().size()), messages_(job) {
  for (const Program& program : job.programs()) programs_.push_back(successors_of(program));
  base_.push_back(0);
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    base_.push_back(base_.back() + job.program(rank).nodes.size());
    Rank& state = ranks_.emplace_back();
    state.streams.resize(job.program(rank).streams.size());
    state.calls.assign(job.program(rank).group_slots, 0);
  }
  find_first_slots();
  phase_.assign(base_.back(), Phase::waiting);
  unmet_.resize(base_.back());
  for (uint32_t rank = 0; rank < job.rank_count(); ++rank) {
    for (uint32_t i = 0; i < job.program(rank).nodes.size(); ++i) unmet_[base_[rank] + i] = unmet(rank, i);
  }
}

void DryRun::find_first_slots() {
  std::vector<uint32_t> seen_by(job_.groups().size(), kNone), seen_at(job_.groups().size());
  for (uint32_t rank = 0; rank < job_.rank_count(); ++rank) {
    for (uint32_t slot = 0; slot < job_.program(rank).group_slots; ++slot) {
      const uint32_t group = job_.group(rank, slot);
      if (std::exchange(seen_by[group], rank) != rank) seen_at[group] = slot;
      ranks_[rank].first_slot.push_back(seen_at[group]);
    }
  }
}

DryRun::ProgramRow DryRun::successors_of(const Program& program) {
  const size_t size = program.nodes.size();
  ProgramRow result;
  result.previous.assign(size, kNone);
  std::vector<uint32_t> last(program.streams.size(), kNone);
  for (uint32_t i = 0; i < size; ++i) {
    const uint16_t stream = program.nodes[i].stream;
    if (program.streams[stream].order == Stream::Order::program) result.previous[i] = std::exchange(last[stream], i);
  }
  const auto invert = [size](auto&& each_pair) {
    Lists lists;
    lists.start.assign(size + 1, 0);
    each_pair([&](uint32_t, uint32_t on) { ++lists.start[on]; });
    std::inclusive_scan(lists.start.begin(), lists.start.end(), lists.start.begin());
    lists.all.resize(lists.start.back());
    each_pair([&](uint32_t node, uint32_t on) { lists.all[--lists.start[on]] = node; });
    return lists;
  };
  result.ended = invert([&](auto&& visit) {
    for (uint32_t i = 0; i < size; ++i) {
      for (const uint32_t on : program.needs(i)) visit(i, on);
      if (result.previous[i] != kNone) visit(i, result.previous[i]);
    }
  });
  result.started = invert([&](auto&& visit) {
    for (uint32_t i = 0; i < size; ++i) {
      for (const uint32_t on : program.follows(i)) visit(i, on);
    }
  });
  return result;
}

uint32_t DryRun::unmet(uint32_t rank, uint32_t node) const {
  const Program& program = job_.program(rank);
  const bool has_previous = programs_[job_.program_number(rank)].previous[node] != kNone;
  return static_cast<uint32_t>(program.needs(node).size() + program.follows(node).size() + has_previous);
}

void DryRun::run() {
  for (uint32_t rank = 0; rank < job_.rank_count(); ++rank) {
    queue_.push_back(rank);
    ranks_[rank].is_queued = true;
  }
  while (!queue_.empty()) {
    const uint32_t rank = queue_.front();
    queue_.pop_front();
    run_rank(rank);
    ranks_[rank].is_queued = false;
  }
}

void DryRun::run_rank(uint32_t rank) {
  while (const auto node = take_ready(rank)) begin({rank, *node});
}

// The lowest number first, of those that waited for nothing from the beginning and those that no longer do.
std::optional<uint32_t> DryRun::take_ready(uint32_t rank) {
  Rank& state = ranks_[rank];
  const size_t size = job_.program(rank).nodes.size();
  while (state.cursor < size && unmet(rank, state.cursor) != 0) ++state.cursor;
  if (!state.ready.empty() && (state.cursor == size || state.ready.top() < state.cursor)) {
    const uint32_t node = state.ready.top();
    state.ready.pop();
    return node;
  }
  if (state.cursor == size) return std::nullopt;
  return state.cursor++;
}

void DryRun::begin(RankNode place) {
  const uint16_t number = node(place).stream;
  if (job_.program(place.rank).streams[number].order == Stream::Order::ready) {
    StreamRow& stream = ranks_[place.rank].streams[number];
    if (stream.is_held) {
      stream.ready.push(place.node);
      return;
    }
    stream.is_held = true;
    stream.holder = place.node;
  }
  start(place);
}

void DryRun::start(RankNode place) {
  phase_[index(place)] = Phase::under_way;
  release(place.rank, programs_[job_.program_number(place.rank)].started.of(place.node));
  switch (node(place).kind) {
    case NodeKind::compute:
    case NodeKind::memory:
    case NodeKind::host:
    case NodeKind::marker:
      end(place);
      return;
    case NodeKind::collective:
      start_collective(place);
      return;
    case NodeKind::send:
    case NodeKind::receive:
      start_message(place);
      return;
  }
}

void DryRun::end(RankNode place) {
  phase_[index(place)] = Phase::ended;
  release(place.rank, programs_[job_.program_number(place.rank)].ended.of(place.node));
  Rank& rank = ranks_[place.rank];
  StreamRow& stream = rank.streams[node(place).stream];
  if (stream.is_held && stream.holder == place.node) {
    stream.is_held = false;
    if (!stream.ready.empty()) {
      rank.ready.push(stream.ready.top());
      stream.ready.pop();
    }
  }
  if (!rank.is_queued) {
    rank.is_queued = true;
    queue_.push_back(place.rank);
  }
}

void DryRun::release(uint32_t rank, std::span<const uint32_t> nodes) {
  for (const uint32_t next : nodes) {
    if (--unmet_[base_[rank] + next] == 0) ranks_[rank].ready.push(next);
  }
}

void DryRun::start_collective(RankNode place) {
  const uint32_t number = job_.group(place.rank, node(place).slot);
  GroupRow& group = groups_[number];
  Rank& rank = ranks_[place.rank];
  const uint64_t turn = rank.calls[rank.first_slot[node(place).slot]]++ - group.first_open;
  if (turn == group.open.size()) group.open.push_back({.group = number, .number = group.first_open + turn});
  Call& call = group.open[turn];
  call.members.push_back(place);
  call.differs = call.differs || !is_same_call(node(call.members.front()), node(place));
  if (call.members.size() < job_.groups()[number].ranks.size()) return;

  // All members of this one have called all before it, so it is the first that is open.
  const Call complete = std::move(group.open.front());
  group.open.pop_front();
  ++group.first_open;
  if (complete.differs) observer_.on_differing_call(complete);
  for (const RankNode& member : complete.members) end(member);
}

bool DryRun::is_same_call(const Node& a, const Node& b) {
  return a.collective == b.collective && a.bytes == b.bytes && (!is_rooted(a.collective) || a.tag == b.tag);
}

void DryRun::start_message(RankNode place) {
  const bool is_send = node(place).kind == NodeKind::send;
  const auto partner = messages_.start(place);
  if (is_send && node(place).bytes <= eager_.count()) end(place);
  if (!partner) return;
  observer_.on_match(is_send ? place : *partner, is_send ? *partner : place);
  for (const RankNode& one : {place, *partner}) {
    if (phase(one) == Phase::under_way) end(one);
  }
}

uint32_t DryRun::blocker(RankNode place) const {
  const Program& program = job_.program(place.rank);
  const auto phase_of = [&](uint32_t node) { return phase({place.rank, node}); };
  for (const uint32_t on : program.needs(place.node)) {
    if (phase_of(on) != Phase::ended) return on;
  }
  for (const uint32_t on : program.follows(place.node)) {
    if (phase_of(on) == Phase::waiting) return on;
  }
  const uint32_t previous = programs_[job_.program_number(place.rank)].previous[place.node];
  if (previous != kNone && phase_of(previous) != Phase::ended) return previous;
  return ranks_[place.rank].streams[node(place).stream].holder;
}

std::vector<const DryRun::Call*> DryRun::open_calls() const {
  std::vector<const Call*> calls;
  for (const GroupRow& group : groups_) {
    for (const Call& call : group.open) calls.push_back(&call);
  }
  return calls;
}

}  // namespace banyan::job
