// Requests between processes: calls back, the progress thread, time-outs of single calls, and closing.
#include <stdlib.h>

#include <condition_variable>
#include <mutex>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

class Requests : public ::testing::TestWithParam<Communicator::Progress>, protected testing::TemporaryFolder {
 protected:
  Requests() { setenv("BANYAN_RECORDER_DIR", folder_.c_str(), 1); }

  // What each of two ranks says of `body`: "right", or what is not.
  std::vector<std::string> run_ranks(const std::function<std::string(Communicator&)>& body) {
    return run_processes(2, seconds(60), [&](uint32_t rank) -> std::string {
      RegionPool pool;
      Communicator comm =
          Communicator::join(pool, {.url = "file://" + folder_ + "/meeting", .rank = rank, .size = 2, .name = {}},
                             {.timeout = seconds(20), .join_timeout = seconds(20), .progress = GetParam()});
      return body(comm);
    });
  }
};
INSTANTIATE_TEST_SUITE_P(By, Requests, ::testing::Values(Communicator::Progress::soon, Communicator::Progress::at_once),
                         [](const auto& test) {
                           return test.param == Communicator::Progress::soon ? "Soon" : "AtOnce";
                         });

// rank r's element i is (r + 1) * i + salt.
std::vector<int64_t> numbers(const Communicator& comm, size_t count, int64_t salt) {
  std::vector<int64_t> made(count);
  for (size_t i = 0; i < count; ++i) made[i] = (comm.rank() + 1) * static_cast<int64_t>(i) + salt;
  return made;
}
bool are_sums(const std::vector<int64_t>& sums, int64_t salt) {
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i] != 3 * static_cast<int64_t>(i) + 2 * salt) return false;
  }
  return true;
}
Call sum_of(std::vector<int64_t>& values) {
  auto* const bytes = reinterpret_cast<std::byte*>(values.data());
  return {.kind = OperationKind::all_reduce,
          .type = element::DataType::int64,
          .send = bytes,
          .recv = bytes,
          .count = values.size()};
}
Call receive_from(uint32_t rank, int64_t& value) {
  return {.kind = OperationKind::recv,
          .type = element::DataType::int64,
          .other = rank,
          .recv = reinterpret_cast<std::byte*>(&value),
          .count = 1};
}

class Signal {
 public:
  void give() {
    const std::lock_guard lock(mutex_);
    is_given_ = true;
    given_.notify_all();
  }
  bool wait() {
    std::unique_lock lock(mutex_);
    return given_.wait_for(lock, seconds(10), [&] { return is_given_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable given_;
  bool is_given_ = false;
};

TEST_P(Requests, GoOnWhenNobodyWaits) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                for (const size_t count : {size_t{3}, size_t{100'000}, size_t{1'000'000}}) {
                  std::vector<int64_t> values = numbers(comm, count, 5);
                  Signal signal;
                  const Request request = comm.start(sum_of(values));
                  request.on_done([&] { signal.give(); });
                  if (!signal.wait()) return "never done: " + std::to_string(count);
                  if (!are_sums(values, 5)) return "wrong";
                }
                return "right";
              }),
              Each("right"));
}

TEST_P(Requests, CallBackOnceAndAtOnceWhenOver) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                std::vector<int64_t> values = numbers(comm, 10, 1);
                std::atomic<int> before{0}, after{0};
                Request request = comm.start(sum_of(values));
                request.on_done([&] { ++before; });
                Request(request).wait();
                request.on_done([&] { ++after; });
                if (after != 1) return "not called back at once";
                comm.barrier();
                for (int i = 0; i < 1000 && before != 1; ++i) std::this_thread::sleep_for(milliseconds(1));
                return before == 1 && !request.error() ? "right" : "called back " + std::to_string(before) + " times";
              }),
              Each("right"));
}

TEST_P(Requests, CallsBackMayCallAndWait) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                std::vector<int64_t> first = numbers(comm, 100, 1), second = numbers(comm, 100'000, 2);
                Signal signal;
                const Request request = comm.start(sum_of(first));
                request.on_done([&] {
                  comm.start(sum_of(second)).wait();
                  signal.give();
                });
                request.progress_at_once();
                if (!signal.wait()) return "never done";
                return are_sums(first, 1) && are_sums(second, 2) ? "right" : "wrong";
              }),
              Each("right"));
}

// What a future does: its waiter sleeps until somebody else brings it about.
TEST_P(Requests, CallsBackMaySleepUntilAnotherCallIsDone) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                constexpr int kDeep = 3;
                std::vector<int64_t> values[kDeep + 1];
                for (int i = 0; i <= kDeep; ++i) values[i] = numbers(comm, 1000, i);
                Signal end;
                std::atomic<bool> is_right{true};
                std::function<void(int)> descend = [&](int depth) {
                  Signal signal;
                  const Request request = comm.start(sum_of(values[depth]));
                  request.on_done([&, depth] {
                    if (depth < kDeep) descend(depth + 1);
                    signal.give();
                  });
                  request.progress_at_once();
                  if (!signal.wait()) is_right = false;
                };
                descend(0);
                for (int i = 0; i <= kDeep; ++i) is_right = is_right && are_sums(values[i], i);
                return is_right ? "right" : "wrong";
              }),
              Each("right"));
}

