#include "banyan/predict/fluid/bottleneck_clocks.h"

#include <algorithm>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr double kSecondsPerPicosecond = 1e-12, kPicosecondsPerSecond = 1e12;
// What rounding may add to a time that is a whole number of picoseconds; it must not cost another one.
constexpr double kSlack = 1e-3;

}  // namespace

void BottleneckClocks::resize(size_t flows, size_t bottlenecks) {
  if (flows > flows_.size()) flows_.resize(flows);
  if (bottlenecks <= clocks_.size()) return;
  clocks_.resize(bottlenecks);
  ends_.resize(bottlenecks);
}

double BottleneckClocks::shows_at(const Clock& clock, int64_t now) {
  return clock.shows + clock.level * (static_cast<double>(now - clock.as_of) * kSecondsPerPicosecond);
}

int64_t BottleneckClocks::end_at(const Clock& clock, double finish) {
  const double left = finish - clock.shows;
  // One whose end was let pass, and whose bottleneck stands still, ends at once.
  if (clock.level <= 0) return left > 0 ? kNever : clock.as_of;
  // Ends are rounded up, but for what rounding of doubles may have added.
  const double takes = left / clock.level * kPicosecondsPerSecond - kSlack;
  if (!(takes < static_cast<double>(kNever - clock.as_of))) return kNever;
  const int64_t whole = static_cast<int64_t>(takes);
  return clock.as_of + whole + (static_cast<double>(whole) < takes ? 1 : 0);
}

void BottleneckClocks::bring_up(Clock& clock, int64_t now) {
  // A clock without flows begins anew.
  clock.shows = clock.held.empty() ? 0 : shows_at(clock, now);
  clock.as_of = now;
  // So does one that has run for long, with the ends of all its flows: their order stays, so the heap does.
  if (clock.shows <= clock.level * kLongest) return;
  for (Held& held : clock.held) held.finish -= clock.shows;
  clock.shows = 0;
}

void BottleneckClocks::put(Clock& clock, uint32_t place, const Held& held) {
  clock.held[place] = held;
  flows_[held.flow].place = place;
}

void BottleneckClocks::sift_up(Clock& clock, uint32_t place, const Held& held) {
  for (; place > 0 && held.finish < clock.held[(place - 1) / 2].finish; place = (place - 1) / 2) {
    put(clock, place, clock.held[(place - 1) / 2]);
  }
  put(clock, place, held);
}

void BottleneckClocks::sift_down(Clock& clock, uint32_t place, const Held& held) {
  const uint32_t size = static_cast<uint32_t>(clock.held.size());
  for (uint32_t child; (child = 2 * place + 1) < size; place = child) {
    if (child + 1 < size && clock.held[child + 1].finish < clock.held[child].finish) ++child;
    if (!(clock.held[child].finish < held.finish)) break;
    put(clock, place, clock.held[child]);
  }
  put(clock, place, held);
}

void BottleneckClocks::set_end(uint32_t bottleneck) {
  const Clock& clock = clocks_[bottleneck];
  ends_.set(bottleneck, clock.held.empty() ? kNever : end_at(clock, clock.held.front().finish));
}

void BottleneckClocks::hold(uint32_t flow, uint32_t bottleneck, double work, int64_t now) {
  Clock& clock = clocks_[bottleneck];
  bring_up(clock, now);
  flows_[flow].bottleneck = bottleneck;
  // A clock that gets its first flow takes over a heap that another one has left.
  if (clock.held.empty() && !spare_.empty()) {
    clock.held = std::move(spare_.back());
    spare_.pop_back();
  }
  // The flow ends when the clock shows its work more than now, whatever becomes of the level.
  clock.held.emplace_back();
  sift_up(clock, static_cast<uint32_t>(clock.held.size() - 1), {clock.shows + work, flow});
  // Only a flow in front changes the first end.
  if (flows_[flow].place == 0) set_end(bottleneck);
}

double BottleneckClocks::release(uint32_t flow, int64_t now) {
  const auto [bottleneck, place] = flows_[flow];
  Clock& clock = clocks_[bottleneck];
  CHECK(place < clock.held.size() && clock.held[place].flow == flow)
      << "flow " << flow << " of bottleneck " << bottleneck;
  const double left = clock.held[place].finish - shows_at(clock, now);
  // The last flow of the heap fills the hole, and moves up or down from there.
  const Held last = clock.held.back();
  clock.held.pop_back();
  if (last.flow != flow) {
    if (place > 0 && last.finish < clock.held[(place - 1) / 2].finish) {
      sift_up(clock, place, last);
    } else {
      sift_down(clock, place, last);
    }
  }
  if (clock.held.empty()) spare_.push_back(std::move(clock.held));
  if (place == 0) set_end(bottleneck);
  return left;
}

void BottleneckClocks::set_level(uint32_t bottleneck, double level, int64_t now) {
  Clock& clock = clocks_[bottleneck];
  bring_up(clock, now);
  // The clock has run at the old level until now.
  clock.level = level;
  set_end(bottleneck);
}

double BottleneckClocks::left(uint32_t flow, int64_t now) const {
  const auto [bottleneck, place] = flows_[flow];
  return clocks_[bottleneck].held[place].finish - shows_at(clocks_[bottleneck], now);
}

}  // namespace banyan::predict
