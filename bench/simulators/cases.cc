#include "bench/simulators/cases.h"

#include <algorithm>
#include <ctime>
#include <limits>
#include <queue>
#include <random>

#include "banyan/fabric/generate.h"
#include "banyan/fabric/routing.h"

namespace banyan::bench {
namespace {

constexpr uint64_t kSeed = 1;

class CpuClock {
 public:
  double seconds() const { return now() - start_; }

 private:
  static double now() {
    timespec time{};
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
  }
  double start_ = now();
};

std::vector<double> capacities_of(const Fabric& fabric) {
  std::vector<double> capacities;
  for (const Link& link : fabric.links()) capacities.push_back(static_cast<double>(link.bandwidth.bytes_per_second()));
  return capacities;
}

// Rates of flows by water-filling.
class WaterFilling {
 public:
  WaterFilling(std::vector<double> capacities, std::vector<std::vector<LinkId>> ways)
      : capacities_(std::move(capacities)), ways_(std::move(ways)), on_link_(capacities_.size()) {}

  void fill(const std::vector<uint32_t>& flows, std::vector<double>& rates) {
    std::vector<double> left = capacities_;
    std::vector<uint32_t> rising(capacities_.size(), 0);
    for (auto& list : on_link_) list.clear();
    for (const uint32_t flow : flows) {
      rates[flow] = -1;
      for (const LinkId link : ways_[flow]) {
        ++rising[index(link)];
        on_link_[index(link)].push_back(flow);
      }
    }
    using Entry = std::pair<double, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> queue;
    for (uint32_t link = 0; link < left.size(); ++link) {
      if (rising[link] > 0) queue.emplace(left[link] / rising[link], link);
    }
    while (!queue.empty()) {
      const auto [level, link] = queue.top();
      queue.pop();
      if (rising[link] == 0) continue;
      const double now = left[link] / rising[link];
      if (now > level) {
        queue.emplace(now, link);
        continue;
      }
      for (const uint32_t flow : on_link_[link]) {
        if (rates[flow] >= 0) continue;
        rates[flow] = now;
        for (const LinkId other : ways_[flow]) {
          left[index(other)] -= now;
          --rising[index(other)];
        }
      }
    }
  }

 private:
  const std::vector<double> capacities_;
  const std::vector<std::vector<LinkId>> ways_;
  std::vector<std::vector<uint32_t>> on_link_;
};

}  // namespace

Case random_pairs() {
  return {.name = "8,192 random pairs",
          .fabric = fabric::generate_fabric("fat-tree:k=16"),
          .phases = 1,
          .flows = [](const Fabric& fabric, uint32_t) {
            std::mt19937_64 random(kSeed);
            const uint32_t ranks = static_cast<uint32_t>(fabric.ranks().size());
            std::vector<CaseFlow> flows(8192);
            for (CaseFlow& flow : flows) {
              flow.from = static_cast<uint32_t>(random() % ranks);
              flow.to = static_cast<uint32_t>((flow.from + 1 + random() % (ranks - 1)) % ranks);
              flow.bytes = static_cast<double>((1 << 20) + random() % (63 << 20));
            }
            return flows;
          }};
}

Case all_to_all() {
  return {.name = "65,280-flow all-to-all",
          .fabric = fabric::generate_fabric("fat-tree:k=16"),
          .phases = 1,
          .flows = [](const Fabric&, uint32_t) {
            std::mt19937_64 random(kSeed);
            std::vector<CaseFlow> flows;
            for (uint32_t from = 0; from < 256; ++from) {
              for (uint32_t to = 0; to < 256; ++to) {
                if (from == to) continue;
                flows.push_back({from, to, static_cast<double>((64 << 10) + random() % (960 << 10))});
              }
            }
            return flows;
          }};
}

Case shifts() {
  return {.name = "1,023 shifts of 1,024 hosts",
          .fabric = fabric::generate_fabric("fat-tree:k=16"),
          .phases = 1023,
          .flows = [](const Fabric& fabric, uint32_t phase) {
            const uint32_t ranks = static_cast<uint32_t>(fabric.ranks().size());
            std::vector<CaseFlow> flows(ranks);
            for (uint32_t from = 0; from < ranks; ++from) flows[from] = {from, (from + phase + 1) % ranks, 64 << 10};
            return flows;
          }};
}

struct Ways::Impl {
  Fabric fabric;
  fabric::Routing routing;
};
Ways::Ways(const Fabric& fabric) : impl_(new Impl{fabric, fabric::Routing(fabric)}) {}
Ways::~Ways() { delete impl_; }
std::vector<LinkId> Ways::find(const CaseFlow& flow) {
  std::vector<LinkId> way;
  impl_->routing.find(impl_->fabric.ranks()[flow.from], impl_->fabric.ranks()[flow.to], 0, way);
  return way;
}

Answer ours(const Case& what, Picoseconds window) {
  Ways ways(what.fabric);
  const CpuClock clock;
  predict::FluidNetwork network(capacities_of(what.fabric), {.window = window});
  Answer answer;
  size_t flows = 0;
  std::vector<predict::FluidHop> hops;
  for (uint32_t phase = 0; phase < what.phases; ++phase) {
    for (const CaseFlow& flow : what.flows(what.fabric, phase)) {
      hops.clear();
      for (const LinkId link : ways.find(flow)) hops.push_back({index(link), 1});
      network.start({.hops = hops, .bytes = flow.bytes});
    }
    while (network.flow_count() > 0) {
      const size_t ended = network.advance(network.next()).size();
      flows += ended;
      answer.mean_end += static_cast<double>(ended) * static_cast<double>(network.now().count()) * 1e-12;
    }
  }
  answer.makespan = static_cast<double>(network.now().count()) * 1e-12;
  answer.mean_end /= static_cast<double>(flows);
  answer.cpu_seconds = clock.seconds();
  answer.of_all = network.window_error().of_all;
  return answer;
}

Answer plain(const Case& what) {
  Ways ways(what.fabric);
  const CpuClock clock;
  Answer answer;
  double now = 0;
  size_t flows = 0;
  for (uint32_t phase = 0; phase < what.phases; ++phase) {
    const std::vector<CaseFlow> started = what.flows(what.fabric, phase);
    std::vector<std::vector<LinkId>> links;
    std::vector<double> left, rates(started.size(), 0);
    std::vector<uint32_t> moving;
    for (const CaseFlow& flow : started) {
      links.push_back(ways.find(flow));
      left.push_back(flow.bytes);
      moving.push_back(static_cast<uint32_t>(moving.size()));
    }
    WaterFilling water(capacities_of(what.fabric), std::move(links));
    while (!moving.empty()) {
      water.fill(moving, rates);
      double step = std::numeric_limits<double>::infinity();
      for (const uint32_t flow : moving) step = std::min(step, left[flow] / rates[flow]);
      now += step;
      std::vector<uint32_t> still;
      for (const uint32_t flow : moving) {
        left[flow] -= rates[flow] * step;
        if (left[flow] > 1e-9 * started[flow].bytes) {
          still.push_back(flow);
        } else {
          answer.mean_end += now;
          ++flows;
        }
      }
      moving.swap(still);
    }
  }
  answer.makespan = now;
  answer.mean_end /= static_cast<double>(flows);
  answer.cpu_seconds = clock.seconds();
  return answer;
}

}  // namespace banyan::bench