TEST_P(Requests, StartsCallNobodyBack) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                std::mutex mutex;
                constexpr int kRounds = 200;
                std::vector<std::vector<int64_t>> values(2 * kRounds);
                Signal signal;
                int called_back = 0;  // under mutex
                for (int i = 0; i < 2 * kRounds; ++i) {
                  values[i] = numbers(comm, 4, i);
                  Request request;
                  {
                    const std::lock_guard lock(mutex);  // for which a call back would wait
                    request = comm.start(sum_of(values[i]));
                  }
                  request.on_done([&] {
                    const std::lock_guard lock(mutex);
                    if (++called_back == 2 * kRounds) signal.give();
                  });
                }
                comm.finalize();
                if (!signal.wait()) return "not called back";
                for (int i = 0; i < 2 * kRounds; ++i) {
                  if (!are_sums(values[i], i)) return "wrong";
                }
                return "right";
              }),
              Each("right"));
}

TEST_P(Requests, DrainsOfCallsButNotOfMessages) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                std::vector<int64_t> values = numbers(comm, 100'000, 3);
                int64_t value = 0;
                const Request message = comm.start(receive_from(1 - comm.rank(), value));
                const Request call = comm.start(sum_of(values));
                comm.drain(seconds(10));
                if (!are_sums(values, 3) || call.error()) return "not drained";
                if (message.is_over()) return "the message is over";
                comm.barrier();
                const int64_t mine = 7;
                comm.run({.kind = OperationKind::send,
                          .type = element::DataType::int64,
                          .other = 1 - comm.rank(),
                          .send = reinterpret_cast<const std::byte*>(&mine),
                          .count = 1});
                Request(message).wait();
                return value == 7 ? "right" : "wrong";
              }),
              Each("right"));
}

TEST_P(Requests, WaitsMayBeShorterThanTheCall) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                std::vector<int64_t> values = numbers(comm, 10, 1);
                if (comm.rank() == 1) {
                  std::this_thread::sleep_for(milliseconds(400));
                  comm.run(sum_of(values));
                } else {
                  Request request = comm.start(sum_of(values));
                  const Clock::time_point begin = Clock::now();
                  if (request.wait_for(milliseconds(50))) return "done before the other had come";
                  const auto waited = Clock::now() - begin;
                  if (waited < milliseconds(50) || waited > milliseconds(300)) return "waited for another time";
                  if (!request.wait_for(seconds(10))) return "never done";
                }
                return are_sums(values, 1) ? "right" : "wrong";
              }),
              Each("right"));
}

TEST_P(Requests, CallsHaveTimeOutsOfTheirOwn) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                if (comm.rank() == 1) {
                  while (!comm.error()) std::this_thread::sleep_for(milliseconds(10));
                  return "right";
                }
                std::vector<int64_t> values = numbers(comm, 10, 1);
                Call call = sum_of(values);
                call.timeout = milliseconds(300);
                Request request = comm.start(call);
                Signal signal;
                request.on_done([&] { signal.give(); });
                const Clock::time_point begin = Clock::now();
                try {
                  Request(request).wait();
                  return "did not fail";
                } catch (const Error& error) {
                  if (error.code() != ErrorCode::timed_out) return error.what();
                }
                if (!signal.wait() || !request.error()) return "failures are not told";
                return Clock::now() - begin < seconds(5) ? "right" : "late";
              }),
              Each("right"));
}

TEST_P(Requests, MessagesThatNobodyWaitsForMayBeLate) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                Communicator hasty = *comm.split(0, 0, {.timeout = milliseconds(200), .progress = GetParam()});
                int64_t value = 0;
                if (hasty.rank() == 0) {
                  Request request = hasty.start(receive_from(1, value));
                  std::this_thread::sleep_for(milliseconds(700));
                  if (request.is_over()) return "over before it was sent";
                  if (!request.wait_for(seconds(10))) return "never came";
                  return value == 42 && request.peer() == 1 ? "right" : "wrong";
                }
                std::this_thread::sleep_for(milliseconds(1000));
                value = 42;
                hasty.run({.kind = OperationKind::send,
                           .type = element::DataType::int64,
                           .other = 0,
                           .send = reinterpret_cast<const std::byte*>(&value),
                           .count = 1});
                return "right";
              }),
              Each("right"));
}

TEST_P(Requests, WhoClosesWithAMessageOpenHarmsNobody) {
  EXPECT_THAT(run_ranks([](Communicator& comm) -> std::string {
                Communicator other = *comm.split(0, 0, {.progress = GetParam()});
                int64_t value = 0;
                if (other.rank() == 0) {
                  const Request request = other.start(receive_from(1, value));
                  other.close();
                  if (!request.error() || request.error()->code() != ErrorCode::aborted) return "not aborted";
                  try {
                    other.barrier();
                    return "a closed communicator works";
                  } catch (const Error& error) {
                    if (error.code() != ErrorCode::aborted) return error.what();
                  }
                }
                comm.barrier();
                if (other.rank() == 1 && other.error()) return other.error()->what();
                comm.barrier();
                return "right";
              }),
              Each("right"));
}

}  // namespace
}  // namespace banyan::run
