// Requests, groups, messages, new groups, and what happens when a rank is lost.
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_calls.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

using Clock = std::chrono::steady_clock;

TEST(Messages, ArriveInOrderAndCrossEachOther) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    for (const size_t count : {1u, 30u, 2000u, 100'000u}) {
      std::vector<std::vector<int32_t>> in(3, std::vector<int32_t>(count)), out(3, std::vector<int32_t>(count));
      banyan_group_start();
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        std::iota(out[static_cast<size_t>(peer)].begin(), out[static_cast<size_t>(peer)].end(), rank * 1000 + peer);
        banyan_send(out[static_cast<size_t>(peer)].data(), count, BANYAN_INT32, peer, comm, nullptr);
        banyan_recv(in[static_cast<size_t>(peer)].data(), count, BANYAN_INT32, peer, comm, nullptr);
      }
      require(banyan_group_end());
      for (int peer = 0; peer < 3; ++peer) {
        if (peer == rank) continue;
        for (size_t i = 0; i < count; ++i) {
          if (in[static_cast<size_t>(peer)][i] != peer * 1000 + rank + static_cast<int>(i)) return "wrong";
        }
      }
    }
    return sum_of_ranks(comm);
  };
  EXPECT_THAT(run_ranks(3, body), Each("6"));
}

TEST(Messages, GoOnWhileACollectiveWaits) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    std::vector<double> due(50'000);
    std::iota(due.begin(), due.end(), 1);
    std::vector<double> values = rank == 0 ? due : std::vector<double>(due.size());
    banyan_request_t message = nullptr, barrier = nullptr;
    std::vector<banyan_result_t> results;
    if (rank == 0) {
      results.push_back(banyan_send(values.data(), values.size(), BANYAN_FLOAT64, 1, comm, &message));
      results.push_back(banyan_barrier(comm, nullptr));
    } else {
      results.push_back(banyan_barrier(comm, &barrier));
      results.push_back(banyan_recv(values.data(), values.size(), BANYAN_FLOAT64, 0, comm, nullptr));
    }
    results.push_back(banyan_wait(&message));
    results.push_back(banyan_wait(&barrier));
    for (const banyan_result_t result : results) {
      if (result != BANYAN_SUCCESS) return banyan_last_error(comm);
    }
    return values == due ? "right" : "wrong";
  };
  EXPECT_THAT(run_ranks(2, body), Each("right"));
}

TEST(Groups, SplitByColorAndOrderByKey) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    banyan_comm_t part = nullptr;
    const int color = rank == 4 ? -1 : rank % 2;
    require(banyan_comm_split(comm, color, -rank, &part, nullptr));
    if (rank == 4) return part == nullptr && sum_of_ranks(comm) == "15" ? "right" : "wrong";
    int part_rank = -1, part_size = -1;
    banyan_comm_user_rank(part, &part_rank);
    banyan_comm_count(part, &part_size);
    int32_t first = rank;
    banyan_broadcast(&first, &first, 1, BANYAN_INT32, 0, part, nullptr);
    const bool right = part_size == 2 && part_rank == (rank < 2 ? 1 : 0) && first == color + 2;
    banyan_comm_destroy(part);
    return right && sum_of_ranks(comm) == "15" ? "right" : "wrong";
  };
  EXPECT_THAT(run_ranks(5, body), ::testing::Contains("right").Times(5));
}

TEST(Groups, TwoCommunicatorsAreUsedByTwoThreadsAtOnce) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    banyan_comm_t other = nullptr;
    banyan_comm_split(comm, 0, 0, &other, nullptr);
    const auto work = [](banyan_comm_t on) {
      for (int i = 0; i < 300; ++i) {
        if (sum_of_ranks(on) != "6") return false;
      }
      return true;
    };
    bool right = false;
    std::thread thread([&] { right = work(other); });
    const bool also = work(comm);
    thread.join();
    banyan_comm_destroy(other);
    return right && also ? "right" : "wrong";
  };
  EXPECT_THAT(run_ranks(3, body), Each("right"));
}

