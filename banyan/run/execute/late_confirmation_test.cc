// Calls that are over at a rank before they are confirmed: what they cost, and that no loss of connections, at any
// moment, leaves a rank without the result that another one has.
#include <sys/socket.h>

#include <deque>
#include <iostream>
#include <mutex>

#include "banyan/run/execute/test_executors.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

// Connections of two sockets, between which bytes are held for a while, each way on its own, and lost when one is cut.
class Relays {
 public:
  explicit Relays(uint64_t seed) : random_(seed), thread_([this] { run(); }) {}
  ~Relays() {
    is_over_ = true;
    thread_.join();
  }
  Relays(const Relays&) = delete;
  Relays& operator=(const Relays&) = delete;

  std::array<FileDescriptor, 2> connect() {
    std::array<FileDescriptor, 2> first = Switchboard::make_local_pair(), second = Switchboard::make_local_pair();
    const std::lock_guard lock(mutex_);
    relays_.push_back({.ends = {std::move(first[1]), std::move(second[1])}});
    return {std::move(first[0]), std::move(second[0])};
  }
  // Of those that stand, any.
  void cut() {
    const std::lock_guard lock(mutex_);
    if (!relays_.empty()) relays_.erase(relays_.begin() + static_cast<ptrdiff_t>(random_() % relays_.size()));
  }

 private:
  struct Relay {
    std::array<FileDescriptor, 2> ends;
    std::array<std::vector<char>, 2> held = {};  // that came from this end
    std::array<Clock::time_point, 2> until = {};
  };

