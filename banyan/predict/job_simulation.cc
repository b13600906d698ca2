#include "banyan/predict/job_simulation.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <queue>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/job/message_match.h"
#include "banyan/predict/job_kinds.h"
#include "banyan/predict/load_series.h"
#include "banyan/predict/program_plan.h"

namespace banyan {
namespace {

constexpr uint32_t kNone = UINT32_MAX;
constexpr uint64_t kNodesBetweenLooks = 1 << 14;
constexpr double kSecondsPerPicosecond = 1e-12;

// A node of a rank that is simulated. `rank` is its number among these: its kind.
struct Place {
  uint32_t rank = 0, node = 0;
};

class Simulation {
 public:
  Simulation(const Fabric& fabric, const std::vector<PlacedJob>& jobs, const JobSimulationOptions& options)
      : fabric_(fabric),
        jobs_(jobs),
        options_(options),
        timeline_(fabric, options.events),
        detours_(make_detours()),
        kinds_(fabric, jobs, options, timeline_, detours_.get()),
        routing_(fabric),
        network_(kinds_.capacities(), {.window = options.window}),
        loads_(kinds_.capacities().size()),
        group_kinds_(kinds_.groups().size()),
        nodes_left_of_(jobs.size(), 0),
        failed_at_(jobs.size()) {
    for (uint32_t link = 0; link < fabric.links().size() && !options.events.empty(); ++link) {
      usable_.push_back(kinds_.usable(link));
    }
    for (const PlacedJob& placed : jobs) {
      plans_.emplace_back();
      for (const JobProgram& program : placed.job->programs()) plans_.back().emplace_back(program);
      if (kinds_.has_any()) matches_.emplace_back(*placed.job);
    }
    for (const uint32_t number : kinds_.ranks()) add_rank(number);
    expect_members();
    set_out_names();
  }

  JobSimulation carry_out() {
    for (uint32_t rank = 0; rank < ranks_.size(); ++rank) {
      timers_.push({jobs_[ranks_[rank].job].start.count(), next_timer_++, {rank, kNone}});
    }
    bool complete = true;
    while (nodes_left_ > 0) {
      const Picoseconds timer = timers_.empty() ? FluidNetwork::kNever : Picoseconds(timers_.top().time);
      const Picoseconds event =
          next_moment_ == timeline_.moments().size() ? FluidNetwork::kNever : timeline_.moments()[next_moment_].time;
      const Picoseconds time = std::min({network_.next(), timer, event});
      if (time == FluidNetwork::kNever) throw stuck();
      ended_flows_.clear();
      for (const FluidEnd& end : network_.advance(time)) ended_flows_.push_back(static_cast<uint32_t>(end.tag));
      for (const uint32_t flow : ended_flows_) flow_ended(flow);
      if (event == time) change_links(timeline_.moments()[next_moment_++]);
      while (!timers_.empty() && timers_.top().time == time.count()) {
        const Place place = timers_.top().place;
        timers_.pop();
        if (has_failed(place)) continue;
        if (place.node == kNone) {
          begin_rank(place.rank);
        } else {
          compute_ended(place);
        }
      }
      go_on();
      give_up_failing();
      if (options_.observer != nullptr && nodes_ - nodes_left_ >= next_look_ && !look()) {
        complete = false;
        break;
      }
    }
    return report(complete);
  }

 private:
  struct Stream {
    uint32_t next = 0;  // Order::program: the place in the plan's list
    bool is_busy = false;
    bool is_queued = false;
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready = {};  // Order::ready
  };
  struct Rank {
    uint32_t number = 0;  // among all ranks of all jobs
    uint32_t job = 0, in_job = 0;
    const JobProgram* program = nullptr;
    const ProgramPlan* plan = nullptr;
    std::vector<uint32_t> missing;  // by node
    std::vector<Stream> streams;
    std::vector<uint64_t> calls;  // by group slot, counted at the first that means the same group
    Account account = {};
    Picoseconds ended{0};
  };
  struct Arrival {
    Place place;
    Picoseconds at;
  };
  struct Call {
    std::vector<Arrival> members;
    bool is_complete = false;
  };
  struct GroupKind {
    uint32_t members = 0;  // different ranks (and slots) among those that are simulated
    uint64_t first_open = 0;
    std::deque<Call> open;
    std::map<JobKinds::Use, Footprint> footprints;
    // Round what is down in this state of the timeline; nothing: there is no way round.
    std::map<JobKinds::Use, std::optional<Footprint>> detours;
    uint32_t state_of_detours = 0;
  };
  struct Message {
    std::optional<Arrival> send, receive;
    uint32_t flow = kNone;  // once it moves
    bool has_arrived = false;
  };
  // What moves: a collective or a message.
  struct Flow {
    uint32_t group = kNone;  // a collective of this kind of groups,
    Call call;
    uint32_t message = kNone;     // or this message
    uint32_t job = 0, alike = 1;  // how many equal ones it stands for
    Picoseconds begin{0}, moves_from{0};
    FlowId fluid{};
    double efficiency = 1;
    std::vector<FluidHop> way;   // of one of them, by link of the fabric; kept where links change
    std::vector<FluidHop> hops;  // of all of them, by kind of link
    double bytes = 0, booked = 0;
    Picoseconds booked_until{0};
    bool is_under_way = false;
  };
  struct Timer {
    int64_t time;
    uint64_t order;
    Place place;
    friend bool operator>(const Timer& a, const Timer& b) {
      return std::pair(a.time, a.order) > std::pair(b.time, b.order);
    }
  };
  struct LaneKey {
    uint32_t rank, slot, tag;  // of the sender
    friend auto operator<=>(const LaneKey&, const LaneKey&) = default;
  };
  struct Lane {
    std::deque<uint32_t> sends, receives;  // messages that wait for their partner; one of both is empty
  };

