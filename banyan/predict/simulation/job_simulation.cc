#include "banyan/predict/simulation/job_simulation.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/simulation/collectives.h"
#include "banyan/predict/simulation/flows.h"
#include "banyan/predict/simulation/kinds.h"
#include "banyan/predict/simulation/links.h"
#include "banyan/predict/simulation/messages.h"
#include "banyan/predict/simulation/ranks.h"
#include "banyan/predict/simulation/record.h"
#include "banyan/predict/simulation/transfers.h"

namespace banyan::predict {
namespace {

constexpr uint64_t kWorkBetweenLooks = 1 << 14;  // nodes and messages
constexpr size_t kMostNamed = 4;

std::unique_ptr<Rerouting> make_rerouting(const Fabric& fabric, const LinkTimeline& timeline,
                                          const JobSimulationOptions& options) {
  if (options.on_failure != OnFailure::move || !timeline.any_ever_down()) return nullptr;
  CHECK(options.plans_for != nullptr) << "no plans for what is left of the fabric";
  return std::make_unique<Rerouting>(fabric, timeline, options.plans_for);
}

// Brings the parts together: what starts on ranks becomes time, messages and collectives; these become flows; what ends
// lets ranks go on.
class Simulation {
 public:
  Simulation(const Fabric& fabric, const std::vector<PlacedJob>& jobs, const JobSimulationOptions& options)
      : fabric_(fabric),
        jobs_(jobs),
        options_(options),
        timeline_(fabric, options.events),
        rerouting_(make_rerouting(fabric, timeline_, options)),
        kinds_(fabric, jobs, options, {timeline_, rerouting_.get()}),
        links_(fabric_, timeline_, rerouting_.get(), kinds_),
        ranks_(jobs, kinds_),
        record_(jobs, ranks_, options.most_spans),
        messages_(jobs, kinds_, ranks_),
        collectives_(kinds_, ranks_, *options.plans, links_),
        flows_(jobs, kinds_, links_, options),
        transfers_(flows_, links_, options.message_efficiency) {}

  JobSimulation carry_out() {
    // Every rank begins at the start of its job.
    for (uint32_t rank = 0; rank < ranks_.count(); ++rank) {
      timers_.push({jobs_[ranks_[rank].job].start.count(), next_timer_++, {rank, kBegin}});
    }
    while (ranks_.nodes_left() > 0) {
      // The next thing of any kind: a flow, a message on its way, a timer or a change of links.
      const Picoseconds timer = timers_.empty() ? FluidNetwork::kNever : Picoseconds(timers_.top().time);
      const Picoseconds time = std::min({flows_.next(), transfers_.next(), timer, links_.next_change()});
      if (time >= FluidNetwork::kNever) throw stuck();
      // At one time, what ends comes first.
      for (const JobFlows::Ended& ended : flows_.advance(time)) flow_ended(ended);
      transfers_.advance();
      for (const JobTransfers::Ended& ended : transfers_.take_ended()) collective_ended(ended.call, ended.begin);
      // Then events of links: what has ended by now is not moved.
      if (links_.next_change() == time)
        flows_.change_links([&](JobFlows::Owner owner) { return load_of_owner(owner); });
      // Then timers, in the order in which they were set, and all that may start, until nothing more can at this time.
      while (!timers_.empty() && timers_.top().time == time.count()) timer_ended();
      while (const auto place = ranks_.start_next()) start(*place);
      // Jobs end whose flows were found on failed links, also those that have only just begun.
      give_up_failing();
      if (options_.observer != nullptr && work_done() >= next_look_ && !look()) return report(false);
    }
    return report(true);
  }

 private:
  // The node of a timer at which a rank begins.
  static constexpr uint32_t kBegin = UINT32_MAX;

  struct Timer {
    int64_t time;
    uint64_t order;
    RankNode place;
    friend bool operator>(const Timer& a, const Timer& b) {
      return std::pair(a.time, a.order) > std::pair(b.time, b.order);
    }
  };

  // ---- Nodes

