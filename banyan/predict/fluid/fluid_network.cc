#include "banyan/predict/fluid/fluid_network.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/fluid/bottleneck_clocks.h"
#include "banyan/predict/fluid/max_min.h"

namespace banyan::predict {
namespace {

constexpr double kSecondsPerPicosecond = 1e-12;

}  // namespace

class FluidNetwork::Impl {
 public:
  Impl(std::vector<double> capacities, const Options& options)
      : window_(options.window.count()),
        capacities_(std::move(capacities)),
        links_(capacities_.size()),
        carried_(capacities_.size()) {
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
    const int64_t begins = later(now_, flow.latency.count());
    const uint32_t id = take_slot();
    FlowRow& row = flows_[id];
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
    // A flow with nothing to move, or nothing that limits it, only passes its latency. Others move now or when it is
    // over.
    const bool has_a_way = !flow.hops.empty() || row.cap < MaxMin::kUnlimited;
    if (flow.bytes <= 0 || !has_a_way) {
      row.state = State::passes;
      wait(id, begins);
    } else if (begins == now_) {
      activate(id, flow.hops);
    } else {
      row.hops.assign(flow.hops.begin(), flow.hops.end());
      wait(id, begins);
    }
    return FlowId{id};
  }

  double stop(FlowId flow) {
    const double left = remaining(flow);
    FlowRow& row = row_of(flow);
    // Its links count the bytes that it has moved while it still is on them.
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
    // What it has moved is counted on the links that it leaves. The rest begins anew on the others.
    settle();
    const double left = row.layer->clocks.release(index(flow), now_) * row.weight;
    carry(index(flow), row.asked - left);
    row.carried = row.asked - left;
    row.layer->levels.remove(index(flow));
    activate(index(flow), hops);
    is_stale_ = true;
  }

  void set_capacity(uint32_t link, double capacity) {
    is_stale_ = true;
    capacities_[link] = capacity;
    // The first layer hears of it now. The others hear in settle() what the one before leaves them.
    if (!layers_.empty()) layers_.front()->levels.set_capacity(link, capacity);
  }

  int64_t next() {
    settle();
    return next_;
  }

  std::span<const FluidEnd> advance(int64_t time) {
    settle();
    // Nothing changes before next_, so rates are what they are until then.
    CHECK(time >= now_ && time <= next_) << "from " << now_ << " to " << time << " ps, beyond the next event at "
                                         << next_;
    ended_.clear();
    now_ = time;
    if (time < next_ || time == kEndless) return {};
    is_stale_ = true;
    ending_.clear();
    // The group may end now, and so may flows that only pass their latency. Others begin whose latency is over.
    if (group_ends_ == time) {
      visit_up_to(group_limit_, [&](Layer&, uint32_t id, int64_t) { ending_.push_back(id); });
    }
    stop_waiting();
    end_flows();
    return ended_;
  }

  double rate(FlowId flow) {
    settle();
    const FlowRow& row = row_of(flow);
    return row.state == State::moves ? row.layer->levels.rate(index(flow)) : 0;
  }
  double remaining(FlowId flow) {
    settle();
    const FlowRow& row = row_of(flow);
    switch (row.state) {
      case State::moves:
        return std::max(0.0, left(row, index(flow)));
      case State::passes:
        return 0;
      default:
        return row.asked;
    }
  }
  std::span<const FlowId> flows_on(uint32_t link) {
    on_link_.clear();
    for (const auto& layer : layers_) {
      for (const auto& crossing : layer->levels.crossing(link)) on_link_.push_back(FlowId{crossing.flow});
    }
    std::ranges::sort(on_link_);
    return on_link_;
  }
  double used(uint32_t link) {
    settle();
    double used = 0;
    for (const auto& layer : layers_) used += layer->levels.used(link);
    return used;
  }
  double capacity(uint32_t link) const { return capacities_[link]; }

  double bytes_carried(uint32_t link) {
    settle();
    double bytes = carried_[link];
    for (const FlowId flow : flows_on(link)) {
      const FlowRow& row = row_of(flow);
      // Flows under way are counted up to now; those that ended are in carried_ already.
      const double moved = row.asked - row.carried - std::max(0.0, left(row, index(flow)));
      for (const MaxMin::Hop& hop : row.layer->levels.hops(index(flow))) {
        if (hop.link == link) bytes += moved / row.weight * hop.use;
      }
    }
    return bytes;
  }
  int64_t time_full(uint32_t link) {
    settle();
    return links_[link].full + (links_[link].full_since >= 0 ? now_ - links_[link].full_since : 0);
  }

 private:
  static constexpr int64_t kEndless = BottleneckClocks::kNever;
  enum class State : uint8_t {
    unused,
    waits,   // for its latency, in waiting_
    moves,   // in its layer
    passes,  // has nothing to move, and ends when its latency is over; in waiting_
  };

