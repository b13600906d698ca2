// One rank of bench/published_ratios.py: carries out training steps as they are written down, and times them.
//
//   step_rank FILE ROUNDS
//
// FILE has lines. `series NAME` begins a kind of step; the lines after it are what the step does, in order:
//
//   compute MICROSECONDS          the device computes: nothing is started for so long after the compute before ended
//   all_reduce COUNT CODE         COUNT values of float32 begin to be summed; CODE: none, or that of banyan_coded_type
//   reduce_scatter COUNT CODE     COUNT values for each rank
//   all_gather COUNT CODE         COUNT values of each rank; CODE also half: float16, without a code
//   finish                        what was begun is awaited
//
// A device that computes needs no core of the host: compute is sleep. A step ends when all that it does has ended. In
// each round every series makes one step, beginning with another series each time, and rank 0 prints a line of each:
// its name, and seconds of the slowest rank.
//
// Before the first round every series makes two steps that are checked. Values are whole numbers that follow from rank,
// position, and call. A sum without a code must be exact. With one, each rank has a residual, and the law of mass must
// hold: the sum of what ranks sent and had kept = result + what they keep now. What is gathered in a code must be near
// to what was sent. Every all_reduce and all_gather must leave the same bits on all ranks.
#include <banyan/communicator.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <fstream>
#include <memory>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

namespace {

using banyan::Communicator;
using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(const std::string& message) {
  std::fprintf(stderr, "step_rank: %s\n", message.c_str());
  std::exit(1);
}

float value_of(int rank, size_t position, size_t call) {
  return static_cast<float>((position * 13 + static_cast<size_t>(rank) * 7 + call * 3) % 61) - 30;
}

// A collective of a step, with its buffers.
struct Call {
  enum class Kind { all_reduce, reduce_scatter, all_gather };
  Kind kind{};
  size_t count = 0, number = 0;
  std::string code;
  std::vector<float> send, recv;
  std::vector<uint16_t> half_send, half_recv;
  std::unique_ptr<banyan::Residual> residual;
  std::optional<banyan::FeedbackSum> feedback;

  bool is_coded() const { return code != "none" && code != "half"; }
  std::string name() const { return "call " + std::to_string(number) + " of " + std::to_string(count) + " " + code; }

  void prepare(Communicator& world) {
    const auto ranks = static_cast<size_t>(world.size());
    const size_t sent = kind == Kind::reduce_scatter ? count * ranks : count;
    const size_t received = kind == Kind::all_gather ? count * ranks : count;
    if (code == "half") {
      half_send.resize(sent), half_recv.resize(received);
      for (size_t i = 0; i < sent; ++i) half_send[i] = half_of(world.rank(), i);
      return;
    }
    send.resize(sent), recv.resize(received);
    for (size_t i = 0; i < sent; ++i) send[i] = value_of(world.rank(), i, number);
    if (is_coded() && kind != Kind::all_gather) {
      residual = std::make_unique<banyan::Residual>(sent);
      feedback.emplace(world.handle(), *residual, banyan::ReduceOp::sum);
    }
  }
  // Any bits do: they are only carried.
  uint16_t half_of(int rank, size_t position) const {
    return static_cast<uint16_t>(position * 31 + static_cast<size_t>(rank) * 7 + number);
  }

  banyan::Request start(Communicator& world) {
    if (code == "half") return world.start().all_gather(half_send, half_recv);
    const auto begin = [&](auto&& from, auto&& to) {
      const banyan::Reduction op = feedback ? banyan::Reduction(*feedback) : banyan::Reduction(banyan::ReduceOp::sum);
      if (kind == Kind::all_reduce) return world.start().all_reduce(from, to, op);
      if (kind == Kind::reduce_scatter) return world.start().reduce_scatter(from, to, op);
      return world.start().all_gather(from, to);
    };
    if (!is_coded()) return begin(send, recv);
    return begin(banyan::Coded(send, code.c_str()), recv);
  }

  // Of a call that has ended; `kept`: what all ranks had in their residuals before it.
  void check(Communicator& world, const std::vector<float>& kept) {
    if (kind == Kind::all_gather) return check_gathered(world);
    std::vector<float> now = all_kept(world);
    const size_t first = kind == Kind::reduce_scatter ? count * static_cast<size_t>(world.rank()) : 0;
    for (size_t i = 0; i < count; ++i) {
      float sum = 0;
      for (int rank = 0; rank < world.size(); ++rank) sum += value_of(rank, first + i, number);
      const float before = sum + (kept.empty() ? 0 : kept[first + i]);
      const float after = recv[i] + (now.empty() ? 0 : now[first + i]);
      const float most = is_coded() ? 1e-4F * static_cast<float>(30 * world.size()) : 0;
      if (!(std::abs(before - after) <= most))
        fail(name() + ": value " + std::to_string(first + i) + " is " + std::to_string(after) + ", not " +
             std::to_string(before));
    }
    if (kind == Kind::all_reduce) expect_same(world);
  }
  // The sum of all residuals; empty where there are none.
  std::vector<float> all_kept(Communicator& world) const {
    if (residual == nullptr) return {};
    const std::span<float> own = residual->values();
    std::vector<float> all(own.begin(), own.end());
    world.all_reduce(all);
    return all;
  }