  // ---- Setting up

  void add_rank(uint32_t number) {
    Rank rank;
    rank.number = number;
    rank.job = static_cast<uint32_t>(kinds_.job_of(number));
    rank.in_job = number - kinds_.first_rank(rank.job);
    const Job& job = *jobs_[rank.job].job;
    rank.program = &job.program(rank.in_job);
    rank.plan = &plans_[rank.job][job.program_number(rank.in_job)];
    rank.missing = rank.plan->waits_for;
    rank.streams.resize(rank.program->streams.size());
    rank.calls.resize(rank.program->group_slots);
    nodes_ += rank.program->nodes.size();
    nodes_left_ = nodes_;
    nodes_left_of_[rank.job] += rank.program->nodes.size();
    ranks_.push_back(std::move(rank));
  }

  uint32_t first_slot(const Rank& rank, uint32_t slot) const {
    const Job& job = *jobs_[rank.job].job;
    for (uint32_t other = 0; other < slot; ++other) {
      if (job.group(rank.in_job, other) == job.group(rank.in_job, slot)) return other;
    }
    return slot;
  }

  // A collective of a kind of groups begins when each rank that is simulated has come to it, with each of its slots
  // that means a group of this kind.
  void expect_members() {
    for (const Rank& rank : ranks_) {
      const Job& job = *jobs_[rank.job].job;
      for (uint32_t slot = 0; slot < rank.program->group_slots; ++slot) {
        if (first_slot(rank, slot) != slot) continue;
        ++group_kinds_[kinds_.kind_of_group(kinds_.first_group(rank.job) + job.group(rank.in_job, slot))].members;
      }
    }
  }

  void set_out_names() {
    for (const PlacedJob& placed : jobs_) {
      first_name_.push_back(static_cast<uint32_t>(prediction_.names.size()));
      prediction_.names.insert(prediction_.names.end(), placed.job->names().begin(), placed.job->names().end());
    }
  }

  // ---- Going on

  const JobNode& node_of(Place place) const { return ranks_[place.rank].program->nodes[place.node]; }
  bool has_failed(Place place) const { return failed_at_[ranks_[place.rank].job].has_value(); }
  NodeId site(const Rank& rank, uint32_t in_job) const { return jobs_[rank.job].nodes[in_job]; }

  void begin_rank(uint32_t r) {
    Rank& rank = ranks_[r];
    if (rank.program->nodes.empty()) return;
    for (uint32_t node = 0; node < rank.missing.size(); ++node) {
      if (rank.missing[node] == 0) became_ready({r, node});
    }
  }

  void became_ready(Place place) {
    Rank& rank = ranks_[place.rank];
    const uint16_t number = node_of(place).stream;
    Stream& stream = rank.streams[number];
    switch (rank.program->streams[number].order) {
      case JobStream::Order::free:
        starting_.push_back(place);
        return;
      case JobStream::Order::ready:
        stream.ready.push(place.node);
        break;
      case JobStream::Order::program:
        if (rank.plan->of_stream[number][stream.next] != place.node) return;  // not its turn yet
        break;
    }
    queue_stream(place.rank, number);
  }

  void queue_stream(uint32_t rank, uint16_t number) {
    Stream& stream = ranks_[rank].streams[number];
    if (stream.is_busy || std::exchange(stream.is_queued, true)) return;
    streams_.emplace_back(rank, number);
  }

  void go_on() {
    while (!starting_.empty() || !streams_.empty()) {
      if (!starting_.empty()) {
        const Place place = starting_.front();
        starting_.pop_front();
        start(place);
        continue;
      }
      const auto [r, number] = streams_.front();
      streams_.pop_front();
      Rank& rank = ranks_[r];
      Stream& stream = rank.streams[number];
      stream.is_queued = false;
      if (stream.is_busy) continue;
      uint32_t node = kNone;
      if (rank.program->streams[number].order == JobStream::Order::ready) {
        if (stream.ready.empty()) continue;
        node = stream.ready.top();
        stream.ready.pop();
      } else {
        const std::vector<uint32_t>& list = rank.plan->of_stream[number];
        if (stream.next == list.size() || rank.missing[list[stream.next]] > 0) continue;
        node = list[stream.next++];
      }
      stream.is_busy = true;
      start({r, node});
    }
  }