// Rank 1 comes half a second late to the last of its calls. How long others wait for it, their own clocks say: on a
// busy machine they may come late themselves.
TEST(Statistics, CountCallsBytesAndTheTimeForWhichARankWasWaitedFor) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    std::vector<float> values(10'000, static_cast<float>(rank)), sums(values.size());
    for (int i = 0; i < 40; ++i)
      banyan_all_reduce(values.data(), sums.data(), 3, BANYAN_FLOAT32, BANYAN_SUM, comm, nullptr);
    banyan_all_reduce(values.data(), sums.data(), values.size(), BANYAN_FLOAT32, BANYAN_SUM, comm, nullptr);
    if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(500));
    const auto began = std::chrono::steady_clock::now();
    banyan_barrier(comm, nullptr);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
    char letter = 'x';
    if (rank == 0) banyan_send(&letter, 1, BANYAN_UINT8, 1, comm, nullptr);
    if (rank == 1) banyan_recv(&letter, 1, BANYAN_UINT8, 0, comm, nullptr);
    banyan_statistics_t all = BANYAN_STATISTICS_INIT, reductions = BANYAN_STATISTICS_INIT, old{};
    banyan_comm_get_statistics(comm, nullptr, &all);
    banyan_comm_get_statistics(comm, "all_reduce", &reductions);
    old.size = offsetof(banyan_statistics_t, waiting_seconds);
    old.longest_wait_rank = 77;
    require(banyan_comm_get_statistics(comm, "barrier", &old));
    if (reductions.calls != 41 || reductions.bytes != 40 * 12 + 40'000) {
      return std::to_string(reductions.calls) + " reductions of " + std::to_string(reductions.bytes) + " bytes";
    }
    if (all.calls != (rank < 2 ? 43u : 42u)) return std::to_string(all.calls) + " calls";
    if (reductions.seconds <= 0 || reductions.seconds > 60)
      return "reductions took " + std::to_string(reductions.seconds);
    const double least = std::min(0.8 * took, 0.4);
    if (rank != 1 && (old.seconds < least || old.seconds > took))
      return "the barrier took " + std::to_string(old.seconds) + " of " + std::to_string(took);
    if (old.calls != 1 || old.longest_wait_rank != 77) return "an old program was not given what it knows";
    // Over connections rank 2 may wait for rank 0, which waits itself.
    const bool is_host = std::getenv("BANYAN_TRANSPORT") == nullptr && std::getenv("BANYAN_TEST_HOSTS") == nullptr;
    const bool is_named = all.longest_wait_rank == 1 || (!is_host && all.longest_wait_rank == 0);
    if (rank != 1 && took > 0.1 && (!is_named || all.longest_wait < least))
      return std::to_string(all.longest_wait_rank) + " for " + std::to_string(all.longest_wait) + " of " +
             std::to_string(took);
    if (all.reroutes != 0 || all.lost_peers != 0) return "lost";
    if (banyan_comm_get_statistics(comm, "all_red", &all) == BANYAN_SUCCESS) return "took a call that does not exist";
    return banyan_last_error(comm);
  };
  EXPECT_THAT(run_ranks(3, body), Each(HasSubstr("there is no call 'all_red'; known are allreduce, ")));
}

// The daemons of tests know no network.
TEST(ServiceHints, SayWhyThereAreNone) {
  const auto body = [](banyan_comm_t, int) -> std::string {
    const bool has_daemon = std::getenv("BANYAN_TEST_SERVICE") != nullptr;
    if (!has_daemon) setenv("BANYAN_SERVICE", "unix:/nowhere/banyand.sock", 1);
    if (banyan_get_service_hints(nullptr) != BANYAN_INVALID_ARGUMENT) return "took no place for them";
    const char* hints = "untouched";
    const banyan_result_t result = banyan_get_service_hints(&hints);
    if (hints != nullptr) return "gave some";
    if (result != (has_daemon ? BANYAN_UNSUPPORTED : BANYAN_INVALID_ARGUMENT)) return banyan_result_text(result);
    const std::string why = banyan_last_error(nullptr);
    return why.find(has_daemon ? "--fabric" : "/nowhere/banyand.sock") == std::string::npos ? why : "";
  };
  EXPECT_THAT(run_ranks(2, body), Each(std::string()));
}

