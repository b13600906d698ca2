// Graphs of low diameter (circulant, generalized Kautz, de Bruijn; the base graphs of arXiv 2202.03356) and random
// ones.
#include <algorithm>
#include <numeric>
#include <random>
#include <set>

#include "banyan/base/check.h"
#include "banyan/fabric/generate_spec.h"
#include "banyan/fabric/semidirect_group.h"

namespace banyan::fabric {
namespace {

void add_one_way(Fabric::Builder& builder, uint64_t from, uint64_t to, Bandwidth bandwidth) {
  builder.add_link(
      {.from = NodeId{static_cast<uint32_t>(from)}, .to = NodeId{static_cast<uint32_t>(to)}, .bandwidth = bandwidth});
}

}  // namespace

// circulant:N,a,b,...: rank i is joined to i + a, i + b, ... modulo N.
void generate_circulant(const GeneratorSpec& spec, Fabric::Builder& builder) {
  const std::vector<uint64_t> counts = spec.numbers("ranks and offsets", ',', {});
  const uint64_t ranks = counts.front();
  if (ranks < 2 || counts.size() < 2) throw spec.error("needs at least 2 ranks and one offset");
  const std::set<uint64_t> offsets(counts.begin() + 1, counts.end());
  if (offsets.size() + 1 != counts.size()) throw spec.error("names an offset twice");
  uint64_t common = ranks;
  for (const uint64_t offset : offsets) {
    if (offset > ranks / 2) {
      throw spec.error("offset " + std::to_string(offset) + " must be at most " + std::to_string(ranks / 2) +
                       ", half the ranks");
    }
    common = std::gcd(common, offset);
  }
  if (common != 1) {
    throw spec.error("falls into " + std::to_string(common) +
                     " parts, because ranks and offsets are all multiples of " + std::to_string(common));
  }
  spec.expect_size(ranks, 2 * ranks * offsets.size());
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, ranks);
  for (uint64_t i = 0; i < ranks; ++i) {
    for (const uint64_t offset : offsets) {
      if (2 * offset == ranks && i >= offset) continue;  // opposite ranks share one cable
      join(builder, i, (i + offset) % ranks, bandwidth);
    }
  }
  propose_symmetry(builder, [=](uint64_t v) { return (v + 1) % ranks; });
}

// cayley:m=M[,k=K][,r=R],by=a.i+b.j+..: a digraph of Cayley on a group of semidirect_group.h, with a link from every x
// to x times each of the elements. Looks alike from every rank.
void generate_cayley(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"m", "k", "r", "by"});
  const uint64_t m = spec.parameter("m", {}), k = spec.parameter_or("k", 1, {}), r = spec.parameter_or("r", 1, {});
  spec.expect_size(m * k, 0);
  if (!SemidirectGroup::exists(m, k, r)) {
    throw spec.error("r to the power of k is not 1 modulo m, so there is no such group");
  }
  const SemidirectGroup group(m, k, r);
  std::vector<uint64_t> elements;
  for (const auto& [a, i] : spec.number_pairs("by")) {
    if (a >= m || i >= k)
      throw spec.error("by names " + std::to_string(a) + "." + std::to_string(i) +
                       ", but numbers before the dot are below m and those after it below k");
    elements.push_back(group.element(a, i));
    if (elements.back() == 0) throw spec.error("by names 0.0, which joins every rank to itself");
    if (std::ranges::count(elements, elements.back()) > 1) throw spec.error("by names an element twice");
  }
  spec.expect_size(m * k, m * k * elements.size());
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, group.size());
  for (uint64_t x = 0; x < group.size(); ++x) {
    for (const uint64_t element : elements) add_one_way(builder, x, group.multiply(x, element), bandwidth);
  }
  // Multiplication from the left, by the two generators of the group.
  if (m > 1) propose_symmetry(builder, [&](uint64_t v) { return group.multiply(group.element(1, 0), v); });
  if (k > 1) propose_symmetry(builder, [&](uint64_t v) { return group.multiply(group.element(0, 1), v); });
}

// Imase and Itoh's digraph: i -> (-d*i - a) mod n for a = 1..d; with n = d^k + d^(k-1) it is the Kautz graph.
void generate_kautz(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"n", "d"});
  const uint64_t n = spec.parameter("n", {.min = 3}), d = spec.parameter("d", {.min = 2});
  if (d >= n) throw spec.error("d must be less than n");
  spec.expect_size(n, n * d);
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  add_gpus(builder, n);
  for (uint64_t i = 0; i < n; ++i) {
    for (uint64_t a = 1; a <= d; ++a) {
      const uint64_t to = (2 * n - d * i % n - a) % n;
      if (to != i) add_one_way(builder, i, to, bandwidth);
    }
  }
  // i -> i + t commutes with the rule when (d + 1) * t = 0 mod n, and i -> -1 - i always does (a becomes d + 1 - a).
  const uint64_t translations = std::gcd(n, d + 1), step = n / translations;
  if (translations > 1) propose_symmetry(builder, [=](uint64_t v) { return (v + step) % n; });
  // -1 - i + t = i has a solution unless n is even and t - 1 odd for all multiples t of step.
  if (n % 2 == 0 && step % 2 == 0) propose_symmetry(builder, [=](uint64_t v) { return n - 1 - v; });
}

