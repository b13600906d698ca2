// How a NetExecutor changes its plans: when calls go over to others one by one, and when something was lost.
#include <algorithm>
#include <set>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/execute/net_executor.h"
#include "banyan/run/record/log.h"

namespace banyan::run {
namespace {

// Rounds of new plans that followed no loss which could be told, one after the other: so many at once, the next ones
// after pauses that double.
constexpr uint32_t kQuickRounds = 3;
constexpr std::chrono::milliseconds kFirstRest{100}, kLongestRest{2000};

}  // namespace

// ---- When plans are revised ----

void NetExecutor::hear(const std::string& text) {
  if (changes_.hear(text) || talk_.hear(text)) transport_->wake();
}

uint64_t NetExecutor::propose(const PlanWish& wish) {
  const uint64_t number = changes_.propose(wish);
  transport_->wake();
  return number;
}

void NetExecutor::attend() {
  answer_call();
  if (is_revising()) {
    go_on_revising();
  } else {
    change_plans();
    while (settle()) {
      ++steps_;
      if (!is_revising()) change_plans();
    }
  }
}

void NetExecutor::answer_call() {
  if (const std::optional<uint32_t> generation = talk_.called_to()) stop_for(*generation);
}

// ---- When calls go over to other plans one by one ----

PlanChanges::Calls NetExecutor::calls() const {
  const auto waiting =
      std::find_if(flights_.begin(), flights_.end(), [](const Flight& flight) { return !flight.has_begun(); });
  uint64_t confirmed = flights_.empty() ? begun_ : flights_.front().number - 1;
  if (!unconfirmed_.is_empty()) confirmed = unconfirmed_.first() - 1;
  return {.plans = *plans_,
          .begun = waiting == flights_.end() ? begun_ : waiting->number - 1,
          .is_idle = flights_.empty(),
          .over = confirmed};
}

bool NetExecutor::change_plans() {
  if (!may_revise_) return false;
  const uint32_t settled = changes_.settled();
  bool moved = changes_.advance(calls());
  // Also when no other call is made: it could begin at once then.
  const bool all_follow_plans =
      std::all_of(flights_.begin(), flights_.end(), [](const Flight& flight) { return flight.ticket.has_value(); });
  if (changes_.must_go_over(begun_ + 1) && all_follow_plans) {
    go_over();
    changes_.advance(calls());
  }
  moved |= changes_.settled() != settled;
  if (changes_.settled() != settled && changes_.settled() > plans_->generation()) {
    BANYAN_LOG(warning) << "plans are not revised as was asked: " << changes_.refusal();
    close_lanes_of(changes_.settled());  // this rank may have connected some
  }
  if (changes_.settled() > talk_.generation()) talk_.settle(changes_.settled());
  adopted_.store(std::max(changes_.settled(), adopted_.load(std::memory_order_relaxed)), std::memory_order_release);
  close_old_lanes();
  steps_ += moved ? 1 : 0;
  return moved;
}

void NetExecutor::go_over() {
  std::unique_ptr<NetPlans> next = changes_.go_over();
  tell_people_of_change(next->adopted());
  old_ = follow(std::move(next));
}

void NetExecutor::close_old_lanes() {
  if (!old_ || changes_.closed_before() <= old_->generation()) return;
  close_lanes_of(old_->generation());
  old_.reset();
}

void NetExecutor::close_lanes_of(uint32_t generation) {
  if (lanes_ == nullptr) return;
  lanes_->drop_if(
      [&](uint32_t lane) { return lane / NetPlans::kLanes == generation && !NetPlans::is_for_messages(lane); });
}

void NetExecutor::look_after_lanes() {
  if (!can_make_lanes_again() || is_revising()) return;
  const Clock::time_point now = Clock::now();
  if (now - looked_at_ < kLookAfter) return;
  looked_at_ = now;
  try_lost_ways(now);
  const std::vector<LaneHealth> lanes = lanes_->health();
  // A peer may never have got what was reset here before anybody used it, and wait for a call.
  const bool is_lost = std::any_of(lanes.begin(), lanes.end(), [&](const LaneHealth& lane) {
    if (is_gone(lane.peer)) return false;
    return lane.is_broken || (lane.is_lost && !cables_of(lane.peer, lane.lane).empty());
  });
  if (is_lost) stop_for(next_generation());
}

// What plans do without is used again when it carries again.
void NetExecutor::try_lost_ways(Clock::time_point now) {
  if (lost_ways_.empty()) return;
  for (const LostWays::Way& way : lost_ways_.due(now)) lanes_->try_path(way.peer, way.path);
  for (const LaneControl::Tried& tried : lanes_->tried()) {
    if (!tried.works) {
      lost_ways_.failed(tried.peer, tried.path, now);
    } else if (std::set<uint32_t> cables = lost_ways_.worked(tried.peer, tried.path, now); !cables.empty()) {
      changes_.propose({.mended_cables = std::move(cables)});
    }
  }
}

// Nothing moves any more until all have agreed on this generation.
void NetExecutor::stop_for(uint32_t generation) {
  if (!may_revise_) return;
  agreement_.reset();
  is_stopped_ = true;
  if (suspended_.empty()) suspended_ = engine_.suspend();
  keep_results_of_suspended();
  suspensions_.fetch_add(1, std::memory_order_relaxed);
  streams_.stop();
  BANYAN_LOG(info) << "plans are revised: generation " << generation << ", " << suspended_.size()
                   << (suspended_.size() == 1 ? " call waits" : " calls wait");
  ++steps_;
  talk_.report(report(generation));
  changes_.interrupt(generation);
}

RevisionReport NetExecutor::report(uint32_t generation) {
  const FabricUpdate* const decided = changes_.decided();
  RevisionReport report{
      .generation = generation, .over = begun_, .adopted = decided == nullptr ? plans_->adopted() : *decided};
  const auto is_open = [&](const Flight& flight) {
    if (flight.result) return false;
    return !flight.ticket || std::any_of(suspended_.begin(), suspended_.end(),
                                         [&](const Engine::Suspended& each) { return each.ticket == *flight.ticket; });
  };
  const auto first_open = std::find_if(flights_.begin(), flights_.end(), is_open);
  if (first_open != flights_.end()) report.over = first_open->number - 1;
  for (auto flight = first_open; flight != flights_.end(); ++flight) {
    if (!is_open(*flight)) report.also_over.push_back(flight->number);
  }
  for (const LaneHealth& lane : health()) {
    std::vector<uint32_t> cables = cables_of(lane.peer, lane.lane);
    if (cables.empty()) continue;
    report.lanes.push_back({.peer = lane.peer,
                            .cables = std::move(cables),
                            .is_lost = lane.is_lost || lane.is_mute,
                            .silent_ms = static_cast<uint64_t>(lane.silent.count())});
  }
  return report;
}

bool NetExecutor::go_on_revising() {
  const bool moved = talk_.has_news();
  steps_ += moved ? 1 : 0;
  if (!agreement_) {
    agreement_ = talk_.agreement([this](const FabricUpdate& update) { plans_->source()->revised(update); });
    if (!agreement_) return moved;
    pace_rounds(agreement_->decision);
  }
  if (Clock::now() < restart_at_) return moved;
  const RevisionTalk::Agreement agreement = *std::exchange(agreement_, std::nullopt);
  restart(agreement.decision, agreement.update);
  return true;
}

// What was made again without knowing why may fail again for the same reason, and at once.
void NetExecutor::pace_rounds(const RevisionDecision& decision) {
  const bool is_vain = decision.losses.empty();
  rounds_in_vain_ = is_vain ? rounds_in_vain_ + 1 : 0;
  restart_at_ = Clock::now();
  if (rounds_in_vain_ <= kQuickRounds) return;
  restart_at_ += std::min(kLongestRest, kFirstRest * (1u << std::min(rounds_in_vain_ - kQuickRounds, 8u)));
}

void NetExecutor::restart(const RevisionDecision& decision, const FabricUpdate& update) {
  note_round();
  // All have stopped by now: nobody uses these connections any more.
  if (lanes_ != nullptr) lanes_->drop_if([](uint32_t lane) { return !NetPlans::is_for_messages(lane); });
  pacer_.forget_all();
  old_.reset();
  tell_people_of_losses(update, decision);
  follow(plans_->revised(update));
  message_plans_ = plans_;
  streams_.renew();
  const uint64_t anew = first_to_begin_anew(decision);
  for (const Engine::Suspended& suspended : suspended_) {
    if (UnconfirmedCalls::Kept* const unconfirmed = unconfirmed_.find(suspended.sequence)) {
      begin_again(*unconfirmed, decision);
      continue;
    }
    const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                     [&](const Flight& each) { return each.number == suspended.sequence; });
    CHECK(flight != flights_.end()) << "call " << suspended.sequence << " is suspended and not in flight";
    if (decision.is_over(suspended.sequence)) {
      if (is_small(flight->call)) {
        begin_again(*flight, decision);
      } else {
        engine_.complete(suspended.ticket);
      }
      continue;
    }
    if (suspended.sequence >= anew) {
      engine_.drop(suspended.ticket);
      flight->ticket.reset();
      continue;
    }
    std::shared_ptr<const RankPlan> plan = plans_->plan(flight->call);
    if (options_.begins) options_.begins(flight->number, flight->call, plans_->source());
    engine_.restart(suspended.ticket, std::move(plan));
  }
  suspended_.clear();
  forget_confirmed();
  unconfirmed_.settle();
  for (Flight& flight : flights_) {
    if (!flight.ticket) flight.counting.reset();
  }
  is_stopped_ = false;
  reroutes_.fetch_add(1, std::memory_order_relaxed);
  adopted_.store(plans_->generation(), std::memory_order_release);
  talk_.finish();
  begin_waiting();
  ++steps_;
}

