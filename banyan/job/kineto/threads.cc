#include "banyan/job/kineto/threads.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <utility>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {
namespace {

using Kind = Event::Kind;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Which track of the draft is which stream of which device.
class StreamTracks {
 public:
  explicit StreamTracks(const std::vector<DraftTrack>& tracks) {
    for (uint32_t track = 0; track < tracks.size(); ++track) {
      if (tracks[track].host) continue;
      exact_.try_emplace({tracks[track].device, tracks[track].stream}, track);
      const auto [at, added] = by_stream_.try_emplace(tracks[track].stream, track);
      if (!added) at->second = kNoIndex;
    }
  }

  uint32_t find(int64_t device, int64_t stream) const {
    if (stream < 0) return kNoIndex;
    const auto at = exact_.find({device, stream});
    if (at != exact_.end()) return at->second;
    // A device that is not said, or another number for it: the stream alone, if that is one track.
    const auto alone = by_stream_.find(stream);
    return alone == by_stream_.end() ? kNoIndex : alone->second;
  }

 private:
  std::map<std::pair<int64_t, int64_t>, uint32_t> exact_;
  std::unordered_map<int64_t, uint32_t> by_stream_;  // kNoIndex: of several devices
};

class ThreadMaker {
 public:
  ThreadMaker(const RankReading& reading, const RankWorks& works, const Options& options, RankDraft& draft)
      : reading_(reading),
        gpu_(works.gpu),
        host_(works.host),
        options_(options),
        draft_(draft),
        streams_(draft.tracks) {}

  void make() {
    host_only_ = std::ranges::all_of(draft_.tracks, [](const DraftTrack& track) { return track.host; });
    collect_launches();
    for (const Sync& sync : reading_.trace.syncs) {
      if (sync.correlation > 0) syncs_.try_emplace(sync.correlation, &sync);
    }
    calls_on_.resize(reading_.trace.tracks.size());
    for (uint32_t k = 0; k < host_.calls.size(); ++k) calls_on_[host_.calls[k].track].push_back(k);
    thread_of_.assign(reading_.trace.tracks.size(), kNoIndex);
    std::vector<std::vector<uint32_t>> busy = busy_events();
    for (uint32_t track = 0; track < busy.size(); ++track) {
      if (!busy[track].empty()) make_thread(track, busy[track]);
    }
    // A thread that called and did nothing else is none of the draft's.
    for (DraftWait& wait : draft_.waits) wait.thread = thread_of_[wait.thread];
    for (DraftRecord& record : draft_.records) record.thread = thread_of_[record.thread];
    std::ranges::stable_sort(draft_.records, {}, &DraftRecord::time);
  }

 private:
  struct Point {
    DraftPoint point;
    // What is launched there.
    uint32_t launcher = kNoIndex;  // an event of the host
    uint32_t call = kNoIndex;      // a HostComm
  };
  struct Busy {
    int64_t begin, end;
    uint32_t last;  // event
  };

  const Event& event(uint32_t i) const { return reading_.event(i); }

  void collect_launches() {
    const std::vector<uint32_t>& launcher = reading_.launches.launcher;
    for (uint32_t i = 0; i < launcher.size(); ++i) {
      if (launcher[i] != kNoIndex) launched_by_[launcher[i]].push_back(i);
    }
  }

  // By track of the trace: the events with which the program's threads are busy. Not: what Gloo's threads do.
  std::vector<std::vector<uint32_t>> busy_events() const {
    enum State : uint8_t { kUnknown, kOurs, kPool };
    std::vector<uint8_t> state(reading_.event_count(), host_.pool.empty() ? kOurs : kUnknown);
    for (const uint32_t i : host_.pool) state[i] = kPool;
    std::vector<uint32_t> path;
    std::vector<std::vector<uint32_t>> out(reading_.trace.tracks.size());
    for (uint32_t i = 0; i < reading_.event_count(); ++i) {
      const Event& e = event(i);
      if (e.on_gpu() || e.kind == Kind::annotation) continue;
      // An event within an operator of the pool is the pool's. The state found is noted for all operators on the way,
      // so that each is walked over once.
      uint32_t up = i;
      for (; up != kNoIndex && state[up] == kUnknown; up = reading_.parents[up]) path.push_back(up);
      const uint8_t found = up == kNoIndex ? static_cast<uint8_t>(kOurs) : state[up];
      for (const uint32_t on_path : path) state[on_path] = found;
      path.clear();
      if (state[i] == kOurs) out[e.track].push_back(i);
    }
    return out;
  }

