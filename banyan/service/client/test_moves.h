// Ranks in one thread, by executors of a false service: a call is over when all ranks have begun the call of its number
// in the sessions of its generation, and yields the sum of what they have given. Texts come in any order, some twice.
#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>

#include "banyan/service/client/moving_executor.h"
#include "banyan/testing/test.h"

namespace banyan::service {

inline constexpr uint32_t kRanks = 3;
inline constexpr size_t kCount = 5;

// What the sessions of one generation have been given.
struct Sessions {
  std::vector<std::vector<run::Call>> calls = std::vector<std::vector<run::Call>>(kRanks);
  // By rank and call: copies, since a rank whose session fails takes its buffers along.
  std::vector<std::vector<std::vector<int64_t>>> inputs = std::vector<std::vector<std::vector<int64_t>>>(kRanks);
  std::vector<std::vector<int64_t>> results;
  std::vector<size_t> over = std::vector<size_t>(kRanks);
  std::vector<size_t> messages = std::vector<size_t>(kRanks);
};

struct Service {
  std::mutex mutex;  // protects what follows
  std::condition_variable changed;
  std::map<uint32_t, Sessions> sessions;  // by generation
  size_t open = 0;
  using Place = std::pair<uint32_t, uint32_t>;  // generation and rank
  std::map<Place, SessionMover::Opening> openings;
  std::map<Place, std::string> broken;
  std::set<Place> alive;  // that are open
  bool denies_barriers = false;
};

class FalseExecutor : public run::Executor {
 public:
  FalseExecutor(Service& service, uint32_t rank, const SessionMover::Opening& opening)
      : service_(service), rank_(rank), generation_(opening.generation) {
    const std::lock_guard lock(service_.mutex);
    ++service_.open;
    service_.openings[{generation_, rank}] = opening;
    service_.alive.insert({generation_, rank});
  }
  ~FalseExecutor() override {
    const std::lock_guard lock(service_.mutex);
    --service_.open;
    service_.alive.erase({generation_, rank_});
  }
  size_t depth() const override { return 8; }
  void start(const run::Call& call, const run::CallNumbers&) override {
    const std::lock_guard lock(service_.mutex);
    if (service_.denies_barriers && call.kind == run::OperationKind::barrier) {
      throw Error(ErrorCode::invalid_usage, "the rules deny barriers");
    }
    own().calls[rank_].push_back(call);
    const auto* const input = reinterpret_cast<const int64_t*>(call.send);
    own().inputs[rank_].emplace_back(input, input + call.count);
    service_.changed.notify_all();
  }
  bool advance() override {
    const std::lock_guard lock(service_.mutex);
    if (const auto broken = service_.broken.find({generation_, rank_}); broken != service_.broken.end()) {
      throw Error(ErrorCode::peer_lost, broken->second);
    }
    Sessions& all = own();
    const size_t number = all.over[rank_];
    if (all.calls[rank_].size() == number) return true;
    for (const auto& calls : all.calls) {
      if (calls.size() <= number) return false;
    }
    const run::Call& call = all.calls[rank_][number];
    std::copy_n(result_of(number).begin(), call.count, reinterpret_cast<int64_t*>(call.recv));
    ++all.over[rank_];
    return true;
  }
  void finish(run::Watch& watch) override {
    while (!advance()) {
      watch.waiting_for(rank_);
      sleep([&] { return false; });
    }
  }
  uint64_t start_message(const run::Call&) override {
    const std::lock_guard lock(service_.mutex);
    return ++own().messages[rank_];
  }
  bool advance_messages(std::vector<MessageDone>& done) override {
    const std::lock_guard lock(service_.mutex);
    if (messages_done_ == own().messages[rank_]) return false;
    done.push_back({.ticket = ++messages_done_, .peer = 0});
    return true;
  }
  uint64_t steps() const override {
    const std::lock_guard lock(service_.mutex);
    return own().over[rank_];
  }
  uint32_t waiting_for() const override { return rank_; }
  bool can_do_without(uint32_t) const override { return false; }
  void sleep(const std::function<bool()>& try_again) override {
    if (try_again()) return;
    std::unique_lock lock(service_.mutex);
    service_.changed.wait_for(lock, milliseconds(1));
  }
  void wake() override { service_.changed.notify_all(); }
  run::BackOff back_off() const override { return run::BackOff(true); }
  void break_with(const Error& error) override {
    const std::lock_guard lock(service_.mutex);
    service_.broken[{generation_, rank_}] = error.message();
  }
  std::optional<Error> broken() const override {
    const std::lock_guard lock(service_.mutex);
    const auto found = service_.broken.find({generation_, rank_});
    if (found == service_.broken.end()) return std::nullopt;
    return Error(ErrorCode::peer_lost, found->second);
  }
  run::PlanReviser* reviser() override { return nullptr; }
  run::EventSource* events() override { return nullptr; }
  run::SentBytes sent_bytes() const override { return {.tcp = 10, .shared_memory = 0}; }

 private:
  Sessions& own() const { return service_.sessions[generation_]; }
  const std::vector<int64_t>& result_of(size_t number) {
    std::vector<std::vector<int64_t>>& results = own().results;
    if (number < results.size()) return results[number];
    std::vector<int64_t>& result = results.emplace_back(kCount);
    for (const auto& inputs : own().inputs) {
      for (size_t i = 0; i < inputs[number].size(); ++i) result[i] += inputs[number][i];
    }
    return result;
  }

