#include "bindings/c/test_lab_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace banyan::c {
namespace {

constexpr size_t kLarge = 100'000, kExchanged = 5'000, kSmall = 8, kPassed = 50'000;
// So that several labs at a time leave each other room.
constexpr std::chrono::milliseconds kPause{10};

// Sums of them are exact.
float value_of(size_t rank, size_t call, size_t position) {
  return static_cast<float>((position + call * 13 + rank * (position % 5 + 1)) % 97);
}
uint32_t word_of(size_t from, size_t to, size_t call, size_t position) {
  return static_cast<uint32_t>(position * 31 + from * 1'000'003 + to * 17 + call * 7);
}

class Calls {
 public:
  Calls(banyan_comm_t comm, LabShared& shared, int rank)
      : comm_(comm), shared_(shared), report_(shared.reports[rank]), rank_(static_cast<size_t>(rank)) {
    int size = 0;
    banyan_comm_count(comm, &size);
    size_ = static_cast<size_t>(size);
    sent_.resize(kExchanged * size_);
    received_.resize(kExchanged * size_);
  }

  void run() {
    while (!report_.is_over) {
      if (!reduces(kLarge, false) || !reduces(kLarge, true) || !exchanges() || !exchanges_unevenly() ||
          !passes(kSmall) || !passes(kPassed) || !hears_whether_over()) {
        return;
      }
      std::this_thread::sleep_for(kPause);
    }
  }

 private:
  bool reduces(size_t count, bool is_in_place) {
    for (size_t i = 0; i < count; ++i) values_[i] = value_of(rank_, call_, i);
    if (is_in_place) sums_ = values_;
    if (!is_fine(banyan_all_reduce(is_in_place ? sums_.data() : values_.data(), sums_.data(), count, BANYAN_FLOAT32,
                                   BANYAN_SUM, comm_, nullptr))) {
      return false;
    }
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (size_t rank = 0; rank < size_; ++rank) sum += value_of(rank, call_, i);
      if (sums_[i] != sum) return is_wrong("allreduce", i, 0);
    }
    return is_right();
  }

  bool exchanges() {
    for (size_t i = 0; i < sent_.size(); ++i) sent_[i] = word_of(rank_, i / kExchanged, call_, i % kExchanged);
    if (!is_fine(banyan_all_to_all(sent_.data(), received_.data(), kExchanged, BANYAN_UINT32, comm_, nullptr))) {
      return false;
    }
    for (size_t i = 0; i < received_.size(); ++i) {
      if (received_[i] != word_of(i / kExchanged, rank_, call_, i % kExchanged)) {
        return is_wrong("all-to-all", i % kExchanged, i / kExchanged);
      }
    }
    return is_right();
  }

  // Nothing, or up to kExchanged words.
  size_t words_between(size_t from, size_t to) const { return (from * 7 + to * 3 + call_) % 4 * (kExchanged / 3); }

  bool exchanges_unevenly() {
    std::vector<size_t> sends, comes;
    size_t at = 0;
    for (size_t peer = 0; peer < size_; ++peer) {
      sends.push_back(words_between(rank_, peer));
      comes.push_back(words_between(peer, rank_));
      for (size_t i = 0; i < sends.back(); ++i) sent_[at++] = word_of(rank_, peer, call_, i);
    }
    if (!is_fine(banyan_all_to_all_v(sent_.data(), sends.data(), nullptr, received_.data(), comes.data(), nullptr,
                                     BANYAN_UINT32, comm_, nullptr))) {
      return false;
    }
    at = 0;
    for (size_t peer = 0; peer < size_; ++peer) {
      for (size_t i = 0; i < comes[peer]; ++i) {
        if (received_[at++] != word_of(peer, rank_, call_, i)) return is_wrong("all-to-allv", i, peer);
      }
    }
    return is_right();
  }

  // A message to the next rank, and one from the rank before.
  bool passes(size_t count) {
    const size_t next = (rank_ + 1) % size_, before = (rank_ + size_ - 1) % size_;
    std::vector<uint32_t> sent(count), received(count);
    for (size_t i = 0; i < count; ++i) sent[i] = word_of(rank_, next, call_, i);
    banyan_request_t request = nullptr;
    const int to = static_cast<int>(next), from = static_cast<int>(before);
    if (!is_fine(banyan_send(sent.data(), count, BANYAN_UINT32, to, comm_, &request))) return false;
    const bool is_received = is_fine(banyan_recv(received.data(), count, BANYAN_UINT32, from, comm_, nullptr));
    const banyan_result_t is_sent = banyan_wait(&request);
    if (!is_received || !is_fine(is_sent)) return false;
    for (size_t i = 0; i < count; ++i) {
      if (received[i] != word_of(before, rank_, call_, i)) return is_wrong("message", i, before);
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
  std::vector<float> values_ = std::vector<float>(kLarge), sums_ = std::vector<float>(kLarge);
  std::vector<uint32_t> sent_, received_;
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
