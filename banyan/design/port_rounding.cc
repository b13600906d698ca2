#include "banyan/design/port_rounding.h"

#include <algorithm>
#include <optional>
#include <queue>
#include <random>

namespace banyan::design {
namespace {

// Matches free ports of rows with free ports of columns along edges that can be used once, by augmenting paths.
class PortMatching {
 public:
  // `edges` by row: the columns, the most wanted first.
  PortMatching(std::vector<std::vector<uint32_t>> edges, std::vector<uint32_t> row_ports,
               std::vector<uint32_t> column_ports)
      : edges_(std::move(edges)), row_ports_(std::move(row_ports)), column_ports_(std::move(column_ports)) {
    users_.resize(column_ports_.size());
    taken_.assign(edges_.size(), std::vector<uint8_t>(column_ports_.size()));
    for (uint32_t row = 0; row < edges_.size(); ++row) {
      for (uint32_t port = 0; port < row_ports_[row]; ++port) {
        // An augmenting path for each port of the row.
        seen_.assign(column_ports_.size(), 0);
        if (!augment(row)) break;
      }
    }
  }

  bool has(size_t row, size_t column) const { return taken_[row][column] != 0; }

 private:
  bool augment(uint32_t row) {
    for (const uint32_t column : edges_[row]) {
      if (taken_[row][column] || seen_[column]) continue;
      seen_[column] = 1;
      // A free port of the column: the path ends here.
      if (users_[column].size() < column_ports_[column]) {
        users_[column].push_back(row);
        taken_[row][column] = 1;
        return true;
      }
      // All are in use: some user may find another column, and leave its port.
      for (uint32_t& user : users_[column]) {
        const uint32_t other = user;
        if (!augment(other)) continue;
        taken_[other][column] = 0;
        taken_[row][column] = 1;
        user = row;
        return true;
      }
    }
    return false;
  }

  std::vector<std::vector<uint32_t>> edges_;
  std::vector<uint32_t> row_ports_, column_ports_;
  std::vector<std::vector<uint32_t>> users_;
  std::vector<std::vector<uint8_t>> taken_;
  std::vector<uint8_t> seen_;
};

// Counts of pairs whose two roundings differ become the upper or the lower of the two in turns along trails of such
// pairs. Trails that begin at an endpoint with an odd number of them come first; a closed one of odd length begins and
// ends with the lower, so that no endpoint gets more than it had.
class HalfLinks {
 public:
  explicit HalfLinks(size_t n) : n_(n), open_(n * n) {}

  void add(size_t i, size_t j) { open_[i * n_ + j] = open_[j * n_ + i] = 1; }

  // Calls `up(i, j)` for those that become the upper one.
  template <typename Up>
  void round(Up up) {
    for (size_t i = 0; i < n_; ++i) {
      if (degree(i) % 2 == 1) walk(i, up);
    }
    for (size_t i = 0; i < n_; ++i) {
      while (degree(i) > 0) walk(i, up);
    }
  }

 private:
  size_t degree(size_t i) const {
    return static_cast<size_t>(std::count(open_.begin() + static_cast<ptrdiff_t>(i * n_),
                                          open_.begin() + static_cast<ptrdiff_t>((i + 1) * n_), 1));
  }
  template <typename Up>
  void walk(size_t start, Up up) {
    // The trail goes on as long as some pair is open; each is used once.
    std::vector<std::pair<size_t, size_t>> trail;
    size_t at = start;
    while (true) {
      size_t to = 0;
      while (to < n_ && !open_[at * n_ + to]) ++to;
      if (to == n_) break;
      open_[at * n_ + to] = open_[to * n_ + at] = 0;
      trail.emplace_back(at, to);
      at = to;
    }
    // Ups and downs take turns, so every endpoint on the way has as many of both.
    const bool is_closed = at == start;
    const size_t first = is_closed && trail.size() % 2 == 1 ? 1 : 0;
    for (size_t step = first; step < trail.size(); step += 2) up(trail[step].first, trail[step].second);
  }

  size_t n_;
  std::vector<uint8_t> open_;
};

struct FreePorts {
  std::vector<uint32_t> out, in;
};

FreePorts free_ports(std::span<const uint32_t> links, const Ports& ports) {
  const size_t n = ports.endpoints;
  FreePorts free{.out = std::vector<uint32_t>(n, ports.each), .in = std::vector<uint32_t>(n, ports.each)};
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      free.out[i] -= links[i * n + j];
      free.in[j] -= links[i * n + j];
    }
  }
  return free;
}

struct Wish {
  double size = 0;
  size_t from = 0, to = 0;

  bool operator<(const Wish& other) const {
    return size != other.size ? size < other.size : std::pair(from, to) > std::pair(other.from, other.to);
  }
};

void add_link(std::vector<uint32_t>& links, const Ports& ports, size_t from, size_t to) {
  ++links[from * ports.endpoints + to];
  if (ports.wiring == Wiring::cables) ++links[to * ports.endpoints + from];
}

void take_link(std::vector<uint32_t>& links, const Ports& ports, size_t from, size_t to) {
  --links[from * ports.endpoints + to];
  if (ports.wiring == Wiring::cables) --links[to * ports.endpoints + from];
}