  // The operator that a call is of.
  uint32_t operator_name(uint32_t i) {
    uint32_t at = i;
    for (int up = 0; at != kNoIndex && event(at).kind != Kind::cpu_op && up < 64; ++up) at = reading_.parents[at];
    return draft_.names.add(at == kNoIndex ? "host" : reading_.name(at));
  }

  // The points of one thread: what it launched, called and waited for, in the order of its events, and its pauses.
  void make_thread(uint32_t track, std::vector<uint32_t>& events) {
    std::ranges::stable_sort(events, {}, [&](uint32_t i) { return event(i).begun(); });
    std::vector<Point> points;
    for (const uint32_t i : events) {
      const auto launched = launched_by_.find(i);
      if (launched != launched_by_.end()) {
        add_launch(i, launched->second, points);
      } else if (event(i).kind == Kind::runtime) {
        const auto sync = syncs_.find(event(i).correlation);
        add_call(i, sync == syncs_.end() ? nullptr : sync->second, points);
      }
    }
    for (const uint32_t k : calls_on_[track]) {
      const HostComm& call = host_.calls[k];
      points.push_back({.point = launch_at(call.time, call.name), .call = k});
    }
    if (points.empty() && !host_only_) return;
    add_pauses(events, points);
    finish_thread(track, std::move(points));
  }

  static DraftPoint launch_at(int64_t time, uint32_t name) { return {.begin = time, .end = time, .name = name}; }

  // A pause is a gap between the intervals in which the thread was busy: the union of its events.
  void add_pauses(const std::vector<uint32_t>& events, std::vector<Point>& points) {
    std::vector<Busy> busy;
    for (const uint32_t i : events) {
      if (!busy.empty() && event(i).start <= busy.back().end) {
        busy.back().end = std::max(busy.back().end, event(i).end());
      } else {
        busy.push_back({event(i).start, event(i).end(), i});
      }
    }
    // Gloo's calls come back at once, so a thread that waits for them only pauses.
    const bool by_gloo = !host_.calls.empty() && !gpu_.communicates;
    const int64_t least = by_gloo ? std::min<int64_t>(options_.handoff.count(), 1000) : options_.handoff.count();
    for (size_t k = 0; k < busy.size(); ++k) {
      const int64_t end = busy[k].end;
      const uint32_t name = operator_name(busy[k].last);
      if (host_only_ || k + 1 == busy.size()) points.push_back({.point = launch_at(end, name)});
      const int64_t next = k + 1 < busy.size() ? busy[k + 1].begin : end;
      if (next - end >= least) {
        points.push_back({.point = {.kind = DraftPoint::Kind::gap, .begin = end, .end = next, .name = name}});
      }
    }
    // Before its first event a thread waits for whoever starts it.
    points.push_back({.point = {.kind = DraftPoint::Kind::gap,
                                .begin = INT64_MIN,
                                .end = busy.front().begin,
                                .name = draft_.names.add("before the first event")}});
  }

  // Sorts the points, and tells works and lost calls which point launched them.
  void finish_thread(uint32_t track, std::vector<Point> points) {
    std::ranges::stable_sort(points, {}, [](const Point& each) { return std::pair(each.point.end, each.point.begin); });
    const auto number = static_cast<uint32_t>(draft_.threads.size());
    thread_of_[track] = number;
    DraftThread thread;
    thread.label = "host " + reading_.trace.tracks[track].label;
    for (uint32_t k = 0; k < points.size(); ++k) {
      thread.points.push_back(points[k].point);
      const DraftPlace here{.thread = number, .point = k};
      if (points[k].launcher != kNoIndex) {
        for (const uint32_t i : launched_by_.at(points[k].launcher)) {
          if (gpu_.work_of[i] != kNoIndex) draft_.works[gpu_.work_of[i]].launch = here;
        }
      }
      if (points[k].call == kNoIndex) continue;
      const HostComm& call = host_.calls[points[k].call];
      (call.work != kNoIndex ? draft_.works[call.work].launch : draft_.lost[call.lost].launch) = here;
    }
    draft_.threads.push_back(std::move(thread));
  }

