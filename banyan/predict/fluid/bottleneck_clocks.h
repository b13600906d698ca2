// BottleneckClocks: when flows end that go, in groups, at the level of their bottleneck link (max_min.h).
//
// A flow of weight w with r bytes to move has *work* r / w. A bottleneck's clock shows the work that any of its flows
// has done since the clock began: it runs at the bottleneck's level. A flow that joins at clock c with work x ends when
// the clock shows c + x, whatever becomes of the level. So a change of a level costs one clock, however many flows
// follow it (virtual time; Zhang: VirtualClock, SIGCOMM 1990; Parekh, Gallager: GPS, 1993).
//
// Times in picoseconds; ends are rounded up. A clock begins anew when it has no flow, and after kLongest at its
// level, so that its rounding stays far below what moves in a picosecond. An operation costs O(log flows of the
// bottleneck). One thread.
#pragma once

#include <cstdint>
#include <vector>

#include "banyan/predict/fluid/end_times.h"

namespace banyan::predict {

class BottleneckClocks {
 public:
  static constexpr int64_t kNever = EndTimes::kNever;

  void resize(size_t flows, size_t bottlenecks);

  // `now` never goes back.
  void hold(uint32_t flow, uint32_t bottleneck, double work, int64_t now);
  // Returns the work left, which is below zero when its end was let pass.
  double release(uint32_t flow, int64_t now);
  void set_level(uint32_t bottleneck, double level, int64_t now);

  double left(uint32_t flow, int64_t now) const;
  double level(uint32_t flow) const { return clocks_[flows_[flow].bottleneck].level; }

  // The first end of all; it may have been let pass.
  int64_t first_end() { return ends_.least(); }
  // Calls visit(flow, end) for all flows that end up to `limit`, in an order that depends on what was called before.
  // It must not change anything here.
  template <typename Visit>
  void visit_up_to(int64_t limit, Visit visit) {
    ends_.visit_up_to(limit, [&](uint32_t bottleneck) {
      const Clock& clock = clocks_[bottleneck];
      // Down the heap as far as ends are up to the limit.
      below_.assign(1, 0);
      while (!below_.empty()) {
        const uint32_t place = below_.back();
        below_.pop_back();
        if (place >= clock.held.size()) continue;
        const int64_t end = end_at(clock, clock.held[place].finish);
        if (end > limit) continue;
        visit(clock.held[place].flow, end);
        below_.push_back(2 * place + 1);
        below_.push_back(2 * place + 2);
      }
    });
  }

 private:
  static constexpr double kLongest = 1;  // seconds, of which the last place of a double is 2 * 10^-4 ps

  struct Held {
    double finish;  // what the clock will show at its end
    uint32_t flow;
  };
  struct Clock {
    double shows = 0;  // at `as_of`
    double level = 0;
    int64_t as_of = 0;
    std::vector<Held> held = {};  // a heap; the first end is in front
  };
  struct FlowRow {
    uint32_t bottleneck = 0;
    uint32_t place = 0;  // in the heap
  };

  static double shows_at(const Clock& clock, int64_t now);
  static int64_t end_at(const Clock& clock, double finish);
  void bring_up(Clock& clock, int64_t now);
  void put(Clock& clock, uint32_t place, const Held& held);
  void sift_up(Clock& clock, uint32_t place, const Held& held);
  void sift_down(Clock& clock, uint32_t place, const Held& held);
  void set_end(uint32_t bottleneck);

  std::vector<Clock> clocks_;   // by bottleneck
  std::vector<FlowRow> flows_;  // by flow
  EndTimes ends_;               // of each bottleneck's first
  std::vector<uint32_t> below_;
  std::vector<std::vector<Held>> spare_;  // empty heaps, used again while they are in a cache
};

}  // namespace banyan::predict