  void start(RankNode place) {
    const job::Node& node = ranks_.node(place);
    switch (node.kind) {
      case job::NodeKind::compute:
      case job::NodeKind::memory:
      case job::NodeKind::host:
        // Work that takes no time ends at once. Other work takes a timer.
        if (duration_of(node) == Picoseconds(0)) return end(place);
        record_.change(place.rank, account_of(node), 1, now());
        timers_.push({(now() + duration_of(node)).count(), next_timer_++, place});
        return;
      case job::NodeKind::marker:
        return end(place);
      case job::NodeKind::collective:
        return start_collective(place);
      case job::NodeKind::send:
      case job::NodeKind::receive:
        return start_message(place);
    }
  }

  void end(RankNode place) {
    record_.node_ended(place.rank, now());
    ranks_.end(place);
  }

  static Account::Of account_of(const job::Node& node) {
    return node.kind == job::NodeKind::host ? Account::hosting : Account::computing;
  }
  static PredictedSpan::Kind span_of(const job::Node& node) {
    switch (node.kind) {
      case job::NodeKind::memory:
        return PredictedSpan::Kind::memory;
      case job::NodeKind::host:
        return PredictedSpan::Kind::host;
      default:
        return PredictedSpan::Kind::compute;
    }
  }

  Picoseconds duration_of(const job::Node& node) const {
    if (options_.compute_speed == 1 || node.kind == job::NodeKind::host) return node.duration;
    // A faster device shortens its own part alone.
    const double of_device = static_cast<double>((node.duration - node.fixed).count());
    return node.fixed + Picoseconds(std::llround(of_device / options_.compute_speed));
  }

  void timer_ended() {
    const RankNode place = timers_.top().place;
    timers_.pop();
    if (ranks_.is_given_up(place.rank)) return;
    if (place.node == kBegin) return ranks_.begin(place.rank);
    const job::Node& node = ranks_.node(place);
    record_.change(place.rank, account_of(node), -1, now());
    record_.span(place, span_of(node), now() - duration_of(node), now());
    end(place);
  }

  // ---- Collectives

  void start_collective(RankNode place) {
    record_.change(place.rank, Account::waiting, 1, now());
    // The last member to come begins the call for all.
    auto call = collectives_.arrive(place, now());
    if (!call) return;
    // All have come, so nobody waits any more.
    for (const JobArrival& member : call->members) {
      record_.change(member.place.rank, Account::waiting, -1, now());
      record_.change(member.place.rank, Account::moving, 1, now());
    }
    uint32_t number = static_cast<uint32_t>(calls_.size());
    if (free_calls_.empty()) {
      calls_.emplace_back();
    } else {
      number = free_calls_.back();
      free_calls_.pop_back();
    }
    const JobCall& moving = calls_[number] = std::move(*call);
    const uint32_t job = ranks_[place.rank].job;
    // A collective by messages is a run of transfers; any other is one flow that loads links as its footprint says.
    if (options_.collectives == CollectivesAs::messages && ranks_.group(place).ranks.size() > 1) {
      return transfers_.start(number, job, collectives_.transfers(moving, options_.message_latency));
    }
    flows_.start({JobFlows::Owner::Kind::collective, number}, job, kinds_.groups_like(moving.group),
                 load_of_call(moving));
  }

  JobLoad load_of_call(const JobCall& call) {
    if (ranks_.group(call.first()).ranks.size() == 1) return {};
    const Footprint& footprint = collectives_.footprint(call);
    return load_of(footprint.hops, footprint.efficiency, footprint.latency);
  }

  void collective_ended(uint32_t number, Picoseconds begin) {
    // The number is free before the members go on, which may begin another call at once.
    const JobCall call = std::move(calls_[number]);
    free_calls_.push_back(number);
    for (const JobArrival& member : call.members) {
      record_.change(member.place.rank, Account::moving, -1, now());
      record_.span(member.place, PredictedSpan::Kind::wait, member.at, begin);
      record_.span(member.place, PredictedSpan::Kind::collective, begin, now());
      end(member.place);
    }
  }

  // ---- Messages