// Leads a link of two others through an endpoint that has a port (of cables: two) free on both sides, the link that is
// least wished for.
bool lead_through(std::vector<uint32_t>& links, const Ports& ports, size_t through,
                  const std::function<double(size_t, size_t)>& wish) {
  const size_t n = ports.endpoints;
  // The link that is least wished for makes way.
  std::optional<std::pair<size_t, size_t>> least;
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (i == through || j == through || links[i * n + j] == 0) continue;
      if (!least || wish(i, j) < wish(least->first, least->second)) least = {i, j};
    }
  }
  if (!least) return false;
  take_link(links, ports, least->first, least->second);
  add_link(links, ports, least->first, through);
  add_link(links, ports, through, least->second);
  return true;
}

}  // namespace

std::vector<uint32_t> round_links(std::span<const uint64_t> shares, uint64_t scale, const Ports& ports) {
  const size_t n = ports.endpoints;
  std::vector<uint32_t> links(n * n);
  std::vector<std::vector<uint32_t>> edges(n);
  // Whole links first. What is left of each pair is rounded up or down by a matching within the ports that are left.
  for (size_t e = 0; e < n * n; ++e) links[e] = static_cast<uint32_t>(shares[e] / scale);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (shares[i * n + j] % scale != 0) edges[i].push_back(static_cast<uint32_t>(j));
    }
    std::stable_sort(edges[i].begin(), edges[i].end(),
                     [&](uint32_t a, uint32_t b) { return shares[i * n + a] % scale > shares[i * n + b] % scale; });
  }
  // What is left of a line beyond its floors, in whole ports, rounded up.
  std::vector<uint32_t> row_ports(n), column_ports(n);
  for (size_t i = 0; i < n; ++i) {
    uint64_t row = 0, column = 0;
    for (size_t j = 0; j < n; ++j) {
      row += shares[i * n + j] % scale;
      column += shares[j * n + i] % scale;
    }
    row_ports[i] = static_cast<uint32_t>((row + scale - 1) / scale);
    column_ports[i] = static_cast<uint32_t>((column + scale - 1) / scale);
  }
  const PortMatching matching(std::move(edges), std::move(row_ports), std::move(column_ports));
  // A cable needs both directions: pairs that the matching gave one of them are rounded together.
  HalfLinks halves(n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) {
      if (ports.wiring == Wiring::circuits) {
        links[i * n + j] += matching.has(i, j);
      } else if (i < j && matching.has(i, j) && matching.has(j, i)) {
        add_link(links, ports, i, j);
      } else if (i < j && matching.has(i, j) != matching.has(j, i)) {
        halves.add(i, j);
      }
    }
  }
  halves.round([&](size_t i, size_t j) { add_link(links, ports, i, j); });
  return links;
}

void fill_ports(std::vector<uint32_t>& links, const Ports& ports,
                const std::function<double(size_t from, size_t to)>& wish) {
  const size_t n = ports.endpoints;
  const uint32_t enough = ports.wiring == Wiring::cables ? 2 : 1;  // to lead a link through
  while (true) {
    // 1. Links go where they are wished for most, as long as both ends have a free port.
    FreePorts free = free_ports(links, ports);
    std::priority_queue<Wish> wishes;
    for (size_t i = 0; i < n; ++i) {
      for (size_t j = 0; j < n; ++j) {
        if (i != j && free.out[i] > 0 && free.in[j] > 0) wishes.push({.size = wish(i, j), .from = i, .to = j});
      }
    }
    while (!wishes.empty()) {
      Wish best = wishes.top();
      wishes.pop();
      if (free.out[best.from] == 0 || free.in[best.to] == 0) continue;
      // Of a cable, the other direction has changed, too.
      if (const double now = wish(best.from, best.to); now != best.size) {
        best.size = now;
        wishes.push(best);
        continue;
      }
      add_link(links, ports, best.from, best.to);
      --free.out[best.from];
      --free.in[best.to];
      if (ports.wiring == Wiring::cables) {
        --free.out[best.to];
        --free.in[best.from];
      }
      best.size = wish(best.from, best.to);
      wishes.push(best);
    }
    // 2. An endpoint that still has ports free has no partner: a link of two others is led through it, and so on.
    size_t through = 0;
    while (through < n && (free.out[through] < enough || free.in[through] < enough)) ++through;
    if (through == n || !lead_through(links, ports, through, wish)) return;
  }
}

