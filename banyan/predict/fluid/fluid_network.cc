#include "banyan/predict/fluid/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/fluid/end_times.h"
#include "banyan/predict/fluid/max_min.h"

namespace banyan {
namespace {

constexpr double kSecondsPerPicosecond = 1e-12, kPicosecondsPerSecond = 1e12;
// What rounding may add to a time that is a whole number of picoseconds; it must not cost another one.
constexpr double kSlack = 1e-3;

}  // namespace

class FluidNetwork::Impl {
 public:
  Impl(std::vector<double> capacities, const Options& options)
      : window_(options.window.count()), levels_(std::move(capacities)), links_(levels_.link_count()) {
    CHECK(window_ >= 0) << "a window of " << window_ << " ps";
  }

  int64_t now() const { return now_; }
  size_t flow_count() const { return under_way_; }
  WindowError window_error() const {
    WindowError error = error_;
    error.of_all = asked_ > 0 ? error.bytes / asked_ : 0;
    return error;
  }

  FlowId start(const FluidFlow& flow) {
    CHECK(flow.bytes >= 0 && flow.latency.count() >= 0)
        << flow.bytes << " bytes after " << flow.latency.count() << " ps";
    const uint32_t id = take_slot();
    FlowRow& row = flows_[id];
    motions_[id] = {.remaining = flow.bytes};
    row = {
        .asked = flow.bytes,
        .weight = flow.weight,
        .cap = flow.cap.bytes_per_second() == 0 ? MaxMin::kUnlimited : static_cast<double>(flow.cap.bytes_per_second()),
        .tag = flow.tag,
        .multiplicity = flow.multiplicity,
        .priority = flow.priority,
        .state = State::waits};
    ++under_way_;
    is_stale_ = true;
    const int64_t begins = later(now_, flow.latency.count());
    const bool has_a_way = !flow.hops.empty() || row.cap < MaxMin::kUnlimited;
    if (flow.bytes <= 0 || !has_a_way) {
      row.state = State::passes;
      motions_[id].remaining = 0;
      ends_.set(id, begins);
    } else if (begins == now_) {
      activate(id, flow.hops);
    } else {
      row.hops.assign(flow.hops.begin(), flow.hops.end());
      starts_.emplace_back(begins, id);
      std::push_heap(starts_.begin(), starts_.end(), std::greater<>());
    }
    return FlowId{id};
  }

  double stop(FlowId flow) {
    const double left = remaining(flow);
    FlowRow& row = row_of(flow);
    if (row.state == State::moves) carry(index(flow), row.asked - left);
    release(index(flow));
    return left;
  }

  void move(FlowId flow, std::span<const FluidHop> hops) {
    FlowRow& row = row_of(flow);
    if (row.state != State::moves) {
      row.hops.assign(hops.begin(), hops.end());
      return;
    }
    settle();
    bring_up(index(flow));
    const double moved = row.asked - motions_[index(flow)].remaining;
    carry(index(flow), moved);
    row.carried = moved;
    levels_.remove(index(flow));
    ends_.set(index(flow), kEndless);
    activate(index(flow), hops);
    is_stale_ = true;
  }

  void set_capacity(uint32_t link, double capacity) {
    is_stale_ = true;
    levels_.set_capacity(link, capacity);
  }

  int64_t next() {
    settle();
    return next_;
  }

  std::span<const FluidEnd> advance(int64_t time) {
    settle();
    CHECK(time >= now_ && time <= next_) << "from " << now_ << " to " << time << " ps, beyond the next event at "
                                         << next_;
    ended_.clear();
    now_ = time;
    if (time < next_ || time == kEndless) return {};
    is_stale_ = true;
    begin_flows();
    if (group_ends_ == time) end_group();
    return ended_;
  }

  double rate(FlowId flow) {
    settle();
    return row_of(flow).state == State::moves ? levels_.rate(index(flow)) : 0;
  }
  double remaining(FlowId flow) {
    settle();
    const FlowRow& row = row_of(flow);
    return row.state == State::moves ? std::max(0.0, left_at(index(flow), now_)) : motions_[index(flow)].remaining;
  }
  std::span<const FlowId> flows_on(uint32_t link) {
    on_link_.clear();
    for (const auto& crossing : levels_.crossing(link)) on_link_.push_back(FlowId{crossing.flow});
    std::sort(on_link_.begin(), on_link_.end());
    return on_link_;
  }
  double used(uint32_t link) {
    settle();
    return levels_.used(link);
  }
  double capacity(uint32_t link) const { return levels_.capacity(link); }

