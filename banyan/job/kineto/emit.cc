#include "banyan/job/kineto/emit.h"

#include <algorithm>
#include <optional>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/job/kineto/order.h"
#include "banyan/job/kineto/streams.h"

namespace banyan::job::kineto {
namespace {

// Pauses up to here before a kernel or communication are launch latency, ns; from kShownLatency on as a node.
constexpr int64_t kLatency = 20'000;
constexpr int64_t kShownLatency = 1'000;
// So many moments before the end of a pause are looked at.
constexpr int kMostMoments = 4096, kMostComms = 64;

class Emitter {
 public:
  Emitter(RankDraft& draft, const Options& options) : draft_(draft), options_(options), works_(draft) {
    has_device_ =
        std::ranges::any_of(draft.tracks, [](const DraftTrack& t) { return !t.host; }) ||
        std::ranges::any_of(draft.unknown, [](const UnknownCategory& category) { return category.on_device; });
  }

  // Threads and streams are written one after the other. A node may wait for one that is made later, so such waits are
  // collected, and become needs at the end.
  void make() {
    last_node_.assign(draft_.works.size(), kNoIndex);
    find_moments();
    for (uint32_t thread = 0; thread < draft_.threads.size(); ++thread) make_thread(thread);
    for (uint32_t track = 0; track < draft_.tracks.size(); ++track) make_track(track);
    for (const auto& [node, work] : waiting_for_work_) need(node, last_node_[work]);
    for (const auto& [node, place] : waiting_for_thread_) need(node, point_node_[place.thread][place.point]);
  }

  void write(uint32_t self, Job::Builder& builder) {
    const uint32_t program = builder.begin_program("rank " + std::to_string(draft_.rank));
    for (const Stream& stream : streams_) builder.add_stream(stream);
    std::vector<uint32_t> names(draft_.names.size(), kNoIndex);
    Slots groups, peers;
    std::vector<uint32_t> number(nodes_.size());
    for (const uint32_t i : ordered()) {
      Node node = nodes_[i];
      uint32_t& name = names[node.name];
      if (name == kNoIndex) name = builder.add_name(draft_.names[node.name]);
      node.name = name;
      if (node.kind == NodeKind::collective) {
        node.slot = groups.of(node.slot);
      } else if (node.kind == NodeKind::send || node.kind == NodeKind::receive) {
        CHECK(node.slot != self) << "a message to oneself";
        node.slot = peers.of(node.slot);
      }
      number[i] = builder.add_node(node);
    }
    for (const auto& [node, needed] : graph_.needs) {
      if (needed != kNoIndex) builder.add_need(number[node], number[needed]);
    }
    builder.add_rank(program, groups.values, peers.values);
  }

 private:
  // Numbers in the order in which they are used first.
  struct Slots {
    std::vector<uint32_t> values;
    std::unordered_map<uint32_t, uint32_t> known;

    uint32_t of(uint32_t value) {
      const auto [at, added] = known.try_emplace(value, static_cast<uint32_t>(values.size()));
      if (added) values.push_back(value);
      return at->second;
    }
  };
  struct Moment {
    int64_t time;
    DraftPlace place;
  };
  // The nodes of a stream, as they are made.
  struct StreamRow {
    uint32_t number;
    uint32_t last = kNoIndex;
  };

  // ---- nodes

  // A stream of the program, after what it has.
  StreamRow add_stream(std::string name, Stream::Order order) {
    if (streams_.size() > UINT16_MAX)
      throw Error(ErrorCode::unsupported, "has more than 65,536 threads and streams", draft_.source);
    streams_.push_back({std::move(name), order});
    return {.number = static_cast<uint32_t>(streams_.size() - 1)};
  }

