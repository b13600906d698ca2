// Matrices of bytes between ranks for tests and benchmarks: row-major, row = sender.
#pragma once

#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace banyan::plan {

using Traffic = std::vector<uint64_t>;

// In place of std::shuffle, whose order differs between libraries.
inline void shuffle_by(std::mt19937_64& random, std::vector<uint32_t>& numbers) {
  for (size_t i = numbers.size(); i > 1; --i) std::swap(numbers[i - 1], numbers[random() % i]);
}

// Every pair of ranks has 0 .. most bytes, all as likely.
inline Traffic random_traffic(uint32_t ranks, uint64_t most, uint64_t seed) {
  std::mt19937_64 random(seed);
  Traffic traffic(size_t{ranks} * ranks);
  for (uint64_t& bytes : traffic) bytes = random() % (most + 1);
  return traffic;
}

// Skew s: the k-th largest of all ranks^2 entries is proportional to k^-s, and entries lie at random places. Zero is
// uniform traffic. All together `per_rank` bytes for each rank.
inline Traffic zipf_traffic(uint32_t ranks, double skew, uint64_t per_rank, uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<uint32_t> places(size_t{ranks} * ranks);
  std::iota(places.begin(), places.end(), 0);
  shuffle_by(random, places);
  double all = 0;
  for (size_t k = 1; k <= places.size(); ++k) all += std::pow(static_cast<double>(k), -skew);
  Traffic traffic(places.size());
  for (size_t k = 1; k <= places.size(); ++k)
    traffic[places[k - 1]] =
        static_cast<uint64_t>(static_cast<double>(per_rank) * ranks * std::pow(static_cast<double>(k), -skew) / all);
  return traffic;
}

}  // namespace banyan::plan