  void start_message(RankNode place) {
    const uint32_t number = messages_.arrive(place, now());
    // An eager message may have come before its receive; then the receive ends at once.
    const JobMessage& message = messages_[number];
    if (message.has_arrived) {
      messages_.forget(number);
      return end(place);
    }
    if (message.is_moving) return record_.change(place.rank, Account::moving, 1, now());
    // A rank that has nothing but a receive is in a bubble.
    if (ranks_.node(place).kind == job::NodeKind::send) record_.change(place.rank, Account::waiting, 1, now());
    if (!message.send) return;
    const uint64_t bytes = ranks_.node(message.send->place).bytes;
    // It moves when both sides have started, or when its send has if it is small enough.
    if (message.receive || bytes <= options_.eager.count()) begin_message(number);
  }

  void begin_message(uint32_t number) {
    JobMessage& message = messages_[number];
    // Both ends that have come move from now on. A receive that starts later joins them.
    message.is_moving = true;
    const uint32_t sender = message.send->place.rank;
    record_.change(sender, Account::waiting, -1, now());
    for (const std::optional<JobArrival>& end : {message.send, message.receive}) {
      if (end) record_.change(end->place.rank, Account::moving, 1, now());
    }
    flows_.start({JobFlows::Owner::Kind::message, number}, ranks_[sender].job, kinds_.ranks_like(sender),
                 load_of_message(message.send->place));
  }

  // Good until the next call.
  JobLoad load_of_message(RankNode send) {
    const job::Node& node = ranks_.node(send);
    const uint32_t in_job = ranks_[send.rank].in_job;
    const uint32_t peer = ranks_.job_of(send.rank).peer(in_job, node.slot);
    message_hops_.clear();
    // The way is that of now: links may have failed since the last message.
    Picoseconds latency = options_.message_latency;
    for (const LinkId link : links_.way(ranks_.site(send.rank, in_job), ranks_.site(send.rank, peer))) {
      latency += fabric_.link(link).latency;
      if (node.bytes > 0) message_hops_.push_back({index(link), static_cast<double>(node.bytes)});
    }
    return load_of(message_hops_, options_.message_efficiency, latency);
  }

  void message_ended(uint32_t number, Picoseconds begin) {
    // A message without its receive so far stays until that starts.
    const JobMessage message = messages_[number];
    if (message.receive) {
      messages_.forget(number);
    } else {
      messages_[number].has_arrived = true;
    }
    for (const bool is_send : {true, false}) {
      const std::optional<JobArrival>& side = is_send ? message.send : message.receive;
      if (!side) continue;
      record_.change(side->place.rank, Account::moving, -1, now());
      record_.span(side->place, PredictedSpan::Kind::wait, side->at, begin);
      record_.span(side->place, is_send ? PredictedSpan::Kind::send : PredictedSpan::Kind::receive,
                   std::max(begin, side->at), now());
      end(side->place);
    }
  }

  // ---- Flows

  void flow_ended(const JobFlows::Ended& ended) {
    switch (ended.owner.kind) {
      case JobFlows::Owner::Kind::collective:
        return collective_ended(ended.owner.number, ended.begin);
      case JobFlows::Owner::Kind::message:
        return message_ended(ended.owner.number, ended.begin);
      case JobFlows::Owner::Kind::transfer:
        return transfers_.sent(ended.owner);
    }
  }

  // The load that the owner would put on links if it began now.
  JobLoad load_of_owner(JobFlows::Owner owner) {
    switch (owner.kind) {
      case JobFlows::Owner::Kind::collective:
        return load_of_call(calls_[owner.number]);
      case JobFlows::Owner::Kind::message:
        return load_of_message(messages_[owner.number].send->place);
      case JobFlows::Owner::Kind::transfer:
        return transfers_.load_of(owner);
    }
    return {};
  }

  // Ends jobs whose links have failed. Their flows under way stop; nodes that wait for partners stay as they are.
  void give_up_failing() {
    for (const uint32_t job : flows_.take_failing()) {
      if (ranks_.is_job_given_up(job)) continue;
      ranks_.give_up(job);
      flows_.stop(job);
      transfers_.stop(job);
      record_.give_up(job, now());
    }
  }