  // `time` orders nodes that could come in any order.
  uint32_t add(StreamRow& stream, int64_t time, Node node) {
    const auto number = static_cast<uint32_t>(nodes_.size());
    node.stream = static_cast<uint16_t>(stream.number);
    nodes_.push_back(node);
    graph_.times.push_back(time);
    const bool in_order = streams_[stream.number].order == Stream::Order::program;
    graph_.before.push_back(in_order ? std::exchange(stream.last, number) : kNoIndex);
    return number;
  }
  void add_host(StreamRow& stream, int64_t time, uint32_t name, int64_t ns) {
    add(stream, time, {.kind = NodeKind::host, .name = name, .duration = duration(name, ns)});
  }
  uint32_t add_marker(StreamRow& stream, int64_t time, uint32_t name) {
    return add(stream, time, {.kind = NodeKind::marker, .name = name});
  }

  Picoseconds duration(uint32_t name, int64_t ns) const {
    if (ns > Node::kMaxDuration.count() / 1000) {
      throw invalid("'" + draft_.names[name].substr(0, 60) +
                    "' takes more than 13 days by the clocks of the traces; are "
                    "they of one run?")
          .within(draft_.source);
    }
    return Picoseconds(ns * 1000);
  }

  void need(uint32_t node, uint32_t needed) {
    if (needed != kNoIndex && needed != node) graph_.needs.emplace_back(node, needed);
  }

  std::vector<uint32_t> ordered() {
    NodeOrder order = order_nodes(graph_);
    draft_.counts.cycles_broken += order.dropped;
    for (const uint32_t node : order.broken) {
      draft_.note("'" + draft_.names[nodes_[node].name].substr(0, 60) +
                  "' waited for what comes after it: wait dropped");
    }
    return std::move(order.nodes);
  }

  // ---- host threads

  // When a thread had done something that another may have waited for, and when communications of the host ended.
  void find_moments() {
    point_node_.resize(draft_.threads.size());
    for (uint32_t thread = 0; thread < draft_.threads.size(); ++thread) {
      const std::vector<DraftPoint>& points = draft_.threads[thread].points;
      point_node_[thread].assign(points.size(), kNoIndex);
      for (uint32_t k = 0; k < points.size(); ++k) {
        const bool gap = points[k].kind == DraftPoint::Kind::gap;
        if (gap && points[k].begin == INT64_MIN) continue;
        moments_.push_back({gap ? points[k].begin : points[k].end, {.thread = thread, .point = k}});
      }
    }
    std::ranges::stable_sort(moments_, {}, &Moment::time);
    for (uint32_t i = 0; i < draft_.works.size(); ++i) {
      if (draft_.tracks[draft_.works[i].track].host) host_comms_.push_back(i);
    }
    std::ranges::stable_sort(host_comms_, {}, [&](uint32_t a) { return draft_.works[a].end; });
  }

  // The cursor is the moment up to which the thread's time is written. Before each point, the time since the cursor is
  // the thread's own work; a pause or a wait moves the cursor to the moment at which what was waited for had ended, so
  // that only the rest of it counts as work.
  void make_thread(uint32_t thread) {
    StreamRow stream = add_stream(draft_.threads[thread].label, Stream::Order::program);
    int64_t cursor = draft_.origin;
    for (uint32_t k = 0; k < draft_.threads[thread].points.size(); ++k) {
      const DraftPoint& point = draft_.threads[thread].points[k];
      const bool gap = point.kind == DraftPoint::Kind::gap;
      const int64_t begin = std::max(point.kind == DraftPoint::Kind::launch ? point.end : point.begin, cursor);
      if (!(gap && point.end <= cursor) && begin > cursor) {
        // Without a device, the host is what computes.
        add(stream, begin,
            {.kind = has_device_ ? NodeKind::host : NodeKind::compute,
             .name = point.name,
             .duration = duration(point.name, begin - cursor)});
        cursor = begin;
      }
      // What others may wait for is what was before a pause, and after a wait.
      if (gap) point_node_[thread][k] = stream.last;
      if (gap && point.end > cursor) end_pause(thread, point, stream, cursor);
      if (!gap && point.kind != DraftPoint::Kind::launch) end_wait(thread, point, stream, cursor);
      if (!gap) point_node_[thread][k] = stream.last;
    }
  }

