#include "banyan/job/kineto/link.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace banyan::job::kineto {
namespace {

constexpr uint32_t kNone = HostLinks::kNone;

// More left-overs than this are not looked for: the two are of different runs, or one is a piece of the other.
// Alignment keeps the square of them in numbers of 64 bits.
constexpr int64_t kMostLeftOver = 4'999;
constexpr int64_t kMostWork = 200'000'000;

using Pairs = std::vector<std::pair<uint32_t, uint32_t>>;
using Places = std::unordered_map<uint32_t, std::vector<uint32_t>>;  // by token: where it stands

bool is_operator(const Event& event) {
  return event.kind == Event::Kind::cpu_op || event.kind == Event::Kind::annotation;
}

// Pairs (i, j) of equal tokens, ascending in both, with the fewest tokens left over. False when more are left over than
// are looked for.
//
// Myers' greedy algorithm ("An O(ND) difference algorithm and its variations", 1986, figure 2). On diagonal k, x - y =
// k. Round d extends, on each diagonal that d left-overs can reach, the furthest point of round d - 1 by one left-over
// and then by all tokens that are equal. The first round that reaches (n, m) has the fewest left-overs. Each round is
// kept, so that the way back from the end finds from which diagonal its step came.
bool align(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b, Pairs& pairs) {
  const int64_t n = static_cast<int64_t>(a.size()), m = static_cast<int64_t>(b.size());
  const int64_t limit = std::min({n + m, kMostLeftOver, kMostWork / std::max<int64_t>(n + m, 1) + std::abs(n - m)});
  std::vector<int64_t> furthest(2 * static_cast<size_t>(limit) + 3, 0);
  const auto at = [&](int64_t diagonal) -> int64_t& { return furthest[static_cast<size_t>(diagonal + limit + 1)]; };
  std::vector<std::vector<int64_t>> rounds;
  for (int64_t d = 0; d <= limit; ++d) {
    // What a step back needs of this round: diagonals -d .. d.
    rounds.emplace_back(furthest.begin() + (limit + 1 - d), furthest.begin() + (limit + 2 + d));
    for (int64_t k = -d; k <= d; k += 2) {
      int64_t x = k == -d || (k != d && at(k - 1) < at(k + 1)) ? at(k + 1) : at(k - 1) + 1;
      int64_t y = x - k;
      while (x < n && y < m && a[static_cast<size_t>(x)] == b[static_cast<size_t>(y)]) {
        ++x;
        ++y;
      }
      at(k) = x;
      if (x < n || y < m) continue;
      // Back from the end, round by round: over the equal tokens to where the round began, then its one left-over.
      for (int64_t round = d; round >= 0; --round) {
        const std::vector<int64_t>& before = rounds[static_cast<size_t>(round)];
        const auto was = [&](int64_t diagonal) {
          return std::abs(diagonal) > round ? int64_t{-1} : before[static_cast<size_t>(diagonal + round)];
        };
        const int64_t diagonal = x - y;
        int64_t from_x = 0, from_y = 0;
        if (round > 0) {
          const bool down = diagonal == -round || (diagonal != round && was(diagonal - 1) < was(diagonal + 1));
          const int64_t previous = down ? diagonal + 1 : diagonal - 1;
          from_x = std::max<int64_t>(was(previous), 0);
          from_y = from_x - previous;
        }
        const int64_t start_x = round == 0 ? 0 : from_x + (diagonal > from_x - from_y ? 1 : 0);
        while (x > start_x && y > 0 && a[static_cast<size_t>(x - 1)] == b[static_cast<size_t>(y - 1)]) {
          --x;
          --y;
          pairs.emplace_back(static_cast<uint32_t>(x), static_cast<uint32_t>(y));
        }
        x = from_x;
        y = from_y;
      }
      std::reverse(pairs.begin(), pairs.end());
      return true;
    }
  }
  return false;
}

// Votes for a place or a difference. The one with most of them, the lowest of several; end() where there is none.
using Votes = std::unordered_map<int64_t, uint64_t>;
Votes::const_iterator most_voted(const Votes& votes) {
  return std::max_element(votes.begin(), votes.end(), [](const auto& a, const auto& b) {
    return a.second != b.second ? a.second < b.second : a.first > b.first;
  });
}

// Where in a long sequence a much shorter one most likely lies: pieces of the short one are looked for, and vote for
// the place of its beginning. Of several places that are equally good (steps that are alike), the first. Returns the
// part of the long one to align, with room to both sides.
std::pair<size_t, size_t> find_window(const std::vector<uint32_t>& whole, const std::vector<uint32_t>& part) {
  constexpr size_t kPiece = 24, kRoom = 200;
  const std::pair<size_t, size_t> all(0, whole.size());
  if (whole.size() < part.size() + 2 * kRoom || part.size() < kPiece) return all;
  Votes votes;
  for (size_t quarter = 0; quarter < 5; ++quarter) {
    const size_t at = (part.size() - kPiece) * quarter / 4;
    const auto begin = part.begin() + static_cast<std::ptrdiff_t>(at), end = begin + kPiece;
    for (auto found = std::search(whole.begin(), whole.end(), begin, end); found != whole.end();
         found = std::search(found + 1, whole.end(), begin, end)) {
      ++votes[(found - whole.begin()) - static_cast<int64_t>(at)];
    }
  }
  const auto best = most_voted(votes);
  if (best == votes.end() || best->second < 2) return all;
  // All pieces at one distance from each other: nothing is missing between.
  const size_t room = best->second == 5 ? 0 : kRoom;
  const auto first = static_cast<size_t>(std::max<int64_t>(best->first - static_cast<int64_t>(room), 0));
  const auto last = static_cast<size_t>(std::max<int64_t>(best->first + static_cast<int64_t>(part.size() + room), 0));
  return {first, std::min(whole.size(), last)};
}

class Linker {
 public:
  Linker(const Trace& kineto, const std::vector<uint32_t>& parents, const HostTrace& host)
      : kineto_(kineto), parents_(parents), host_(host), event_of_(host.nodes.size(), kNone) {
    links_.node_of.assign(kineto.events.size(), kNone);
    for (uint32_t i = 0; i < kineto.events.size(); ++i) {
      if (is_operator(kineto.events[i])) operators_.push_back(i);
    }
    NameTable both;
    for (uint32_t i = 0; i < kineto.names.size(); ++i) kineto_token_.push_back(both.add(kineto.names[i]));
    for (uint32_t i = 0; i < host.names.size(); ++i) host_token_.push_back(both.add(host.names[i]));
    for (uint32_t i = 0; i < host.nodes.size(); ++i) {
      if (host.nodes[i].record_id > 0) node_of_record_.try_emplace(host.nodes[i].record_id, i);
    }
    std::ranges::stable_sort(operators_, {}, [&](uint32_t i) { return kineto.events[i].begun(); });
  }

