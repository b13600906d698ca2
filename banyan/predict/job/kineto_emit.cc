#include <algorithm>
#include <queue>
#include <span>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/job/kineto_draft.h"

namespace banyan {
namespace {

// What a clock's grain and the profiler's own cost may shift an end.
constexpr int64_t kJitter = 5'000;
// Pauses before a kernel up to here are launch latency.
constexpr int64_t kLatency = 20'000;

struct LocalNode {
  int64_t time = 0;  // orders nodes that could come in any order
  JobNode node;
};

class Emitter {
 public:
  Emitter(RankDraft& draft, int64_t start_late, const KinetoOptions& options)
      : draft_(draft), options_(options), origin_(draft.origin - start_late) {}

  void make() {
    sort_lanes();
    sort_launches();
    find_cuts();
    for (uint32_t thread = 0; thread < draft_.threads.size(); ++thread) make_thread(thread);
    stream_waits();
    for (uint32_t lane = 0; lane < draft_.lanes.size(); ++lane) make_lane(lane);
    for (const auto& [work, node] : waiting_for_work_) need(node, last_node_[work]);
    for (const auto& [cut, node] : waiting_for_cut_) need(node, point_node_[cut.thread][cut.point]);
  }

  void write(const std::vector<JobGroup>& groups, uint32_t self, Job::Builder& builder) {
    const uint32_t program = builder.begin_program("rank " + std::to_string(draft_.rank));
    for (const JobStream& stream : streams_) builder.add_stream(stream);
    std::vector<uint32_t> names(draft_.names.size(), kNoIndex);
    std::vector<uint32_t> group_slots, peer_slots;
    const auto slot = [](std::vector<uint32_t>& slots, std::unordered_map<uint32_t, uint32_t>& known, uint32_t value) {
      const auto [at, added] = known.try_emplace(value, static_cast<uint32_t>(slots.size()));
      if (added) slots.push_back(value);
      return at->second;
    };
    std::unordered_map<uint32_t, uint32_t> known_groups, known_peers;
    std::vector<uint32_t> number(nodes_.size());
    for (const uint32_t i : ordered()) {
      JobNode node = nodes_[i].node;
      uint32_t& name = names[node.name];
      if (name == kNoIndex) name = builder.add_name(draft_.names[node.name]);
      node.name = name;
      if (node.kind == JobNodeKind::collective) {
        CHECK(node.slot < groups.size()) << node.slot;
        node.slot = slot(group_slots, known_groups, node.slot);
      } else if (node.kind == JobNodeKind::send || node.kind == JobNodeKind::receive) {
        CHECK(node.slot != self) << "a message to oneself";
        node.slot = slot(peer_slots, known_peers, node.slot);
      }
      number[i] = builder.add_node(node);
    }
    for (const auto& [node, needed] : needs_) {
      if (needed != kNoIndex) builder.add_need(number[node], number[needed]);
    }
    builder.add_rank(program, group_slots, peer_slots);
  }

 private:
  struct Cut {
    int64_t time;
    uint32_t thread, point;
  };

  // ---- what happened in which order

  void sort_lanes() {
    lanes_.resize(draft_.lanes.size());
    for (uint32_t i = 0; i < draft_.works.size(); ++i) lanes_[draft_.works[i].lane].push_back(i);
    launched_.resize(lanes_.size());
    for (size_t lane = 0; lane < lanes_.size(); ++lane) {
      std::stable_sort(lanes_[lane].begin(), lanes_[lane].end(), [&](uint32_t a, uint32_t b) {
        const DraftWork &x = draft_.works[a], &y = draft_.works[b];
        return x.start != y.start ? x.start < y.start : x.order < y.order;
      });
      int64_t latest = INT64_MIN;
      for (const uint32_t i : lanes_[lane]) {
        latest = std::max(latest, draft_.works[i].launched);
        launched_[lane].push_back(latest);
      }
    }
    last_node_.assign(draft_.works.size(), kNoIndex);
  }