  void release(uint32_t rank, std::span<const uint32_t> nodes) {
    for (const uint32_t node : nodes) {
      if (--ranks_[rank].missing[node] == 0) became_ready({rank, node});
    }
  }

  void start(Place place) {
    Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    release(place.rank, rank.plan->started.of(place.node));
    switch (node.kind) {
      case JobNodeKind::compute:
      case JobNodeKind::memory:
        if (duration_of(node) == Picoseconds(0)) return end(place);
        rank.account.change(Account::computing, 1, network_.now());
        timers_.push({(network_.now() + duration_of(node)).count(), next_timer_++, place});
        return;
      case JobNodeKind::marker:
        return end(place);
      case JobNodeKind::collective:
        return start_collective(place);
      case JobNodeKind::send:
      case JobNodeKind::receive:
        return start_message(place);
    }
  }

  Picoseconds duration_of(const JobNode& node) const {
    if (options_.compute_speed == 1) return node.duration;
    return Picoseconds(std::llround(static_cast<double>(node.duration.count()) / options_.compute_speed));
  }

  void compute_ended(Place place) {
    const JobNode& node = node_of(place);
    ranks_[place.rank].account.change(Account::computing, -1, network_.now());
    span(place, node.kind == JobNodeKind::memory ? PredictedSpan::Kind::memory : PredictedSpan::Kind::compute,
         network_.now() - duration_of(node), network_.now());
    end(place);
  }

  void end(Place place) {
    Rank& rank = ranks_[place.rank];
    --nodes_left_;
    --nodes_left_of_[rank.job];
    rank.ended = network_.now();
    const uint16_t number = node_of(place).stream;
    if (rank.program->streams[number].order != JobStream::Order::free) {
      rank.streams[number].is_busy = false;
      queue_stream(place.rank, number);
    }
    release(place.rank, rank.plan->ended.of(place.node));
  }

  void span(Place place, PredictedSpan::Kind kind, Picoseconds begin, Picoseconds end) {
    if (begin == end || prediction_.spans.size() >= options_.most_spans) return;
    const Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    prediction_.spans.push_back({.rank = rank.number,
                                 .stream = node.stream,
                                 .kind = kind,
                                 .name = first_name_[rank.job] + node.name,
                                 .begin = begin,
                                 .end = end});
  }

  // ---- Flows

  uint32_t new_flow(Flow flow) {
    uint32_t number = static_cast<uint32_t>(flows_.size());
    if (free_flows_.empty()) {
      flows_.push_back(std::move(flow));
    } else {
      number = free_flows_.back();
      free_flows_.pop_back();
      flows_[number] = std::move(flow);
    }
    return number;
  }

  // Lets `alike` equal collectives or messages move, of which one puts `hops` on links of the fabric. As a flow, one of
  // them has as many bytes as on the link where it has most, and competes there like any other flow.
  void move(uint32_t number, std::span<const FluidHop> hops, uint32_t alike, Picoseconds latency, double efficiency,
            uint32_t job) {
    Flow& flow = flows_[number];
    flow.job = job;
    flow.alike = alike;
    flow.begin = network_.now();
    flow.moves_from = flow.begin + latency;
    flow.is_under_way = true;
    set_out(number, hops, efficiency);
    if (options_.on_failure == OnFailure::fail && is_blocked(flow)) failing_.push_back(job);
  }

  // Puts what is left of a flow, `fraction` of all, on links.
  void set_out(uint32_t number, std::span<const FluidHop> hops, double efficiency, double fraction = 1) {
    Flow& flow = flows_[number];
    double most = 0, seconds = 0;  // at the busiest link, at its full bandwidth
    for (const FluidHop& hop : hops) {
      most = std::max(most, hop.coefficient);
      seconds = std::max(seconds, hop.coefficient / usable(hop.link));
    }
    flow.efficiency = efficiency;
    if (!usable_.empty()) flow.way.assign(hops.begin(), hops.end());
    flow.hops = kinds_.folded(hops, flow.alike);
    for (FluidHop& hop : flow.hops) hop.coefficient /= most;
    flow.bytes = bytes_of(most, efficiency) * fraction;
    flow.booked = 0;
    flow.booked_until = network_.now();
    Bandwidth cap;
    if (efficiency < 1 && seconds > 0) {
      cap = Bandwidth::bytes_per_second(static_cast<uint64_t>(std::max(1.0, std::round(most / seconds * efficiency))));
    }
    flow.fluid = network_.start({.hops = flow.hops,
                                 .bytes = flow.bytes,
                                 .latency = std::max(Picoseconds(0), flow.moves_from - network_.now()),
                                 .weight = jobs_[flow.job].weight,
                                 .cap = cap,
                                 .priority = jobs_[flow.job].priority,
                                 .tag = number});
  }