  HostLinks link() && {
    by_record_id();
    by_index();
    by_name();
    // Annotations, and the node that lists the groups, need no partner.
    for (const uint32_t event : operators_) {
      links_.counts.kineto_alone += links_.node_of[event] == kNone && kineto_.events[event].kind == Event::Kind::cpu_op;
    }
    for (uint32_t i = 0; i < event_of_.size(); ++i) {
      links_.counts.host_alone += event_of_[i] == kNone && !host_.name(host_.nodes[i]).starts_with("##");
    }
    return std::move(links_);
  }

 private:
  bool same_name(uint32_t event, uint32_t node) const {
    return kineto_token_[kineto_.events[event].name] == host_token_[host_.nodes[node].name];
  }

  void join(uint32_t event, uint32_t node) {
    links_.node_of[event] = node;
    event_of_[node] = event;
  }

  // Events and nodes of one number: those whose names are the same, and how many others there are.
  struct Claims {
    Pairs right;
    uint64_t wrong = 0;
  };
  void claim(uint32_t event, uint32_t node, Claims& claims) const {
    if (same_name(event, node)) {
      claims.right.emplace_back(event, node);
    } else {
      ++claims.wrong;
    }
  }

  // Joins those whose nodes are free, and counts them.
  uint64_t join_all(const Pairs& pairs) {
    uint64_t joined = 0;
    for (const auto& [event, node] : pairs) {
      if (event_of_[node] != kNone) continue;
      join(event, node);
      ++joined;
    }
    return joined;
  }