// B(k, n): the words of n letters out of k; a word points to what is left when a letter is pushed in from the right.
// Only the words of one letter point to themselves: these links are dropped, or lead round a ring of these words.
namespace {

enum class Loops : uint8_t { dropped, joined };

void add_debruijn(const GeneratorSpec& spec, Fabric::Builder& builder, Loops loops) {
  spec.expect_parameters({"k", "n"});
  const uint64_t letters = spec.parameter("k", {.min = 2}), length = spec.parameter("n", {.min = 1, .max = 19});
  if (loops == Loops::joined && length < 2) throw spec.error("n must be at least 2");
  uint64_t ranks = 1;
  for (uint64_t i = 0; i < length; ++i) {
    ranks *= letters;
    spec.expect_size(ranks, ranks * letters);
  }
  const Bandwidth bandwidth = spec.bandwidth_or(kDefaultPort);
  const uint64_t ones = (ranks - 1) / (letters - 1);  // the word of ones
  add_gpus(builder, ranks);
  for (uint64_t i = 0; i < ranks; ++i) {
    for (uint64_t letter = 0; letter < letters; ++letter) {
      uint64_t to = (i * letters + letter) % ranks;
      if (to == i && loops == Loops::joined) to = (i + ones) % (letters * ones);
      if (to != i) add_one_way(builder, i, to, bandwidth);
    }
  }
  // Every letter of every word becomes the next letter of the alphabet.
  propose_symmetry(builder, [=](uint64_t v) {
    uint64_t image = 0;
    for (uint64_t place = 1; place < ranks; place *= letters) image += (v / place % letters + 1) % letters * place;
    return image;
  });
}

}  // namespace

void generate_debruijn(const GeneratorSpec& spec, Fabric::Builder& builder) {
  add_debruijn(spec, builder, Loops::dropped);
}
void generate_modified_debruijn(const GeneratorSpec& spec, Fabric::Builder& builder) {
  add_debruijn(spec, builder, Loops::joined);
}

// A random tree and random further pairs, so that it is connected whatever the seed. Draws use the raw output of
// mt19937_64, which the standard fixes bit by bit, so that a spec means the same fabric everywhere.
void generate_random(const GeneratorSpec& spec, Fabric::Builder& builder) {
  spec.expect_parameters({"n", "links", "seed"});
  constexpr uint64_t kMaxRanks = 20'000;  // all pairs are walked over once
  const uint64_t n = spec.parameter("n", {.min = 2, .max = kMaxRanks}), pairs = n * (n - 1) / 2;
  const uint64_t cables = spec.parameter("links", {.min = n - 1, .max = pairs});
  const uint64_t seed = spec.parameter_or("seed", 1, {.min = 0, .max = UINT64_MAX});
  spec.expect_size(n, 2 * cables);
  const Bandwidth unit = spec.bandwidth_or(Bandwidth::gigabytes_per_second(1));
  constexpr uint64_t kMaxUnits = 16;
  if (unit.bytes_per_second() > Bandwidth::kMaxBytesPerSecond / kMaxUnits) {
    throw spec.error("links have up to 16 times the bandwidth, which is then above 1 PB/s");
  }
  std::mt19937_64 random(seed);
  const auto draw = [&](uint64_t below) { return static_cast<uint64_t>(int128{random()} * int128{below} >> 64); };
  add_gpus(builder, n);
  const auto add = [&](uint64_t a, uint64_t b) {
    const uint64_t units = 1 + draw(kMaxUnits);
    join(builder, a, b, Bandwidth::bytes_per_second(units * unit.bytes_per_second()));
  };
  std::vector<uint64_t> parent(n);
  for (uint64_t v = 1; v < n; ++v) {
    parent[v] = draw(v);
    add(parent[v], v);
  }
  // Selection sampling (Knuth, TAOCP 3.4.2, algorithm S) over the pairs that the tree does not use.
  uint64_t wanted = cables - (n - 1), left = pairs - (n - 1);
  for (uint64_t b = 1; b < n && wanted > 0; ++b) {
    for (uint64_t a = 0; a < b && wanted > 0; ++a) {
      if (a == parent[b]) continue;
      if (draw(left--) >= wanted) continue;
      --wanted;
      add(a, b);
    }
  }
  CHECK_EQ(wanted, 0u);
}

}  // namespace banyan::fabric