  // The last work of a stream that was launched before a moment, and the first one from then on.
  uint32_t last_before(uint32_t lane, int64_t time) const {
    const auto at = std::lower_bound(launched_[lane].begin(), launched_[lane].end(), time);
    return at == launched_[lane].begin() ? kNoIndex
                                         : lanes_[lane][static_cast<size_t>(at - launched_[lane].begin()) - 1];
  }
  uint32_t first_after(uint32_t lane, int64_t time) const {
    const auto at = std::lower_bound(launched_[lane].begin(), launched_[lane].end(), time);
    return at == launched_[lane].end() ? kNoIndex : lanes_[lane][static_cast<size_t>(at - launched_[lane].begin())];
  }

  // Works by the host's thread that launched them, for waits that do not say of which stream they are.
  void sort_launches() {
    by_thread_.resize(draft_.threads.size());
    for (uint32_t i = 0; i < draft_.works.size(); ++i) {
      const DraftWork& work = draft_.works[i];
      if (work.thread != kNoIndex && !draft_.lanes[work.lane].host) by_thread_[work.thread].push_back(i);
    }
    for (auto& works : by_thread_) {
      std::stable_sort(works.begin(), works.end(),
                       [&](uint32_t a, uint32_t b) { return draft_.works[a].launched < draft_.works[b].launched; });
    }
  }

  // ---- host threads

  // Moments at which a thread had done something that another may have waited for.
  void find_cuts() {
    point_node_.resize(draft_.threads.size());
    for (uint32_t thread = 0; thread < draft_.threads.size(); ++thread) {
      const std::vector<DraftPoint>& points = draft_.threads[thread].points;
      point_node_[thread].assign(points.size(), kNoIndex);
      for (uint32_t k = 0; k < points.size(); ++k) {
        const bool gap = points[k].kind == DraftPoint::Kind::gap;
        if (gap && points[k].begin == INT64_MIN) continue;
        cuts_.push_back({gap ? points[k].begin : points[k].end, thread, k});
      }
    }
    std::sort(cuts_.begin(), cuts_.end(), [](const Cut& a, const Cut& b) {
      return a.time != b.time ? a.time < b.time : a.thread != b.thread ? a.thread < b.thread : a.point < b.point;
    });
    for (uint32_t i = 0; i < draft_.works.size(); ++i) {
      if (draft_.lanes[draft_.works[i].lane].host) host_comms_.push_back(i);
    }
    std::sort(host_comms_.begin(), host_comms_.end(),
              [&](uint32_t a, uint32_t b) { return draft_.works[a].end < draft_.works[b].end; });
  }

  uint32_t add(uint32_t stream, int64_t time, JobNode node) {
    node.stream = static_cast<uint16_t>(stream);
    nodes_.push_back({time, node});
    by_stream_[stream].push_back(static_cast<uint32_t>(nodes_.size() - 1));
    return static_cast<uint32_t>(nodes_.size() - 1);
  }
  void need(uint32_t node, uint32_t needed) {
    if (needed != kNoIndex && needed != node) needs_.emplace_back(node, needed);
  }
  uint32_t add_stream(std::string name, JobStream::Order order) {
    if (streams_.size() > UINT16_MAX)
      throw Error(ErrorCode::unsupported, "has more than 65,536 threads and streams", draft_.source);
    streams_.push_back({std::move(name), order});
    by_stream_.emplace_back();
    return static_cast<uint32_t>(streams_.size() - 1);
  }
  static Picoseconds ps(int64_t ns) { return Picoseconds(ns * 1000); }

  void make_thread(uint32_t thread) {
    const std::vector<DraftPoint>& points = draft_.threads[thread].points;
    const uint32_t stream = add_stream(draft_.threads[thread].label, JobStream::Order::program);
    int64_t cursor = origin_;
    uint32_t last = kNoIndex;
    const auto work_until = [&](int64_t time, uint32_t name) {
      if (time <= cursor) return;
      last = add(stream, time, {.kind = JobNodeKind::compute, .name = name, .duration = ps(time - cursor)});
      cursor = time;
    };
    for (uint32_t k = 0; k < points.size(); ++k) {
      const DraftPoint& point = points[k];
      if (point.kind == DraftPoint::Kind::launch) {
        work_until(point.end, point.name);
        point_node_[thread][k] = last;
        continue;
      }
      const int64_t begin = point.begin == INT64_MIN ? cursor : point.begin;
      if (point.end <= cursor && point.kind == DraftPoint::Kind::gap) {
        point_node_[thread][k] = last;
        continue;
      }
      work_until(begin, point.name);
      if (point.kind == DraftPoint::Kind::gap) {
        point_node_[thread][k] = last;  // what others may wait for is what was before the pause
        last = pause(thread, stream, begin, point, cursor, last);
      } else {
        last = wait(stream, point, cursor, last);
        point_node_[thread][k] = last;
      }
    }
  }