std::vector<uint32_t> even_mesh(const Ports& ports) {
  const size_t n = ports.endpoints;
  const uint32_t whole = ports.each / static_cast<uint32_t>(n - 1);
  std::vector<uint32_t> links(n * n);
  for (size_t i = 0; i < n; ++i) {
    for (size_t j = 0; j < n; ++j) links[i * n + j] = i == j ? 0 : whole;
  }
  // Ceilings round the circle: a distance after the other, as long as a port is free for it at both ends.
  uint32_t left = ports.each - whole * static_cast<uint32_t>(n - 1);
  for (size_t distance = 1; distance < n && left > 0; ++distance) {
    const bool both_ways = ports.wiring == Wiring::cables;
    if (both_ways && 2 * distance > n) break;
    // Cables of one distance use two ports of each endpoint, or one where the distance is half of the circle.
    const uint32_t takes = both_ways && 2 * distance < n ? 2 : 1;
    if (takes > left) continue;
    for (size_t i = 0; i < n; ++i) {
      const size_t j = (i + distance) % n;
      ++links[i * n + j];
      if (both_ways && 2 * distance < n) ++links[j * n + i];
    }
    left -= takes;
  }
  fill_ports(links, ports, [&](size_t i, size_t j) { return -static_cast<double>(links[i * n + j]); });
  return links;
}

std::vector<uint32_t> random_regular(const Ports& ports, uint64_t seed) {
  std::vector<uint32_t> links = even_mesh(ports);
  EndExchange ends(links, ports);
  std::mt19937_64 random(seed);
  const size_t count = ends.link_count();
  for (size_t round = 0; round < 20 * count; ++round) {
    const size_t first = random() % count, second = random() % count;
    // Exchanges keep every endpoint's ports, so the topology stays regular.
    ends.exchange(first, second, random() % 2 == 0);
    ends.keep();
  }
  return links;
}

bool joins_all(std::span<const uint32_t> links, size_t endpoints) {
  const size_t n = endpoints;
  // Endpoint 0 must reach all others and be reached by all: then each reaches each through it.
  for (const bool forward : {true, false}) {
    std::vector<uint8_t> seen(n);
    std::vector<size_t> stack{0};
    seen[0] = 1;
    size_t reached = 1;
    while (!stack.empty()) {
      const size_t at = stack.back();
      stack.pop_back();
      for (size_t to = 0; to < n; ++to) {
        if (seen[to] || (forward ? links[at * n + to] : links[to * n + at]) == 0) continue;
        seen[to] = 1;
        ++reached;
        stack.push_back(to);
      }
    }
    if (reached < n) return false;
  }
  return true;
}

EndExchange::EndExchange(std::vector<uint32_t>& links, const Ports& ports) : links_(links), ports_(ports) {
  const size_t n = ports.endpoints;
  out_.resize(n);
  in_.resize(n);
  for (uint32_t i = 0; i < n; ++i) {
    for (uint32_t j = 0; j < n; ++j) {
      out_[i] += links[i * n + j];
      in_[j] += links[i * n + j];
      // A cable stands twice in the table and is one link here.
      if (ports.wiring == Wiring::cables && i > j) continue;
      for (uint32_t copy = 0; copy < links[i * n + j]; ++copy) ends_.push_back({.from = i, .to = j});
    }
  }
}

void EndExchange::count(Ends ends, int by) {
  const auto add = [&](uint32_t from, uint32_t to) {
    links_[from * ports_.endpoints + to] += static_cast<uint32_t>(by);
    out_[from] += static_cast<uint32_t>(by);
    in_[to] += static_cast<uint32_t>(by);
  };
  add(ends.from, ends.to);
  if (ports_.wiring == Wiring::cables) add(ends.to, ends.from);
}

void EndExchange::put(size_t link, Ends ends) {
  // The journal knows the link as it was.
  journal_.emplace_back(link, ends_[link]);
  count(ends_[link], -1);
  ends_[link] = ends;
  count(ends, 1);
}

bool EndExchange::exchange(size_t first, size_t second, bool turned) {
  // Ends of two links change places: every endpoint keeps its ports.
  Ends a = ends_[first], b = ends_[second];
  if (first == second) return false;
  if (ports_.wiring == Wiring::cables && turned) std::swap(b.from, b.to);
  if (a.from == b.to || b.from == a.to || a.from == b.from || a.to == b.to) return false;
  put(first, {.from = a.from, .to = b.to});
  put(second, {.from = b.from, .to = a.to});
  return true;
}

bool EndExchange::move_end(size_t link, size_t to, bool of_head) {
  // Only an endpoint with a port free can take the end of a link.
  Ends ends = ends_[link];
  const uint32_t used = of_head || ports_.wiring == Wiring::cables ? in_[to] : out_[to];
  if (to == ends.from || to == ends.to || used >= ports_.each) return false;
  (of_head ? ends.to : ends.from) = static_cast<uint32_t>(to);
  put(link, ends);
  return true;
}

bool EndExchange::swap_endpoints(uint32_t one, uint32_t other) {
  if (one == other) return false;
  const auto image = [&](uint32_t endpoint) { return endpoint == one ? other : endpoint == other ? one : endpoint; };
  for (size_t link = 0; link < ends_.size(); ++link) {
    const Ends moved{.from = image(ends_[link].from), .to = image(ends_[link].to)};
    if (moved.from != ends_[link].from || moved.to != ends_[link].to) put(link, moved);
  }
  return true;
}

void EndExchange::undo() {
  for (; !journal_.empty(); journal_.pop_back()) {
    // The latest change first, so that the links become what they were.
    const auto& [link, ends] = journal_.back();
    count(ends_[link], -1);
    ends_[link] = ends;
    count(ends, 1);
  }
}

}  // namespace banyan::design
