#include "banyan/plan/graph/network.h"

#include <numeric>

#include "banyan/base/check.h"

namespace banyan::plan {
namespace {

constexpr uint32_t kGone = UINT32_MAX;

}  // namespace

Network::Network(const Fabric& fabric, const Collective& collective, bool reversed, PlanObserver* observer,
                 std::span<const NodeId> switch_terminals)
    : participant_count_(static_cast<uint32_t>(collective.participants().size())),
      terminal_count_(participant_count_ + static_cast<uint32_t>(switch_terminals.size())),
      observer_(observer),
      node_of_(collective.participants().begin(), collective.participants().end()) {
  std::vector<uint32_t> vertex_of(fabric.nodes().size(), kGone);
  for (const NodeId id : switch_terminals) {
    CHECK(reversed ? fabric.node(id).reduce : fabric.node(id).multicast)
        << "trees cannot branch at " << fabric.name(id);
    node_of_.push_back(id);
    vertex_of[index(id)] = 0;
  }
  for (uint32_t v = 0; v < fabric.nodes().size(); ++v) {
    if (!fabric.is_rank(NodeId{v}) && vertex_of[v] == kGone) node_of_.push_back(NodeId{v});
  }
  for (uint32_t v = 0; v < node_of_.size(); ++v) vertex_of[index(node_of_[v])] = v;
  for (uint32_t l = 0; l < fabric.links().size(); ++l) {
    const Link& link = fabric.link(LinkId{l});
    uint32_t tail = vertex_of[index(link.from)], head = vertex_of[index(link.to)];
    if (tail == kGone || head == kGone) continue;
    if (reversed) std::swap(tail, head);
    arcs_.push_back({.tail = tail, .head = head, .link = LinkId{l}});
    unit_ = std::gcd(unit_, link.bandwidth.bytes_per_second());
  }
  for (const Arc& arc : arcs_)
    bandwidths_.push_back(static_cast<int64_t>(fabric.link(arc.link).bandwidth.bytes_per_second() / unit_));
  index_arcs();
}

Network::Network(const Network& whole, std::span<const uint32_t> vertices)
    : unit_(whole.unit_), observer_(whole.observer_) {
  std::vector<uint32_t> vertex_of(whole.vertex_count(), kGone);
  for (const uint32_t v : vertices) {
    vertex_of[v] = vertex_count();
    node_of_.push_back(whole.node_of(v));
    terminal_count_ += whole.is_terminal(v) ? 1 : 0;
    participant_count_ += whole.is_participant(v) ? 1 : 0;
  }
  for (uint32_t a = 0; a < whole.arcs().size(); ++a) {
    const auto& [tail, head, link] = whole.arcs()[a];
    if (vertex_of[tail] == kGone || vertex_of[head] == kGone) continue;
    arcs_.push_back({.tail = vertex_of[tail], .head = vertex_of[head], .link = link});
    bandwidths_.push_back(whole.bandwidths()[a]);
  }
  index_arcs();
}

Network Network::with_bandwidths(std::span<const int64_t> bandwidths) const {
  Network result = *this;
  result.arcs_.clear();
  result.bandwidths_.clear();
  result.unit_ = 0;
  for (uint32_t a = 0; a < arcs_.size(); ++a) {
    if (bandwidths[a] == 0) continue;
    result.arcs_.push_back(arcs_[a]);
    result.bandwidths_.push_back(bandwidths[a]);
    result.unit_ = std::gcd(result.unit_, static_cast<uint64_t>(bandwidths[a]));
  }
  for (int64_t& bandwidth : result.bandwidths_) bandwidth /= static_cast<int64_t>(result.unit_);
  result.index_arcs();
  return result;
}

void Network::index_arcs() {
  out_arcs_ = {node_of_.size(), arcs_.size(), [&](uint32_t a) { return arcs_[a].tail; }};
  in_arcs_ = {node_of_.size(), arcs_.size(), [&](uint32_t a) { return arcs_[a].head; }};
  order_terminals();
}

void Network::order_terminals() {
  nearby_.clear();
  std::vector<uint8_t> seen(vertex_count(), 0);
  for (uint32_t start = 0; start < terminal_count_; ++start) {
    if (seen[start]) continue;
    std::vector<uint32_t> queue{start};
    seen[start] = 1;
    for (size_t i = 0; i < queue.size(); ++i) {
      if (is_terminal(queue[i])) nearby_.push_back(queue[i]);
      for (const uint32_t a : in_arcs(queue[i])) {
        const uint32_t next = arcs_[a].tail;
        if (seen[next]) continue;
        seen[next] = 1;
        queue.push_back(next);
      }
    }
  }
}

std::vector<uint32_t> Network::reached_from(std::vector<uint32_t> starts, bool backwards) const {
  std::vector<uint8_t> seen(vertex_count(), 0);
  std::vector<uint32_t> reached = std::move(starts);
  for (const uint32_t v : reached) seen[v] = 1;
  for (size_t i = 0; i < reached.size(); ++i) {
    for (const uint32_t a : backwards ? in_arcs(reached[i]) : out_arcs(reached[i])) {
      const uint32_t next = backwards ? arcs_[a].tail : arcs_[a].head;
      if (!seen[next]) reached.push_back(next);
      seen[next] = 1;
    }
  }
  return reached;
}

}  // namespace banyan::plan
