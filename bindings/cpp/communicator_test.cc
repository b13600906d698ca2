// The C++ interface between ranks that are processes.
#include <banyan/communicator.h>
#include <banyan/sparse.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <numeric>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "bindings/c/test_ranks.h"

namespace banyan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

// What is said of an expectation that does not hold; ranks collect it.
struct Report {
  std::string text;
  template <typename A, typename B>
  void equal(const A& expected, const B& got, const std::string& what) {
    if (expected == got) return;
    text += what + ": expected " + ::testing::PrintToString(expected) + ", got " + ::testing::PrintToString(got) + "; ";
  }
};
using Body = std::function<void(Communicator&, Report&)>;

std::string be_rank(const std::string& url, int size, int rank, const Body& body, const Options& options) {
  Report report;
  try {
    Communicator world = Communicator::join(url, size, rank, options);
    body(world, report);
  } catch (const Error& error) {
    report.text += error.what();
  }
  return report.text;
}

// By rank, what went wrong.
std::vector<std::string> run_ranks(int size, const Body& body, const Options& options = {}) {
  const c::MeetingPlace place;
  return c::run_processes(size, [&](int rank) { return be_rank(place.url(), size, rank, body, options); });
}

template <typename T>
std::vector<T> numbers(size_t count, T first) {
  std::vector<T> made(count);
  std::iota(made.begin(), made.end(), first);
  return made;
}

// Ends as a program whose communicator is a global variable. Its status is 0 when exit() took little time.
[[noreturn]] void end_with_a_global_communicator(const std::string& url, int rank) {
  alarm(100);
  static std::chrono::steady_clock::time_point begin;
  std::atexit([] { _exit(std::chrono::steady_clock::now() - begin < 500ms ? 0 : 3); });
  static std::optional<Communicator> global;  // its destructor runs before that, and behind what the library does there
  global = Communicator::join(url, 2, rank, {});
  global->barrier();
  begin = std::chrono::steady_clock::now();
  std::exit(0);
}

TEST(Lifetime, AGlobalCommunicatorDoesNotHoldUpTheEndOfItsProcess) {
  const c::MeetingPlace place;
  std::array<pid_t, 2> processes{};
  for (int rank = 0; rank < 2; ++rank) {
    pid_t& process = processes[static_cast<size_t>(rank)];
    if ((process = fork()) == 0) end_with_a_global_communicator(place.url(), rank);
  }
  for (const pid_t process : processes) {
    int status = 0;
    ASSERT_EQ(waitpid(process, &status, 0), process);
    EXPECT_EQ(status, 0);
  }
}