  // A pause ends when another thread, or a communication of the host, has got so far; else it is the thread's own time.
  void end_pause(uint32_t thread, const DraftPoint& point, StreamRow& stream, int64_t& cursor) {
    const bool first = point.begin == INT64_MIN;
    const int64_t begin = first ? cursor : point.begin;
    int64_t since = INT64_MIN;
    const Moment* moment = nullptr;
    if (first || point.end - begin >= options_.handoff.count()) {
      auto at = std::ranges::upper_bound(moments_, point.end, {}, &Moment::time);
      for (int steps = 0; at != moments_.begin() && steps < kMostMoments; ++steps) {
        --at;
        if (at->time < begin || (first && at->time <= begin)) break;
        if (at->place.thread == thread) continue;
        moment = &*at;
        since = at->time;
        break;
      }
    }
    std::optional<uint32_t> comm;
    auto at = std::ranges::upper_bound(host_comms_, point.end, {}, [&](uint32_t i) { return draft_.works[i].end; });
    for (int steps = 0; at != host_comms_.begin() && steps < kMostComms; ++steps) {
      --at;
      const DraftWork& work = draft_.works[*at];
      if (work.end < begin || work.end < since) break;
      if (work.launch.thread != thread) continue;
      comm = *at;
      since = work.end;
      break;
    }
    if (!comm && moment == nullptr) return;
    ++draft_.counts.handoffs;
    const uint32_t marker = add_marker(stream, point.end, draft_.names.add("waits for another thread"));
    if (comm) {
      waiting_for_work_.emplace_back(marker, *comm);
    } else {
      waiting_for_thread_.emplace_back(marker, moment->place);
    }
    cursor = std::clamp(since, cursor, std::max(cursor, point.end));
  }

  // A call that waits for GPUs. What it lasts beyond the end of what it waits for is the host's time; where that was
  // long over, the call did not wait.
  void end_wait(uint32_t thread, const DraftPoint& point, StreamRow& stream, int64_t& cursor) {
    const std::vector<uint32_t> works = works_.waited_for_by(thread, point);
    if (works.empty()) return;
    const uint32_t marker = add_marker(stream, point.end, point.name);
    int64_t done = cursor;
    for (const uint32_t i : works) {
      waiting_for_work_.emplace_back(marker, i);
      done = std::max(done, draft_.works[i].end);
    }
    cursor = std::clamp(done, cursor, std::max(cursor, point.end));
  }

  // ---- GPUs

  void make_track(uint32_t track) {
    if (works_.works(track).empty()) return;
    const DraftTrack& described = draft_.tracks[track];
    StreamRow stream = add_stream(described.label, described.host ? Stream::Order::free : Stream::Order::program);
    std::optional<StreamRow> beside;
    const DraftWork* before = nullptr;
    for (const uint32_t i : works_.works(track)) {
      make_work(i, before, stream, beside);
      if (!described.host) before = &draft_.works[i];
    }
  }

  // `before` ran on the same stream; null: nothing did, or it does any number of things at once.
  void make_work(uint32_t i, const DraftWork* before, StreamRow& stream, std::optional<StreamRow>& beside) {
    const DraftWork& work = draft_.works[i];
    const auto begin = static_cast<uint32_t>(nodes_.size());  // the first of the work's nodes
    const int64_t latency = add_pause(work, pause_before(i, before), stream);
    if (work.kind != DraftWork::Kind::comm) {
      const bool memory = work.kind == DraftWork::Kind::memory;
      last_node_[i] = add(stream, work.start,
                          {.kind = memory ? NodeKind::memory : NodeKind::compute,
                           .name = work.name,
                           .bytes = memory ? std::min(work.bytes, Node::kMaxBytes) : 0,
                           .duration = duration(work.name, work.end - work.start + latency),
                           .fixed = Picoseconds(latency * 1000)});
    } else if (work.calls == 1) {
      last_node_[i] = add(stream, work.start, comm_node(work, draft_.calls[work.first_call]));
    } else {
      last_node_[i] = add_grouped(work, stream, beside);
    }
    if (work.launch.point != kNoIndex) need(begin, point_node_[work.launch.thread][work.launch.point]);
    for (const uint32_t source : works_.sources_of(i)) waiting_for_work_.emplace_back(begin, source);
  }