  double bytes_carried(uint32_t link) {
    settle();
    double bytes = links_[link].bytes;
    for (const auto& crossing : levels_.crossing(link)) {
      const FlowRow& row = flows_[crossing.flow];
      const double moved = row.asked - row.carried - std::max(0.0, left_at(crossing.flow, now_));
      for (const FluidHop& hop : levels_.hops(crossing.flow)) {
        if (hop.link == link) bytes += moved * hop.coefficient * row.multiplicity;
      }
    }
    return bytes;
  }
  int64_t time_full(uint32_t link) {
    settle();
    return links_[link].full + (links_[link].full_since >= 0 ? now_ - links_[link].full_since : 0);
  }

 private:
  static constexpr int64_t kEndless = EndTimes::kNever;
  enum class State : uint8_t {
    unused,
    waits,   // for its latency, in starts_
    moves,   // in levels_
    passes,  // has nothing to move, and ends when its latency is over
  };

  // What changes with every event, apart from what does not.
  struct Motion {
    double remaining = 0;  // as of `as_of`
    double rate = 0;       // since then
    int64_t as_of = 0;
  };
  struct FlowRow {
    double asked = 0;
    double carried = 0;  // counted on links already
    double weight = 1, cap = 0;
    uint64_t tag = 0;
    uint32_t multiplicity = 1;
    uint8_t priority = 0;
    State state = State::unused;
    std::vector<FluidHop> hops = {};  // until it begins to move
  };
  struct LinkRow {
    double bytes = 0;
    int64_t full = 0, full_since = -1;
  };

  FlowRow& row_of(FlowId flow) {
    CHECK(index(flow) < flows_.size() && flows_[index(flow)].state != State::unused) << "flow " << index(flow);
    return flows_[index(flow)];
  }

  static int64_t later(int64_t time, int64_t by) {
    if (by >= kEndless - time) throw Error(ErrorCode::unsupported, "virtual time goes beyond 53 days");
    return time + by;
  }