  Service& service_;
  const uint32_t rank_, generation_;
  size_t messages_done_ = 0;
};

class Moves : public ::testing::Test {
 protected:
  struct Rank {
    std::unique_ptr<MovingExecutor> executor;
    std::deque<std::pair<std::vector<int64_t>, std::vector<int64_t>>> flights;  // given and got
    uint64_t begun = 0, over = 0, steps = 0;
  };
  void make_ranks(const std::function<void(uint32_t rank, MovingExecutor::Options&)>& change = {}) {
    for (uint32_t rank = 0; rank < kRanks; ++rank) {
      MovingExecutor::Options options{.rank = rank,
                                      .size = kRanks,
                                      .send = [this](const std::string& text) { tell(text); },
                                      .fail_peers = {},
                                      .open =
                                          [this, rank](const SessionMover::Opening& opening, const run::Deadline&) {
                                            return std::make_unique<FalseExecutor>(service_, rank, opening);
                                          },
                                      .first_pause = milliseconds(2),
                                      .longest_pause = milliseconds(4)};
      if (change) change(rank, options);
      ranks_[rank].executor =
          std::make_unique<MovingExecutor>(std::move(options), run::Deadline::after(std::chrono::seconds(10)));
    }
  }
  ~Moves() override {
    for (Rank& rank : ranks_) rank.executor.reset();
    EXPECT_EQ(service_.open, 0) << "sessions are left";
  }

  void tell(const std::string& text) {
    if (delivers_at_once_) {
      for (const Rank& rank : ranks_) {
        if (rank.executor) rank.executor->reviser()->receive(text);
      }
      return;
    }
    const std::lock_guard lock(mutex_);
    for (uint32_t rank = 0; rank < kRanks; ++rank) texts_.push_back({rank, text});
  }
  // One of those on their way, at times without taking it from there. False when there is none.
  bool deliver_any(std::mt19937& random) {
    std::pair<uint32_t, std::string> text;
    {
      const std::lock_guard lock(mutex_);
      if (texts_.empty()) return false;
      const size_t place = random() % texts_.size();
      text = texts_[place];
      if (random() % 8 != 0) texts_.erase(texts_.begin() + static_cast<ptrdiff_t>(place));
    }
    ranks_[text.first].executor->reviser()->receive(text.second);
    return true;
  }
  void succeed(uint32_t rank) {
    std::function<void()> hook;
    {
      const std::lock_guard lock(service_.mutex);
      hook = service_.openings.at({ranks_[rank].executor->generation_of_sessions(), rank}).succeeded;
    }
    hook();
  }
  static int64_t value(uint64_t call, uint32_t rank, size_t i) {
    return static_cast<int64_t>(call * 1000 + (rank + 1) * 17 * (i + 1));
  }
  void begin(uint32_t number) {
    Rank& rank = ranks_[number];
    auto& [given, got] = rank.flights.emplace_back(std::vector<int64_t>(kCount), std::vector<int64_t>(kCount));
    for (size_t i = 0; i < kCount; ++i) given[i] = value(rank.begun, number, i);
    ++rank.begun;
    const run::Call call{.kind = run::OperationKind::all_reduce,
                         .type = element::DataType::int64,
                         .send = reinterpret_cast<const std::byte*>(given.data()),
                         .recv = reinterpret_cast<std::byte*>(got.data()),
                         .count = kCount};
    rank.executor->start(call, run::numbers_of(call));
  }
  bool advance(uint32_t number) {
    Rank& rank = ranks_[number];
    const uint64_t steps = rank.executor->steps();
    EXPECT_GE(steps, rank.steps) << "steps go back";
    rank.steps = steps;
    if (rank.flights.empty() || !rank.executor->advance()) return false;
    expect_right(number);
    return true;
  }
  void expect_right(uint32_t number) {
    Rank& rank = ranks_[number];
    for (size_t i = 0; i < kCount; ++i) {
      int64_t sum = 0;
      for (uint32_t each = 0; each < kRanks; ++each) sum += value(rank.over, each, i);
      ASSERT_EQ(rank.flights.front().second[i], sum)
          << "rank " << number << ", call " << rank.over << ", element " << i;
    }
    rank.flights.pop_front();
    ++rank.over;
  }
  void poll_all() {
    for (const Rank& rank : ranks_) rank.executor->reviser()->poll();
  }
  template <typename Condition>
  void turn_until(const Condition& condition, std::mt19937& random) {
    const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    while (!condition()) {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << "nothing comes of it";
      if (!deliver_any(random)) std::this_thread::sleep_for(std::chrono::microseconds(100));
      poll_all();
    }
  }
  bool all_at(uint32_t generation) {
    return std::all_of(ranks_.begin(), ranks_.end(),
                       [&](const Rank& rank) { return rank.executor->generation_of_sessions() >= generation; });
  }
  size_t open() {
    const std::lock_guard lock(service_.mutex);
    return service_.open;
  }

  Service service_;
  std::vector<Rank> ranks_ = std::vector<Rank>(kRanks);
  std::mutex mutex_;  // protects texts_
  std::deque<std::pair<uint32_t, std::string>> texts_;
  bool delivers_at_once_ = false;
};

}  // namespace banyan::service