// What a small call has got here already, others may want of this rank.
void NetExecutor::keep_results_of_suspended() {
  for (Flight& flight : flights_) {
    if (!flight.ticket || flight.result || !is_small(flight.call)) continue;
    const bool has_result = std::any_of(suspended_.begin(), suspended_.end(), [&](const Engine::Suspended& each) {
      return each.ticket == *flight.ticket && each.has_result;
    });
    if (has_result) flight.result.emplace(flight.call.recv, flight.call.recv + result_bytes(flight.call));
  }
}

// Of a small call that some ranks have over: all get the result of the first of them.
EngineCommand NetExecutor::share_result(const Call& call, uint64_t number, const CallNumbers& numbers,
                                        uint32_t root) const {
  const Call share{
      .kind = OperationKind::broadcast, .type = call.type, .other = root, .count = call.recv_elements(rank_, ranks_)};
  return {.plan = plans_->plan(share),
          .task = {.type = call.type, .op = call.op, .divisor = ranks_},
          .sequence = number,
          .signature = numbers,
          .confirms_late = true};
}

void NetExecutor::begin_again(UnconfirmedCalls::Kept& call, const RevisionDecision& decision) {
  if (decision.is_over_everywhere(call.number)) return engine_.drop(call.ticket);
  EngineCommand command = share_result(call.call, call.number, call.numbers, *decision.first_over(call.number));
  const size_t unit = element::size_of(call.call.type);
  call.unused.resize(command.plan->output_elements * unit);
  command.input = std::span(call.result).first(command.plan->input_elements * unit);
  command.output = call.unused;
  shared_.fetch_add(1, std::memory_order_relaxed);
  engine_.restart(call.ticket, command);
}

