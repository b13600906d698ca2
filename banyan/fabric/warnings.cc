#include "banyan/fabric/warnings.h"

#include <algorithm>
#include <map>
#include <string_view>
#include <utility>

namespace banyan::fabric {
namespace {

// Far outside of what is sold: the fastest ports of 2026 move below 2 TB/s each way, the slowest 100 Mb/s.
constexpr Bandwidth kFastest = Bandwidth::gigabytes_per_second(20'000);
constexpr Bandwidth kSlowest = Bandwidth::bytes_per_second(10'000'000);
constexpr Picoseconds kLongest = std::chrono::milliseconds(500);  // once round the earth and more
constexpr double kLossiest = 0.1;

// The lines of one kind of finding: the first few, and how many more there are.
class Finding {
 public:
  explicit Finding(std::string_view kind) : kind_(kind) {}
  void add(std::string line) {
    if (++count_ <= kShown) lines_.push_back(std::move(line));
  }
  void move_into(std::vector<std::string>& all) && {
    for (std::string& line : lines_) all.push_back(std::move(line));
    if (count_ > kShown) all.push_back("... and " + std::to_string(count_ - kShown) + " more " + std::string(kind_));
  }

 private:
  static constexpr size_t kShown = 3;
  std::string_view kind_;
  size_t count_ = 0;
  std::vector<std::string> lines_;
};

std::string describe(const Fabric& fabric, const Link& link) {
  return "link " + fabric.name(link.from) + " -> " + fabric.name(link.to);
}

// Sums cannot overflow: kMaxLinks links of kMaxBytesPerSecond are beyond 64 bits, so they are kept in 128.
std::string rate(int128 bytes_per_second) {
  if (bytes_per_second > static_cast<int128>(INT64_MAX)) return "over 9 EB/s";
  return Bandwidth::bytes_per_second(static_cast<uint64_t>(bytes_per_second)).to_string();
}

template <typename Links>
int128 total(const Fabric& fabric, const Links& links) {
  int128 sum = 0;
  for (const LinkId id : links) sum += static_cast<int128>(fabric.link(id).bandwidth.bytes_per_second());
  return sum;
}

void compare_directions(const Fabric& fabric, std::vector<std::string>& all) {
  struct Both {
    int128 forth = 0, back = 0;
  };
  std::map<std::pair<NodeId, NodeId>, Both> cables;
  for (const Link& link : fabric.links()) {
    Both& both = cables[std::minmax(link.from, link.to)];
    (link.from < link.to ? both.forth : both.back) += static_cast<int128>(link.bandwidth.bytes_per_second());
  }
  Finding one_way("one-way links"), uneven("cables with uneven directions");
  for (const auto& [ends, both] : cables) {
    const std::string &a = fabric.name(ends.first), &b = fabric.name(ends.second);
    if (both.forth == 0 || both.back == 0) {
      const std::string arrow = both.back == 0 ? a + " -> " + b : b + " -> " + a;
      one_way.add("link " + arrow + " is one-way: nothing leads straight back");
    } else if (both.forth != both.back) {
      uneven.add("cable " + a + " <-> " + b + " has " + rate(both.forth) + " forth and " + rate(both.back) + " back");
    }
  }
  std::move(one_way).move_into(all);
  std::move(uneven).move_into(all);
}

// Switches through which nothing passes on its way from rank to rank, found by pruning dead ends until none is left.
std::vector<bool> idle_switches(const Fabric& fabric) {
  const size_t count = fabric.nodes().size();
  std::vector<std::vector<NodeId>> near(count);
  for (const Link& link : fabric.links()) {
    near[index(link.from)].push_back(link.to);
    near[index(link.to)].push_back(link.from);
  }
  std::vector<size_t> left(count);
  std::vector<bool> idle(count, false);
  std::vector<NodeId> queue;
  const auto check = [&](NodeId id) {
    if (fabric.is_rank(id) || idle[index(id)] || left[index(id)] > 1) return;
    idle[index(id)] = true;
    queue.push_back(id);
  };
  for (uint32_t v = 0; v < count; ++v) {
    std::sort(near[v].begin(), near[v].end());
    near[v].erase(std::unique(near[v].begin(), near[v].end()), near[v].end());
    left[v] = near[v].size();
  }
  for (uint32_t v = 0; v < count; ++v) check(NodeId{v});
  while (!queue.empty()) {
    const NodeId id = queue.back();
    queue.pop_back();
    for (const NodeId neighbour : near[index(id)]) {
      --left[index(neighbour)];
      check(neighbour);
    }
  }
  return idle;
}

void look_at_switches(const Fabric& fabric, std::vector<std::string>& all) {
  Finding idle_found("idle switches"), unbalanced("unbalanced switches");
  const std::vector<bool> idle = idle_switches(fabric);
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    const NodeId id{v};
    if (fabric.is_rank(id)) continue;
    const int128 in = total(fabric, fabric.in_links(id)), out = total(fabric, fabric.out_links(id));
    if (idle[v] || in == 0 || out == 0) {
      idle_found.add("switch " + fabric.name(id) + " leads nowhere: no traffic between ranks can pass it");
    } else if (in != out) {
      unbalanced.add("switch " + fabric.name(id) + " takes in " + rate(in) + " but gives out " + rate(out));
    }
  }
  std::move(idle_found).move_into(all);
  std::move(unbalanced).move_into(all);
}

void look_at_figures(const Fabric& fabric, std::vector<std::string>& all) {
  Finding fast("links of absurd speed"), slow("very slow links"), late("links of absurd latency"), lossy("lossy links");
  for (const Link& link : fabric.links()) {
    const std::string speed = link.bandwidth.to_string();
    if (link.bandwidth > kFastest)
      fast.add(describe(fabric, link) + ": no product moves " + speed + "; check the unit");
    if (link.bandwidth < kSlowest) slow.add(describe(fabric, link) + ": " + speed + " is very slow; check the unit");
    if (link.latency > kLongest)
      late.add(describe(fabric, link) + ": a latency of " + to_string(link.latency) + "; check the unit");
    if (link.loss > kLossiest) lossy.add(describe(fabric, link) + " loses more than a tenth of what it carries");
  }
  for (Finding* finding : {&fast, &slow, &late, &lossy}) std::move(*finding).move_into(all);
}

void compare_ranks(const Fabric& fabric, std::vector<std::string>& all) {
  const auto compare = [&](const char* verb, const char* kind, auto links_of) {
    std::vector<int128> rates;
    for (const NodeId id : fabric.ranks()) rates.push_back(total(fabric, links_of(id)));
    std::vector<int128> sorted = rates;
    const auto middle = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2);
    std::nth_element(sorted.begin(), middle, sorted.end());
    Finding weak(kind);
    for (size_t i = 0; i < rates.size(); ++i) {
      if (2 * rates[i] >= *middle) continue;
      weak.add("rank " + fabric.name(fabric.ranks()[i]) + " " + verb + " at " + rate(rates[i]) +
               ", the median rank at " + rate(*middle));
    }
    std::move(weak).move_into(all);
  };
  compare("sends", "slow senders", [&](NodeId id) { return fabric.out_links(id); });
  compare("receives", "slow receivers", [&](NodeId id) { return fabric.in_links(id); });
}

}  // namespace

std::vector<std::string> warnings(const Fabric& fabric) {
  std::vector<std::string> all;
  compare_directions(fabric, all);
  look_at_switches(fabric, all);
  look_at_figures(fabric, all);
  compare_ranks(fabric, all);
  return all;
}

}  // namespace banyan::fabric
