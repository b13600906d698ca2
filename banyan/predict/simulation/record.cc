#include "banyan/predict/simulation/record.h"

#include <algorithm>
#include <utility>

namespace banyan::predict {

void Account::change(Of of, int by, Picoseconds now) {
  book(now);
  counts_[of] += by;
}

void Account::abandon(Picoseconds now) {
  book(now);
  for (int& count : counts_) count = 0;
}

void Account::finish(PredictedRank& rank, Picoseconds now) {
  book(now);
  rank.compute = sums_[computing];
  rank.exposed = sums_[moving];
  rank.waiting = sums_[waiting];
  rank.host = sums_[hosting];
  rank.bubble = idle_;
}

void Account::book(Picoseconds now) {
  const Picoseconds passed = now - std::exchange(last_, now);
  for (const Of of : {computing, moving, waiting, hosting}) {
    if (counts_[of] == 0) continue;
    sums_[of] += passed;
    return;
  }
  idle_ += passed;
}

JobRecord::JobRecord(const std::vector<PlacedJob>& jobs, const JobRanks& ranks, size_t most_spans)
    : jobs_(jobs),
      ranks_(ranks),
      most_spans_(most_spans),
      accounts_(ranks.count()),
      ended_(ranks.count(), Picoseconds(0)),
      failed_at_(jobs.size()) {
  for (const PlacedJob& placed : jobs) {
    first_name_.push_back(static_cast<uint32_t>(prediction_.names.size()));
    prediction_.names.insert(prediction_.names.end(), placed.job->names().begin(), placed.job->names().end());
  }
}

void JobRecord::span(RankNode place, PredictedSpan::Kind kind, Picoseconds begin, Picoseconds end) {
  if (begin == end || prediction_.spans.size() >= most_spans_) return;
  const JobRanks::Rank& rank = ranks_[place.rank];
  const job::Node& node = ranks_.node(place);
  prediction_.spans.push_back({.rank = rank.number,
                               .stream = node.stream,
                               .kind = kind,
                               .name = first_name_[rank.job] + node.name,
                               .begin = begin,
                               .end = end});
}

void JobRecord::give_up(uint32_t job, Picoseconds now) {
  failed_at_[job] = now;
  for (uint32_t rank = 0; rank < ranks_.count(); ++rank) {
    if (ranks_[rank].job != job) continue;
    accounts_[rank].abandon(now);
    ended_[rank] = now;
  }
}

Prediction JobRecord::finish(const Fabric& fabric, const JobKinds& kinds, Picoseconds now, bool complete) {
  prediction_.time = now;
  prediction_.complete = complete;
  for (size_t j = 0; j < jobs_.size(); ++j) {
    prediction_.jobs.push_back({.name = jobs_[j].name.empty() ? jobs_[j].job->name() : jobs_[j].name,
                                .tenant = jobs_[j].tenant,
                                .begin = jobs_[j].start,
                                .end = jobs_[j].start,
                                .alone = {},
                                .failed_at = failed_at_[j]});
  }
  // One rank of each kind was carried out.
  std::vector<PredictedRank> of_kind(ranks_.count());
  for (uint32_t kind = 0; kind < ranks_.count(); ++kind) {
    accounts_[kind].finish(of_kind[kind], now);
    for (const job::Stream& stream : ranks_[kind].program->streams) of_kind[kind].streams.push_back(stream.name);
    PredictedJob& job = prediction_.jobs[ranks_[kind].job];
    job.end = std::max(job.end, complete ? ended_[kind] : now);
  }
  for (uint32_t number = 0; number < kinds.rank_count(); ++number) {
    // All ranks of a kind have the same account, each on its own place.
    PredictedRank rank = of_kind[kinds.kind_of_rank(number)];
    rank.job = static_cast<uint32_t>(kinds.job_of(number));
    const NodeId node = jobs_[rank.job].nodes[number - kinds.first_rank(rank.job)];
    rank.node = index(node);
    rank.name = fabric.name(node);
    prediction_.ranks.push_back(std::move(rank));
  }
  std::ranges::stable_sort(prediction_.spans, {}, &PredictedSpan::begin);
  return std::move(prediction_);
}

}  // namespace banyan::predict