  // Above an efficiency of 1, switches reduce, and links carry less.
  static double bytes_of(double most, double efficiency) { return most / std::max(1.0, efficiency); }

  double usable(uint32_t link) const { return usable_.empty() ? kinds_.usable(link) : usable_[link]; }

  // Adds to the loads what the flow has moved since it was booked last, `left` of its bytes being left.
  void book(Flow& flow, double left) {
    const double moved = flow.bytes - left - std::exchange(flow.booked, flow.bytes - left);
    const Picoseconds since = std::exchange(flow.booked_until, network_.now());
    for (const FluidHop& hop : flow.hops) loads_.add(hop.link, hop.coefficient * moved, since, network_.now());
  }

  void flow_ended(uint32_t number) {
    book(flows_[number], 0);
    Flow flow = std::move(flows_[number]);
    flows_[number].is_under_way = false;
    free_flows_.push_back(number);
    if (flow.message != kNone) return message_arrived(flow.message, flow.begin);
    for (const Arrival& member : flow.call.members) {
      ranks_[member.place.rank].account.change(Account::moving, -1, network_.now());
      span(member.place, PredictedSpan::Kind::wait, member.at, flow.begin);
      span(member.place, PredictedSpan::Kind::collective, flow.begin, network_.now());
      end(member.place);
    }
  }

  // ---- Links that change

  std::unique_ptr<Detours> make_detours() const {
    if (options_.on_failure != OnFailure::move || timeline_.states().size() == 1) return nullptr;
    CHECK(options_.plans_for != nullptr) << "no plans for what is left of the fabric";
    return std::make_unique<Detours>(fabric_, timeline_, options_.plans_for);
  }

  bool is_blocked(std::span<const FluidHop> way) const {
    return state_ != 0 && std::any_of(way.begin(), way.end(),
                                      [&](const FluidHop& hop) { return timeline_.is_down(state_, LinkId{hop.link}); });
  }
  bool is_blocked(const Flow& flow) const { return is_blocked(flow.way); }

  void change_links(const LinkTimeline::Moment& moment) {
    state_ = moment.state;
    std::vector<bool> has_changed(usable_.size(), false);
    std::vector<std::pair<uint32_t, double>> affected;  // flows, and what they have left
    for (const LinkEvent& change : moment.changes) has_changed[index(change.link)] = true;
    for (uint32_t number = 0; number < flows_.size(); ++number) {
      Flow& flow = flows_[number];
      const bool is_touched =
          std::any_of(flow.way.begin(), flow.way.end(), [&](const FluidHop& hop) { return has_changed[hop.link]; });
      if (!flow.is_under_way || (!is_touched && !is_blocked(flow))) continue;
      affected.emplace_back(number, network_.remaining(flow.fluid));
      book(flow, affected.back().second);
    }
    for (const LinkEvent& change : moment.changes) set_bandwidth(change);
    for (const auto& [number, left] : affected) {
      const Flow& flow = flows_[number];
      if (is_blocked(flow)) {
        if (options_.on_failure == OnFailure::fail) failing_.push_back(flow.job);
        if (detours_ != nullptr) go_round(number, left);
      } else if (flow.efficiency < 1) {
        go_on_along(number, left, std::vector(flow.way), flow.efficiency);  // its cap is another one now
      }
    }
  }

  void set_bandwidth(const LinkEvent& change) {
    const uint32_t link = index(change.link);
    const Bandwidth own = fabric_.link(change.link).bandwidth;
    usable_[link] = kinds_.usable(link) * static_cast<double>(change.bandwidth.value_or(own).bytes_per_second()) /
                    static_cast<double>(own.bytes_per_second());
    network_.set_capacity(kinds_.kind_of_link(link), usable_[link]);
  }

  void go_round(uint32_t number, double left) {
    const Flow& flow = flows_[number];
    if (flow.message != kNone) {
      const std::vector<FluidHop> way = find_way(messages_[flow.message].send->place).hops;
      if (!is_blocked(way)) go_on_along(number, left, way, flow.efficiency);
    } else {
      const Place first = flow.call.members.front().place;
      const Footprint& footprint = footprint_of_call(first, group_kinds_[flow.group]);
      if (!is_blocked(footprint.hops)) go_on_along(number, left, footprint.hops, footprint.efficiency);
    }
  }

