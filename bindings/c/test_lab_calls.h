// What the ranks of a lab do: calls of several kinds, again and again, each of them checked.
#pragma once

#include <banyan/banyan.h>

#include <atomic>
#include <chrono>
#include <cstdint>

namespace banyan::c {

// What a rank leaves in memory that it shares with its parent. Zero at first.
struct LabReport {
  std::atomic<uint32_t> calls;     // that were right
  std::atomic<int64_t> longest;    // milliseconds from one of them to the next
  std::atomic<int64_t> failed_at;  // on the clock of the machine, see lab_now(); 0: no call has failed
  banyan_result_t result;          // of the first call that failed
  char text[1200];                 // its words
  char wrong[160];                 // what was wrong with data
  bool is_over;                    // all has gone well until all were told that it is over
  int reroutes;
};

struct LabShared {
  static constexpr int kMostRanks = 8;
  std::atomic<bool> is_over;  // whoever runs the lab wants no more calls
  LabReport reports[kMostRanks];
};

// Milliseconds on a clock that all processes share.
inline int64_t lab_now() {
  using namespace std::chrono;
  return duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count();
}

// Joins by the environment, and makes rounds of calls until one fails, gives wrong data, or all have heard that it is
// over: an allreduce out of place and one in place, of 400 kB; two all-to-alls; a short and a long message to the next
// rank; a small allreduce, which tells everybody whether it is over. Data depend on rank, call and position. Then the
// communicator is destroyed.
void join_and_call(LabShared& shared, int rank, const banyan_config_t& config);

}  // namespace banyan::c