  // A pause ends when another thread, or a communication of the host, has got so far; else it is the thread's own time.
  uint32_t pause(uint32_t thread, uint32_t stream, int64_t begin, const DraftPoint& point, int64_t& cursor,
                 uint32_t last) {
    const bool first = point.begin == INT64_MIN;
    int64_t since = INT64_MIN;
    const Cut* found = nullptr;
    if (first || point.end - begin >= options_.handoff.count()) {
      auto at = std::upper_bound(cuts_.begin(), cuts_.end(), point.end,
                                 [](int64_t t, const Cut& cut) { return t < cut.time; });
      for (int steps = 0; at != cuts_.begin() && steps < 4096; ++steps) {
        --at;
        if (at->time < begin || (first && at->time <= begin)) break;
        if (at->thread == thread) continue;
        found = &*at;
        since = at->time;
        break;
      }
    }
    uint32_t comm = kNoIndex;
    auto at = std::upper_bound(host_comms_.begin(), host_comms_.end(), point.end,
                               [&](int64_t t, uint32_t i) { return t < draft_.works[i].end; });
    for (int steps = 0; at != host_comms_.begin() && steps < 64; ++steps) {
      --at;
      const DraftWork& work = draft_.works[*at];
      if (work.end < begin || work.end < since) break;
      if (work.thread != thread) continue;
      comm = *at;
      since = work.end;
      break;
    }
    if (comm == kNoIndex && found == nullptr) return last;
    ++draft_.counts.handoffs;
    const uint32_t marker =
        add(stream, point.end, {.kind = JobNodeKind::marker, .name = name("waits for another thread")});
    if (comm != kNoIndex) {
      waiting_for_work_.emplace_back(comm, marker);
    } else {
      waiting_for_cut_.emplace_back(*found, marker);
    }
    cursor = std::clamp(since, cursor, std::max(cursor, point.end));
    return marker;
  }

  // A call that waits for GPUs. What it lasts beyond the end of what it waits for is the host's time.
  uint32_t wait(uint32_t stream, const DraftPoint& point, int64_t& cursor, uint32_t last) {
    std::vector<uint32_t> works;
    switch (point.kind) {
      case DraftPoint::Kind::work:
        works.push_back(point.work);
        break;
      case DraftPoint::Kind::device:
        for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
          if (!draft_.lanes[lane].host) works.push_back(last_before(lane, point.before));
        }
        break;
      default:
        if (point.lane != kNoIndex) {
          works.push_back(last_before(point.lane, point.before));
        } else if (const uint32_t likely = likely_waited_for(point); likely != kNoIndex) {
          works.push_back(likely);
          ++draft_.counts.syncs_inferred;
        }
    }
    std::erase_if(works, [&](uint32_t i) {
      if (i == kNoIndex) return true;
      if (draft_.works[i].start < point.end) return false;
      ++draft_.counts.waits_against_time;
      return true;
    });
    if (works.empty()) return last;
    const uint32_t marker = add(stream, point.end, {.kind = JobNodeKind::marker, .name = point.name});
    int64_t done = cursor;
    for (const uint32_t i : works) {
      waiting_for_work_.emplace_back(i, marker);
      done = std::max(done, draft_.works[i].end);
    }
    // Long over: the call did not wait, its time is the host's.
    cursor = std::clamp(done, cursor, std::max(cursor, point.end));
    return marker;
  }