  void run() {
    while (!is_over_) {
      {
        const std::lock_guard lock(mutex_);
        std::erase_if(relays_, [&](Relay& relay) { return !move(relay, 0) || !move(relay, 1); });
      }
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  }

  // False when it has ended.
  bool move(Relay& relay, size_t from) {
    std::vector<char>& held = relay.held[from];
    if (held.empty()) {
      held.resize(16 << 10);
      const ssize_t count = recv(relay.ends[from].get(), held.data(), held.size(), MSG_DONTWAIT);
      held.resize(static_cast<size_t>(std::max<ssize_t>(count, 0)));
      if (count == 0) return false;
      relay.until[from] = Clock::now() + std::chrono::microseconds(random_() % 4 == 0 ? random_() % 500 : 0);
    }
    if (held.empty() || Clock::now() < relay.until[from]) return true;
    const ssize_t sent = send(relay.ends[1 - from].get(), held.data(), held.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
    if (sent > 0) held.erase(held.begin(), held.begin() + sent);
    return true;
  }

  std::atomic<bool> is_over_{false};
  std::mutex mutex_;  // protects what follows
  std::mt19937_64 random_;
  std::deque<Relay> relays_;
  std::thread thread_;
};

// A call of any rank, in buffers that are spoilt when it is over. What it gives is remembered bit for bit: sums of
// these floats depend on the order of adding.
struct AnyCall {
  AnyCall(uint32_t rank, uint32_t ranks, uint64_t number, uint64_t seed) {
    std::mt19937_64 random(seed * 1000 + number);
    const std::array kinds{OperationKind::all_reduce, OperationKind::all_reduce, OperationKind::all_gather,
                           OperationKind::barrier, OperationKind::reduce_scatter};
    const std::array<size_t, 4> counts{1, 3, 700, 20'000};
    kind = kinds[random() % kinds.size()];
    const size_t count = kind == OperationKind::barrier ? 0 : counts[random() % counts.size()];
    const bool is_in_place = random() % 2 == 0 && kind == OperationKind::all_reduce;
    const size_t sent = kind == OperationKind::reduce_scatter ? count * ranks : count;
    const size_t received = kind == OperationKind::all_gather ? count * ranks : count;
    in.resize(is_in_place ? 0 : sent);
    out.resize(received);
    std::vector<float>& input = is_in_place ? out : in;
    const auto value = [&](uint32_t of, size_t at) {
      return static_cast<float>(number % 97) + 0.1f * static_cast<float>(at % 89) + 1e-3f * static_cast<float>(of * of);
    };
    for (size_t i = 0; i < sent; ++i) input[i] = value(rank, i);
    expected.resize(received);
    for (size_t i = 0; i < received; ++i) {
      if (kind == OperationKind::all_gather) {
        expected[i] = value(static_cast<uint32_t>(i / count), i % count);
        continue;
      }
      const size_t at = kind == OperationKind::reduce_scatter ? rank * count + i : i;
      for (uint32_t of = 0; of < ranks; ++of) expected[i] += value(of, at);
    }
    call = {.kind = kind,
            .type = element::DataType::float32,
            .send = reinterpret_cast<const std::byte*>(input.data()),
            .recv = reinterpret_cast<std::byte*>(out.data()),
            .count = count};
  }
  bool is_right() const {
    for (size_t i = 0; i < out.size(); ++i) {
      if (std::abs(out[i] - expected[i]) > 1e-5f * std::abs(expected[i])) return false;
    }
    return true;
  }
  // The result; and the buffers are used for something else.
  std::vector<float> take() {
    std::vector<float> result = out;
    std::fill(in.begin(), in.end(), -1e30f);
    std::fill(out.begin(), out.end(), -1e30f);
    return result;
  }
  OperationKind kind;
  std::vector<float> in, out, expected;
  Call call;
};

struct Settings {
  uint32_t ranks = 2;
  uint64_t calls = 200, seed = 1;
  size_t in_flight = 1;
  bool has_pauses = false, wishes = false;
};

// One rank: "", or what is wrong. Its results, by call.
std::string play(Ranks& ranks, uint32_t rank, const Settings& settings, std::vector<std::vector<float>>& results,
                 std::atomic<uint32_t>& settled, std::atomic<uint64_t>& ended) {
  NetExecutor& executor = *ranks.executors[rank];
  std::mt19937_64 random(settings.seed * 77 + rank);
  Impatient watch;
  std::deque<AnyCall> calls;
  for (uint64_t number = 0; number < settings.calls || !calls.empty();) {
    if (number < settings.calls && calls.size() < settings.in_flight) {
      AnyCall& next = calls.emplace_back(rank, settings.ranks, number++, settings.seed);
      if (settings.wishes && number % 23 == rank) executor.propose({.bytes_per_second = {{rank, number}}});
      executor.start(next.call, numbers_of(next.call));
      continue;
    }
    executor.finish(watch);
    if (!calls.front().is_right()) return "call " + std::to_string(number) + " or so is wrong";
    results.push_back(calls.front().take());
    calls.pop_front();
    ++ended;
    if (settings.has_pauses && random() % 3 == 0) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 300));
      executor.poll();
    }
  }
  // Others may want something of it until they are through.
  bool is_settled = false;
  const auto are_settled = [&] {
    executor.poll();
    const bool is = !executor.is_unsettled() && !executor.poll_at();
    if (is != is_settled) settled += is ? 1 : UINT32_MAX;
    is_settled = is;
    return settled == settings.ranks;
  };
  while (!are_settled()) {
    watch.waiting_for(rank);
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  return executor.unconfirmed() == 0 ? "" : "calls are not confirmed";
}

// How many calls were over at a rank and not at another when connections were lost.
uint32_t play_with_losses(const Settings& settings) {
  SCOPED_TRACE("seed " + std::to_string(settings.seed));
  Relays relays(settings.seed);
  Switchboard board([&] { return relays.connect(); });
  Ranks ranks({.ranks = settings.ranks, .has_kinds = true, .confirms_late = true, .board = &board});
  std::atomic<bool> is_over{false};
  std::atomic<uint64_t> ended{0};  // calls, at any rank
  // What is cut again before any call has ended is made again after longer and longer pauses.
  std::thread cutter([&] {
    std::mt19937_64 random(settings.seed);
    for (uint64_t before = 0; !is_over;) {
      std::this_thread::sleep_for(std::chrono::microseconds(random() % 3000));
      if (ended == before) continue;
      before = ended;
      relays.cut();
    }
  });
  std::vector<std::vector<std::vector<float>>> results(settings.ranks);
  std::atomic<uint32_t> settled{0};
  EXPECT_THAT(ranks.run([&](uint32_t rank) {
    std::string report = play(ranks, rank, settings, results[rank], settled, ended);
    is_over = true;
    return report;
  }),
              Each(""));
  is_over = true;
  cutter.join();
  if (::testing::Test::HasFailure()) return 0;
  uint32_t shared = 0;
  for (uint32_t rank = 0; rank < settings.ranks; ++rank) {
    shared += ranks.executors[rank]->shared();
    for (uint64_t number = 0; number < settings.calls; ++number) {
      const AnyCall call(0, settings.ranks, number, settings.seed);
      if (call.kind == OperationKind::reduce_scatter) continue;
      EXPECT_TRUE(results[rank].at(number) == results[0].at(number))
          << "call " << number << ", " << to_string(call.kind) << ": rank " << rank << " has other bits than rank 0";
    }
  }
  return shared;
}

TEST(LateConfirmations, LeaveNoRankWithoutAResultThatAnotherOneHas) {
  uint32_t shared = 0;
  uint64_t seed = 1;
  for (const uint32_t ranks : {2u, 3u, 5u}) {
    for (const size_t in_flight : {size_t{1}, size_t{3}}) {
      for (const bool wishes : {false, true}) {
        shared += play_with_losses({.ranks = ranks,
                                    .calls = 40,
                                    .seed = seed++,
                                    .in_flight = in_flight,
                                    .has_pauses = in_flight == 1,
                                    .wishes = wishes});
        if (HasFailure()) return;
      }
    }
  }
  std::cout << shared << " calls were over at one rank and not at another when a connection was lost" << std::endl;
  EXPECT_GT(shared, 0u);
}

}  // namespace
}  // namespace banyan::run
