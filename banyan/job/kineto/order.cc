#include "banyan/job/kineto/order.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>

#include "banyan/base/check.h"

namespace banyan::job::kineto {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

class Orderer {
 public:
  explicit Orderer(NodeGraph& graph)
      : graph_(graph), count_(graph.times.size()), missing_(count_, 0), done_(count_), edges_begin_(count_ + 1, 0) {
    std::sort(graph.needs.begin(), graph.needs.end());
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // from, to
    edges.reserve(graph.needs.size() + count_);
    for (const auto& [node, needed] : graph.needs) edges.emplace_back(needed, node);
    for (uint32_t i = 0; i < count_; ++i) {
      if (graph.before[i] != kNone) edges.emplace_back(graph.before[i], i);
    }
    std::sort(edges.begin(), edges.end());
    for (const auto& [from, to] : edges) {
      ++edges_begin_[from + 1];
      ++missing_[to];
      edges_to_.push_back(to);
    }
    std::partial_sum(edges_begin_.begin(), edges_begin_.end(), edges_begin_.begin());
  }

  NodeOrder order() && {
    for (uint32_t i = 0; i < count_; ++i) {
      if (missing_[i] == 0) ready_.emplace(graph_.times[i], i);
      if (graph_.before[i] == kNone) hanging_.emplace(graph_.times[i], i);
    }
    out_.nodes.reserve(count_);
    while (out_.nodes.size() < count_) {
      if (ready_.empty()) break_cycle();
      const uint32_t i = ready_.top().second;
      ready_.pop();
      done_[i] = true;
      out_.nodes.push_back(i);
      for (size_t e = edges_begin_[i]; e < edges_begin_[i + 1]; ++e) {
        const uint32_t to = edges_to_[e];
        if (graph_.before[to] == i) hanging_.emplace(graph_.times[to], to);
        if (missing_[to] > 0 && --missing_[to] == 0) ready_.emplace(graph_.times[to], to);
      }
    }
    return std::move(out_);
  }

 private:
  using Entry = std::pair<int64_t, uint32_t>;
  using Earliest = std::priority_queue<Entry, std::vector<Entry>, std::greater<>>;

  void break_cycle() {
    while (!hanging_.empty() && done_[hanging_.top().second]) hanging_.pop();
    CHECK(!hanging_.empty()) << "streams alone make no cycle";
    const uint32_t earliest = hanging_.top().second;
    auto need = std::lower_bound(graph_.needs.begin(), graph_.needs.end(), std::pair(earliest, uint32_t{0}));
    for (; need != graph_.needs.end() && need->first == earliest; ++need) {
      if (done_[need->second]) continue;
      need->second = kNone;
      ++out_.dropped;
    }
    out_.broken.push_back(earliest);
    missing_[earliest] = 0;
    ready_.emplace(graph_.times[earliest], earliest);
  }

  NodeGraph& graph_;
  const size_t count_;
  std::vector<uint32_t> missing_;  // by node: edges from what has not come
  std::vector<bool> done_;
  std::vector<size_t> edges_begin_;  // by node: into edges_to_
  std::vector<uint32_t> edges_to_;
  Earliest ready_;
  Earliest hanging_;  // those whose stream has got so far; some are done
  NodeOrder out_;
};

}  // namespace

NodeOrder order_nodes(NodeGraph& graph) { return Orderer(graph).order(); }

}  // namespace banyan::job::kineto