  // Of the streams' last works before the call, the one that ended last among those that ended with it.
  uint32_t likely_waited_for(const DraftPoint& point) const {
    uint32_t likely = kNoIndex;
    for (uint32_t lane = 0; lane < lanes_.size(); ++lane) {
      if (draft_.lanes[lane].host) continue;
      const uint32_t i = last_before(lane, point.before);
      if (i == kNoIndex || draft_.works[i].end > point.end + kJitter) continue;
      if (likely == kNoIndex || draft_.works[i].end > draft_.works[likely].end) likely = i;
    }
    return likely;
  }

  // ---- GPUs

  void stream_waits() {
    for (const DraftWait& wait : draft_.waits) {
      uint32_t next = kNoIndex;
      if (wait.lane != kNoIndex) {
        next = first_after(wait.lane, wait.time);
      } else if (wait.thread != kNoIndex) {
        // The waiting stream is most likely that of the next launch.
        const std::vector<uint32_t>& works = by_thread_[wait.thread];
        const auto at = std::upper_bound(works.begin(), works.end(), wait.time,
                                         [&](int64_t t, uint32_t i) { return t < draft_.works[i].launched; });
        if (at != works.end()) next = *at;
      }
      if (next == kNoIndex) continue;  // nothing waits
      uint32_t source = kNoIndex;
      if (wait.source != kNoIndex) {
        source = last_before(wait.source, wait.recorded.value_or(wait.time));
        if (source == kNoIndex) continue;  // nothing is waited for
        if (draft_.works[source].end > draft_.works[next].start + kJitter) {
          ++draft_.counts.waits_against_time;
          continue;
        }
      } else {
        source = likely_source(wait, next);
        if (source == kNoIndex) {
          ++draft_.counts.waits_unknown;
          continue;
        }
        ++draft_.counts.waits_inferred;
      }
      if (draft_.works[source].lane == draft_.works[next].lane) continue;
      ++draft_.counts.waits;
      stream_waits_[next].push_back(source);
    }
  }

  // The latest event that was recorded before, on another stream than the waiting one and that had passed when that
  // went on. An event is recorded on the stream of its thread's last launch.
  uint32_t likely_source(const DraftWait& wait, uint32_t next) const {
    auto at = std::upper_bound(draft_.records.begin(), draft_.records.end(), wait.time,
                               [](int64_t t, const DraftRecord& record) { return t < record.time; });
    for (int steps = 0; at != draft_.records.begin() && steps < 16; ++steps) {
      --at;
      if (at->thread == kNoIndex) continue;
      const std::vector<uint32_t>& works = by_thread_[at->thread];
      const auto launch = std::upper_bound(works.begin(), works.end(), at->time,
                                           [&](int64_t t, uint32_t i) { return t < draft_.works[i].launched; });
      if (launch == works.begin()) continue;
      const uint32_t source = last_before(draft_.works[*std::prev(launch)].lane, at->time);
      if (source == kNoIndex || draft_.works[source].lane == draft_.works[next].lane) continue;
      if (draft_.works[source].end <= draft_.works[next].start + kJitter) return source;
    }
    return kNoIndex;
  }

  void make_lane(uint32_t lane) {
    const DraftLane& described = draft_.lanes[lane];
    if (lanes_[lane].empty()) return;
    const uint32_t stream =
        add_stream(described.label, described.host ? JobStream::Order::free : JobStream::Order::program);
    uint32_t side = kNoIndex;
    const DraftWork* before = nullptr;
    for (const uint32_t i : lanes_[lane]) {
      make_work(i, stream, side, described.host ? nullptr : before, described.host);
      before = &draft_.works[i];
    }
  }