  // Both traces have the id of the operator's record.
  void by_record_id() {
    Claims claims;
    for (const uint32_t event : operators_) {
      const int64_t id = kineto_.events[event].record_id;
      if (id <= 0) continue;
      const auto at = node_of_record_.find(id);
      if (at != node_of_record_.end() && event_of_[at->second] == kNone) claim(event, at->second, claims);
    }
    links_.counts.contradicted_links = claims.wrong;
    // Ids that lie more often than not are of another run, and agree by chance (pytorch issue 123640).
    if (claims.wrong <= claims.right.size()) links_.counts.linked_by_record_id += join_all(claims.right);
  }

  // Kineto has the place of the operator in the profiler's own count ("Ev Idx"). It differs from the record's id by a
  // constant, which is found by votes.
  void by_index() {
    std::vector<uint32_t> indexed;
    for (const uint32_t event : operators_) {
      if (kineto_.events[event].index >= 0 && links_.node_of[event] == kNone) indexed.push_back(event);
    }
    if (indexed.empty() || node_of_record_.empty()) return;
    // Every operator votes with the nodes of its name that come at the same place among those of that name, from the
    // front and from the back.
    Places events_named, nodes_named;
    for (const uint32_t event : indexed) events_named[kineto_token_[kineto_.events[event].name]].push_back(event);
    for (uint32_t i = 0; i < host_.nodes.size(); ++i) nodes_named[host_token_[host_.nodes[i].name]].push_back(i);
    Votes votes;
    for (const auto& [token, events] : events_named) {
      const auto named = nodes_named.find(token);
      if (named == nodes_named.end()) continue;
      const size_t both = std::min(events.size(), named->second.size());
      for (size_t i = 0; i < both; ++i) {
        const auto vote = [&](uint32_t event, uint32_t node) {
          if (host_.nodes[node].record_id > 0) ++votes[host_.nodes[node].record_id - kineto_.events[event].index];
        };
        vote(events[i], named->second[i]);
        vote(events[events.size() - 1 - i], named->second[named->second.size() - 1 - i]);
      }
    }
    const auto best = most_voted(votes);
    if (best == votes.end()) return;
    Claims claims;
    for (const uint32_t event : indexed) {
      int64_t id = 0;
      if (__builtin_add_overflow(kineto_.events[event].index, best->first, &id)) continue;
      const auto at = node_of_record_.find(id);
      if (at != node_of_record_.end()) claim(event, at->second, claims);
    }
    // One in ten may differ: then the two counted different operators, and the difference is no constant.
    if (claims.wrong * 10 > claims.right.size()) return;
    links_.counts.contradicted_links += claims.wrong;
    links_.counts.linked_by_index += join_all(claims.right);
  }

