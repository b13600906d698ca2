// tenant: what a tenant of the service does, for bench/service: it computes for a while and sums a buffer over all
// ranks, again and again, until its time is over, or for a number of steps. Two buffers take turns, in memory of
// banyan_mem_alloc. To compute is to check the last sum and to sleep for the rest of the time. Rank 0 writes a line for
// each step: when it ended, in seconds of the clock of this machine, and how long its communication took.
//
//   tenant --bytes 4194304 --compute 0.138 --begin 1790000000.5 --seconds 20 > steps
//   tenant --bytes 335544 --compute 0.006 --begin 1790000000.5 --steps 1501 > steps
//
// Every sum is checked. Exit status 1: one was wrong, or a call failed.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "banyan/banyan.h"

namespace {

using Clock = std::chrono::system_clock;  // which the processes of a machine share

double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

void sleep_until(double moment) {
  std::this_thread::sleep_until(
      Clock::time_point(std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(moment))));
}

struct Work {
  size_t bytes = 4 << 20;
  double compute = 0, begin = 0, seconds = 10;
  int communicators = 1;  // used in turn, all at once
  int steps = 0;          // 0: as many as there is time for
};

// Floats in memory of banyan_mem_alloc.
class Buffer {
 public:
  explicit Buffer(size_t count) : count_(count) {
    void* memory = nullptr;
    if (banyan_mem_alloc(&memory, count * sizeof(float)) != BANYAN_SUCCESS) throw std::bad_alloc();
    floats_ = static_cast<float*>(memory);
  }
  ~Buffer() { banyan_mem_free(floats_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  size_t size() const { return count_; }
  float* data() { return floats_; }
  float& operator[](size_t at) { return floats_[at]; }
  float operator[](size_t at) const { return floats_[at]; }
  float& back() { return floats_[count_ - 1]; }

 private:
  const size_t count_;
  float* floats_ = nullptr;
};

// The value of a rank at a place: small whole numbers, so that sums of floats are exact.
float value_of(int rank, size_t at, int step) {
  return static_cast<float>((static_cast<size_t>(rank) * 7 + at * 3 + static_cast<size_t>(step)) % 64);
}

class Tenant {
 public:
  explicit Tenant(const Work& work)
      : work_(work),
        values_{Buffer(work.bytes / sizeof(float)), Buffer(work.bytes / sizeof(float))},
        sums_(work.bytes / sizeof(float)) {}
  // Whether all went well.
  bool run();

 private:
  bool succeeds(banyan_result_t result, const char* what) const;
  bool join();
  bool step(int number, bool& is_over);
  bool is_right(int number) const;

  const Work work_;
  std::vector<banyan_comm_t> comms_;
  int rank_ = 0, size_ = 1;
  double computes_since_ = 0;
  Buffer values_[2];  // of even steps, and of odd ones
  Buffer sums_;
};

bool Tenant::succeeds(banyan_result_t result, const char* what) const {
  if (result == BANYAN_SUCCESS) return true;
  std::fprintf(stderr, "rank %d: %s: %s\n", rank_, what, banyan_last_error(comms_.empty() ? nullptr : comms_.front()));
  return false;
}

bool Tenant::join() {
  banyan_comm_t first = nullptr;
  if (!succeeds(banyan_comm_init_env(&first, nullptr), "join")) return false;
  comms_.push_back(first);
  banyan_comm_user_rank(first, &rank_);
  banyan_comm_count(first, &size_);
  while (comms_.size() < static_cast<size_t>(work_.communicators)) {
    banyan_comm_t more = nullptr;
    if (!succeeds(banyan_comm_split(first, 0, rank_, &more, nullptr), "split")) return false;
    comms_.push_back(more);
  }
  return true;
}

bool Tenant::is_right(int number) const {
  for (size_t at = 0; at + 1 < sums_.size(); at += 997) {
    float expected = 0;
    for (int rank = 0; rank < size_; ++rank) expected += value_of(rank, at, number % 2);
    if (sums_[at] != expected) {
      std::fprintf(stderr, "rank %d: step %d: %f at %zu, not %f\n", rank_, number, static_cast<double>(sums_[at]), at,
                   static_cast<double>(expected));
      return false;
    }
  }
  return true;
}

// The last element says whether rank 0's time is over, so that all end after the same step.
bool Tenant::step(int number, bool& is_over) {
  Buffer& values = values_[number % 2];
  const bool shall_end = work_.steps > 0 ? number + 1 >= work_.steps : seconds_now() >= work_.begin + work_.seconds;
  values.back() = rank_ == 0 && shall_end ? 1.0F : 0.0F;
  if (work_.compute > 0) sleep_until(computes_since_ + work_.compute);
  const double begin = seconds_now();
  const size_t parts = comms_.size(), each = values.size() / parts;
  std::vector<banyan_request_t> requests(parts);
  for (size_t part = 0; part < parts; ++part) {
    const size_t first = part * each, count = part + 1 == parts ? values.size() - first : each;
    if (!succeeds(banyan_all_reduce(values.data() + first, sums_.data() + first, count, BANYAN_FLOAT32, BANYAN_SUM,
                                    comms_[part], parts > 1 ? &requests[part] : nullptr),
                  "allreduce")) {
      return false;
    }
  }
  for (banyan_request_t& request : requests) {
    if (parts > 1 && !succeeds(banyan_wait(&request), "wait")) return false;
  }
  const double end = computes_since_ = seconds_now();
  if (rank_ == 0) std::printf("%.6f %.9f\n", end, end - begin);
  is_over = sums_.back() > 0;
  return is_right(number);
}

bool Tenant::run() {
  if (!join()) return false;
  for (int number = 0; number < 2; ++number) {
    for (size_t at = 0; at < sums_.size(); ++at) values_[number][at] = value_of(rank_, at, number);
  }
  sleep_until(work_.begin);
  computes_since_ = work_.begin;
  bool is_over = false;
  for (int number = 0; !is_over; ++number) {
    if (!step(number, is_over)) return false;
  }
  for (auto comm = comms_.rbegin(); comm != comms_.rend(); ++comm) {
    if (!succeeds(banyan_comm_finalize(*comm), "finalize")) return false;
    banyan_comm_destroy(*comm);
  }
  return true;
}

}  // namespace

int main(int count, char** arguments) {
  Work work;
  CLI::App app("Computes and sums in turn, as a training job does; for bench/service.");
  app.add_option("--bytes", work.bytes, "of the buffer")->check(CLI::Range(size_t{4}, size_t{1} << 40));
  app.add_option("--compute", work.compute, "seconds from a sum to the next");
  app.add_option("--begin", work.begin, "when to begin, in seconds since 1970");
  app.add_option("--seconds", work.seconds, "how long to go on");
  app.add_option("--steps", work.steps, "how many steps, in place of a time");
  app.add_option("--communicators", work.communicators, "the buffer is summed by so many at once")
      ->check(CLI::Range(1, 10'000));
  CLI11_PARSE(app, count, arguments);
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  return Tenant(work).run() ? 0 : 1;
}
