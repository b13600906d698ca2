// Meetings of threads in a store of their process, which counts what it is asked.

#include <condition_variable>
#include <mutex>

#include "banyan/run/join/rendezvous.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Shared by all; what one waits for comes, however late this machine runs it.
struct Table {
  std::mutex mutex;  // protects `values`
  std::condition_variable changed;
  std::map<std::string, std::string> values;
  std::atomic<int> requests{0};
};

class CountingStore : public Store {
 public:
  explicit CountingStore(Table& table) : table_(table) {}

  void set(const std::string& key, const std::string& value, const Deadline& /*deadline*/) override {
    const auto lock = asked();
    table_.values[key] = value;
    table_.changed.notify_all();
  }
  std::string get(const std::string& key, const Deadline& /*deadline*/) override {
    auto lock = asked();
    const auto is_there = [&] { return table_.values.contains(key); };
    if (!table_.changed.wait_for(lock, std::chrono::minutes(1), is_there))
      throw Error(ErrorCode::io, key + " is missing");
    return table_.values.at(key);
  }
  std::optional<std::string> try_get(const std::string& key, const Deadline& /*deadline*/) override {
    const auto lock = asked();
    const auto found = table_.values.find(key);
    return found == table_.values.end() ? std::nullopt : std::optional(found->second);
  }
  int64_t add(const std::string& key, int64_t delta, const Deadline& /*deadline*/) override {
    const auto lock = asked();
    std::string& value = table_.values[key];
    value = add_to_counter(value.empty() ? std::nullopt : std::optional(value), delta);
    table_.changed.notify_all();
    return std::stoll(value);
  }
  void leave_will(const LastWill& /*will*/, const Deadline& /*deadline*/) override { asked(); }
  const std::string& place() const override { return place_; }

 private:
  std::unique_lock<std::mutex> asked() {
    ++table_.requests;
    return std::unique_lock(table_.mutex);
  }

  Table& table_;
  const std::string place_ = "the table";
};

// What each rank met or threw. Ranks with a trouble cannot come.
std::vector<std::string> ends_of(uint32_t size, Table& table, const std::map<uint32_t, Error>& troubles = {}) {
  std::vector<std::string> ends(size);
  std::vector<std::thread> ranks;
  for (uint32_t rank = 0; rank < size; ++rank) {
    ranks.emplace_back([&, rank] {
      CountingStore store(table);
      EndpointRecord own;
      own.rank = rank;
      own.member.pid = static_cast<int32_t>(1000 + rank);
      own.member.host_name = "node7";
      const auto found = troubles.find(rank);
      const auto trouble = found == troubles.end() ? std::nullopt : std::optional(found->second);
      try {
        const auto cards = meet(store, own, size, Deadline::after(std::chrono::minutes(1)), "", trouble);
        ends[rank] =
            std::to_string(cards.size()) + " cards, the last of process " + std::to_string(cards.back().member.pid);
      } catch (const Error& error) {
        ends[rank] = std::to_string(static_cast<int>(error.code())) + " " + error.what();
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return ends;
}

// Seven for each rank; one more, by whoever writes the verdict, for the card of each; and four for all.
TEST(Meeting, OfManyRanksTakesEightRequestsForEach) {
  for (const int size : {2, 64}) {
    Table table;
    EXPECT_THAT(ends_of(static_cast<uint32_t>(size), table),
                Each(std::to_string(size) + " cards, the last of process " + std::to_string(999 + size)));
    EXPECT_LE(table.requests, 8 * size + 4) << size << " ranks";
  }
}

TEST(Meeting, TellsAllWhoCannotComeAndWhy) {
  Table table;
  const Error trouble(ErrorCode::io, "it has no hands", "BANYAN_HANDS");
  EXPECT_THAT(ends_of(5, table, {{3, trouble}}),
              Each(std::to_string(static_cast<int>(ErrorCode::io)) +
                   " rank 3 (process 1003 on node7) cannot join: BANYAN_HANDS: it has no hands"));
}

TEST(Meeting, NamesOneOfSeveralWhoCannotCome) {
  Table table;
  std::map<uint32_t, Error> troubles;
  for (const uint32_t rank : {0u, 2u}) troubles.emplace(rank, Error(ErrorCode::not_found, "lost"));
  const std::vector<std::string> ends = ends_of(4, table, troubles);
  EXPECT_THAT(ends, Each(ends.front()));
  EXPECT_THAT(ends, Each(StartsWith(std::to_string(static_cast<int>(ErrorCode::not_found)) + " rank ")));
}

// One rank comes in each of the first waits, none in the others, and all are here with the last.
class SlowArrivals final : public CountingStore {
 public:
  SlowArrivals(Table& table, int with_one, int ranks) : CountingStore(table), left_(with_one), ranks_(ranks) {}
  std::string get(const std::string& key, const Deadline& deadline) override {
    ++waits;
    if (left_ > 0 && add("here", 1, deadline) == ranks_) return "";
    if (left_ > 0) --left_;
    throw Error(ErrorCode::timed_out, key);
  }
  int waits = 0;

 private:
  int left_;
  const int ranks_;
};

TEST(Latecomers, AreAwaitedAsLongAsTheyKeepComing) {
  const Deadline deadline = Deadline::after(std::chrono::minutes(1));
  Table all, some;
  SlowArrivals to_the_last(all, 5, 5), to_the_third(some, 3, 5);
  await_latecomers(to_the_last, std::chrono::seconds(2), deadline);
  EXPECT_EQ(to_the_last.waits, 5);
  await_latecomers(to_the_third, std::chrono::seconds(2), deadline);
  EXPECT_EQ(to_the_third.waits, 4) << "nobody came in the last one";
}

}  // namespace
}  // namespace banyan::run