  void go_on_along(uint32_t number, double left, const std::vector<FluidHop>& way, double efficiency) {
    const auto bytes_along = [](std::span<const FluidHop> hops, double at) {
      double most = 0;
      for (const FluidHop& hop : hops) most = std::max(most, hop.coefficient);
      return bytes_of(most, at);
    };
    const double all = bytes_along(flows_[number].way, flows_[number].efficiency);
    network_.stop(flows_[number].fluid);
    set_out(number, way, efficiency, left / all);
  }

  void give_up_failing() {
    for (const uint32_t job : failing_) {
      if (!failed_at_[job]) give_up(job);
    }
    failing_.clear();
  }

  // Ends a job here. What is under way of it stops; what waits for its partners is left where it is.
  void give_up(uint32_t job) {
    failed_at_[job] = network_.now();
    nodes_left_ -= nodes_left_of_[job];
    nodes_given_up_ += nodes_left_of_[job];
    for (uint32_t number = 0; number < flows_.size(); ++number) {
      Flow& flow = flows_[number];
      if (!flow.is_under_way || flow.job != job) continue;
      book(flow, network_.stop(flow.fluid));
      flow.is_under_way = false;
      free_flows_.push_back(number);
    }
    for (Rank& rank : ranks_) {
      if (rank.job != job) continue;
      rank.account.abandon(network_.now());
      rank.ended = network_.now();
    }
  }

  // ---- Collectives

  void start_collective(Place place) {
    Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    const Job& job = *jobs_[rank.job].job;
    const uint32_t kind = kinds_.kind_of_group(kinds_.first_group(rank.job) + job.group(rank.in_job, node.slot));
    GroupKind& group = group_kinds_[kind];
    const uint64_t number = rank.calls[first_slot(rank, node.slot)]++;
    while (group.open.size() <= number - group.first_open) group.open.emplace_back();
    Call& call = group.open[number - group.first_open];
    if (!call.members.empty()) expect_same(call.members.front().place, place);
    call.members.push_back({place, network_.now()});
    rank.account.change(Account::waiting, 1, network_.now());
    if (call.members.size() < group.members) return;
    call.is_complete = true;
    const Call complete = call;
    while (!group.open.empty() && group.open.front().is_complete) {
      group.open.pop_front();
      ++group.first_open;
    }
    begin_collective(kind, complete);
  }

  void expect_same(Place a, Place b) const {
    const JobNode &one = node_of(a), &other = node_of(b);
    if (one.collective == other.collective && one.bytes == other.bytes && one.tag == other.tag) return;
    throw Error(ErrorCode::mismatch, "group '" + group_name(b) + "': " + described(a) + " but " + described(b));
  }

  std::string group_name(Place place) const {
    const Rank& rank = ranks_[place.rank];
    const Job& job = *jobs_[rank.job].job;
    return job.groups()[job.group(rank.in_job, node_of(place).slot)].name;
  }

  // "rank 3 calls all-reduce of 1024 bytes ('grads')"
  std::string described(Place place) const {
    const Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    return "rank " + std::to_string(rank.in_job) + " calls " + std::string(to_string(node.collective)) + " of " +
           std::to_string(node.bytes) + " bytes ('" + jobs_[rank.job].job->name_of(node) + "')";
  }

  void begin_collective(uint32_t kind, const Call& call) {
    const Place first = call.members.front().place;
    const Rank& rank = ranks_[first.rank];
    const JobNode& node = node_of(first);
    const Job& job = *jobs_[rank.job].job;
    for (const Arrival& member : call.members) {
      Account& account = ranks_[member.place.rank].account;
      account.change(Account::waiting, -1, network_.now());
      account.change(Account::moving, 1, network_.now());
    }
    Flow moving;
    moving.group = kind;
    moving.call = call;
    const uint32_t flow = new_flow(std::move(moving));
    const std::vector<uint32_t>& members = job.groups()[job.group(rank.in_job, node.slot)].ranks;
    if (members.size() == 1) return move(flow, {}, 1, Picoseconds(0), 1, rank.job);
    const Footprint& footprint = footprint_of_call(first, group_kinds_[kind]);
    move(flow, footprint.hops, kinds_.groups_like(kind), footprint.latency, footprint.efficiency, rank.job);
  }

