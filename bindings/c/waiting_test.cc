// What a person is told while ranks wait, long before any timeout.

#include "banyan/base/file.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr int kRanks = 3;
constexpr std::chrono::milliseconds kLate{12'500};  // longer than it takes to be told, on a busy machine too

void be_late() { std::this_thread::sleep_for(kLate); }

std::string join(banyan_comm_t* comm, const MeetingPlace& place, int rank) {
  const banyan_result_t result = banyan_comm_init_url(comm, place.url().c_str(), kRanks, rank, nullptr);
  return result == BANYAN_SUCCESS ? "" : banyan_last_error(nullptr);
}

std::string sum_up(banyan_comm_t comm) {
  int one = 1;
  const banyan_result_t result = banyan_all_reduce(BANYAN_IN_PLACE, &one, 1, BANYAN_INT32, BANYAN_SUM, comm, nullptr);
  if (result != BANYAN_SUCCESS) return banyan_last_error(comm);
  return one == kRanks ? "" : "a wrong sum";
}

// Two jobs at once, since each of them takes so long: in the first a rank joins late, in the second it calls late.
TEST(Waiting, IsToldAfterTenSeconds) {
  const MeetingPlace joining, calling;
  const auto log_of = [&](int number) { return joining.folder() + "/log" + std::to_string(number); };
  const ProcessBody body = [&](int number) -> std::string {
    setenv("BANYAN_LOG_FILE", log_of(number).c_str(), 1);
    const bool joins_late = number < kRanks;
    const int rank = number % kRanks;
    const bool is_late = rank == 1;
    if (joins_late && is_late) be_late();
    banyan_comm_t comm = nullptr;
    if (std::string error = join(&comm, joins_late ? joining : calling, rank); !error.empty()) return error;
    if (!joins_late && is_late) be_late();
    std::string report = sum_up(comm);
    banyan_comm_destroy(comm);
    return report;
  };
  EXPECT_THAT(run_processes(2 * kRanks, body), Each(""));
  EXPECT_THAT(read_file(log_of(0)), AllOf(HasSubstr("still waiting for rank 1 (of 3) at file://"),
                                          HasSubstr(", 10 s of 300 s"), Not(HasSubstr("still waiting for rank 2"))));
  EXPECT_THAT(read_file(log_of(2)), "");  // one rank tells
  // Both name the late rank, also over connections, where a rank waits for a neighbour that may wait itself.
  for (const int waiter : {3, 5}) {
    EXPECT_THAT(read_file(log_of(waiter)),
                AllOf(HasSubstr("communicator 'world': still waiting for rank 1 "
                                "(allreduce #1 of 1 int32 sum), 10 s of"),
                      HasSubstr("rank 1 has not called allreduce #1"), Not(HasSubstr("20 s"))));
  }
}

}  // namespace
}  // namespace banyan::c