TEST(Calls, RefuseWhatNoRankCouldDo) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    int32_t value = 1, two[2] = {1, 1}, four[4] = {};
    const size_t counts[] = {1, 1}, more[] = {2, 2};  // as many elements of itself as for itself
    const auto none = static_cast<banyan_type_t>(13);
    const std::pair<const char*, banyan_result_t> arguments[] = {
        {"null", banyan_all_reduce(nullptr, &value, 1, BANYAN_INT32, BANYAN_SUM, comm, nullptr)},
        {"type", banyan_all_reduce(&value, &value, 1, none, BANYAN_SUM, comm, nullptr)},
        {"op", banyan_all_reduce(&value, &value, 1, BANYAN_INT32, 77, comm, nullptr)},
        {"root", banyan_broadcast(&value, &value, 1, BANYAN_INT32, 2, comm, nullptr)},
        {"negative root", banyan_broadcast(&value, &value, 1, BANYAN_INT32, -1, comm, nullptr)},
        {"count", banyan_all_reduce(&value, &value, SIZE_MAX, BANYAN_INT32, BANYAN_SUM, comm, nullptr)},
        {"counts", banyan_all_to_all_v(two, counts, nullptr, four, more, nullptr, BANYAN_INT32, comm, nullptr)}};
    for (const auto& [name, result] : arguments) {
      if (result != BANYAN_INVALID_ARGUMENT) return name;
    }
    if (banyan_group_end() != BANYAN_INVALID_USAGE) return "group";
    return sum_of_ranks(comm);  // nothing has been spoilt
  };
  EXPECT_THAT(run_ranks(2, body), Each("3"));
}