  // ---- Results

  Picoseconds now() const { return flows_.now(); }
  uint64_t nodes_done() const { return ranks_.nodes() - ranks_.nodes_left(); }
  uint64_t work_done() const { return nodes_done() + transfers_.messages_done(); }

  Error stuck() const {
    // Something is under way and no link is down: only time itself has run out.
    if (!timers_.empty() || (flows_.any_under_way() && links_.down().empty())) {
      return Error(ErrorCode::unsupported,
                   "takes longer than the 53 days of virtual time that are simulated; check the units of times, sizes "
                   "and bandwidths");
    }
    std::vector<std::string> phrases;
    collectives_.name_waiting(phrases);
    messages_.name_waiting(phrases);
    for (const LinkId link : links_.down()) {
      if (phrases.size() >= kMostNamed) break;
      if (!flows_.any_crosses(link)) continue;
      phrases.push_back("something waits for " + links_.called(link) +
                        ", which fails and does not return; let it, or its flows move");
    }
    std::string text = "the job comes to a halt at " + banyan::to_string(now()) + " with " +
                       std::to_string(ranks_.nodes_left()) + " nodes left";
    for (size_t i = 0; i < std::min(phrases.size(), kMostNamed); ++i) text += "; " + phrases[i];
    return Error(ErrorCode::invalid_input, text, jobs_.size() == 1 ? jobs_.front().job->name() : "");
  }

  bool look() {
    next_look_ = work_done() + kWorkBetweenLooks;
    options_.observer->progress(static_cast<double>(nodes_done()) / static_cast<double>(ranks_.nodes()), now());
    return !options_.observer->stop();
  }

  JobSimulation report(bool complete) {
    JobSimulation result;
    for (const PlacedJob& placed : jobs_) result.nodes += placed.job->node_count();
    result.nodes_simulated = nodes_done() - ranks_.nodes_given_up();
    result.rank_kinds = ranks_.count();
    result.collective_messages = transfers_.messages_done();
    result.prediction = record_.finish(fabric_, kinds_, now(), complete);
    flows_.report(fabric_, timeline_, result.prediction);
    for (const LinkTimeline::Moment& moment : timeline_.moments()) {
      // Only events that have come to pass are told.
      if (moment.time > now()) break;
      result.prediction.events.insert(result.prediction.events.end(), moment.changes.begin(), moment.changes.end());
    }
    return result;
  }

  const Fabric fabric_;
  const std::vector<PlacedJob>& jobs_;
  const JobSimulationOptions options_;
  const LinkTimeline timeline_;
  const std::unique_ptr<Rerouting> rerouting_;  // where flows move off failed links
  const JobKinds kinds_;
  JobLinks links_;
  JobRanks ranks_;
  JobRecord record_;
  JobMessages messages_;
  JobCollectives collectives_;
  JobFlows flows_;
  JobTransfers transfers_;
  std::vector<JobCall> calls_;  // under way, by number
  std::vector<uint32_t> free_calls_;
  std::vector<FluidHop> message_hops_;
  std::priority_queue<Timer, std::vector<Timer>, std::greater<>> timers_;
  uint64_t next_timer_ = 0, next_look_ = kWorkBetweenLooks;
};

}  // namespace

CollectivesAs parse_collectives_as(std::string_view text) {
  if (text == "flow") return CollectivesAs::flow;
  if (text == "messages") return CollectivesAs::messages;
  throw Error(ErrorCode::invalid_input, "'" + std::string(text.substr(0, 40)) + "' is neither flow nor messages");
}

JobSimulation simulate_jobs(const Fabric& fabric, const std::vector<PlacedJob>& jobs,
                            const JobSimulationOptions& options) {
  CHECK(options.plans != nullptr) << "no plans";
  for (const PlacedJob& placed : jobs) {
    CHECK(placed.nodes.size() == placed.job->rank_count()) << placed.nodes.size() << " places";
  }
  return Simulation(fabric, jobs, options).carry_out();
}

}  // namespace banyan::predict