  void make_work(uint32_t i, uint32_t stream, uint32_t& side, const DraftWork* before, bool host) {
    const DraftWork& work = draft_.works[i];
    std::vector<uint32_t> held_by;
    int64_t ready = origin_;
    if (before) ready = std::max(ready, before->end);
    if (work.thread != kNoIndex && work.point != kNoIndex) {
      const uint32_t launch = point_node_[work.thread][work.point];
      if (launch != kNoIndex) held_by.push_back(launch);
      ready = std::max(ready, draft_.threads[work.thread].points[work.point].end);
    }
    const auto waits = stream_waits_.find(i);
    if (waits != stream_waits_.end()) {
      for (const uint32_t source : waits->second) {
        waiting_later_.push_back(source);
        ready = std::max(ready, draft_.works[source].end);
      }
    }
    const bool mended = work.inserted || (before && before->inserted);
    int64_t pause = host || mended ? 0 : std::max<int64_t>(work.start - ready, 0);
    int64_t latency = 0;
    if (pause <= kLatency) {
      draft_.counts.latency_ns += pause;
      latency = std::exchange(pause, 0);
    } else {
      draft_.counts.idle_ns += pause;
      if (!options_.keep_idle) pause = 0;
    }
    uint32_t first = kNoIndex;
    const auto begin_with = [&](uint32_t node) {
      if (first == kNoIndex) first = node;
      return node;
    };
    if (pause > 0) {
      begin_with(add(stream, work.start, {.kind = JobNodeKind::compute, .name = name("idle"), .duration = ps(pause)}));
    } else if (work.kind == DraftWork::Kind::comm && latency >= 1000) {
      begin_with(add(stream, work.start,
                     {.kind = JobNodeKind::compute, .name = name("launch latency"), .duration = ps(latency)}));
    }
    uint32_t last = kNoIndex;
    if (work.kind != DraftWork::Kind::comm) {
      const bool memory = work.kind == DraftWork::Kind::memory;
      last = begin_with(add(stream, work.start,
                            {.kind = memory ? JobNodeKind::memory : JobNodeKind::compute,
                             .name = work.name,
                             .bytes = memory ? std::min(work.bytes, JobNode::kMaxBytes) : 0,
                             .duration = ps(work.end - work.start + latency)}));
    } else if (work.calls == 1) {
      last = begin_with(add(stream, work.start, comm_node(work, draft_.calls[work.first_call])));
    } else {
      // All at once, on a stream beside.
      if (side == kNoIndex) side = add_stream(streams_[stream].name + " grouped", JobStream::Order::free);
      const uint32_t begin = begin_with(add(stream, work.start, {.kind = JobNodeKind::marker, .name = work.name}));
      std::vector<uint32_t> grouped;
      for (uint32_t k = 0; k < work.calls; ++k) {
        grouped.push_back(add(side, work.start, comm_node(work, draft_.calls[work.first_call + k])));
        need(grouped.back(), begin);
      }
      last = add(stream, work.start, {.kind = JobNodeKind::marker, .name = work.name});
      for (const uint32_t node : grouped) need(last, node);
    }
    for (const uint32_t node : held_by) need(first, node);
    for (const uint32_t source : waiting_later_) waiting_for_work_.emplace_back(source, first);
    waiting_later_.clear();
    last_node_[i] = last;
  }

  static JobNode comm_node(const DraftWork& work, const DraftCall& call) {
    JobNode node{.name = work.name, .bytes = call.bytes.value_or(0)};
    if (call.call.kind == CommCall::Kind::collective) {
      node.kind = JobNodeKind::collective;
      node.collective = call.call.collective;
      node.slot = call.group;
      node.tag = call.root;
    } else if (call.peer == kNoIndex - 1) {
      node.kind = JobNodeKind::marker;
      node.bytes = 0;
    } else {
      node.kind = call.call.kind == CommCall::Kind::send ? JobNodeKind::send : JobNodeKind::receive;
      node.slot = call.peer;
    }
    return node;
  }

  uint32_t name(std::string_view text) {
    const auto [at, added] = own_names_.try_emplace(std::string(text), 0);
    if (added) at->second = draft_.add_name(text);
    return at->second;
  }

  // ---- one order for all