// Its input is not wanted any more: somebody keeps the result until all have it.
void NetExecutor::begin_again(Flight& flight, const RevisionDecision& decision) {
  const Call& call = flight.call;
  if (decision.is_over_everywhere(flight.number)) {
    CHECK(flight.result) << "call " << flight.number << " has no result here";
    engine_.drop(*flight.ticket);
  } else {
    EngineCommand command = share_result(call, flight.number, flight.numbers, *decision.first_over(flight.number));
    const size_t unit = element::size_of(call.type);
    if (flight.result) command.input = std::span(*flight.result).first(command.plan->input_elements * unit);
    command.output = {call.recv, command.plan->output_elements * unit};
    engine_.restart(*flight.ticket, command);
  }
  if (flight.result) std::copy(flight.result->begin(), flight.result->end(), call.recv);
}

// Where counts are told first, some ranks may be through with that and others not: all tell them again. What comes
// after that call then begins after it on all ranks, too.
uint64_t NetExecutor::first_to_begin_anew(const RevisionDecision& decision) {
  for (const Flight& flight : flights_) {
    if (decision.is_over(flight.number)) continue;
    if (flight.counting || plans_->needs_counts(flight.call)) return flight.number;
  }
  return UINT64_MAX;
}

// Later calls go by these plans. Returns those that they went by so far.
std::shared_ptr<NetPlans> NetExecutor::follow(std::unique_ptr<NetPlans> plans) {
  const std::set<uint32_t>&before = plans_->adopted().lost_cables, &now = plans->adopted().lost_cables;
  std::set<uint32_t> given_up;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::inserter(given_up, given_up.end()));
  lost_ways_.lose(given_up, plans_->ways_across(given_up), Clock::now());
  lost_ways_.keep(now);
  return std::exchange(plans_, std::move(plans));
}

std::string NetExecutor::names_of(const std::set<uint32_t>& cables, const std::set<uint32_t>& but) const {
  std::string names;
  for (const uint32_t cable : cables) {
    if (!but.contains(cable)) names += " " + plans_->cable_name(cable);
  }
  return names;
}

void NetExecutor::tell_people_of_change(const FabricUpdate& update) const {
  if (rank_ != 0) return;
  const FabricUpdate& before = plans_->adopted();
  const std::pair<const char*, std::string> parts[] = {
      {"avoid", names_of(update.avoided_cables, before.avoided_cables)},
      {"avoid no more", names_of(before.avoided_cables, update.avoided_cables)},
      {"use links again that carry again:", names_of(before.lost_cables, update.lost_cables)}};
  std::string words;
  for (const auto& [what, names] : parts) {
    if (!names.empty()) words += std::string(words.empty() ? ": " : "; ") + what + names;
  }
  BANYAN_LOG(info) << "plans are revised: generation " << update.generation << words;
}

void NetExecutor::tell_people_of_losses(const FabricUpdate& update, const RevisionDecision& decision) const {
  if (rank_ != 0) return;
  const std::string lost = names_of(update.lost_cables, plans_->adopted().lost_cables);
  const std::string tried = names_of(decision.update.lost_cables, update.lost_cables);
  const std::string needed = names_of(update.needed_cables, {});
  BANYAN_LOG(warning) << (!tried.empty() ? "there is no way without lost links, so these are tried again:" + tried
                          : lost.empty() ? "connections were lost and made again"
                                         : "went on without lost links:" + lost)
                      << (needed.empty() ? "" : "; there is no way without these that are to be avoided:" + needed);
}

}  // namespace banyan::run
