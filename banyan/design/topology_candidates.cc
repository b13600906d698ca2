#include "banyan/design/topology_candidates.h"

#include <algorithm>

#include "banyan/design/cayley_search.h"
#include "banyan/design/topology.h"

namespace banyan::design {
namespace {

// Links walked over in the digraphs of one size: about a second.
constexpr uint64_t kVisits = 200'000'000;
constexpr size_t kMaxDimensions = 6;  // of torus and hamming

Fraction least_time(uint64_t ranks) { return Fraction(static_cast<int128>(ranks) - 1, static_cast<int128>(ranks)); }

// Whether something known is as good as this can be.
bool is_beaten(const std::vector<TopologyCandidate>& known, uint32_t steps, const Fraction& time) {
  return std::ranges::any_of(
      known, [&](const TopologyCandidate& other) { return other.steps <= steps && other.time <= time; });
}

// Keeps what nothing else beats, by ascending steps; of equals the first.
void keep_best(std::vector<TopologyCandidate>& candidates) {
  std::ranges::stable_sort(candidates, {}, [](const TopologyCandidate& a) { return std::pair(a.steps, a.time); });
  std::vector<TopologyCandidate> best;
  for (TopologyCandidate& candidate : candidates) {
    if (best.empty() || candidate.time < best.back().time) best.push_back(std::move(candidate));
  }
  candidates = std::move(best);
}

// Of all grids of so many ranks, largest size first, whose degrees sum to `degree`: the one with the fewest steps.
template <typename Degree, typename Steps>
class GridSearch {
 public:
  GridSearch(const Degree& degree_of, const Steps& steps_of) : degree_of_(degree_of), steps_of_(steps_of) {}

  void go_on(uint64_t ranks, uint64_t degree, uint64_t largest, uint64_t steps) {
    if (ranks == 1) {
      if (degree > 0 || steps >= best_steps_) return;
      best_ = sizes_;
      best_steps_ = steps;
      return;
    }
    if (sizes_.size() == kMaxDimensions) return;
    // Sizes never grow from one dimension to the next, so that each grid comes once.
    for (uint64_t size = std::min(ranks, largest); size >= 2; --size) {
      if (ranks % size != 0 || degree_of_(size) > degree) continue;
      sizes_.push_back(size);
      go_on(ranks / size, degree - degree_of_(size), size, steps + steps_of_(size));
      sizes_.pop_back();
    }
  }
  std::vector<uint64_t> take_best() { return std::move(best_); }