// Random calls until one fails; what is strange about how it did, or nothing.
std::string work_until_lost(banyan_comm_t comm, uint64_t seed, banyan_result_t expected, const std::string& words) {
  using run::OperationKind;
  constexpr std::array kKinds = {OperationKind::all_reduce, OperationKind::all_gather, OperationKind::broadcast,
                                 OperationKind::all_to_all, OperationKind::reduce};
  std::mt19937_64 random(seed);  // the same on all ranks
  int size = 0;
  banyan_comm_count(comm, &size);
  const auto end = Clock::now() + std::chrono::seconds(60);
  while (Clock::now() < end) {
    const size_t count = random() % (random() % 3 == 0 ? 200'000 : 300);
    std::vector<float> in(count * static_cast<size_t>(size), 1), out(count * static_cast<size_t>(size));
    const auto root = static_cast<uint32_t>(random() % static_cast<uint64_t>(size));
    const banyan_result_t result = make_call(
        {.kind = kKinds[random() % kKinds.size()], .ranks = static_cast<uint32_t>(size), .count = count, .root = root},
        {.send = in.data(), .recv = out.data(), .type = BANYAN_FLOAT32}, comm);
    if (result == BANYAN_SUCCESS) continue;
    const std::string error = banyan_last_error(comm);
    if (result != expected || error.find(words) == std::string::npos) return error;
    return "";
  }
  return "nobody was lost";
}

// One rank is killed, some time after all have met; the others hear of it, shrink, and go on.
void expect_survivors_go_on(int size, int victim, std::chrono::microseconds after, uint64_t seed) {
  const auto begin = Clock::now();
  const auto reports = run_ranks(size, [&](banyan_comm_t comm, int rank) -> std::string {
    banyan_barrier(comm, nullptr);
    if (rank == victim) {
      std::thread([after] {
        std::this_thread::sleep_for(after);
        kill(getpid(), SIGKILL);
      }).detach();
    }
    const std::string surprise =
        work_until_lost(comm, seed, BANYAN_PEER_LOST, "rank " + std::to_string(victim) + " is dead");
    if (!surprise.empty()) return surprise;
    banyan_comm_t rest = nullptr;
    if (banyan_comm_shrink(comm, nullptr, 0, &rest, nullptr) != BANYAN_SUCCESS) {
      return std::string("shrink: ") + banyan_last_error(comm);
    }
    int left = 0;
    banyan_comm_count(rest, &left);
    const std::string sum = sum_of_ranks(rest);
    banyan_comm_destroy(rest);
    return left == size - 1 && sum == std::to_string(size * (size - 1) / 2) ? "went on" : "sum " + sum;
  });
  for (int rank = 0; rank < size; ++rank) {
    ASSERT_EQ(reports[static_cast<size_t>(rank)], rank == victim ? "killed by 9" : "went on")
        << "seed " << seed << ", rank " << rank << " of " << size << ", victim " << victim;
  }
  // Generous, for slow machines; the limits to reach are one second and two.
  EXPECT_LT(Clock::now() - begin, std::chrono::seconds(30)) << "seed " << seed;
}

TEST(Lost, SurvivorsOfAKilledRankShrinkAndGoOn) {
  for (const int victim : {0, 2, 3}) expect_survivors_go_on(4, victim, std::chrono::milliseconds(1), 1);
}

TEST(Lost, WhoeverIsKilledWheneverTheOthersGoOn) {
  for (uint64_t seed = 1; seed <= setting("BANYAN_TEST_KILLS", 60) && !HasFailure(); ++seed) {
    std::mt19937_64 draw(seed);
    const int size = 2 + static_cast<int>(draw() % 4), victim = static_cast<int>(draw() % static_cast<uint64_t>(size));
    expect_survivors_go_on(size, victim, std::chrono::microseconds(draw() % 4000), seed);
  }
}

TEST(Lost, WhoeverIsStoppedWheneverIsNamedAndTheOthersGoOn) {
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.timeout = 1;  // on a machine that is busy with other things a rank may wait for a core longer than 0.3 s
  for (uint64_t seed = 1; seed <= setting("BANYAN_TEST_STOPS", 4); ++seed) {
    std::mt19937_64 draw(seed);
    std::atomic<int>&entered = shared_counter(), &stopped = shared_counter();
    const int size = 2 + static_cast<int>(draw() % 3), victim = static_cast<int>(draw() % static_cast<uint64_t>(size));
    const auto after = std::chrono::microseconds(draw() % 4000);
    const auto reports = run_ranks(
        size,
        [&](banyan_comm_t comm, int rank) -> std::string {
          ++entered;
          wait_until(entered, size);
          if (rank == victim) {
            stopped = getpid();
            std::thread([after] {
              std::this_thread::sleep_for(after);
              kill(getpid(), SIGSTOP);
            }).detach();
          }
          const std::string surprise = work_until_lost(comm, seed, BANYAN_TIMED_OUT,
                                                       "rank " + std::to_string(victim) + " gives no sign of life");
          banyan_comm_t rest = nullptr;
          const banyan_result_t shrunk = banyan_comm_shrink(comm, &victim, 1, &rest, nullptr);
          if (shrunk != BANYAN_SUCCESS) {
            kill_once_known(stopped);
            return surprise + " shrink: " + banyan_last_error(comm);
          }
          const std::string sum = sum_of_ranks(rest);
          banyan_comm_destroy(rest);
          kill_once_known(stopped);
          return surprise + "sum " + sum;
        },
        &config);
    for (int rank = 0; rank < size; ++rank) {
      const std::string sum = "sum " + std::to_string(size * (size - 1) / 2);
      ASSERT_EQ(reports[static_cast<size_t>(rank)], rank == victim ? "killed by 9" : sum)
          << "seed " << seed << ", rank " << rank << " of " << size << ", victim " << victim;
    }
  }
}

TEST(Fork, TheChildIsRefused) {
  const auto body = [](banyan_comm_t comm, int) -> std::string {
    int ends[2];
    if (pipe(ends) != 0) return "pipe";
    if (fork() == 0) {
      banyan_comm_t smaller = nullptr;
      const bool is_refused = banyan_barrier(comm, nullptr) == BANYAN_INVALID_USAGE &&
                              banyan_comm_shrink(comm, nullptr, 0, &smaller, nullptr) == BANYAN_INVALID_USAGE &&
                              banyan_comm_abort(comm) == BANYAN_INVALID_USAGE;
      _exit(write(ends[1], is_refused ? "y" : "n", 1) == 1 ? 0 : 1);
    }
    char right = '?';
    if (read(ends[0], &right, 1) != 1 || right != 'y') return "allowed";
    return sum_of_ranks(comm);
  };
  EXPECT_THAT(run_ranks(2, body), Each("3"));
}

// What a child destroys and frees, be it as it exits, is its parent's still.
TEST(Fork, TheChildTakesNothingFromItsParent) {
  const auto body = [](banyan_comm_t comm, int rank) -> std::string {
    constexpr size_t kCount = 300'000;
    void* shared = nullptr;
    require(banyan_mem_alloc(&shared, kCount * sizeof(double)));
    auto* const values = static_cast<double*>(shared);
    const auto sum = [&]() -> std::string {
      for (size_t i = 0; i < kCount; ++i) values[i] = rank + static_cast<double>(i % 1000);
      require(banyan_all_reduce(values, values, kCount, BANYAN_FLOAT64, BANYAN_SUM, comm, nullptr));
      for (size_t i = 0; i < kCount; ++i) {
        if (values[i] != 1 + 2 * static_cast<double>(i % 1000)) return "wrong at " + std::to_string(i);
      }
      return "";
    };
    std::string wrong = sum();
    run::Child child([&] {
      alarm(20);
      const bool is_freed = banyan_mem_free(shared) == BANYAN_SUCCESS;
      banyan_comm_destroy(comm);
      return is_freed ? 0 : 1;
    });
    const int status = child.reap();
    if (status != 0) wrong += " the child ended with " + std::to_string(status);
    for (int i = 0; i < 3; ++i) wrong += sum();
    banyan_mem_free(shared);
    return wrong;
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

}  // namespace
}  // namespace banyan::c
