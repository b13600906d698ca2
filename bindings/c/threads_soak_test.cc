// Several communicators in several threads of each rank, each with blocking calls and requests mixed.

#include "banyan/testing/test.h"
#include "bindings/c/test_load.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

// Requests that are under way together, made and waited for by two threads.
std::string overlap(banyan_comm_t comm, int round) {
  constexpr size_t kRequests = 8;
  int rank = 0, size = 0;
  banyan_comm_user_rank(comm, &rank);
  banyan_comm_count(comm, &size);
  std::vector<std::vector<int64_t>> values(kRequests);
  std::vector<banyan_request_t> requests(kRequests);
  for (size_t i = 0; i < kRequests; ++i) {
    values[i].assign(1 + i * 300, rank + round);
    if (banyan_all_reduce(values[i].data(), values[i].data(), values[i].size(), BANYAN_INT64, BANYAN_SUM, comm,
                          &requests[i]) != BANYAN_SUCCESS) {
      return banyan_last_error(comm);
    }
  }
  banyan_result_t other_result = BANYAN_SUCCESS;
  std::thread other([&] { other_result = banyan_wait_all(requests.data() + kRequests / 2, kRequests / 2); });
  const banyan_result_t result = banyan_wait_all(requests.data(), kRequests / 2);
  other.join();
  if (result != BANYAN_SUCCESS || other_result != BANYAN_SUCCESS) return banyan_last_error(comm);
  for (const std::vector<int64_t>& value : values) {
    if (value.front() != size * (size - 1) / 2 + size * round || value.back() != value.front()) return "wrong sum";
  }
  return "";
}

class Threads : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Threads, ::testing::Values(2, 3));

TEST_P(Threads, EachWithACommunicatorOfItsOwnDisturbNobody) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    constexpr size_t kThreads = 3;
    std::vector<banyan_comm_t> comms(kThreads);
    for (banyan_comm_t& own : comms) {
      if (banyan_comm_split(comm, 0, 0, &own, nullptr) != BANYAN_SUCCESS) return banyan_last_error(comm);
    }
    std::vector<std::string> wrong(kThreads);
    std::vector<std::thread> threads;
    for (size_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&, i] {
        Load load(comms[i], {.seed = i, .largest = 60'000, .is_shared = i % 2 == 0});
        for (uint64_t made = 0; made < setting("BANYAN_TEST_THREAD_CALLS", 15'000) && wrong[i].empty(); made += 50) {
          wrong[i] = load.calls(50, made % 500 == 0 ? 60'000 : 2000);
          if (wrong[i].empty()) wrong[i] = overlap(comms[i], static_cast<int>(made));
        }
        banyan_comm_destroy(comms[i]);
      });
    }
    for (std::thread& thread : threads) thread.join();
    return std::accumulate(wrong.begin(), wrong.end(), std::string());
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

}  // namespace
}  // namespace banyan::c