  // Of the call of the member at `place`. Where flows move, round links that are down, if there is a way.
  const Footprint& footprint_of_call(Place place, GroupKind& group) {
    const Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    const JobKinds::Use use{node.collective, node.tag, node.bytes};
    const auto ask = [&](auto&& plans) {
      const Job& job = *jobs_[rank.job].job;
      std::vector<NodeId> sites;
      for (const uint32_t member : job.groups()[job.group(rank.in_job, node.slot)].ranks) {
        sites.push_back(site(rank, member));
      }
      return plans({.kind = use.kind, .members = sites, .root = use.root, .bytes = use.bytes});
    };
    auto ordinary = group.footprints.find(use);
    if (ordinary == group.footprints.end()) {
      if (group.footprints.size() >= kMostFootprints) group.footprints.clear();
      Footprint made = ask([&](const CollectiveCall& call) { return options_.plans->footprint(call); });
      ordinary = group.footprints.emplace(use, std::move(made)).first;
    }
    if (detours_ == nullptr || !is_blocked(ordinary->second.hops)) return ordinary->second;
    const bool is_other_state = std::exchange(group.state_of_detours, state_) != state_;
    auto detour = group.detours.find(use);
    if (is_other_state || detour == group.detours.end()) {
      if (is_other_state || group.detours.size() >= kMostFootprints) group.detours.clear();
      auto made = ask([&](const CollectiveCall& call) { return detours_->footprint(state_, call); });
      detour = group.detours.emplace(use, std::move(made)).first;
    }
    return detour->second ? *detour->second : ordinary->second;
  }

  // ---- Messages

  // The message that the send or receive at `place` is part of, begun by its partner or now.
  uint32_t message_of(Place place, bool is_send) {
    const Rank& rank = ranks_[place.rank];
    const JobNode& node = node_of(place);
    const Job& job = *jobs_[rank.job].job;
    if (kinds_.has_any()) {
      const auto partner = matches_[rank.job].start({rank.in_job, place.node});
      const auto key = [&](uint32_t in_job, uint32_t of) {
        return std::pair(kinds_.first_rank(rank.job) + in_job, of);
      };
      if (!partner) return waiting_[key(rank.in_job, place.node)] = new_message();
      const auto found = waiting_.find(key(partner->rank, partner->node));
      const uint32_t message = found->second;
      waiting_.erase(found);
      return message;
    }
    const uint32_t peer = job.peer(rank.in_job, node.slot);
    LaneKey key{place.rank, JobKinds::first_slot_of(job, rank.in_job, peer), node.tag};
    if (!is_send) {
      key.rank = kinds_.kind_of_rank(kinds_.first_rank(rank.job) + peer);
      key.slot = JobKinds::first_slot_of(job, peer, rank.in_job);
    }
    Lane& lane = lanes_[key];
    std::deque<uint32_t>& partners = is_send ? lane.receives : lane.sends;
    if (!partners.empty()) {
      const uint32_t message = partners.front();
      partners.pop_front();
      return message;
    }
    const uint32_t message = new_message();
    (is_send ? lane.sends : lane.receives).push_back(message);
    return message;
  }

  uint32_t new_message() {
    if (free_messages_.empty()) {
      messages_.emplace_back();
      return static_cast<uint32_t>(messages_.size() - 1);
    }
    const uint32_t number = free_messages_.back();
    free_messages_.pop_back();
    messages_[number] = {};
    return number;
  }

  void start_message(Place place) {
    const bool is_send = node_of(place).kind == JobNodeKind::send;
    const uint32_t number = message_of(place, is_send);
    Message& message = messages_[number];
    (is_send ? message.send : message.receive) = Arrival{place, network_.now()};
    if (message.has_arrived) {  // sent eagerly, and here before its receive
      free_messages_.push_back(number);
      return end(place);
    }
    Account& account = ranks_[place.rank].account;
    if (message.flow != kNone) return account.change(Account::moving, 1, network_.now());
    // A rank that has nothing but a receive is in a bubble.
    if (is_send) account.change(Account::waiting, 1, network_.now());
    if (message.send && (message.receive || node_of(message.send->place).bytes <= options_.eager.count())) {
      begin_message(number);
    }
  }

  void begin_message(uint32_t number) {
    Message& message = messages_[number];
    ranks_[message.send->place.rank].account.change(Account::waiting, -1, network_.now());
    for (const std::optional<Arrival>& end : {message.send, message.receive}) {
      if (end) ranks_[end->place.rank].account.change(Account::moving, 1, network_.now());
    }
    const Place from = message.send->place;
    const Rank& rank = ranks_[from.rank];
    const Way way = find_way(from);
    Flow moving;
    moving.message = number;
    message.flow = new_flow(std::move(moving));
    move(message.flow, way.hops, kinds_.ranks_like(from.rank), way.latency, options_.message_efficiency, rank.job);
  }

  struct Way {
    std::vector<FluidHop> hops;
    Picoseconds latency{0};
  };
  // Of the message of a send. Where flows move, round links that are down, if there is a way.
  Way find_way(Place send) {
    const Rank& rank = ranks_[send.rank];
    const JobNode& node = node_of(send);
    const NodeId from = site(rank, rank.in_job);
    const NodeId to = site(rank, jobs_[rank.job].job->peer(rank.in_job, node.slot));
    way_.clear();
    if (from != to) routing_.find(from, to, 0, way_);
    const auto is_down = [&](LinkId link) { return timeline_.is_down(state_, link); };
    if (detours_ != nullptr && std::any_of(way_.begin(), way_.end(), is_down)) {
      if (const auto detour = detours_->way(state_, from, to)) way_ = *detour;
    }
    Way way{.hops = {}, .latency = options_.message_latency};
    for (const LinkId link : way_) {
      way.latency += fabric_.link(link).latency;
      if (node.bytes > 0) way.hops.push_back({index(link), static_cast<double>(node.bytes)});
    }
    return way;
  }