  // A call that launches: what it launches may start at its end, or earlier where it did.
  void add_launch(uint32_t i, const std::vector<uint32_t>& gpu_events, std::vector<Point>& points) {
    const Event& call = event(i);
    const uint32_t name = operator_name(i);
    int64_t boundary = call.end();
    for (const uint32_t g : gpu_events) boundary = std::min(boundary, std::max(event(g).start, call.start));
    points.push_back({.point = launch_at(boundary, name), .launcher = i});
    // A copy to pageable memory, or by cudaMemcpy, returns when it is done.
    const std::string_view called = reading_.name(i);
    const bool blocks = (called.ends_with("Memcpy") || called.ends_with("Memset")) && call.kind == Kind::runtime;
    for (const uint32_t g : gpu_events) {
      const std::string_view copied = reading_.name(g);
      if (event(g).kind != Kind::memcpy || gpu_.work_of[g] == kNoIndex || event(g).end() > call.end()) continue;
      if (!blocks && !(contains(copied, "DtoH") && contains(copied, "Pageable"))) continue;
      points.push_back({.point = {.kind = DraftPoint::Kind::work,
                                  .begin = boundary,
                                  .end = call.end(),
                                  .name = name,
                                  .work = gpu_.work_of[g]}});
      ++draft_.counts.syncs;
    }
  }

  // A call of the runtime that launches nothing: it may wait, or make a stream wait.
  void add_call(uint32_t i, const Sync* sync, std::vector<Point>& points) {
    const Event& e = event(i);
    const std::string_view name = reading_.name(i);
    if (contains(name, "EventRecord")) {
      draft_.records.push_back({e.start, e.track});
      return;
    }
    if (contains(name, "StreamWaitEvent")) {
      add_stream_wait(e, sync);
      return;
    }
    DraftPoint point{.begin = e.start, .end = e.end(), .before = e.start};
    int64_t waited_for = -1;
    if (contains(name, "StreamSynchronize")) {
      point.kind = DraftPoint::Kind::stream;
      if (sync) waited_for = sync->stream;
    } else if (contains(name, "DeviceSynchronize") || contains(name, "CtxSynchronize")) {
      point.kind = DraftPoint::Kind::device;
    } else if (contains(name, "EventSynchronize")) {
      point.kind = DraftPoint::Kind::event;
      if (sync) waited_for = sync->source_stream;
      point.before = recorded(sync).value_or(point.before);
    } else {
      return;
    }
    if (waited_for >= 0) point.track = streams_.find(sync->device, waited_for);
    // A stream on which nothing ran is not waited for.
    if (waited_for >= 0 && point.track == kNoIndex) return;
    point.name = operator_name(i);
    ++draft_.counts.syncs;
    points.push_back({.point = point});
  }

  void add_stream_wait(const Event& e, const Sync* sync) {
    DraftWait wait{.time = e.start, .thread = e.track};
    if (sync) {
      wait.track = streams_.find(sync->device, sync->stream);
      wait.source = streams_.find(sync->device, sync->source_stream);
      // A stream on which nothing ran neither waits nor is waited for.
      if ((sync->stream >= 0 && wait.track == kNoIndex) || (sync->source_stream >= 0 && wait.source == kNoIndex))
        return;
      wait.recorded = recorded(sync);
    }
    draft_.waits.push_back(wait);
  }

  // When the host recorded the event that is waited for.
  std::optional<int64_t> recorded(const Sync* sync) const {
    const auto& calls = reading_.launches.calls;
    const auto record = sync ? calls.find(sync->record) : calls.end();
    return record == calls.end() ? std::nullopt : std::optional(event(record->second).start);
  }

  const RankReading& reading_;
  const GpuWorks& gpu_;
  const HostComms& host_;
  const Options& options_;
  RankDraft& draft_;
  const StreamTracks streams_;
  bool host_only_ = false;
  std::unordered_map<uint32_t, std::vector<uint32_t>> launched_by_;  // by event of the host: of GPUs
  std::unordered_map<int64_t, const Sync*> syncs_;                   // by correlation
  std::vector<std::vector<uint32_t>> calls_on_;                      // by track of the trace: HostCalls
  std::vector<uint32_t> thread_of_;                                  // by track of the trace
};

}  // namespace

void add_threads(const RankReading& reading, const RankWorks& works, const Options& options, RankDraft& draft) {
  ThreadMaker(reading, works, options, draft).make();
}

}  // namespace banyan::job::kineto