  // The flows of one priority, on what those of higher ones leave them.
  struct Layer {
    Layer(uint8_t of, const std::vector<double>& capacities) : priority(of), levels(capacities) {}
    const uint8_t priority;
    MaxMin levels;
    BottleneckClocks clocks;
    bool is_fed = false;  // knows what the layer before it leaves
  };
  struct FlowRow {
    double asked = 0;
    double carried = 0;  // counted on links already
    double weight = 1, cap = 0;
    uint64_t tag = 0;
    Layer* layer = nullptr;  // while it moves
    uint32_t multiplicity = 1;
    uint8_t priority = 0;
    State state = State::unused;
    std::vector<FluidHop> hops = {};  // until it begins to move
  };
  struct LinkRow {
    int64_t full = 0, full_since = -1;
    uint32_t busy_layers = 0;
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
      return static_cast<uint32_t>(flows_.size() - 1);
    }
    const uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }

  void wait(uint32_t id, int64_t until) {
    waiting_.emplace_back(until, id);
    std::ranges::push_heap(waiting_, std::greater<>());
  }

  // Takes the flow out of its layer, or out of those that wait.
  void release(uint32_t id) {
    FlowRow& row = flows_[id];
    if (row.state == State::moves) {
      row.layer->clocks.release(id, now_);
      row.layer->levels.remove(id);
    } else {
      std::erase_if(waiting_, [&](const auto& waiting) { return waiting.second == id; });
      std::ranges::make_heap(waiting_, std::greater<>());
      row.hops.clear();
    }
    set_free(id);
  }
  void set_free(uint32_t id) {
    flows_[id].state = State::unused;
    free_.push_back(id);
    --under_way_;
    is_stale_ = true;
  }

  // A new layer comes between others: the one behind it must be told anew what is left.
  Layer& layer_of(uint8_t priority) {
    const auto at = std::ranges::find_if(layers_, [&](const auto& l) { return l->priority >= priority; });
    if (at != layers_.end() && (*at)->priority == priority) return **at;
    if (at != layers_.end()) (*at)->is_fed = false;
    return **layers_.insert(at, std::make_unique<Layer>(priority, capacities_));
  }

  // The flow joins its layer. Its rate is found by the next settle().
  void activate(uint32_t id, std::span<const FluidHop> hops) {
    FlowRow& row = flows_[id];
    row.state = State::moves;
    row.layer = &layer_of(row.priority);
    row.layer->levels.add(id, {.hops = hops, .weight = row.weight, .cap = row.cap, .multiplicity = row.multiplicity});
  }

  // Of one of its multiplicity; may be below zero within a window.
  double left(const FlowRow& row, uint32_t id) const { return row.layer->clocks.left(id, now_) * row.weight; }

  template <typename Visit>
  void visit_up_to(int64_t limit, Visit visit) {
    for (const auto& layer : layers_) {
      layer->clocks.visit_up_to(limit, [&](uint32_t id, int64_t end) { visit(*layer, id, end); });
    }
  }

  // Levels, ends and the next event as of now_.
  void settle() {
    if (!is_stale_) return;
    is_stale_ = false;
    // Layers are solved by priority. Each one tells the next about the links whose use has changed.
    for (size_t i = 0; i < layers_.size(); ++i) {
      Layer& layer = *layers_[i];
      // A layer that is new, or has a new one before it, hears of all links.
      if (!std::exchange(layer.is_fed, true)) {
        for (uint32_t link = 0; link < links_.size(); ++link) feed(i, link);
      }
      solve(layer);
      if (i + 1 == layers_.size() || !layers_[i + 1]->is_fed) continue;
      for (const uint32_t link : layer.levels.touched()) {
        if (link < links_.size()) feed(i + 1, link);
      }
    }
    find_next();
  }

  // Tells a layer what those before it leave of a link.
  void feed(size_t layer, uint32_t link) {
    // A busy link leaves nothing at all; rounding must not leave a trace of capacity.
    double capacity = capacities_[link];
    if (layer > 0) {
      const MaxMin& before = layers_[layer - 1]->levels;
      capacity = before.is_busy(link) ? 0 : before.capacity(link) - before.used(link);
    }
    MaxMin& levels = layers_[layer]->levels;
    // Only a capacity that differs makes the layer solve anything again.
    if (levels.capacity(link) != capacity) levels.set_capacity(link, std::max(0.0, capacity));
  }

