#include "banyan/job/kineto/launch.h"

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {
namespace {

using Kind = Event::Kind;

// Traces whose clock begins with the run have events of time zero that are right.
constexpr int64_t kClockHasBegun = 1'000'000;

class LaunchFinder {
 public:
  LaunchFinder(Trace& trace, RankDraft& draft) : trace_(trace), draft_(draft) {}

  Launches find() && {
    collect_calls();
    by_correlation();
    if (!orphans_.empty()) adopt();
    mend_times();
    mend_clock();
    sort();
    return std::move(out_);
  }

 private:
  const Event& event(uint32_t i) const { return trace_.events[i]; }
  uint32_t count() const { return static_cast<uint32_t>(trace_.events.size()); }

  void collect_calls() {
    for (uint32_t i = 0; i < count(); ++i) {
      const Event& e = event(i);
      if (e.kind != Kind::runtime || e.correlation <= 0) continue;
      const auto [at, added] = out_.calls.try_emplace(e.correlation, i);
      if (added) continue;
      // A call of the runtime and the driver's within it share a correlation; the outer one is the launch.
      const Event& other = event(at->second);
      const bool nested = e.track == other.track && e.start <= other.end() && other.start <= e.end();
      if (!nested) ++draft_.counts.repeated_correlations;
      if (e.duration > other.duration) at->second = i;
    }
  }

  void by_correlation() {
    out_.launcher.assign(count(), kNoIndex);
    for (uint32_t i = 0; i < count(); ++i) {
      const Event& e = event(i);
      if (!e.on_gpu()) continue;
      const auto at = e.correlation > 0 ? out_.calls.find(e.correlation) : out_.calls.end();
      if (at == out_.calls.end()) {
        orphans_.push_back(i);
        continue;
      }
      out_.launcher[i] = at->second;
      ++draft_.counts.launched_by_correlation;
    }
  }

  // What has no call of its correlation.
  void adopt() {
    std::unordered_map<int64_t, uint32_t> operators;
    for (uint32_t i = 0; i < count(); ++i) {
      if (event(i).kind == Kind::cpu_op && event(i).external_id > 0) operators.try_emplace(event(i).external_id, i);
    }
    std::unordered_map<int64_t, const Arrow*> starts;
    for (const Arrow& arrow : trace_.starts) starts.try_emplace(arrow.id, &arrow);
    std::map<std::pair<uint32_t, int64_t>, int64_t> ends;  // track, time: id of the arrow
    for (const Arrow& arrow : trace_.ends) ends.try_emplace({arrow.track, arrow.time}, arrow.id);
    std::vector<std::pair<int64_t, uint32_t>> launches;  // correlation, call
    for (uint32_t i = 0; i < count(); ++i) {
      if (out_.launcher[i] != kNoIndex) launches.emplace_back(event(i).correlation, out_.launcher[i]);
    }
    std::ranges::sort(launches);
    for (const uint32_t i : orphans_) {
      const Event& e = event(i);
      const auto by_id = e.external_id > 0 ? operators.find(e.external_id) : operators.end();
      if (by_id != operators.end()) {
        out_.launcher[i] = by_id->second;
        ++draft_.counts.launched_by_external_id;
        continue;
      }
      const auto end = ends.find({e.track, e.start});
      const auto arrow = starts.find(e.correlation > 0 || end == ends.end() ? e.correlation : end->second);
      const uint32_t around =
          arrow == starts.end() ? kNoIndex : event_around(arrow->second->track, arrow->second->time);
      if (around != kNoIndex) {
        out_.launcher[i] = around;
        ++draft_.counts.launched_by_arrow;
        continue;
      }
      ++draft_.counts.without_launcher;
      // Correlations count up: it was launched after the call with the next lower one.
      const auto after = std::ranges::lower_bound(launches, std::pair(e.correlation, uint32_t{0}));
      const bool known =
          after != launches.begin() && (event(std::prev(after)->second).start <= e.start || e.lost_its_times());
      if (known) {
        out_.launcher[i] = std::prev(after)->second;
        ++draft_.counts.launched_by_order;
      }
      draft_.note("event " + std::to_string(e.number) + " ('" + std::string(trace_.name(e).substr(0, 60)) +
                  "') has no call that launched it (correlation " + std::to_string(e.correlation) + ")");
    }
  }

  // Of those that began last before a moment on a host's thread, the first that is still going on.
  uint32_t event_around(uint32_t track, int64_t time) {
    if (by_track_.empty()) {
      by_track_.resize(trace_.tracks.size());
      for (uint32_t i = 0; i < count(); ++i) {
        if (event(i).kind == Kind::cpu_op || event(i).kind == Kind::runtime) by_track_[event(i).track].push_back(i);
      }
      for (auto& events : by_track_) {
        std::ranges::sort(events, {}, [&](uint32_t a) { return event(a).start; });
      }
    }
    const std::vector<uint32_t>& all = by_track_[track];
    auto at = std::ranges::upper_bound(all, time, {}, [&](uint32_t i) { return event(i).start; });
    for (int back = 0; at != all.begin() && back < 64; ++back) {
      --at;
      if (event(*at).end() >= time) return *at;
    }
    return kNoIndex;
  }

  // What lost its times begins with its launch.
  void mend_times() {
    mended_.resize(count());
    left_out_.resize(count());
    int64_t begin = INT64_MAX;
    for (const Event& e : trace_.events) begin = e.lost_its_times() ? begin : std::min(begin, e.start);
    for (uint32_t i = 0; i < count(); ++i) {
      Event& e = trace_.events[i];
      if (!e.lost_its_times()) continue;
      const uint32_t call = out_.launcher[i];
      if ((call == kNoIndex ? begin : event(call).start) <= kClockHasBegun) continue;
      mended_[i] = true;
      if (call == kNoIndex) {
        left_out_[i] = true;
        ++draft_.counts.without_time;
      } else {
        e.start = event(call).end();
        ++draft_.counts.without_gpu_time;
      }
    }
  }

  void mend_clock() {
    uint64_t linked = 0;
    std::vector<int64_t> early;
    for (uint32_t i = 0; i < count(); ++i) {
      if (out_.launcher[i] == kNoIndex || mended_[i]) continue;
      const Event& call = event(out_.launcher[i]);
      if (call.kind != Kind::runtime) continue;
      ++linked;
      if (event(i).start < call.start) early.push_back(call.start - event(i).start);
    }
    if (early.size() * 2 <= linked) {
      draft_.counts.before_launch = early.size();
      return;
    }
    const int64_t shift = *std::ranges::max_element(early);
    for (uint32_t i = 0; i < count(); ++i) {
      if (event(i).on_gpu() && !mended_[i]) trace_.events[i].start += shift;
    }
    ++draft_.counts.clocks_shifted;
    draft_.note("the GPU's clock is " + std::to_string(shift) + " ns behind the host's: " +
                std::to_string(early.size()) + " of " + std::to_string(linked) + " kernels began before their launch");
  }

  void sort() {
    std::vector<std::pair<int64_t, uint32_t>> order;
    for (uint32_t i = 0; i < count(); ++i) {
      if (!event(i).on_gpu() || left_out_[i]) continue;
      order.emplace_back(out_.launcher[i] == kNoIndex ? event(i).start : event(out_.launcher[i]).start, i);
    }
    std::ranges::sort(order, {},
                      [&](const auto& each) { return std::tuple(each.first, event(each.second).start, each.second); });
    for (const auto& [when, i] : order) {
      out_.gpu_events.push_back(i);
      out_.launched.push_back(when);
    }
  }

  Trace& trace_;
  RankDraft& draft_;
  Launches out_;
  std::vector<uint32_t> orphans_;                // GPU events without a call of their correlation
  std::vector<std::vector<uint32_t>> by_track_;  // host events, as they began
  std::vector<bool> mended_, left_out_;          // by event: what had lost its times
};

}  // namespace

Launches find_launches(Trace& trace, RankDraft& draft) { return LaunchFinder(trace, draft).find(); }

}  // namespace banyan::job::kineto