  // What neither ids nor counts have linked: the two sequences of names are aligned.
  void by_name() {
    std::vector<uint32_t> events, nodes, event_names, node_names;
    for (const uint32_t event : operators_) {
      if (links_.node_of[event] != kNone) continue;
      events.push_back(event);
      event_names.push_back(kineto_token_[kineto_.events[event].name]);
    }
    for (uint32_t i = 0; i < host_.nodes.size(); ++i) {
      if (event_of_[i] != kNone) continue;
      nodes.push_back(i);
      node_names.push_back(host_token_[host_.nodes[i].name]);
    }
    if (events.empty() || nodes.empty()) return;
    const auto cut = [](std::vector<uint32_t>& values, std::pair<size_t, size_t> window) {
      values.erase(values.begin() + static_cast<std::ptrdiff_t>(window.second), values.end());
      values.erase(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(window.first));
    };
    // A profiler that ran for many steps, and an observer for one, or the other way round.
    const auto of_events = find_window(event_names, node_names), of_nodes = find_window(node_names, event_names);
    cut(events, of_events);
    cut(event_names, of_events);
    cut(nodes, of_nodes);
    cut(node_names, of_nodes);
    Pairs pairs;
    if (!align(event_names, node_names, pairs)) pairs = by_occurrence(event_names, node_names);
    for (auto& [i, j] : pairs) {
      i = events[i];
      j = nodes[j];
      join(i, j);
    }
    Pairs wrong_ones;
    // Where both have an operator around them and these are linked, they must be linked to each other.
    for (const auto& [event, node] : pairs) {
      const uint32_t around_event = parents_[event], around_node = host_.nodes[node].parent;
      const bool wrong = around_event != kNone && around_node != HostNode::kNone &&
                         links_.node_of[around_event] != kNone && event_of_[around_node] != kNone &&
                         links_.node_of[around_event] != around_node;
      if (wrong) wrong_ones.emplace_back(event, node);
    }
    links_.counts.linked_by_name += pairs.size() - wrong_ones.size();
    links_.counts.links_taken_back += wrong_ones.size();
    for (const auto& [event, node] : wrong_ones) {
      links_.node_of[event] = kNone;
      event_of_[node] = kNone;
    }
  }

  // For what cannot be aligned: the k-th of a name is the k-th of that name, where there are equally many.
  static Pairs by_occurrence(const std::vector<uint32_t>& a, const std::vector<uint32_t>& b) {
    Places in_a, in_b;
    for (uint32_t i = 0; i < a.size(); ++i) in_a[a[i]].push_back(i);
    for (uint32_t j = 0; j < b.size(); ++j) in_b[b[j]].push_back(j);
    Pairs pairs;
    for (const auto& [token, places] : in_a) {
      const auto others = in_b.find(token);
      if (others == in_b.end() || others->second.size() != places.size()) continue;
      for (size_t k = 0; k < places.size(); ++k) pairs.emplace_back(places[k], others->second[k]);
    }
    std::sort(pairs.begin(), pairs.end());
    return pairs;
  }

  const Trace& kineto_;
  const std::vector<uint32_t>& parents_;
  const HostTrace& host_;
  HostLinks links_;
  std::vector<uint32_t> operators_;                  // events, as they began
  std::vector<uint32_t> event_of_;                   // by node
  std::vector<uint32_t> kineto_token_, host_token_;  // by name: equal for equal names
  std::unordered_map<int64_t, uint32_t> node_of_record_;
};

}  // namespace

HostLinks link_host(const Trace& kineto, const std::vector<uint32_t>& parents, const HostTrace& host) {
  return Linker(kineto, parents, host).link();
}

// In the order of their beginnings, the outer one first, the operators that are still open form a stack: its top is the
// parent of the next event.
std::vector<uint32_t> nest_operators(const Trace& trace) {
  std::vector<uint32_t> order;
  for (uint32_t i = 0; i < trace.events.size(); ++i) {
    if (!trace.events[i].on_gpu()) order.push_back(i);
  }
  std::ranges::stable_sort(order, [&](uint32_t a, uint32_t b) {
    const Event &x = trace.events[a], &y = trace.events[b];
    if (x.track != y.track) return x.track < y.track;
    if (x.begun() != y.begun()) return x.begun() < y.begun();
    // An operator that is as long as the call within it is around it.
    return x.kind == Event::Kind::cpu_op && y.kind == Event::Kind::runtime;
  });
  std::vector<uint32_t> parents(trace.events.size(), HostLinks::kNone);
  std::vector<uint32_t> open;
  uint32_t track = UINT32_MAX;
  for (const uint32_t i : order) {
    const Event& event = trace.events[i];
    if (event.track != track) open.clear();
    track = event.track;
    while (!open.empty() && trace.events[open.back()].end() <= event.start &&
           event.start > trace.events[open.back()].start)
      open.pop_back();
    if (!open.empty()) parents[i] = open.back();
    if (is_operator(event)) open.push_back(i);
  }
  return parents;
}

}  // namespace banyan::job::kineto
