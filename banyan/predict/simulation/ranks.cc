#include "banyan/predict/simulation/ranks.h"

namespace banyan::predict {

JobRanks::JobRanks(const std::vector<PlacedJob>& jobs, const JobKinds& kinds)
    : jobs_(jobs), nodes_left_of_(jobs.size(), 0), is_given_up_(jobs.size(), false) {
  for (const PlacedJob& placed : jobs) {
    plans_.emplace_back();
    for (const job::Program& program : placed.job->programs()) plans_.back().emplace_back(program);
  }
  for (const uint32_t number : kinds.ranks()) add(number, kinds);
}

void JobRanks::add(uint32_t number, const JobKinds& kinds) {
  Rank rank{.number = number, .job = static_cast<uint32_t>(kinds.job_of(number))};
  rank.in_job = number - kinds.first_rank(rank.job);
  const Job& job = *jobs_[rank.job].job;
  rank.program = &job.program(rank.in_job);
  Progress progress{.plan = &plans_[rank.job][job.program_number(rank.in_job)], .missing = {}, .streams = {}};
  // These counts fall as other nodes start and end; at 0 a node is ready.
  progress.missing = progress.plan->waits_for;
  progress.streams.resize(rank.program->streams.size());
  nodes_ += rank.program->nodes.size();
  nodes_left_ = nodes_;
  nodes_left_of_[rank.job] += rank.program->nodes.size();
  ranks_.push_back(rank);
  progress_.push_back(std::move(progress));
}

const job::Group& JobRanks::group(RankNode place) const {
  const Job& job = job_of(place.rank);
  return job.groups()[job.group(ranks_[place.rank].in_job, node(place).slot)];
}

void JobRanks::begin(uint32_t rank) {
  const std::vector<uint32_t>& missing = progress_[rank].missing;
  // Nodes that wait for nothing are the first that may start.
  for (uint32_t node = 0; node < missing.size(); ++node) {
    if (missing[node] == 0) became_ready({rank, node});
  }
}

void JobRanks::became_ready(RankNode place) {
  Progress& progress = progress_[place.rank];
  const uint16_t number = node(place).stream;
  Stream& stream = progress.streams[number];
  // A stream without an order starts all that is ready; one in order of readiness takes the first of these; one in the
  // order of the program waits for the next of its list.
  switch (ranks_[place.rank].program->streams[number].order) {
    case job::Stream::Order::free:
      starting_.push_back(place);
      return;
    case job::Stream::Order::ready:
      stream.ready.push(place.node);
      break;
    case job::Stream::Order::program:
      if (progress.plan->of_stream[number][stream.next] != place.node) return;  // not its turn yet
      break;
  }
  queue_stream(place.rank, number);
}

void JobRanks::queue_stream(uint32_t rank, uint16_t number) {
  Stream& stream = progress_[rank].streams[number];
  // A busy stream is queued when its node ends, and none is queued twice.
  if (stream.is_busy || std::exchange(stream.is_queued, true)) return;
  may_go_on_.emplace_back(rank, number);
}

std::optional<RankNode> JobRanks::start_next() {
  // Nodes of free streams first, then one stream after the other, in the order in which they became able to go on.
  std::optional<RankNode> place;
  if (!starting_.empty()) {
    place = starting_.front();
    starting_.pop_front();
  }
  while (!place && !may_go_on_.empty()) {
    const auto [rank, number] = may_go_on_.front();
    may_go_on_.pop_front();
    progress_[rank].streams[number].is_queued = false;
    if (const auto node = take_from(rank, number)) place = RankNode{rank, *node};
  }
  // Some nodes wait for others to start, and not to end.
  if (place) release(place->rank, progress_[place->rank].plan->started.of(place->node));
  return place;
}

std::optional<uint32_t> JobRanks::take_from(uint32_t rank, uint16_t number) {
  Progress& progress = progress_[rank];
  Stream& stream = progress.streams[number];
  // A stream does one thing at a time.
  if (stream.is_busy) return std::nullopt;
  uint32_t node = 0;
  if (ranks_[rank].program->streams[number].order == job::Stream::Order::ready) {
    if (stream.ready.empty()) return std::nullopt;
    node = stream.ready.top();
    stream.ready.pop();
  } else {
    const std::vector<uint32_t>& list = progress.plan->of_stream[number];
    // The next of the list may not be ready. The stream waits for it then, whatever else is.
    if (stream.next == list.size() || progress.missing[list[stream.next]] > 0) return std::nullopt;
    node = list[stream.next++];
  }
  stream.is_busy = true;
  return node;
}

void JobRanks::release(uint32_t rank, std::span<const uint32_t> nodes) {
  for (const uint32_t node : nodes) {
    if (--progress_[rank].missing[node] == 0) became_ready({rank, node});
  }
}

void JobRanks::end(RankNode place) {
  --nodes_left_;
  --nodes_left_of_[ranks_[place.rank].job];
  // The stream is free again; then all that has waited for this end may become ready.
  const uint16_t number = node(place).stream;
  if (ranks_[place.rank].program->streams[number].order != job::Stream::Order::free) {
    progress_[place.rank].streams[number].is_busy = false;
    queue_stream(place.rank, number);
  }
  release(place.rank, progress_[place.rank].plan->ended.of(place.node));
}

void JobRanks::give_up(uint32_t job) {
  is_given_up_[job] = true;
  nodes_left_ -= nodes_left_of_[job];
  nodes_given_up_ += nodes_left_of_[job];
}

}  // namespace banyan::predict