  void message_arrived(uint32_t number, Picoseconds begin) {
    const Message message = messages_[number];
    if (message.receive) {
      free_messages_.push_back(number);
    } else {
      messages_[number].has_arrived = true;
    }
    for (const bool is_send : {true, false}) {
      const std::optional<Arrival>& side = is_send ? message.send : message.receive;
      if (!side) continue;
      ranks_[side->place.rank].account.change(Account::moving, -1, network_.now());
      span(side->place, PredictedSpan::Kind::wait, side->at, begin);
      span(side->place, is_send ? PredictedSpan::Kind::send : PredictedSpan::Kind::receive, std::max(begin, side->at),
           network_.now());
      end(side->place);
    }
  }

  // ---- Results

  Error stuck() const {
    std::string text = "the job comes to a halt at " + to_string(network_.now()) + " with " +
                       std::to_string(nodes_left_) + " nodes left";
    size_t named = 0;
    for (const GroupKind& group : group_kinds_) {
      for (const Call& call : group.open) {
        if (call.is_complete || call.members.empty()) continue;
        if (has_failed(call.members.front().place) || ++named > kMostNamed) continue;
        text += "; " + described(call.members.front().place) + " on '" + group_name(call.members.front().place) +
                "' and waits for " + std::to_string(group.members - call.members.size()) + " more";
      }
    }
    for (const Message& message : messages_) {
      if (message.send.has_value() == message.receive.has_value() || message.has_arrived) continue;
      const Place place = message.send ? message.send->place : message.receive->place;
      if (has_failed(place) || ++named > kMostNamed) continue;
      const Rank& rank = ranks_[place.rank];
      text += "; rank " + std::to_string(rank.in_job) + " waits in " + (message.send ? "send" : "receive") + " '" +
              jobs_[rank.job].job->name_of(node_of(place)) + "'";
    }
    for (const LinkId link : timeline_.states()[state_]) {
      if (std::none_of(flows_.begin(), flows_.end(), [&](const Flow& flow) { return crosses(flow, link); })) continue;
      if (++named > kMostNamed) break;
      text += "; something waits for the link '" + fabric_.name(fabric_.link(link).from) + "' -> '" +
              fabric_.name(fabric_.link(link).to) + "', which fails and does not return; let it, or its flows move";
    }
    return Error(ErrorCode::invalid_input, text, jobs_.size() == 1 ? jobs_.front().job->name() : "");
  }

  static bool crosses(const Flow& flow, LinkId link) {
    return flow.is_under_way &&
           std::any_of(flow.way.begin(), flow.way.end(), [&](const FluidHop& hop) { return hop.link == index(link); });
  }

  bool look() {
    next_look_ = nodes_ - nodes_left_ + kNodesBetweenLooks;
    options_.observer->progress(1 - static_cast<double>(nodes_left_) / static_cast<double>(nodes_), network_.now());
    return !options_.observer->stop();
  }

  JobSimulation report(bool complete) {
    JobSimulation result;
    result.nodes_simulated = nodes_ - nodes_left_ - nodes_given_up_;
    result.rank_kinds = static_cast<uint32_t>(ranks_.size());
    prediction_.time = network_.now();
    prediction_.complete = complete;
    for (size_t j = 0; j < jobs_.size(); ++j) {
      prediction_.jobs.push_back({.name = jobs_[j].name.empty() ? jobs_[j].job->name() : jobs_[j].name,
                                  .tenant = jobs_[j].tenant,
                                  .begin = jobs_[j].start,
                                  .end = jobs_[j].start,
                                  .alone = {},
                                  .failed_at = failed_at_[j]});
      result.nodes += jobs_[j].job->node_count();
    }
    std::vector<PredictedRank> of_kind(ranks_.size());
    for (uint32_t kind = 0; kind < ranks_.size(); ++kind) {
      ranks_[kind].account.finish(of_kind[kind], network_.now());
      for (const JobStream& stream : ranks_[kind].program->streams) of_kind[kind].streams.push_back(stream.name);
      PredictedJob& job = prediction_.jobs[ranks_[kind].job];
      job.end = std::max(job.end, complete ? ranks_[kind].ended : network_.now());
    }
    for (uint32_t number = 0; number < kinds_.rank_count(); ++number) {
      PredictedRank rank = of_kind[kinds_.kind_of_rank(number)];
      rank.job = static_cast<uint32_t>(kinds_.job_of(number));
      const NodeId node = jobs_[rank.job].nodes[number - kinds_.first_rank(rank.job)];
      rank.node = index(node);
      rank.name = fabric_.name(node);
      prediction_.ranks.push_back(std::move(rank));
    }
    for (uint32_t link = 0; link < fabric_.links().size(); ++link) prediction_.links.push_back(link_of(link));
    prediction_.load_step = loads_.step();
    prediction_.window = network_.window_error();
    std::stable_sort(prediction_.spans.begin(), prediction_.spans.end(),
                     [](const PredictedSpan& a, const PredictedSpan& b) { return a.begin < b.begin; });
    result.prediction = std::move(prediction_);
    return result;
  }

