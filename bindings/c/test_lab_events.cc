#include "bindings/c/test_lab_events.h"

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <sstream>

namespace banyan::c {
namespace {

// From cables such as "a-b a-swl", with the ranks in the order in which they first appear.
LabTopology topology(const std::string& name, const std::string& cables, bool is_switched) {
  LabTopology made{.name = name, .nodes = {}, .graph = {}, .is_switched = is_switched};
  std::vector<std::string> switches;
  std::vector<std::pair<std::string, std::string>> ends;
  std::istringstream words(cables);
  for (std::string word; words >> word;) {
    const size_t dash = word.find('-');
    ends.emplace_back(word.substr(0, dash), word.substr(dash + 1));
    for (const std::string& node : {ends.back().first, ends.back().second}) {
      std::vector<std::string>& kind = node.starts_with("sw") ? switches : made.nodes;
      if (std::find(kind.begin(), kind.end(), node) == kind.end()) kind.push_back(node);
    }
  }
  made.graph.ranks = made.nodes.size();
  made.nodes.insert(made.nodes.end(), switches.begin(), switches.end());
  made.graph.nodes = made.nodes.size();
  const auto number = [&](const std::string& node) {
    return static_cast<size_t>(std::find(made.nodes.begin(), made.nodes.end(), node) - made.nodes.begin());
  };
  for (const auto& [a, b] : ends) made.graph.cables.emplace_back(number(a), number(b));
  return made;
}

using Kind = LabEvent::Kind;

class Draw {
 public:
  Draw(const LabTopology& topology, uint64_t seed) : topology_(topology), random_(seed) {}

  // Between one and four losses, some short, some longer than the timeout of calls.
  std::vector<LabEvent> cuts() {
    const size_t count = 1 + below(4);
    std::vector<LabTime> whole_from(topology_.graph.cables.size(), LabTime(0));
    bool has_been_long = false;
    LabTime at{500};
    for (size_t i = 0; i < count; ++i) {
      at += below(5) == 0 ? between(0, 500) : between(1000, 5000);
      const size_t cable = below(whole_from.size());
      if (whole_from[cable] > at) continue;
      const LabTime lasts = duration(has_been_long);
      const bool is_alone = *std::max_element(whole_from.begin(), whole_from.end()) <= at;
      LabEvent event{.at = at, .kind = below(4) == 0 ? Kind::lose_one_way : Kind::cut, .cable = cable};
      event.node = end_of(cable);
      // What the network does not notice, it does not mend: the ranks can walk round one of these at a time.
      event.is_noticed = event.kind == Kind::cut || !topology_.is_switched || !is_alone || below(2) == 0;
      lose(event, lasts);
      whole_from[cable] = at + lasts + LabTime(300);
      if (!event.is_noticed) at += lasts;
    }
    return in_order();
  }

  std::vector<LabEvent> resets() {
    LabTime at{0};
    for (size_t i = 0, count = 1 + below(5); i < count; ++i) {
      at += between(50, 3000);
      events_.push_back({.at = at, .kind = Kind::reset, .node = below(topology_.graph.ranks)});
    }
    return in_order();
  }

  std::vector<LabEvent> rejects() {
    LabTime at{0};
    for (size_t i = 0, count = 1 + below(2); i < count; ++i) {
      at += between(200, 2000);
      const size_t rank = below(topology_.graph.ranks);
      const Kind kind = below(2) == 0 ? Kind::reject_coming : Kind::reject_going;
      events_.push_back({.at = at, .kind = kind, .node = rank});
      at += LabTime(500);
      events_.push_back({.at = at, .kind = Kind::accept, .node = rank});
      at += LabTime(4000);
    }
    return in_order();
  }