  void solve(Layer& layer) {
    MaxMin& levels = layer.levels;
    BottleneckClocks& clocks = layer.clocks;
    // 1. Levels as they are now.
    levels.solve();
    clocks.resize(flows_.size(), levels.bottleneck_count());
    // 2. Flows with another bottleneck change clocks. They take along the work that is left, in units of their weight.
    for (const auto& [flow, from] : levels.moved()) {
      const FlowRow& row = flows_[flow];
      const double work = from == MaxMin::kNoLink ? (row.asked - row.carried) / row.weight : clocks.release(flow, now_);
      clocks.hold(flow, levels.bottleneck(flow), work, now_);
    }
    // 3. Bottlenecks of another level: their clocks run at it from now on.
    for (const uint32_t bottleneck : levels.changed()) clocks.set_level(bottleneck, levels.level(bottleneck), now_);
    // 4. Links that became full, or are full no longer: the time for which nothing was left is summed up.
    for (const uint32_t link : levels.turned()) {
      LinkRow& row = links_[link];
      if (levels.is_busy(link)) {
        if (row.busy_layers++ == 0) row.full_since = now_;
      } else if (--row.busy_layers == 0) {
        row.full += now_ - std::exchange(row.full_since, -1);
      }
    }
  }

  void find_next() {
    // The first end of all layers begins a group.
    int64_t first = kEndless;
    for (const auto& layer : layers_) first = std::min(first, layer->clocks.first_end());
    group_limit_ = group_ends_ = first;
    if (window_ > 0 && first < kEndless) {
      // Within a window all flows of the group end at the mean of their own ends, weighted by rate.
      group_limit_ = first + window_;
      double rates = 0, moments = 0;
      visit_up_to(group_limit_, [&](Layer& layer, uint32_t id, int64_t end) {
        const double rate = layer.levels.rate(id) * flows_[id].multiplicity;
        rates += rate;
        moments += rate * static_cast<double>(end - first);
      });
      if (rates > 0) group_ends_ = first + std::llround(moments / rates);
    }
    // Within a window it may be over already.
    group_ends_ = std::max(now_, group_ends_);
    // The next event is the end of the group or that of a latency.
    next_ = waiting_.empty() ? group_ends_ : std::min(group_ends_, waiting_.front().first);
  }

  void stop_waiting() {
    while (!waiting_.empty() && waiting_.front().first == now_) {
      std::ranges::pop_heap(waiting_, std::greater<>());
      const uint32_t id = waiting_.back().second;
      waiting_.pop_back();
      // A flow with nothing to move ends with its latency.
      if (flows_[id].state == State::passes) {
        ending_.push_back(id);
        continue;
      }
      // The layer keeps the hops from now on.
      const std::vector<FluidHop> hops = std::move(flows_[id].hops);
      flows_[id].hops.clear();
      activate(id, hops);
    }
  }

  void end_flows() {
    // Ends are told in the order of the ids, whatever the order of the clocks.
    std::ranges::sort(ending_);
    for (const uint32_t id : ending_) {
      FlowRow& row = flows_[id];
      double moved = row.asked;
      if (row.state == State::moves) {
        // Within a window it may have moved more than was asked, or less.
        if (window_ > 0) moved = count_error(id);
        carry(id, row.asked);
        asked_ += row.asked * row.multiplicity;
        row.layer->clocks.release(id, now_);
        row.layer->levels.remove(id);
      }
      ended_.push_back({FlowId{id}, row.tag, moved});
      set_free(id);
    }
  }

  // Returns what the flow has moved.
  double count_error(uint32_t id) {
    const FlowRow& row = flows_[id];
    // The flow ends by its group's time and not by its own: the rest is the error of the window.
    const double off = left(row, id);
    // What rounding an end up to a picosecond makes is none.
    if (std::abs(off) <= row.layer->levels.rate(id) * kSecondsPerPicosecond) return row.asked;
    error_.bytes += std::abs(off) * row.multiplicity;
    error_.worst_flow = std::max(error_.worst_flow, std::abs(off) / row.asked);
    return row.asked - off;
  }

  // Counts `bytes` of the flow, from its beginning, on its links.
  void carry(uint32_t id, double bytes) {
    const FlowRow& row = flows_[id];
    const double work = (bytes - row.carried) / row.weight;
    for (const MaxMin::Hop& hop : row.layer->levels.hops(id)) carried_[hop.link] += work * hop.use;
  }

  const int64_t window_;
  int64_t now_ = 0;
  std::vector<double> capacities_;
  std::vector<std::unique_ptr<Layer>> layers_;  // by priority
  std::vector<LinkRow> links_;
  std::vector<double> carried_;  // bytes by link
  std::vector<FlowRow> flows_;
  std::vector<uint32_t> free_;
  size_t under_way_ = 0;
  std::vector<std::pair<int64_t, uint32_t>> waiting_;  // a heap of those that wait for their latency
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

}  // namespace banyan::predict