 private:
  const Degree& degree_of_;
  const Steps& steps_of_;
  std::vector<uint64_t> sizes_, best_;
  uint64_t best_steps_ = UINT64_MAX;
};

// Empty where there is none.
template <typename Degree, typename Steps>
std::vector<uint64_t> best_grid(uint64_t ranks, uint64_t degree, const Degree& degree_of, const Steps& steps_of) {
  GridSearch search(degree_of, steps_of);
  search.go_on(ranks, degree, ranks, 0);
  return search.take_best();
}

std::string joined(const std::vector<uint64_t>& sizes) {
  std::string text;
  for (const uint64_t size : sizes) text += (text.empty() ? "" : "x") + std::to_string(size);
  return text;
}

// The offsets of the circulant of degree 4 with the fewest steps (Boesch and Wang 1985): D and D + 1.
uint64_t first_offset(uint64_t ranks) {
  uint64_t d = 1;
  while (2 * d * d + 2 * d + 1 < ranks) ++d;
  return d;
}

}  // namespace

std::vector<TopologyCandidate> TopologyCandidates::all(uint64_t ranks, uint64_t degree) {
  Candidates found = front(ranks, degree);
  // The named families are told even if something beats them.
  add_bases(ranks, degree, found);
  std::ranges::stable_sort(found, {}, [](const TopologyCandidate& a) { return std::pair(a.steps, a.time); });
  std::vector<TopologyCandidate> once;
  for (TopologyCandidate& candidate : found) {
    if (std::ranges::none_of(once, [&](const auto& other) { return other.spec == candidate.spec; }))
      once.push_back(std::move(candidate));
  }
  return once;
}

const std::vector<TopologyCandidate>& TopologyCandidates::front(uint64_t ranks, uint64_t degree) {
  const auto [place, is_new] = fronts_.try_emplace({ranks, degree});
  if (!is_new) return place->second;
  // Each family joins what nothing has beaten so far; searches and products are left out where they could beat nothing.
  Candidates found;
  add_bases(ranks, degree, found);
  keep_best(found);
  add_cayley(ranks, degree, found);
  keep_best(found);
  add_lines(ranks, degree, found);
  keep_best(found);
  add_copies(ranks, degree, found);
  add_products(ranks, degree, found);
  keep_best(found);
  return place->second = std::move(found);  // a map keeps its places while others are added
}

void TopologyCandidates::add_bases(uint64_t ranks, uint64_t degree, Candidates& found) const {
  const Fraction least = least_time(ranks);
  const auto add = [&](std::string spec, uint64_t steps, const Fraction& time) {
    found.push_back({.spec = std::move(spec), .steps = static_cast<uint32_t>(steps), .time = time});
  };
  if (ranks == degree + 1) add("full:" + std::to_string(ranks), 1, least);
  if (ranks == 2 * degree && degree > 1) add("bipartite:" + joined({degree, degree}), 2, least);
  if (degree == 2 && ranks > 2) add("ring:" + std::to_string(ranks), ranks / 2, least);
  if (ranks == uint64_t{1} << degree && degree > 1) add("hypercube:" + std::to_string(degree), degree, least);
  const auto add_grid = [&](const std::string& kind, const auto& degree_of, const auto& steps_of) {
    const std::vector<uint64_t> grid = best_grid(ranks, degree, degree_of, steps_of);
    uint64_t steps = 0;
    for (const uint64_t size : grid) steps += steps_of(size);
    if (grid.size() > 1 && grid.front() > 2) add(kind + ":" + joined(grid), steps, least);
  };
  add_grid(
      "hamming", [](uint64_t size) { return size - 1; }, [](uint64_t) { return uint64_t{1}; });
  add_grid(
      "torus", [](uint64_t size) { return size == 2 ? uint64_t{1} : uint64_t{2}; },
      [](uint64_t size) { return size / 2; });
  if (degree == 4 && ranks > 5) {
    const uint64_t d = first_offset(ranks);
    if (2 * (d + 1) < ranks) {
      add("circulant:" + std::to_string(ranks) + "," + std::to_string(d) + "," + std::to_string(d + 1), d, least);
    }
  }
  if (cables_) return;
  if (degree == 1) add("cayley:m=" + std::to_string(ranks) + ",by=1", ranks - 1, least);
  if (degree == 2 && ranks == 8) add("diamond", 3, least);
  if (degree >= 2 && ranks > degree + 1) {
    // A step brings d times as much as the one before, until all is there.
    uint64_t steps = 0, load = 0;
    for (uint64_t reached = 1, more = 1; reached < ranks; ++steps, more *= degree) {
      load += more;
      reached += more * degree;
    }
    add("kautz:n=" + std::to_string(ranks) + ",d=" + std::to_string(degree), steps,
        Fraction(static_cast<int128>(load * degree), static_cast<int128>(ranks)));
  }
}

void TopologyCandidates::add_cayley(uint64_t ranks, uint64_t degree, Candidates& found) const {
  // The search is left out if even the fewest steps that a graph can have would beat nothing.
  const uint32_t fewest = moore_steps(ranks, degree, cables_);
  if (degree < 2 || is_beaten(found, fewest, least_time(ranks))) return;
  for (CayleyDigraph& digraph :
       search_cayley({.ranks = ranks, .degree = degree, .cables = cables_, .visits = kVisits, .observer = observer_})) {
    found.push_back({.spec = std::move(digraph.spec), .steps = digraph.steps, .time = digraph.time});
  }
}

void TopologyCandidates::add_lines(uint64_t ranks, uint64_t degree, Candidates& found) {
  if (cables_ || degree < 2 || ranks % degree != 0 || ranks / degree <= degree) return;
  // A line graph has a step more than what it is made of, and takes 1 / (ranks of that) longer.
  const uint64_t smaller = ranks / degree;
  for (const TopologyCandidate& of : front(smaller, degree)) {
    TopologyCandidate line;
    line.steps = of.steps + 1;
    line.time = of.time + Fraction(1, static_cast<int128>(smaller));
    line.of = of.lines == 0 ? of.spec : of.of;
    line.lines = of.lines + 1;
    line.spec = "line:(" + line.of + ")" + (line.lines == 1 ? "" : "^" + std::to_string(line.lines));
    found.push_back(std::move(line));
  }
}

void TopologyCandidates::add_copies(uint64_t ranks, uint64_t degree, Candidates& found) {
  for (uint64_t copies = 2; copies <= degree; ++copies) {
    if (ranks % copies != 0 || degree % copies != 0) continue;
    // The graph that is copied has 1 / copies of the ranks, and of the degree.
    const uint64_t n = ranks / copies, d = degree / copies;
    if (n <= d) continue;
    if (is_beaten(found, std::max(2u, moore_steps(n, d, cables_)), least_time(ranks))) continue;
    for (const TopologyCandidate& of : front(n, d)) {
      found.push_back({.spec = "copies:(" + of.spec + ")x" + std::to_string(copies),
                       .steps = std::max(2u, of.steps),
                       .time = of.time + least_time(ranks) - least_time(n)});
    }
  }
}

void TopologyCandidates::add_products(uint64_t ranks, uint64_t degree, Candidates& found) {
  const Fraction least = least_time(ranks);
  for (uint64_t n = 2; n * 2 <= ranks; ++n) {
    if (ranks % n != 0) continue;
    for (uint64_t d = 1; d < degree; ++d) {
      const uint64_t m = ranks / n, rest = degree - d;
      // Each pair once: the larger first.
      if (d >= n || rest >= m || std::pair(n, d) < std::pair(m, rest)) continue;
      if (is_beaten(found, moore_steps(n, d, cables_) + moore_steps(m, rest, cables_), least)) continue;
      for (const TopologyCandidate& first : front(n, d)) {
        // Only factors of the least time have a product of the least time.
        if (first.time != least_time(n)) continue;
        for (const TopologyCandidate& second : front(m, rest)) {
          if (second.time != least_time(m)) continue;
          const bool same = first.spec == second.spec;
          found.push_back(
              {.spec = same ? "power:(" + first.spec + ")^2" : "product:(" + first.spec + ")x(" + second.spec + ")",
               .steps = first.steps + second.steps,
               .time = least});
        }
      }
    }
  }
}

}  // namespace banyan::design