  // For longer than the timeout.
  std::vector<LabEvent> grey() {
    std::vector<size_t> between_switches;
    for (size_t cable = 0; cable < topology_.graph.cables.size(); ++cable) {
      if (topology_.graph.cables[cable].first >= topology_.graph.ranks) between_switches.push_back(cable);
    }
    const size_t cable = between_switches[below(between_switches.size())];
    const LabEvent event{
        .at = between(0, 1500), .kind = Kind::lose_one_way, .cable = cable, .node = end_of(cable), .is_noticed = false};
    lose(event, LabTime(11'000));
    return in_order();
  }

 private:
  size_t below(size_t limit) { return std::uniform_int_distribution<size_t>(0, limit - 1)(random_); }
  LabTime between(int least, int most) { return LabTime(std::uniform_int_distribution<int>(least, most)(random_)); }

  size_t end_of(size_t cable) {
    const auto& [a, b] = topology_.graph.cables[cable];
    return below(2) == 0 ? a : b;
  }
  // One long one in a run is enough.
  LabTime duration(bool& has_been_long) {
    const size_t percent = below(100);
    if (percent < 15) return between(200, 1000);
    if (percent < 60) return between(1000, 4500);
    if (percent < 80 || has_been_long) return between(4500, 7000);
    has_been_long = true;
    return between(11'000, 13'000);
  }
  void lose(const LabEvent& event, LabTime lasts) {
    events_.push_back(event);
    events_.push_back({.at = event.at + lasts, .kind = Kind::mend, .cable = event.cable});
  }
  std::vector<LabEvent> in_order() {
    std::stable_sort(events_.begin(), events_.end(), [](const auto& a, const auto& b) { return a.at < b.at; });
    return events_;
  }

  const LabTopology& topology_;
  std::mt19937_64 random_;
  std::vector<LabEvent> events_;
};

}  // namespace

std::string LabTopology::cable_name(size_t cable) const {
  return nodes[graph.cables[cable].first] + "-" + nodes[graph.cables[cable].second];
}

std::string LabTopology::fabric() const {
  std::string text;
  for (const auto& [a, b] : graph.cables) text += nodes[a] + " <-> " + nodes[b] + " 100Mb/s; ";
  return text;
}

const std::vector<LabTopology>& lab_topologies() {
  static const std::vector<LabTopology> all{
      topology("ring", "a-b b-c c-d d-a", false),
      topology("spines", "a-swl b-swl c-swm d-swm swl-sws swl-swt swm-sws swm-swt", true),
      topology("star", "a-sw b-sw c-sw d-sw", true),
      topology("mesh", "a-b b-c a-d d-e e-f b-e c-f", false),
      topology("chord", "a-b b-c c-d d-a a-c", false),
      topology("rails", "a-swl b-swl c-swl d-swl a-swr b-swr c-swr d-swr", true),
  };
  return all;
}

const LabTopology& host_topology() {
  static const LabTopology host{
      .name = "host", .nodes = {"a", "b", "c", "d"}, .graph = {.nodes = 4, .ranks = 4, .cables = {}}};
  return host;
}

std::string LabEvent::in_words(const LabTopology& topology) const {
  char time[32];
  snprintf(time, sizeof time, "%.1f s ", static_cast<double>(at.count()) / 1000);
  switch (kind) {
    case Kind::cut:
      return time + ("cut " + topology.cable_name(cable));
    case Kind::lose_one_way:
      return time + (topology.cable_name(cable) + " loses what comes from " + topology.nodes[node]) +
             (is_noticed ? "" : ", unnoticed");
    case Kind::mend:
      return time + ("mend " + topology.cable_name(cable));
    case Kind::reset:
      return time + ("reset " + topology.nodes[node]);
    case Kind::reject_coming:
      return time + (topology.nodes[node] + " rejects what comes");
    case Kind::reject_going:
      return time + (topology.nodes[node] + " rejects what goes");
    case Kind::accept:
      return time + (topology.nodes[node] + " accepts");
  }
  return time;
}

std::vector<LabEvent> lab_events(const LabTopology& topology, LabMode mode, uint64_t seed) {
  Draw draw(topology, seed);
  switch (mode) {
    case LabMode::cuts:
      return draw.cuts();
    case LabMode::resets:
      return draw.resets();
    case LabMode::rejects:
      return draw.rejects();
    case LabMode::grey:
      return draw.grey();
  }
  return {};
}

}  // namespace banyan::c