 private:
  void check_gathered(Communicator& world) {
    double off = 0, all = 0;
    for (int rank = 0; rank < world.size(); ++rank) {
      for (size_t i = 0; i < count; ++i) {
        const size_t at = static_cast<size_t>(rank) * count + i;
        if (code == "half" && half_recv[at] != half_of(rank, i)) fail(name() + " gives other bits");
        if (code == "half") continue;
        const double sent = value_of(rank, i, number);
        off += (recv[at] - sent) * (recv[at] - sent), all += sent * sent;
      }
    }
    // The values are even over their range, so that one bit keeps three quarters of their squares.
    if (off > (is_coded() ? 0.36 * all : 0)) fail(name() + " is too far off");
    if (code != "half") expect_same(world);
  }
  void expect_same(Communicator& world) const {
    uint64_t digest = 14695981039346656037ULL;
    for (const float value : recv) {
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof bits);
      digest = (digest ^ bits) * 1099511628211ULL;
    }
    std::vector<uint64_t> least{digest}, most{digest};
    world.all_reduce(least, banyan::ReduceOp::min);
    world.all_reduce(most, banyan::ReduceOp::max);
    if (least != most) fail(name() + ": ranks have different bits");
  }
};

struct Act {
  std::chrono::microseconds compute{0};
  Call* call = nullptr;  // nothing in either: finish
};
struct Series {
  std::string name;
  std::vector<Act> acts;
};

struct Program {
  std::deque<Call> calls;
  std::vector<Series> series;
};

Program read_program(const char* path, Communicator& world) {
  std::ifstream file(path);
  if (!file) fail(std::string("cannot read ") + path);
  Program program;
  for (std::string line; std::getline(file, line);) {
    std::istringstream words(line);
    std::string verb;
    words >> verb;
    if (verb == "series") {
      program.series.emplace_back();
      words >> program.series.back().name;
    } else if (program.series.empty()) {
      fail("the file does not begin with a series");
    } else if (verb == "compute") {
      int64_t microseconds = 0;
      words >> microseconds;
      program.series.back().acts.push_back({.compute = std::chrono::microseconds(microseconds)});
    } else if (verb == "finish") {
      program.series.back().acts.push_back({});
    } else {
      Call& call = program.calls.emplace_back();
      call.kind = verb == "all_reduce"       ? Call::Kind::all_reduce
                  : verb == "reduce_scatter" ? Call::Kind::reduce_scatter
                                             : Call::Kind::all_gather;
      if (call.kind == Call::Kind::all_gather && verb != "all_gather") fail("there is no '" + verb + "'");
      call.number = program.calls.size();
      words >> call.count >> call.code;
      call.prepare(world);
      program.series.back().acts.push_back({.call = &call});
    }
    if (words.fail()) fail("cannot read '" + line + "'");
  }
  return program;
}

// Seconds of the slowest rank.
double step(Communicator& world, const Series& series) {
  std::vector<banyan::Request> requests;
  world.barrier();
  const Clock::time_point begin = Clock::now();
  Clock::time_point computed = begin;
  for (const Act& act : series.acts) {
    if (act.call != nullptr) {
      requests.push_back(act.call->start(world));
    } else if (act.compute.count() > 0) {
      computed += act.compute;
      std::this_thread::sleep_until(computed);
    } else {
      banyan::Request::wait_all(requests);
      requests.clear();
      computed = Clock::now();
    }
  }
  banyan::Request::wait_all(requests);
  std::vector<double> slowest{std::chrono::duration<double>(Clock::now() - begin).count()};
  world.all_reduce(slowest, banyan::ReduceOp::max);
  return slowest[0];
}

void check(Communicator& world, const Series& series) {
  for (int i = 0; i < 2; ++i) {
    std::vector<std::vector<float>> kept;
    for (const Act& act : series.acts) {
      if (act.call != nullptr) kept.push_back(act.call->all_kept(world));
    }
    step(world, series);
    size_t at = 0;
    for (const Act& act : series.acts) {
      if (act.call != nullptr) act.call->check(world, kept[at++]);
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return std::fprintf(stderr, "usage: step_rank FILE ROUNDS\n"), 2;
  Communicator world = Communicator::join();
  const Program program = read_program(argv[1], world);
  for (const Series& series : program.series) check(world, series);
  const unsigned long rounds = std::strtoul(argv[2], nullptr, 10);
  for (unsigned long round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < program.series.size(); ++i) {
      const Series& series = program.series[(i + round) % program.series.size()];
      const double seconds = step(world, series);
      if (world.rank() == 0) std::printf("%s %.6f\n", series.name.c_str(), seconds), std::fflush(stdout);
    }
  }
}