TEST(Collectives, MoveWhatTheirNamesSay) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank(), size = world.size();
    const auto n = static_cast<size_t>(size);
    const std::vector<int> own = numbers(6, 100 * rank);  // 100 r, 100 r + 1, ...
    std::vector<int> sum(6), all(6 * n), expected_sum(6), expected_all;
    for (int r = 0; r < size; ++r) {
      for (size_t i = 0; i < 6; ++i) expected_sum[i] += 100 * r + static_cast<int>(i);
      for (const int value : numbers(6, 100 * r)) expected_all.push_back(value);
    }
    world.all_reduce(own, sum);
    report.equal(expected_sum, sum, "all_reduce");
    world.all_gather(own, all);
    report.equal(expected_all, all, "all_gather");
    std::vector<int> copy = rank == 1 ? own : std::vector<int>(6);
    world.broadcast(copy, 1);
    report.equal(numbers(6, 100), copy, "broadcast");
    std::vector<int> at_root(rank == 1 ? 6 : 0);
    world.reduce(own, at_root, 1);
    if (rank == 1) report.equal(expected_sum, at_root, "reduce");
    std::vector<int> part(6 / n);
    world.reduce_scatter(own, part);
    const std::vector<int> expected_part(expected_sum.begin() + static_cast<long>(part.size()) * rank,
                                         expected_sum.begin() + static_cast<long>(part.size()) * (rank + 1));
    report.equal(expected_part, part, "reduce_scatter");
    std::vector<int> gathered(rank == 0 ? 6 * n : 0);
    world.gather(own, gathered, 0);
    if (rank == 0) report.equal(expected_all, gathered, "gather");
    std::vector<int> scattered(6);
    world.scatter(gathered, scattered, 0);
    report.equal(own, scattered, "scatter");
    std::vector<int> turned(6), back(6);
    world.all_to_all(own, turned);
    report.equal(100 * (size - 1) + rank * static_cast<int>(6 / n), turned[6 / n * (n - 1)], "all_to_all");
    world.all_to_all(turned, back);
    report.equal(own, back, "all_to_all twice");
    world.barrier();
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Collectives, WorkInPlace) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank();
    std::array<double, 3> values{1.0 + rank, 2.0 + rank, 3.0 + rank};
    world.all_reduce(values, ReduceOp::max);
    report.equal(std::array<double, 3>{2, 3, 4}, values, "all_reduce");
    std::vector<int64_t> parts(4);
    parts[static_cast<size_t>(2 * rank)] = 10 + rank, parts[static_cast<size_t>(2 * rank + 1)] = 20 + rank;
    world.all_gather(parts);
    report.equal(std::vector<int64_t>{10, 20, 11, 21}, parts, "all_gather");
    for (int64_t& part : parts) part += rank;
    world.reduce_scatter(parts);
    report.equal(rank == 0 ? 21 : 23, parts[static_cast<size_t>(2 * rank)], "reduce_scatter");
    SharedBuffer<float> shared(2);
    shared[0] = static_cast<float>(rank), shared[1] = static_cast<float>(10 + rank);
    world.reduce(shared, 0, ReduceOp::avg);
    report.equal(rank == 0 ? 10.5F : 11.F, shared[1], "reduce");
    world.all_reduce(shared, world.scaled_sum(2));
    report.equal(43.F, shared[1], "a scaled sum");
    std::vector<uint8_t> bytes{static_cast<uint8_t>(rank), static_cast<uint8_t>(rank + 10)};
    world.all_to_all(bytes);
    report.equal(static_cast<uint8_t>(10 * rank + 1), bytes[1], "all_to_all");
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

