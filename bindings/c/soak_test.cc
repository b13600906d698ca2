// Long runs that must leave nothing behind: neither memory nor mappings, descriptors or threads, while they last and
// afterwards. The environment says how long: BANYAN_TEST_SOAK_SMALL and BANYAN_TEST_SOAK_LARGE are numbers of calls.
#include <unistd.h>

#include "banyan/testing/test.h"
#include "bindings/c/test_footprint.h"
#include "bindings/c/test_load.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr unsigned kAnHour = 3600;  // seconds; by hand these runs may last

// A communicator of this process that is destroyed with the object.
class Joined {
 public:
  Joined(const std::string& url, int size, int rank) {
    banyan_config_t config = BANYAN_CONFIG_INIT;
    config.join_timeout = 30;  // for those whose peers have failed
    require(banyan_comm_init_url(&comm_, url.c_str(), size, rank, &config));
  }
  ~Joined() { banyan_comm_destroy(comm_); }
  Joined(const Joined&) = delete;
  Joined& operator=(const Joined&) = delete;
  banyan_comm_t get() const { return comm_; }

 private:
  banyan_comm_t comm_ = nullptr;
};

std::string failure(const std::string& what, banyan_comm_t comm) { return what + ": " + banyan_last_error(comm); }

// One sum over all ranks; what was wrong with it.
std::string sum_up(banyan_comm_t comm) {
  int rank = 0, size = 0;
  banyan_comm_user_rank(comm, &rank);
  banyan_comm_count(comm, &size);
  std::vector<int32_t> values(700);
  std::iota(values.begin(), values.end(), rank);
  require(banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_INT32, BANYAN_SUM, comm, nullptr));
  for (size_t i = 0; i < values.size(); ++i) {
    if (values[i] != size * static_cast<int>(i) + size * (size - 1) / 2) return "wrong sum at " + std::to_string(i);
  }
  return "";
}

// The same `rounds` times, by a fifth of which everything that stays has been made; then nothing may grow.
template <typename Round>
std::string repeat(uint64_t rounds, const Slack& slack, Round round) {
  Footprint settled;
  for (uint64_t i = 0; i < rounds; ++i) {
    if (std::string wrong = round(i); !wrong.empty()) return "round " + std::to_string(i) + ": " + wrong;
    if (i == rounds / 5) settled = Footprint::now();
    if (i > rounds / 5 && (i % (rounds / 5) == 0 || i + 1 == rounds)) {
      if (std::string more = growth(settled, Footprint::now(), slack); !more.empty()) {
        return "until round " + std::to_string(i) + ": " + more;
      }
    }
  }
  return "";
}

class Soak : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Ranks, Soak, ::testing::Values(2, 4));

// Both kinds of buffers, small and large calls in turn.
std::string work(banyan_comm_t comm, uint64_t small, uint64_t large) {
  constexpr size_t kSmall = 4096, kLarge = 8 << 20;
  constexpr uint64_t kRounds = 20;
  Load ordinary(comm, {.seed = 1, .largest = kLarge, .is_shared = false});
  Load shared(comm, {.seed = 2, .largest = kLarge, .is_shared = true});
  for (Load* const load : {&ordinary, &shared}) {
    if (std::string wrong = load->touch(); !wrong.empty()) return wrong;
  }
  const auto round = [&](uint64_t) {
    for (Load* const load : {&ordinary, &shared}) {
      std::string wrong = load->calls(small / kRounds / 2, kSmall);
      if (wrong.empty()) wrong = load->calls(large / kRounds / 2, kLarge);
      if (!wrong.empty()) return wrong;
    }
    return std::string();
  };
  return repeat(kRounds, {.resident = kLarge}, round);  // connections keep scratch as large as the largest call
}