  PredictedLink link_of(uint32_t link) {
    const uint32_t kind = kinds_.kind_of_link(link);
    PredictedLink result{.bytes = network_.bytes_carried(kind), .full = network_.time_full(kind), .load = {}};
    const std::vector<float>& loads = loads_.bytes(kind);
    if (loads.empty()) return result;
    const std::vector<double> most = most_bytes(link);
    const double least = 1e-9 * *std::max_element(most.begin(), most.end());  // below it is rounding
    for (size_t step = 0; step < loads.size(); ++step) {
      result.load.push_back(most[step] > least ? static_cast<float>(loads[step] / most[step]) : 0);
    }
    return result;
  }

  // By step of the loads, the bytes that the link could carry, as its bandwidth was then.
  std::vector<double> most_bytes(uint32_t link) const {
    const double own = static_cast<double>(fabric_.links()[link].bandwidth.bytes_per_second());
    const double step = static_cast<double>(loads_.step().count());
    double bandwidth = own;
    std::vector<double> most(LoadSeries::kSteps, own * step * kSecondsPerPicosecond);
    for (const LinkTimeline::Moment& moment : timeline_.moments()) {
      const auto change = std::lower_bound(moment.changes.begin(), moment.changes.end(), LinkId{link},
                                           [](const LinkEvent& event, LinkId id) { return event.link < id; });
      if (change == moment.changes.end() || change->link != LinkId{link}) continue;
      const double next = change->bandwidth ? static_cast<double>(change->bandwidth->bytes_per_second()) : own;
      const double more = (next - std::exchange(bandwidth, next)) * step * kSecondsPerPicosecond;
      const double at = static_cast<double>(moment.time.count()) / step;
      for (size_t i = 0; i < most.size(); ++i)
        most[i] += more * (1 - std::clamp(at - static_cast<double>(i), 0.0, 1.0));
    }
    return most;
  }

  static constexpr size_t kMostFootprints = 64, kMostNamed = 4;

  const Fabric fabric_;
  const std::vector<PlacedJob>& jobs_;
  const JobSimulationOptions options_;
  const LinkTimeline timeline_;
  const std::unique_ptr<Detours> detours_;  // where flows move off failed links
  const JobKinds kinds_;
  Routing routing_;
  FluidNetwork network_;
  LoadSeries loads_;
  std::deque<std::vector<ProgramPlan>> plans_;  // by job, program
  std::deque<MessageMatch> matches_;            // by job, where receives take from anybody
  std::vector<Rank> ranks_;
  std::vector<GroupKind> group_kinds_;
  std::vector<uint64_t> nodes_left_of_;                // by job
  std::vector<std::optional<Picoseconds>> failed_at_;  // by job
  std::vector<uint32_t> failing_;                      // jobs that have something on a failed link now
  size_t next_moment_ = 0;                             // of the timeline
  uint32_t state_ = 0;                                 // of the timeline: which links are down
  std::vector<double> usable_;                         // by link, now; empty when there are no events
  std::vector<Flow> flows_;
  std::vector<uint32_t> free_flows_, ended_flows_;
  std::vector<Message> messages_;
  std::vector<uint32_t> free_messages_;
  std::map<LaneKey, Lane> lanes_;
  std::map<std::pair<uint32_t, uint32_t>, uint32_t> waiting_;  // messages by rank and node, where matches_ decide
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t next_timer_ = 0;
  std::deque<Place> starting_;                         // of streams without an order
  std::deque<std::pair<uint32_t, uint16_t>> streams_;  // that may be able to go on
  std::vector<uint32_t> first_name_;                   // by job
  std::vector<LinkId> way_;
  uint64_t nodes_ = 0, nodes_left_ = 0, nodes_given_up_ = 0, next_look_ = kNodesBetweenLooks;
  Prediction prediction_;
};

}  // namespace

JobSimulation simulate_jobs(const Fabric& fabric, const std::vector<PlacedJob>& jobs,
                            const JobSimulationOptions& options) {
  CHECK(options.plans != nullptr) << "no plans";
  for (const PlacedJob& placed : jobs) {
    CHECK(placed.nodes.size() == placed.job->rank_count()) << placed.nodes.size() << " places";
  }
  return Simulation(fabric, jobs, options).carry_out();
}

}  // namespace banyan