  uint32_t take_slot() {
    if (free_.empty()) {
      CHECK(flows_.size() < UINT32_MAX) << "flows at once";
      flows_.emplace_back();
      motions_.emplace_back();
      ends_.resize(flows_.size());
      return static_cast<uint32_t>(flows_.size() - 1);
    }
    const uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  void release(uint32_t id) {
    FlowRow& row = flows_[id];
    if (row.state == State::moves) {
      levels_.remove(id);
    } else if (row.state == State::waits) {
      std::erase_if(starts_, [&](const auto& start) { return start.second == id; });
      std::make_heap(starts_.begin(), starts_.end(), std::greater<>());
      row.hops.clear();
    }
    row.state = State::unused;
    ends_.set(id, kEndless);
    free_.push_back(id);
    --under_way_;
    is_stale_ = true;
  }

  void activate(uint32_t id, std::span<const FluidHop> hops) {
    FlowRow& row = flows_[id];
    row.state = State::moves;
    motions_[id].as_of = now_;
    motions_[id].rate = 0;
    levels_.add(id, {.hops = hops,
                     .weight = row.weight,
                     .cap = row.cap,
                     .multiplicity = row.multiplicity,
                     .priority = row.priority});
  }

  // May be below zero within a window.
  double left_at(uint32_t id, int64_t time) const {
    const Motion& motion = motions_[id];
    return motion.remaining - motion.rate * static_cast<double>(time - motion.as_of) * kSecondsPerPicosecond;
  }
  void bring_up(uint32_t id) {
    motions_[id].remaining = left_at(id, now_);
    motions_[id].as_of = now_;
  }

  // Rates, ends and the next event as of now_.
  void settle() {
    if (!is_stale_) return;
    is_stale_ = false;
    levels_.solve();
    for (const uint32_t id : levels_.changed()) {
      Motion& motion = motions_[id];
      // Within a window it may be over already, and keeps its end.
      const bool is_over = motion.rate > 0 && ends_[id] <= now_;
      bring_up(id);
      motion.rate = levels_.rate(id);
      if (!is_over) ends_.set(id, end_of(motion));
    }
    for (const uint32_t link : levels_.turned()) {
      LinkRow& row = links_[link];
      if (levels_.is_busy(link)) {
        row.full_since = now_;
      } else if (row.full_since >= 0) {
        row.full += now_ - std::exchange(row.full_since, -1);
      }
    }
    find_next();
  }

  int64_t end_of(const Motion& motion) const {
    if (motion.remaining <= 0) return now_;
    const double takes = std::ceil(motion.remaining / motion.rate * kPicosecondsPerSecond - kSlack);
    if (!(takes < static_cast<double>(kEndless))) return kEndless;  // nor when the rate is zero
    return later(now_, static_cast<int64_t>(takes));
  }

  void find_next() {
    const int64_t first = ends_.least();
    group_limit_ = first;
    group_ends_ = first;
    if (window_ > 0 && first < kEndless) {
      group_limit_ = first + window_;
      double rates = 0, moments = 0;
      ends_.visit_up_to(group_limit_, [&](uint32_t id) {
        const double rate = motions_[id].rate * flows_[id].multiplicity;
        rates += rate;
        moments += rate * static_cast<double>(ends_[id] - first);
      });
      if (rates > 0) group_ends_ = first + std::llround(moments / rates);
      group_ends_ = std::max(now_, group_ends_);
    }
    next_ = starts_.empty() ? group_ends_ : std::min(group_ends_, starts_.front().first);
  }

  void begin_flows() {
    while (!starts_.empty() && starts_.front().first == now_) {
      std::pop_heap(starts_.begin(), starts_.end(), std::greater<>());
      const uint32_t id = starts_.back().second;
      starts_.pop_back();
      const std::vector<FluidHop> hops = std::move(flows_[id].hops);
      flows_[id].hops.clear();
      activate(id, hops);
    }
  }

  void end_group() {
    ending_.clear();
    ends_.visit_up_to(group_limit_, [&](uint32_t id) { ending_.push_back(id); });
    for (const uint32_t id : ending_) {
      FlowRow& row = flows_[id];
      double moved = row.asked;
      if (row.state == State::moves) {
        if (window_ > 0) moved = count_error(id);
        carry(id, row.asked);
        asked_ += row.asked * row.multiplicity;
      }
      ended_.push_back({FlowId{id}, row.tag, moved});
      release(id);
    }
  }

  // Returns what the flow has moved.
  double count_error(uint32_t id) {
    const FlowRow& row = flows_[id];
    const double off = left_at(id, now_);
    // What rounding an end up to a picosecond makes is none.
    if (std::abs(off) <= motions_[id].rate * kSecondsPerPicosecond) return row.asked;
    error_.bytes += std::abs(off) * row.multiplicity;
    error_.worst_flow = std::max(error_.worst_flow, std::abs(off) / row.asked);
    return row.asked - off;
  }

  // Counts `bytes` of the flow, from its beginning, on its links.
  void carry(uint32_t id, double bytes) {
    const FlowRow& row = flows_[id];
    for (const FluidHop& hop : levels_.hops(id)) {
      links_[hop.link].bytes += (bytes - row.carried) * hop.coefficient * row.multiplicity;
    }
  }

  const int64_t window_;
  int64_t now_ = 0;
  MaxMin levels_;
  std::vector<LinkRow> links_;
  std::vector<FlowRow> flows_;
  std::vector<Motion> motions_;
  std::vector<uint32_t> free_;
  size_t under_way_ = 0;
  EndTimes ends_;
  std::vector<std::pair<int64_t, uint32_t>> starts_;  // a heap of those that wait for their latency
  bool is_stale_ = true;
  int64_t next_ = kEndless;         // the next event
  int64_t group_ends_ = kEndless;   // when the next flows end,
  int64_t group_limit_ = kEndless;  // all whose own ends are up to here
  std::vector<uint32_t> ending_;
  std::vector<FluidEnd> ended_;
  std::vector<FlowId> on_link_;
  double asked_ = 0;
  WindowError error_;
};

FluidNetwork::FluidNetwork(std::vector<double> capacities, const Options& options)
    : impl_(std::make_unique<Impl>(std::move(capacities), options)) {}
FluidNetwork::~FluidNetwork() = default;

Picoseconds FluidNetwork::now() const { return Picoseconds(impl_->now()); }
FlowId FluidNetwork::start(const FluidFlow& flow) { return impl_->start(flow); }
double FluidNetwork::stop(FlowId flow) { return impl_->stop(flow); }
void FluidNetwork::move(FlowId flow, std::span<const FluidHop> hops) { impl_->move(flow, hops); }
void FluidNetwork::set_capacity(uint32_t link, double bytes_per_second) { impl_->set_capacity(link, bytes_per_second); }
Picoseconds FluidNetwork::next() { return Picoseconds(impl_->next()); }
std::span<const FluidEnd> FluidNetwork::advance(Picoseconds time) { return impl_->advance(time.count()); }
double FluidNetwork::rate(FlowId flow) { return impl_->rate(flow); }
double FluidNetwork::remaining(FlowId flow) { return impl_->remaining(flow); }
std::span<const FlowId> FluidNetwork::flows_on(uint32_t link) { return impl_->flows_on(link); }
double FluidNetwork::used(uint32_t link) { return impl_->used(link); }
double FluidNetwork::capacity(uint32_t link) const { return impl_->capacity(link); }
double FluidNetwork::bytes_carried(uint32_t link) { return impl_->bytes_carried(link); }
Picoseconds FluidNetwork::time_full(uint32_t link) { return Picoseconds(impl_->time_full(link)); }
size_t FluidNetwork::flow_count() const { return impl_->flow_count(); }
WindowError FluidNetwork::window_error() const { return impl_->window_error(); }

}  // namespace banyan
