// JobRecord: what became of the ranks of jobs, for the Prediction: where their time went, what to draw.
//
// At every moment a rank computes, else its own bytes are on the way (exposed), else it waits in something that others
// have not come to, else its host is at work, else it is in a bubble; the five parts add up to the whole time. Sums are
// of all, spans are kept up to a number. Private to job_simulation.cc.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "banyan/predict/simulation/prediction.h"
#include "banyan/predict/simulation/ranks.h"

namespace banyan::predict {

// Books the time of a rank, by counts of what is under way. Times of calls ascend.
class Account {
 public:
  enum Of { computing, moving, waiting, hosting };

  void change(Of of, int by, Picoseconds now);
  // Nothing is under way from now on.
  void abandon(Picoseconds now);
  void finish(PredictedRank& rank, Picoseconds now);

 private:
  void book(Picoseconds now);

  int counts_[4] = {0, 0, 0, 0};
  Picoseconds sums_[4] = {}, idle_{0}, last_{0};
};

class JobRecord {
 public:
  // Both outlive it.
  JobRecord(const std::vector<PlacedJob>& jobs, const JobRanks& ranks, size_t most_spans);

  void change(uint32_t rank, Account::Of of, int by, Picoseconds now) { accounts_[rank].change(of, by, now); }
  void span(RankNode place, PredictedSpan::Kind kind, Picoseconds begin, Picoseconds end);
  void node_ended(uint32_t rank, Picoseconds now) { ended_[rank] = now; }
  void give_up(uint32_t job, Picoseconds now);

  // All of the prediction but its links. Nothing is recorded after it.
  Prediction finish(const Fabric& fabric, const JobKinds& kinds, Picoseconds now, bool complete);

 private:
  const std::vector<PlacedJob>& jobs_;
  const JobRanks& ranks_;
  const size_t most_spans_;
  std::vector<Account> accounts_;                      // by rank
  std::vector<Picoseconds> ended_;                     // by rank: its last node until now
  std::vector<std::optional<Picoseconds>> failed_at_;  // by job
  std::vector<uint32_t> first_name_;                   // by job
  Prediction prediction_;
};

}  // namespace banyan::predict