TEST_P(Soak, CollectivesLeaveNothingBehind) {
  const uint64_t small = setting("BANYAN_TEST_SOAK_SMALL", 60'000), large = setting("BANYAN_TEST_SOAK_LARGE", 160);
  const MeetingPlace place;
  const auto body = [&](int rank) -> std::string {
    alarm(kAnHour);
    Footprint before;
    for (const bool is_first : {true, false}) {
      const Joined joined(place.url(), GetParam(), rank);
      std::string wrong = work(joined.get(), is_first ? 4000 : small, is_first ? 80 : large);
      if (!wrong.empty()) return wrong;
      // What the first one leaves is the library's for the rest of the process.
      if (is_first) before = Footprint::now();
    }
    return growth(before, Footprint::now());
  };
  EXPECT_THAT(run_processes(GetParam(), body), Each(""));
}

TEST_P(Soak, JoiningAndLeavingLeavesNothingBehind) {
  const MeetingPlace place;
  const auto body = [&](int rank) {
    alarm(kAnHour);
    return repeat(setting("BANYAN_TEST_SOAK_JOINS", 150), {}, [&](uint64_t) {
      const Joined joined(place.url(), GetParam(), rank);
      return sum_up(joined.get());
    });
  };
  EXPECT_THAT(run_processes(GetParam(), body), Each(""));
}

TEST_P(Soak, SplittingLeavesNothingBehind) {
  const auto body = [](banyan_comm_t comm, int rank) {
    alarm(kAnHour);
    return repeat(setting("BANYAN_TEST_SOAK_SPLITS", 300), {}, [&](uint64_t round) -> std::string {
      banyan_comm_t part = nullptr;
      const int color = round % 3 == 0 ? 0 : (rank + static_cast<int>(round)) % 2;
      require(banyan_comm_split(comm, color, -rank, &part, nullptr));
      std::string wrong = sum_up(part);
      if (banyan_comm_destroy(part) != BANYAN_SUCCESS) wrong += failure("destroy", nullptr);
      return wrong;
    });
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// Their results are asked for after the communicator is gone.
TEST_P(Soak, RequestsThatNobodyWaitedForLeaveNothingBehind) {
  const auto body = [](banyan_comm_t comm, int) {
    return repeat(40, {}, [&](uint64_t) -> std::string {
      banyan_comm_t part = nullptr;
      require(banyan_comm_split(comm, 0, 0, &part, nullptr));
      constexpr size_t kRequests = 30;
      std::vector<std::vector<int32_t>> values(kRequests);
      std::vector<banyan_request_t> requests(kRequests);
      for (size_t i = 0; i < kRequests; ++i) {
        values[i].assign(i * i * 10, 1);
        require(banyan_all_reduce(values[i].data(), values[i].data(), values[i].size(), BANYAN_INT32, BANYAN_SUM, part,
                                  &requests[i]));
      }
      require(banyan_comm_destroy(part));
      for (banyan_request_t& request : requests) {
        const banyan_result_t result = banyan_wait(&request);
        if (result != BANYAN_SUCCESS && result != BANYAN_ABORTED) return failure("wait", nullptr);
      }
      return "";
    });
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

TEST_P(Soak, RequestsOfAnAbortedCommunicatorEndAndLeaveNothingBehind) {
  const auto body = [](banyan_comm_t comm, int rank) {
    return repeat(40, {}, [&](uint64_t) -> std::string {
      banyan_comm_t part = nullptr;
      require(banyan_comm_split(comm, 0, 0, &part, nullptr));
      std::vector<int32_t> values(100'000, 1);
      banyan_request_t request = nullptr;
      // The last rank never comes, so that nobody's can be complete.
      int size = 0;
      banyan_comm_count(part, &size);
      if (rank + 1 < size) {
        const banyan_result_t started =
            banyan_all_reduce(values.data(), values.data(), values.size(), BANYAN_INT32, BANYAN_SUM, part, &request);
        if (started != BANYAN_SUCCESS && started != BANYAN_ABORTED) return failure("start", part);
      }
      require(banyan_comm_abort(part));
      require(banyan_comm_destroy(part));
      if (request == nullptr) return "";
      return banyan_wait(&request) == BANYAN_ABORTED ? "" : failure("not aborted", nullptr);
    });
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

// Buffers live for one call each, so that peers must notice that what they mapped is another one now; a second thread
// allocates and frees meanwhile.
TEST_P(Soak, MemoryIsAllocatedAndFreedWhilePeersUseIt) {
  const auto body = [](banyan_comm_t comm, int) {
    std::atomic<bool> is_over{false};
    std::string trouble;
    std::thread other([&] {
      for (size_t bytes = 1; !is_over.load() && trouble.empty(); bytes = bytes * 7 % 600'011) {
        void* memory = nullptr;
        if (banyan_mem_alloc(&memory, bytes) != BANYAN_SUCCESS) trouble = failure("alloc", nullptr);
        if (banyan_mem_free(memory) != BANYAN_SUCCESS) trouble = failure("free", nullptr);
      }
    });
    std::string wrong = repeat(setting("BANYAN_TEST_SOAK_BUFFERS", 400), {.resident = 12 << 20}, [&](uint64_t round) {
      Load load(comm, {.seed = round, .largest = 1000 + round * 7919 % 400'000, .is_shared = true});
      return load.calls(2, 1000 + round * 7919 % 400'000);
    });
    is_over = true;
    other.join();
    return wrong + trouble;
  };
  EXPECT_THAT(run_ranks(GetParam(), body), Each(""));
}

}  // namespace
}  // namespace banyan::c
