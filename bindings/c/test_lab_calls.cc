#include "bindings/c/test_lab_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "bindings/c/test_calls.h"

namespace banyan::c {
namespace {

constexpr size_t kLarge = 100'000, kExchanged = 5'000, kSmall = 8, kPassed = 50'000;
// So that several labs at a time leave each other room.
constexpr std::chrono::milliseconds kPause{10};

class Calls {
 public:
  Calls(banyan_comm_t comm, LabShared& shared, int rank)
      : comm_(comm), shared_(shared), report_(shared.reports[rank]), rank_(static_cast<size_t>(rank)) {
    int size = 0;
    banyan_comm_count(comm, &size);
    size_ = static_cast<size_t>(size);
  }

  void run() {
    using run::OperationKind;
    const auto ranks = static_cast<uint32_t>(size_);
    const testing::CallShape sum{.ranks = ranks, .count = kLarge};
    const testing::CallShape even{.kind = OperationKind::all_to_all, .ranks = ranks, .count = kExchanged};
    const auto pass = [&](size_t count) {
      return makes("message", {.kind = OperationKind::group, .ranks = ranks, .count = count});
    };
    while (!report_.is_over) {
      testing::CallShape uneven{.kind = OperationKind::all_to_all_v, .ranks = ranks};
      while (uneven.parts.size() < size_) {  // nothing, or up to kExchanged words
        uneven.parts.push_back((uneven.parts.size() * 3 + call_) % 4 * (kExchanged / 3));
      }
      if (!makes("allreduce", sum) || !makes("allreduce in place", sum, true) || !makes("all-to-all", even) ||
          !makes("all-to-allv", uneven) || !pass(kSmall) || !pass(kPassed) || !hears_whether_over()) {
        return;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  // What a rank sends in this call.
  uint32_t word_of(size_t from, size_t position) const {
    return static_cast<uint32_t>(position * 31 + from * 1'000'003 + call_ * 7);
  }

  bool makes(const char* what, const testing::CallShape& shape, bool is_in_place = false) {
    const auto rank = static_cast<uint32_t>(rank_);
    std::vector<uint32_t> sent(shape.sent(rank)), received(shape.received(rank));
    for (size_t i = 0; i < sent.size(); ++i) sent[i] = word_of(rank_, i);
    if (is_in_place) received = sent;
    const CallArguments of{
        .send = is_in_place ? received.data() : sent.data(), .recv = received.data(), .type = BANYAN_UINT32};
    if (!is_fine(make_call(shape, of, comm_))) return false;
    for (const testing::CallShape::Piece& piece : shape.pieces(rank)) {
      for (size_t i = 0; i < piece.count; ++i) {
        uint32_t due = 0;
        for (size_t from = 0; from < size_; ++from) {
          if (!piece.from || piece.from == from) due += word_of(from, piece.there + i);
        }
        if (received[piece.here + i] != due) return is_wrong(what, piece.here + i, piece.from.value_or(0));
      }
    }
    return is_right();
  }

  bool hears_whether_over() {
    std::vector<uint32_t> words(kSmall, static_cast<uint32_t>(call_ + rank_));
    words[0] = shared_.is_over ? 1 : 0;
    if (!is_fine(banyan_all_reduce(words.data(), words.data(), kSmall, BANYAN_UINT32, BANYAN_SUM, comm_, nullptr))) {
      return false;
    }
    for (size_t i = 1; i < kSmall; ++i) {
      if (words[i] != call_ * size_ + size_ * (size_ - 1) / 2) return is_wrong("small allreduce", i, 0);
    }
    report_.is_over = words[0] > 0;
    return is_right();
  }

  bool is_fine(banyan_result_t result) {
    if (result == BANYAN_SUCCESS) return true;
    report_.failed_at = lab_now();
    report_.result = result;
    snprintf(report_.text, sizeof report_.text, "%s", banyan_last_error(comm_));
    return false;
  }
  bool is_right() {
    ++call_;
    ++report_.calls;
    const int64_t now = lab_now();
    report_.longest = std::max<int64_t>(report_.longest, now - std::exchange(last_, now));
    return true;
  }
  bool is_wrong(const char* what, size_t position, size_t from) {
    snprintf(report_.wrong, sizeof report_.wrong, "%s, call %zu: wrong at %zu from %zu", what, call_, position, from);
    return false;
  }

  const banyan_comm_t comm_;
  LabShared& shared_;
  LabReport& report_;
  const size_t rank_;
  size_t size_ = 0, call_ = 0;
  int64_t last_ = lab_now();
};

}  // namespace

void join_and_call(LabShared& shared, int rank, const banyan_config_t& config) {
  LabReport& report = shared.reports[rank];
  banyan_comm_t comm = nullptr;
  const auto note = [&](const char* step, banyan_result_t result, const char* text) {
    if (result == BANYAN_SUCCESS || report.result != BANYAN_SUCCESS) return;  // the first counts
    report.failed_at = lab_now();
    report.result = result;
    report.is_over = false;
    snprintf(report.text, sizeof report.text, "%s: %s", step, text);
  };
  const banyan_result_t joined = banyan_comm_init_env(&comm, &config);
  note("joining", joined, banyan_last_error(nullptr));
  if (joined != BANYAN_SUCCESS) return;
  Calls(comm, shared, rank).run();
  banyan_comm_get_reroutes(comm, &report.reroutes);
  const banyan_result_t left = banyan_comm_destroy(comm);
  note("leaving", left, banyan_last_error(nullptr));
}

}  // namespace banyan::c