  // How long the work did not run although nothing held it back, ns: from the end of the work before it, of its launch
  // and of what its stream waited for, whichever is the last, to its start.
  int64_t pause_before(uint32_t i, const DraftWork* before) const {
    const DraftWork& work = draft_.works[i];
    const bool mended = work.inserted || (before && before->inserted);
    if (draft_.tracks[work.track].host || mended) return 0;
    int64_t ready = before ? std::max(draft_.origin, before->end) : draft_.origin;
    if (work.launch.point != kNoIndex) {
      ready = std::max(ready, draft_.threads[work.launch.thread].points[work.launch.point].end);
    }
    for (const uint32_t source : works_.sources_of(i)) ready = std::max(ready, draft_.works[source].end);
    return std::max<int64_t>(work.start - ready, 0);
  }

  // Returns what of the pause is latency that counts to the work.
  int64_t add_pause(const DraftWork& work, int64_t pause, StreamRow& stream) {
    if (pause <= kLatency) {
      draft_.counts.add_time(&LinkCounts::latency_ns, pause);
      if (pause < kShownLatency) return work.kind == DraftWork::Kind::comm ? 0 : pause;
      add_host(stream, work.start, draft_.names.add("launch latency"), pause);
      return 0;
    }
    draft_.counts.add_time(&LinkCounts::idle_ns, pause);
    if (options_.keep_idle) add_host(stream, work.start, draft_.names.add("idle"), pause);
    return 0;
  }

  // All calls of a kernel at once, on a stream beside. Returns the node after them.
  uint32_t add_grouped(const DraftWork& work, StreamRow& stream, std::optional<StreamRow>& beside) {
    if (!beside) beside = add_stream(streams_[stream.number].name + " grouped", Stream::Order::free);
    const uint32_t begin = add_marker(stream, work.start, work.name);
    std::vector<uint32_t> grouped;
    for (uint32_t k = 0; k < work.calls; ++k) {
      grouped.push_back(add(*beside, work.start, comm_node(work, draft_.calls[work.first_call + k])));
      need(grouped.back(), begin);
    }
    const uint32_t end = add_marker(stream, work.start, work.name);
    for (const uint32_t node : grouped) need(end, node);
    return end;
  }

  static Node comm_node(const DraftWork& work, const DraftCall& call) {
    Node node{.name = work.name, .bytes = call.bytes.value_or(0)};
    if (call.call.kind == CommCall::Kind::collective) {
      node.kind = NodeKind::collective;
      node.collective = call.call.collective;
      node.slot = call.group;
      node.tag = call.root;
    } else if (call.peer == DraftCall::kItself) {
      node.kind = NodeKind::marker;
      node.bytes = 0;
    } else {
      node.kind = call.call.kind == CommCall::Kind::send ? NodeKind::send : NodeKind::receive;
      node.slot = call.peer;
    }
    return node;
  }

  RankDraft& draft_;
  const Options& options_;
  DraftStreams works_;
  bool has_device_ = false;  // something ran on one, whether it was understood or not

  std::vector<Moment> moments_;       // by time
  std::vector<uint32_t> host_comms_;  // works by end
  std::vector<Stream> streams_;
  std::vector<Node> nodes_;
  NodeGraph graph_;                                              // of the nodes
  std::vector<std::vector<uint32_t>> point_node_;                // by thread and point: what has ended then
  std::vector<uint32_t> last_node_;                              // by work
  std::vector<std::pair<uint32_t, uint32_t>> waiting_for_work_;  // node, work
  std::vector<std::pair<uint32_t, DraftPlace>> waiting_for_thread_;
};

}  // namespace

void emit_rank(RankDraft& draft, uint32_t self, const Options& options, Job::Builder& builder) {
  Emitter emitter(draft, options);
  emitter.make();
  emitter.write(self, builder);
}

}  // namespace banyan::job::kineto
