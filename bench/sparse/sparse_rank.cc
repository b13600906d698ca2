// One rank of bench/sparse_lab.py: adds up the gradients of an embedding in several ways, and times them.
//
//   sparse_rank FILE WIDTH ROUNDS [SERIES,...]
//
// FILE, little-endian words of 32 bits: rows of the table, ranks, steps; then for each step and rank how many tokens
// it has, and their rows. A token's gradient has `width` values that follow from step, row, rank and column: whole
// numbers, so that every way must give the same sums, bit for bit. In each round every series makes all steps, one
// after the other. Rank 0 prints a line for each series and round: its name, seconds of a step (the mean of the steps,
// the slowest rank), and what the kernel counted on the links of each rank meanwhile: bytes of the mean and of the
// busiest rank, in the direction in which that is more.
#include <banyan/sparse.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <iterator>
#include <numeric>
#include <string>
#include <vector>

namespace {

using banyan::Communicator;
using Clock = std::chrono::steady_clock;

struct Steps {
  size_t rows = 0, width = 0;
  std::vector<std::vector<int64_t>> tokens;  // of this rank, by step
};

Steps read_steps(const char* path, size_t width, const Communicator& world) {
  std::ifstream file(path, std::ios::binary);
  const std::string bytes{std::istreambuf_iterator<char>(file), {}};
  std::vector<uint32_t> words(bytes.size() / sizeof(uint32_t));
  std::copy_n(bytes.data(), words.size() * sizeof(uint32_t), reinterpret_cast<char*>(words.data()));
  if (words.size() < 3 || words[1] != static_cast<uint32_t>(world.size())) {
    std::fprintf(stderr, "%s is not for %d ranks\n", path, world.size());
    std::exit(1);
  }
  Steps steps = {.rows = words[0], .width = width, .tokens = {}};
  size_t at = 3;
  for (uint32_t i = 0; i < words[1] * words[2]; ++i) {
    const size_t count = words.at(at++);
    if (i % words[1] == static_cast<uint32_t>(world.rank())) {
      steps.tokens.emplace_back(words.begin() + static_cast<ptrdiff_t>(at),
                                words.begin() + static_cast<ptrdiff_t>(at + count));
    }
    at += count;
  }
  return steps;
}

// What a rank gives in a step: its rows, each once, ascending, as an embedding's backward pass makes them.
struct Gradient {
  std::vector<int64_t> rows;
  std::vector<float> values;
};
Gradient gradient_of(const Steps& steps, size_t step, int rank) {
  Gradient gradient;
  gradient.rows = steps.tokens[step];
  std::sort(gradient.rows.begin(), gradient.rows.end());
  std::vector<int64_t> once;
  for (size_t i = 0; i < gradient.rows.size();) {
    const size_t begin = i;
    while (i < gradient.rows.size() && gradient.rows[i] == gradient.rows[begin]) ++i;
    once.push_back(gradient.rows[begin]);
    for (size_t j = 0; j < steps.width; ++j) {
      const size_t value = (static_cast<size_t>(once.back()) * 13 + j * 7 + static_cast<size_t>(rank) * 3 + step) % 31;
      gradient.values.push_back((static_cast<float>(value) - 15) * static_cast<float>(i - begin));
    }
  }
  gradient.rows.swap(once);
  return gradient;
}

using Table = std::vector<float>;  // dense

// ---- The ways. Each adds the sums of all ranks to a table of zeros ----

// All-gather of COO, as PyTorch's backends do it: numbers of entries, indices, which are of 64 bits there, values.
template <typename Index>
void gather_coo(Communicator& world, const Steps& steps, const Gradient& own, Table& sums) {
  const std::vector<size_t> count{own.rows.size()};
  std::vector<size_t> counts(static_cast<size_t>(world.size()));
  world.all_gather(count, counts);
  const size_t all = std::accumulate(counts.begin(), counts.end(), size_t{0});
  const std::vector<Index> own_rows(own.rows.begin(), own.rows.end());
  std::vector<Index> rows(all);
  std::vector<float> values(all * steps.width);
  world.all_gather_v(own_rows, rows, counts);
  for (size_t& each : counts) each *= steps.width;
  world.all_gather_v(own.values, values, counts);
  for (size_t i = 0; i < all; ++i) {
    float* const to = sums.data() + static_cast<size_t>(rows[i]) * steps.width;
    for (size_t j = 0; j < steps.width; ++j) to[j] += values[i * steps.width + j];
  }
}

// Owners of neighbouring rows: rank p has [p R / n, (p + 1) R / n). Rows travel as 4 bytes and their values. The sums
// go straight to each rank, or by an all-gather, whose plan has the others pass on what a busy owner sends.
struct Parcel {
  std::vector<uint32_t> words;
  void put(int64_t row, const float* values, size_t width) {
    words.push_back(static_cast<uint32_t>(row));
    const auto* const bits = reinterpret_cast<const uint32_t*>(values);
    words.insert(words.end(), bits, bits + width);
  }
};
void add_parcels(const std::vector<uint32_t>& words, size_t width, Table& sums, std::vector<bool>* used) {
  for (size_t at = 0; at < words.size(); at += width + 1) {
    const size_t row = words[at];
    const auto* const values = reinterpret_cast<const float*>(words.data() + at + 1);
    for (size_t j = 0; j < width; ++j) sums[row * width + j] += values[j];
    if (used != nullptr) (*used)[row] = true;
  }
}
template <bool is_straight>
void contiguous_shards(Communicator& world, const Steps& steps, const Gradient& own, Table& sums) {
  const auto ranks = static_cast<size_t>(world.size());
  const auto first_of = [&](size_t owner) { return owner * steps.rows / ranks; };
  Parcel sent;
  std::vector<size_t> sent_counts, counts(ranks);
  size_t i = 0;
  for (size_t owner = 0; owner < ranks; ++owner) {
    const size_t before = sent.words.size();
    for (; i < own.rows.size() && static_cast<size_t>(own.rows[i]) < first_of(owner + 1); ++i)
      sent.put(own.rows[i], own.values.data() + i * steps.width, steps.width);
    sent_counts.push_back(sent.words.size() - before);
  }
  world.all_to_all(sent_counts, counts);
  std::vector<uint32_t> received(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  world.all_to_all_v(sent.words, sent_counts, received, counts);
  Table shard(steps.rows * steps.width);
  std::vector<bool> used(steps.rows);
  add_parcels(received, steps.width, shard, &used);
  Parcel answer;
  const auto rank = static_cast<size_t>(world.rank());
  for (size_t row = first_of(rank); row < first_of(rank + 1); ++row) {
    if (used[row]) answer.put(static_cast<int64_t>(row), shard.data() + row * steps.width, steps.width);
  }
  if (is_straight) {  // from the owner to each, as from a server
    std::vector<uint32_t> copies;
    for (size_t to = 0; to < ranks; ++to) copies.insert(copies.end(), answer.words.begin(), answer.words.end());
    sent_counts.assign(ranks, answer.words.size());
    world.all_to_all(sent_counts, counts);
    std::vector<uint32_t> all(std::accumulate(counts.begin(), counts.end(), size_t{0}));
    world.all_to_all_v(copies, sent_counts, all, counts);
    return add_parcels(all, steps.width, sums, nullptr);
  }
  const std::vector<size_t> length{answer.words.size()};
  world.all_gather(length, counts);
  std::vector<uint32_t> all(std::accumulate(counts.begin(), counts.end(), size_t{0}));
  world.all_gather_v(answer.words, all, counts);
  add_parcels(all, steps.width, sums, nullptr);
}

void dense(Communicator& world, const Steps& steps, const Gradient& own, Table& sums) {
  for (size_t i = 0; i < own.rows.size(); ++i) {
    std::copy_n(own.values.data() + i * steps.width, steps.width,
                sums.data() + static_cast<size_t>(own.rows[i]) * steps.width);
  }
  world.all_reduce(sums);
}

// ---- Measuring ----

struct Traffic {
  double out = 0, in = 0;
};
// Of the links of this rank's host in the lab.
Traffic traffic() {
  std::ifstream file("/proc/net/dev");
  Traffic all;
  for (std::string line; std::getline(file, line);) {
    const size_t colon = line.find(':');
    if (colon == std::string::npos || line.substr(0, colon).find("lo") != std::string::npos) continue;
    std::vector<double> numbers(16);
    const char* at = line.c_str() + colon + 1;
    for (double& number : numbers) {
      char* end = nullptr;
      number = std::strtod(at, &end);
      at = end;
    }
    all.in += numbers[0];
    all.out += numbers[8];
  }
  return all;
}

struct Series {
  std::string name;
  bool is_exact;
  std::function<void(const Gradient&, Table&)> add_up;
};

std::string measure(Communicator& world, const Steps& steps, const Series& series, std::vector<Table>& expected) {
  const Traffic before = traffic();
  double seconds = 0;
  Table sums(steps.rows * steps.width);
  for (size_t step = 0; step < steps.tokens.size(); ++step) {
    const Gradient own = gradient_of(steps, step, world.rank());
    std::fill(sums.begin(), sums.end(), 0.0F);
    world.barrier();
    const Clock::time_point begin = Clock::now();
    series.add_up(own, sums);
    std::vector<double> slowest{std::chrono::duration<double>(Clock::now() - begin).count()};
    world.all_reduce(slowest, banyan::ReduceOp::max);
    seconds += slowest[0] / static_cast<double>(steps.tokens.size());
    if (expected[step].empty()) expected[step] = sums;
    if (series.is_exact && sums != expected[step]) {
      std::fprintf(stderr, "rank %d: %s gives other sums\n", world.rank(), series.name.c_str());
      std::exit(1);
    }
  }
  const Traffic after = traffic();
  std::vector<double> busiest{after.out - before.out, after.in - before.in}, all = busiest;
  world.all_reduce(busiest, banyan::ReduceOp::max);
  world.all_reduce(all);
  const size_t direction = busiest[0] > busiest[1] ? 0 : 1;
  const auto count = static_cast<double>(steps.tokens.size());
  char line[200];
  std::snprintf(line, sizeof line, "%s %.6f %.0f %.0f\n", series.name.c_str(), seconds,
                all[direction] / world.size() / count, busiest[direction] / count);
  return line;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4 && argc != 5) return std::fprintf(stderr, "usage: sparse_rank FILE WIDTH ROUNDS [SERIES,...]\n"), 2;
  Communicator world = Communicator::join();
  const Steps steps = read_steps(argv[1], std::strtoul(argv[2], nullptr, 10), world);
  const auto table = [&](banyan::SparseWay way, const char* codec = nullptr) {
    return banyan::SparseTable(world, {.rows = steps.rows, .width = steps.width, .codec = codec, .way = way});
  };
  banyan::SparseTable automatic = table(banyan::SparseWay::automatic), gather = table(banyan::SparseWay::gather),
                      shards = table(banyan::SparseWay::shards), coded = table(banyan::SparseWay::automatic, "int8");
  const auto by = [&](banyan::SparseTable& own_table) {
    return [&](const Gradient& own, Table& sums) {
      const banyan::SparseSum sum = own_table.all_reduce(own.rows, own.values);
      for (size_t i = 0; i < sum.rows.size(); ++i) {
        std::copy_n(sum.values.data() + i * steps.width, steps.width,
                    sums.data() + static_cast<size_t>(sum.rows[i]) * steps.width);
      }
    };
  };
  const auto directly = [&](auto way) {
    return [&world, &steps, way](const Gradient& own, Table& sums) { way(world, steps, own, sums); };
  };
  std::vector<Series> all_series = {{"dense", true, directly(dense)},
                                    {"coo", true, directly(gather_coo<int64_t>)},
                                    {"coo32", true, directly(gather_coo<int32_t>)},
                                    {"contiguous", true, directly(contiguous_shards<true>)},
                                    {"contiguous:planned", true, directly(contiguous_shards<false>)},
                                    {"gather", true, by(gather)},
                                    {"shards", true, by(shards)},
                                    {"automatic", true, by(automatic)},
                                    {"automatic:int8", false, by(coded)}};
  // coo32, positions as published codes have them, only where it is named.
  const std::string wanted = argc == 5 ? "," + std::string(argv[4]) + "," : "";
  std::erase_if(all_series, [&](const Series& series) {
    return wanted.empty() ? series.name == "coo32" : wanted.find("," + series.name + ",") == std::string::npos;
  });
  if (all_series.empty()) return std::fprintf(stderr, "sparse_rank: there is no series of %s\n", argv[4]), 2;
  std::vector<Table> expected(steps.tokens.size());
  for (unsigned long round = 0; round < std::strtoul(argv[3], nullptr, 10); ++round) {
    for (size_t i = 0; i < all_series.size(); ++i) {
      const Series& series = all_series[(i + round) % all_series.size()];
      const std::string line = measure(world, steps, series, expected);
      if (world.rank() == 0) std::fputs(line.c_str(), stdout), std::fflush(stdout);
    }
  }
  if (world.rank() == 0) std::printf("way %d\n", static_cast<int>(automatic.last_way()));
}