  // Nodes so that each comes after what it needs and after its stream's one before, else by time. A cycle, which only a
  // wrong guess or a damaged trace makes, is broken where it is latest: at the waits of the earliest node that hangs.
  std::vector<uint32_t> ordered() {
    const size_t count = nodes_.size();
    std::vector<std::pair<uint32_t, uint32_t>> edges;  // from, to
    edges.reserve(needs_.size() + count);
    for (const auto& [node, needed] : needs_) edges.emplace_back(needed, node);
    std::vector<uint32_t> follows(count, kNoIndex);
    for (size_t s = 0; s < by_stream_.size(); ++s) {
      for (size_t k = 1; k < by_stream_[s].size() && streams_[s].order == JobStream::Order::program; ++k) {
        edges.emplace_back(by_stream_[s][k - 1], by_stream_[s][k]);
        follows[by_stream_[s][k]] = by_stream_[s][k - 1];
      }
    }
    std::sort(edges.begin(), edges.end());
    std::vector<uint32_t> begin(count + 1, 0), missing(count, 0);
    for (const auto& [from, to] : edges) {
      ++begin[from + 1];
      ++missing[to];
    }
    for (size_t i = 0; i < count; ++i) begin[i + 1] += begin[i];
    using Entry = std::pair<int64_t, uint32_t>;
    std::priority_queue<Entry, std::vector<Entry>, std::greater<>> ready;
    for (uint32_t i = 0; i < count; ++i) {
      if (missing[i] == 0) ready.emplace(nodes_[i].time, i);
    }
    std::vector<uint32_t> order;
    order.reserve(count);
    std::vector<bool> done(count);
    while (order.size() < count) {
      if (ready.empty()) {
        break_cycle(done, follows, missing);
        for (uint32_t i = 0; i < count; ++i) {
          if (!done[i] && missing[i] == 0) ready.emplace(nodes_[i].time, i);
        }
        continue;
      }
      const uint32_t i = ready.top().second;
      ready.pop();
      if (done[i]) continue;
      done[i] = true;
      order.push_back(i);
      for (uint32_t e = begin[i]; e < begin[i + 1]; ++e) {
        const uint32_t to = edges[e].second;
        if (missing[to] > 0 && --missing[to] == 0 && !done[to]) ready.emplace(nodes_[to].time, to);
      }
    }
    return order;
  }

  void break_cycle(const std::vector<bool>& done, const std::vector<uint32_t>& follows,
                   std::vector<uint32_t>& missing) {
    uint32_t earliest = kNoIndex;
    for (uint32_t i = 0; i < nodes_.size(); ++i) {
      if (done[i] || (follows[i] != kNoIndex && !done[follows[i]])) continue;
      if (earliest == kNoIndex || nodes_[i].time < nodes_[earliest].time) earliest = i;
    }
    CHECK(earliest != kNoIndex) << "streams alone make no cycle";
    for (auto& [node, needed] : needs_) {
      if (node != earliest || needed == kNoIndex || done[needed]) continue;
      needed = kNoIndex;
      ++draft_.counts.cycles_broken;
    }
    draft_.note("'" + draft_.names[nodes_[earliest].node.name].substr(0, 60) +
                "' waited for what comes after it: wait dropped");
    missing[earliest] = 0;
  }

  RankDraft& draft_;
  const KinetoOptions& options_;
  const int64_t origin_;

  std::vector<std::vector<uint32_t>> lanes_;    // works in order
  std::vector<std::vector<int64_t>> launched_;  // running maximum of launches, like lanes_
  std::vector<std::vector<uint32_t>> by_thread_;
  std::vector<Cut> cuts_;             // by time
  std::vector<uint32_t> host_comms_;  // works by end
  std::vector<std::vector<uint32_t>> point_node_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> stream_waits_;  // by waiting work
  std::vector<uint32_t> last_node_;                                   // by work
  std::vector<std::pair<uint32_t, uint32_t>> waiting_for_work_;       // work, node
  std::vector<std::pair<Cut, uint32_t>> waiting_for_cut_;
  std::vector<uint32_t> waiting_later_;
  std::vector<JobStream> streams_;
  std::vector<std::vector<uint32_t>> by_stream_;
  std::vector<LocalNode> nodes_;
  std::vector<std::pair<uint32_t, uint32_t>> needs_;
  std::unordered_map<std::string, uint32_t> own_names_;
};

}  // namespace

void emit_rank(RankDraft& draft, const std::vector<JobGroup>& groups, uint32_t self, int64_t start_late,
               const KinetoOptions& options, Job::Builder& builder) {
  Emitter emitter(draft, start_late, options);
  emitter.make();
  emitter.write(groups, self, builder);
}

}  // namespace banyan
