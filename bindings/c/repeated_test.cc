// Calls that a program makes again and again: each one takes the values that are in its buffers now, whatever the call
// before it was, and whichever of its parts (counts, factor, residual, address, root) differs from that.

#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

// Two buffers and what is done with them; every call is made three times, each time with other values.
class Repeater {
 public:
  Repeater(banyan_comm_t comm, int rank, int size, size_t count)
      : comm_(comm), rank_(rank), size_(size), count_(count), a_(all()), b_(all()) {}

  std::string run() {
    for (int round = 0; round < 6 && report_.empty(); ++round) {
      sum("sum", a_, b_, BANYAN_SUM, 1);
      sum("sum, back", b_, a_, BANYAN_SUM, 1);
      sum("sum, in place", a_, a_, BANYAN_SUM, 1);
      scaled_sum(a_, b_);
      sum("sum after a scaled one", a_, b_, BANYAN_SUM, 1);
      coded_sum();
      broadcast(round % size_);
      broadcast((round + 1) % size_);
      all_to_all_v(round);
    }
    return report_;
  }

 private:
  size_t all() const { return count_ * static_cast<size_t>(2 * size_); }
  float sample(int rank, size_t i) const {
    return static_cast<float>((static_cast<size_t>(calls_) * 31 + static_cast<size_t>(rank) * 17 + i) % 300);
  }
  void fill(std::vector<float>& values) {
    ++calls_;
    for (size_t i = 0; i < values.size(); ++i) values[i] = sample(rank_, i);
  }
  void expect(const char* what, const std::vector<float>& values, size_t i, float due) {
    if (values[i] == due || !report_.empty()) return;
    report_ = std::string(what) + ", call " + std::to_string(calls_) + ", element " + std::to_string(i) + ": " +
              std::to_string(values[i]) + " instead of " + std::to_string(due);
  }
  void expect_ok(banyan_result_t result) {
    if (result != BANYAN_SUCCESS && report_.empty()) report_ = banyan_last_error(comm_);
  }

  void sum(const char* what, std::vector<float>& from, std::vector<float>& to, banyan_op_t op, int factor) {
    for (int time = 0; time < 3; ++time) {
      fill(from);
      expect_ok(banyan_all_reduce(from.data(), to.data(), count_, BANYAN_FLOAT32, op, comm_, nullptr));
      for (size_t i = 0; i < count_; ++i) {
        float due = 0;
        for (int rank = 0; rank < size_; ++rank) due += sample(rank, i);
        expect(what, to, i, due * static_cast<float>(factor));
      }
    }
  }
  void scaled_sum(std::vector<float>& from, std::vector<float>& to) {
    for (const int factor : {2, 4, 2}) {
      banyan_op_t op = 0;
      expect_ok(banyan_op_create_premul_sum(&op, factor, comm_));
      sum("scaled sum", from, to, op, factor);
      expect_ok(banyan_op_destroy(op, comm_));
    }
  }
  // The residual is added to what is sent; the code holds these values, so that none is lost.
  void coded_sum() {
    banyan_residual_t residual = nullptr;
    banyan_op_t op = 0;
    expect_ok(banyan_residual_create(&residual, count_));
    expect_ok(banyan_op_create_feedback(&op, BANYAN_SUM, residual, comm_));
    float* kept = nullptr;
    size_t size = 0;
    for (int time = 0; time < 3; ++time) {
      fill(a_);
      expect_ok(banyan_residual_values(residual, &kept, &size));
      for (size_t i = 0; i < size; ++i) kept[i] = static_cast<float>(i % 7);
      expect_ok(banyan_all_reduce(a_.data(), b_.data(), count_, BANYAN_FLOAT32_AS_FLOAT16, op, comm_, nullptr));
      if (!report_.empty()) return;
      for (size_t i = 0; i < count_; ++i) {
        float due = 0;
        for (int rank = 0; rank < size_; ++rank) due += sample(rank, i) + static_cast<float>(i % 7);
        expect("sum with a residual", b_, i, due);  // whole numbers below 2048: float16 holds them
      }
    }
    expect_ok(banyan_op_destroy(op, comm_));
    expect_ok(banyan_residual_destroy(residual));
  }
  void broadcast(int root) {
    for (int time = 0; time < 3; ++time) {
      fill(a_);
      expect_ok(banyan_broadcast(a_.data(), b_.data(), count_, BANYAN_FLOAT32, root, comm_, nullptr));
      for (size_t i = 0; i < count_; ++i) expect("broadcast", b_, i, sample(root, i));
    }
  }
  // Rank a gives rank b `count` elements where a + b + shift is even, else twice as many: sums of counts are equal for
  // all shifts of an even number of ranks.
  void all_to_all_v(int round) {
    for (int shift = round; shift < round + 3; ++shift) {
      fill(a_);
      std::vector<size_t> counts;
      const auto count = [&](int from, int to) { return (from + to + shift) % 2 == 0 ? count_ : 2 * count_; };
      for (int peer = 0; peer < size_; ++peer) counts.push_back(count(rank_, peer));
      expect_ok(banyan_all_to_all_v(a_.data(), counts.data(), nullptr, b_.data(), counts.data(), nullptr,
                                    BANYAN_FLOAT32, comm_, nullptr));
      size_t at = 0;
      for (int peer = 0; peer < size_; ++peer) {
        size_t there = 0;
        for (int other = 0; other < rank_; ++other) there += count(peer, other);
        for (size_t i = 0; i < count(peer, rank_); ++i) expect("all-to-allv", b_, at++, sample(peer, there + i));
      }
    }
  }

  const banyan_comm_t comm_;
  const int rank_, size_;
  const size_t count_;
  std::vector<float> a_, b_;
  int calls_ = 0;
  std::string report_;
};

class Repeated : public ::testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(Calls, Repeated, ::testing::Values(1, 2, 4));

TEST_P(Repeated, CallsTakeWhatIsInTheirBuffersNow) {
  const int size = GetParam();
  const auto body = [&](banyan_comm_t comm, int rank) {
    std::string report;
    for (const size_t count : {1, 26, 27, 700}) report += Repeater(comm, rank, size, count).run();
    return report;
  };
  EXPECT_THAT(run_ranks(size, body), Each(""));
}

}  // namespace
}  // namespace banyan::c