TEST(Collectives, AddUpRowsOfSparseTables) {
  const Body body = [](Communicator& world, Report& report) {
    const int64_t rank = world.rank();
    SparseTable table(world, {.rows = 100, .width = 2, .way = SparseWay::shards});
    const std::vector<int64_t> rows{7 + rank, 99, 99};
    const std::vector<float> values{1, 2, 3, 4, 5, 6};
    const SparseSum sum = table.all_reduce(rows, values);
    report.equal(std::vector<int64_t>{7, 8, 99}, std::vector<int64_t>(sum.rows.begin(), sum.rows.end()), "rows");
    report.equal(std::vector<float>{1, 2, 1, 2, 16, 20}, std::vector<float>(sum.values.begin(), sum.values.end()),
                 "sums");
    report.equal(true, table.last_way() == SparseWay::shards, "the way");
    report.equal(size_t{0}, table.residual().size(), "what is kept");
    SparseTable coded(world, {.rows = 100, .width = 2, .codec = "int8"});
    coded = std::move(coded);
    report.equal(size_t{200}, coded.residual().size(), "what codes lose");
    try {
      table.all_reduce(rows, std::vector<float>(5));
      report.text += "took 5 values";
    } catch (const Error& error) {
      report.equal(ErrorCode::invalid_argument, error.code(), "5 values");
    }
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

// On one host without loss, by TCP with what is lost in the residuals.
TEST(Collectives, GoInCodes) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank();
    std::vector<float> values(1000, rank == 0 ? 1.F : 2.F);
    values[0] = 127;  // so that a step is 1
    values[1] = rank == 0 ? 0.25F : 0.F;
    Residual residual(values.size());
    world.all_reduce(Coded(values, "int8"), world.feedback_sum(residual));
    report.equal(254.F, values[0], "the largest");
    const float kept = residual.values()[1];
    std::vector<float> all{kept};
    world.all_reduce(all);
    report.equal(0.25F, values[1] + all[0], "a value and what was lost of it");
    std::vector<float> parts(2, static_cast<float>(rank));
    world.all_gather(Coded(parts, "bfloat16"));
    report.equal(1.F, parts[1], "all_gather");
    const std::vector<float> sent{3.F + static_cast<float>(rank)};
    std::vector<float> result(1);
    world.start().all_reduce(Coded(sent, "float16"), result, ReduceOp::avg).wait();
    report.equal(3.5F, result[0], "an average");
    try {
      Coded(values, "int9");
      report.text += "int9 is no code";
    } catch (const Error& error) {
      report.equal(ErrorCode::invalid_argument, error.code(), error.what());
    }
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

TEST(Collectives, TakeAsManyElementsFromEachRankAsTheyAreTold) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank();
    const std::vector<size_t> counts{1, 2, 3};
    const std::vector<int> own = numbers(counts[static_cast<size_t>(rank)], 10 * rank);
    std::vector<int> all(6), part(own.size());
    world.all_gather_v(own, all, counts);
    report.equal(std::vector<int>{0, 10, 11, 20, 21, 22}, all, "all_gather_v");
    world.reduce_scatter_v(all, part, counts);
    report.equal(3 * own[0], part[0], "reduce_scatter_v");
    // Rank r sends r + 1 elements to each.
    const auto each = static_cast<size_t>(rank + 1);
    const std::vector<size_t> sent(3, each);
    std::vector<int> received(6);
    const std::vector<int> send = numbers(3 * each, 100 * rank);
    world.all_to_all_v(send, sent, received, counts);
    report.equal(100 + 2 * rank, received[1], "all_to_all_v");
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Collectives, RefuseBuffersThatDoNotFit) {
  Communicator alone = Communicator::join(make_unique_id(), 1, 0);
  std::vector<int> three(3), four(4);
  const auto refusal = [](const std::function<void()>& call) -> std::string {
    try {
      call();
    } catch (const Error& error) {
      return error.code() == ErrorCode::invalid_argument ? error.what() : "another code";
    }
    return "accepted";
  };
  EXPECT_EQ(refusal([&] { alone.all_reduce(three, four); }), "all_reduce: a buffer has 4 elements, and must have 3");
  EXPECT_THAT(refusal([&] { alone.all_gather_v(three, three, std::array<size_t, 1>{4}); }),
              HasSubstr("the part of rank 0 ends at 4, and the buffer at 3"));
  EXPECT_THAT(refusal([&] { alone.broadcast(three, 1); }), HasSubstr("rank 1 does not exist"));
}

template <typename Buffer>
concept Sendable = requires(Communicator world, Buffer&& buffer) {
  world.send(std::forward<Buffer>(buffer), 0);
};
static_assert(Sendable<std::vector<int>&> && Sendable<const std::array<float, 3>&> &&
              Sendable<std::span<const double>>);
static_assert(!Sendable<std::vector<int>> && !Sendable<std::vector<bool>&> && !Sendable<std::vector<std::string>&>);

TEST(Requests, GoOnInTheBackgroundAndCanBeWaitedForTogether) {
  const Body body = [](Communicator& world, Report& report) {
    std::vector<std::vector<int>> values;
    for (int i = 0; i < 5; ++i) values.push_back(numbers(1000, i + world.rank()));
    std::vector<Request> requests;
    for (std::vector<int>& value : values) requests.push_back(world.start().all_reduce(value));
    const auto first = Request::wait_any(requests);
    report.equal(true, first.has_value(), "wait_any");
    Request::wait_all(requests);
    for (int i = 0; i < 5; ++i) report.equal(3 * (i + 999) + 3, values[static_cast<size_t>(i)][999], "sum");
    report.equal(false, Request::wait_any(requests).has_value(), "nothing under way");
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Messages, AreToldApartByTheirTags) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank(), size = world.size();
    std::vector<int> got(2);
    if (rank == 0) {
      for (int i = 1; i < size; ++i) {
        const int from = world.recv(got, kAnyRank, 7);
        report.equal(std::vector<int>{from, 7}, got, "from any");
      }
      for (int peer = 1; peer < size; ++peer) {
        report.equal(peer, world.recv(got, peer, 3), "source");
        report.equal(std::vector<int>{peer, 3}, got, "with tag 3, sent first");
      }
    } else {
      const std::array<int, 2> first{rank, 3}, second{rank, 7};
      Request early = world.start().send(first, 0, 3);
      world.send(second, 0, 7);
    }
    const std::array<int, 2> own{rank, rank}, last{rank, 9};
    const int next = (rank + 1) % size, previous = (rank + size - 1) % size;
    const int from = world.send_recv(own, next, got, previous);
    report.equal(previous, from, "ring");
    report.equal(std::vector<int>{from, from}, got, "ring");
    Request later = world.start().recv(got, next, 9);
    report.equal(false, later.wait_for(1ms), "too early");
    world.barrier();
    group([&] { world.send(last, previous, 9); });
    later.wait();
    report.equal(std::vector<int>{next, 9}, got, "later");
    report.equal(next, later.source(), "source of a request");
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Communicators, AreSplitAndShrunk) {
  const Body body = [](Communicator& world, Report& report) {
    const int rank = world.rank();
    std::optional<Communicator> part = world.split(rank == 2 ? -1 : 0, -rank, {.name = "part"});
    report.equal(rank != 2, part.has_value(), "split");
    if (part) {
      report.equal(1 - rank, part->rank(), "order by key");
      report.equal(std::string("part"), part->name(), "name");
      std::vector<int> done{1};
      part->all_reduce(done);  // so that nobody shrinks `world` while another one is still in its split
    }
    const std::vector<int> excluded{2};
    if (rank == 2) return;
    Communicator smaller = world.shrink(excluded);
    report.equal(2, smaller.size(), "shrunk");
    report.equal(true, world.error().has_value(), "the old one is in error");
    std::vector<int> one{1};
    smaller.all_reduce(one);
    report.equal(2, one[0], "the new one works");
  };
  EXPECT_THAT(run_ranks(3, body), Each(""));
}

TEST(Joining, IsGivenUpByAStopToken) {
  const c::MeetingPlace place;
  std::stop_source stop;
  std::jthread stops([&] {
    std::this_thread::sleep_for(200ms);
    stop.request_stop();
  });
  try {
    Communicator::join(place.url(), 2, 0, {.stop = stop.get_token()});
    FAIL() << "alone of two";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::aborted);
    EXPECT_THAT(error.what(), HasSubstr("gave up joining"));
  }
}

TEST(Errors, NameWhoIsLateWithinTheTimeout) {
  const Body body = [](Communicator& world, Report& report) {
    world.set_timeout(400ms);
    if (world.rank() == 1) {
      usleep(900'000);
      return;
    }
    const auto begin = std::chrono::steady_clock::now();
    try {
      world.barrier();
      report.text += "no error";
    } catch (const Error& error) {
      report.equal(true, error.code() == ErrorCode::timed_out, "code");
      report.equal(true, std::string(error.what()).find("rank 1 has not called barrier #1") != std::string::npos,
                   error.what());
    }
    report.equal(true, std::chrono::steady_clock::now() - begin >= 400ms, "not before");
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

TEST(Errors, OfARankThatThrowsReachTheOthersAtOnce) {
  const Body body = [](Communicator& world, Report& report) {
    try {
      Communicator own = *world.split(0, world.rank());
      if (world.rank() == 1) throw std::runtime_error("trouble of its own");
      own.barrier();
      report.text += "no error";
    } catch (const Error& error) {
      report.equal(true, error.code() == ErrorCode::aborted, error.what());
    } catch (const std::runtime_error&) {
    }
  };
  EXPECT_THAT(run_ranks(2, body), Each(""));
}

}  // namespace
}  // namespace banyan
