#include "banyan/run/execute/net_executor.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/element/reduce.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/back_off.h"

namespace banyan::run {
namespace {

constexpr uint64_t kSliceBytes = 64 << 10;  // of plans that do not say
constexpr std::chrono::milliseconds kLongestNap{50}, kLookAfter{250};
// Rounds of new plans that followed no loss which could be told, one after the other: so many at once, the next ones
// after pauses that double.
constexpr uint32_t kQuickRounds = 3;
constexpr std::chrono::milliseconds kFirstRest{100}, kLongestRest{2000};

// Whether new plans were needed because something was lost.
bool is_reroute(const RevisionDecision& decision) { return !decision.losses.empty() || !decision.has_wishes; }

}  // namespace

NetExecutor::NetExecutor(NetPlans::Options plans, Options options)
    : rank_(plans.rank),
      ranks_(plans.ranks),
      options_(std::move(options)),
      plans_(std::make_shared<NetPlans>(std::move(plans))),
      message_plans_(plans_),
      transport_(options_.transport([this](uint32_t peer, uint32_t lane) {
        const NetPlans* const with = plans_with(lane);
        return with == nullptr ? Path() : with->path(peer, lane);
      })),
      wake_(std::make_shared<LastingWake>([this] { transport_->wake(); })),
      lanes_(transport_->lane_control()),
      streams_(*transport_, {.rank = rank_,
                             .ranks = ranks_,
                             .channel = [this](uint32_t peer) { return transport_->channel(peer, message_lane()); },
                             .control = can_make_lanes_again() ? lanes_ : nullptr,
                             .is_gone = options_.is_gone}),
      messages_(streams_, {.rank = rank_, .ranks = ranks_, .keeper = options_.keeper, .budget = options_.budget}),
      pacer_([this](uint32_t channel, uint64_t bytes_per_second) { lanes_->pace(channel, bytes_per_second); }),
      gates_(options_.gate.get(), can_choose_ways() ? &pacer_ : nullptr),  // others have no rates
      engine_(*transport_, {.slice_bytes = kSliceBytes,
                            .can_rewind = plans_->may_revise(),
                            .channel =
                                [this](const LaneUse& use) {
                                  return transport_->channel(use.peer, plans_->transport_lane(use.lane));
                                },
                            .gate = options_.gate || can_choose_ways() ? &gates_ : nullptr}),
      ahead_(options_.background, [wake = wake_] { wake->wake(); }),
      changes_({.rank = rank_,
                .ranks = ranks_,
                .tell = options_.tell,
                .background = options_.background,
                .wake = [wake = wake_] { wake->wake(); },
                .connects =
                    [this](uint32_t peer, uint32_t lane) {
                      return lanes_ == nullptr || transport_->listen(transport_->channel(peer, lane));
                    }}),
      talk_(rank_, ranks_, options_.tell) {
  // What the ranks say about lost links goes these ways, too: also between two that exchange no data.
  for (uint32_t peer = 0; peer < ranks_ && lanes_ != nullptr; ++peer) {
    for (const Path& path : plans_->separate_paths(peer)) lanes_->tell_path(peer, path);
  }
}

NetExecutor::~NetExecutor() {
  wake_->end();
  const bool is_over = flights_.empty() && !messages_.is_sending();
  if (options_.abandons && lanes_ != nullptr && !is_over) lanes_->abandon();
}

// Null: none that is still known.
const NetPlans* NetExecutor::plans_with(uint32_t transport_lane) const {
  const NetPlans* const known[] = {plans_.get(), changes_.next(), old_.get(), message_plans_.get()};
  for (const NetPlans* const plans : known) {
    if (plans != nullptr && plans->has(transport_lane)) return plans;
  }
  return nullptr;
}

std::vector<uint32_t> NetExecutor::cables_of(uint32_t peer, uint32_t lane) const {
  const NetPlans* const plans = plans_with(lane);
  return plans == nullptr ? std::vector<uint32_t>() : plans->cables(peer, lane);
}

std::vector<NetExecutor::LaneOnCables> NetExecutor::loads() const {
  std::vector<LaneOnCables> all;
  if (lanes_ == nullptr) return all;
  for (const LaneLoad& load : lanes_->loads()) {
    all.push_back({.load = load, .cables = cables_of(load.peer, load.lane)});
  }
  return all;
}

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  CHECK(flights_.size() < kDepth) << "too many calls are under way";
  answer_call();
  Flight& flight = flights_.emplace_back();
  flight.call = call;
  flight.numbers = numbers;
  flight.number = ++begun_;
  try {
    keep_inputs(flight);
    begin_waiting();
  } catch (...) {
    // As if the call had not been made: the next one must not find it.
    flights_.pop_back();
    --begun_;
    throw;
  }
}

// Of what the caller may change or free before the call is over: what is scaled, and counts.
void NetExecutor::keep_inputs(Flight& flight) {
  const Call& call = flight.call;
  if (call.op == element::ReduceOp::premul_sum && reduces(call.kind)) {
    const uint64_t elements = call.send_elements(rank_, ranks_);
    flight.scaled.resize(elements * size_of(call.type));
    scale(call.type, flight.scaled.data(), call.send, elements, call.factor);
    flight.call.send = flight.scaled.data();
  }
  if (plans_->may_revise() || call.kind == OperationKind::all_to_all_v) {
    std::span<const size_t>* const spans[] = {&flight.call.send_counts, &flight.call.send_displacements,
                                              &flight.call.recv_counts, &flight.call.recv_displacements};
    for (size_t i = 0; i < std::size(spans); ++i) {
      flight.counts[i].assign(spans[i]->begin(), spans[i]->end());
      *spans[i] = flight.counts[i];
    }
  }
}

// Those that do not follow a plan yet, in their order. Whether any began.
bool NetExecutor::begin_waiting() {
  bool have_begun = false;
  for (Flight& flight : flights_) {
    if (flight.ticket) continue;
    if (is_revising() || (!flight.counting && !can_begin(flight))) break;
    if (!flight.counting && plans_->needs_counts(flight.call)) {
      begin_counting(flight);
      have_begun = true;
    }
    // Executions begin in the same order everywhere: later calls wait, too.
    if (flight.counting && !engine_.is_done(flight.counting->ticket)) break;
    begin(flight);
    have_begun = true;
  }
  return have_begun;
}

// Whether it is known by which plan, and the plan is made.
bool NetExecutor::can_begin(const Flight& flight) {
  if (changes_.must_go_over(flight.number)) go_over();
  if (!changes_.may_begin(flight.number) || !is_ready(flight.call)) return false;
  return !plans_->needs_counts(flight.call) || is_ready(plans_->counts_call(nullptr, nullptr));
}

bool NetExecutor::is_ready(const Call& call) {
  const std::optional<PlanSource::Question> question = plans_->question(call);
  return !question || ahead_.is_ready(plans_->source(), *question);
}

// As a call that all make at this place of the order: who makes another one is found out by it.
void NetExecutor::begin_counting(Flight& flight) {
  const std::span<const size_t> counts = flight.call.send_counts;
  Counting& counting = flight.counting.emplace();
  try {
    counting.own.assign(counts.begin(), counts.end());
    counting.all.resize(counting.own.size() * ranks_);
    const Call call = plans_->counts_call(counting.own.data(), counting.all.data());
    std::shared_ptr<const RankPlan> plan = plans_->plan(call);
    if (options_.begins) options_.begins(flight.number, flight.call, plans_->source());
    counting.ticket = engine_.start({.plan = std::move(plan),
                                     .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                                     .sequence = flight.number,
                                     .signature = flight.numbers,
                                     .input = std::as_bytes(std::span(counting.own)),
                                     .output = std::as_writable_bytes(std::span(counting.all))});
  } catch (...) {
    flight.counting.reset();
    throw;
  }
}

void NetExecutor::begin(Flight& flight) {
  const Call& call = flight.call;
  std::shared_ptr<const RankPlan> plan;
  if (flight.counting) {
    plan = plans_->plan(call, flight.counting->all);
    pacer_.end(flight.number);  // of what was counted; the rest has a rate of its own
  } else {
    plan = plans_->plan(call);
    if (options_.begins) options_.begins(flight.number, call, plans_->source());
  }
  const size_t input_bytes = plan->input_elements * size_of(call.type);
  const size_t output_bytes = plan->output_elements * size_of(call.type);
  EngineCommand command = {.plan = std::move(plan),
                           .task = {.type = call.type, .op = call.op, .divisor = ranks_},
                           .sequence = flight.number,
                           .signature = flight.numbers,
                           .input = {call.send, input_bytes},
                           .output = {call.recv, output_bytes}};
  if (call.codec) {
    if (flight.codec == nullptr)
      flight.codec = std::make_unique<CodedSlices>(*call.codec, mix(mix(flight.number) + rank_));
    command.codec = flight.codec.get();
  }
  if (call.residual != nullptr) {
    command.residual = std::as_bytes(call.residual->kept()).first(input_bytes);
    command.lost = std::as_writable_bytes(call.residual->lost()).first(input_bytes);
  }
  flight.ticket = engine_.start(command);
}

bool NetExecutor::advance() {
  if (flights_.empty()) return true;
  const auto is_over = [this] {
    return !is_revising() && flights_.front().ticket && engine_.is_done(*flights_.front().ticket);
  };
  while (!is_over()) {
    if (!move()) return false;
    if (options_.budget && !is_over()) return false;
  }
  // What is on its way only while this rank sees to it must have gone before the caller turns to other things. Messages
  // may have to wait for receives that the caller has still to post. What has not gone may be of later calls, which a
  // peer takes only when this rank takes what that has sent it.
  try {
    if (transport_->has_unsent_but(NetPlans::is_for_messages)) {
      waiter_.wait(std::chrono::milliseconds(0));
      if (transport_->has_unsent_but(NetPlans::is_for_messages)) {
        move();
        return false;
      }
    }
  } catch (const Error& error) {
    if (!makes_lanes_again(error)) throw;
    return false;
  }
  pacer_.end(flights_.front().number);
  flights_.pop_front();
  rounds_in_vain_ = 0;
  ++steps_;
  note_end();
  return true;
}

void NetExecutor::note_end() {
  ended_calls_ = progress() + 1;
  farthest_ = 0;
  round_begin_ = engine_.steps();
}

void NetExecutor::note_round() {
  farthest_ = std::max(farthest_, engine_.steps() - round_begin_);
  round_begin_ = engine_.steps();
}

// False when nothing could be moved.
bool NetExecutor::move() {
  answer_call();
  if (broken_since_ && !is_revising()) look_after_messages();
  if (is_revising()) return go_on_revising();
  const bool have_begun = change_plans() || begin_waiting();
  pacer_.look_at_clock();
  const bool moved =
      streams_.advance() || have_begun;  // who waits for messages may not come to this call before it has them
  try {
    return engine_.progress(options_.budget ? options_.budget->bytes : Engine::kNoBudget) || moved;
  } catch (const MismatchError& error) {
    throw Error(ErrorCode::mismatch,
                mismatch_message(rank_, record_of(error.own().signature, error.own().sequence), error.peer(),
                                 record_of(error.others().signature, error.others().sequence)));
  } catch (const Error& error) {
    if (!makes_lanes_again(error)) throw;
    return true;
  }
}

// When a connection was broken off. Whether its peer is dead, the agents tell all; where it lives, others are made.
bool NetExecutor::makes_lanes_again(const Error& error) {
  if (error.code() != ErrorCode::peer_lost || !can_make_lanes_again()) return false;
  BANYAN_LOG(info) << error.what();
  if (!is_revising()) stop_for(next_generation());
  return true;
}

void NetExecutor::finish(Watch& watch) {
  BackOff back_off = this->back_off();
  while (!advance()) {
    const uint64_t before = steps();
    if (back_off.pause()) continue;
    watch.waiting_for(waiting_for());
    sleep([&] { return advance() || steps() != before; });
    watch.woke();
    back_off.slept();
  }
}

uint32_t NetExecutor::waiting_for() const {
  if (is_revising()) return talk_.missing().value_or(rank_);
  for (const Engine::Waiting& waiting : engine_.waiting_for()) {
    if (!waiting.peers.empty()) return waiting.peers.front();
  }
  return messages_.waiting_for().value_or(rank_);
}

uint64_t NetExecutor::start_message(const Call& call) {
  static_assert(kAnyRank == kAnyPeer);
  const size_t bytes = call.count * size_of(call.type);
  return call.kind == OperationKind::send
             ? messages_.send({.to = call.other, .tag = call.tag, .bytes = {call.send, bytes}})
             : messages_.receive({.from = call.other, .tag = call.tag, .into = {call.recv, bytes}});
}

bool NetExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool moved = move_messages();
  steps_ += moved ? 1 : 0;
  ended_calls_ += moved ? 1 : 0;
  for (const MessageEnd& end : ended_) done.push_back({.ticket = end.ticket, .peer = end.peer});
  ended_.clear();
  return moved;
}

bool NetExecutor::move_messages() {
  answer_call();
  if (is_revising()) return flights_.empty() && go_on_revising();  // else advance() does
  const bool has_changed = flights_.empty() && change_plans();
  const bool moved = streams_.advance() || has_changed;
  const bool have_moved = messages_.advance(ended_);
  look_after_messages();
  return moved || have_moved;
}

// Whoever leaves may reset connections, and says so over another one a little later.
void NetExecutor::look_after_messages() {
  constexpr std::chrono::milliseconds kGoodBye{50};
  if (!streams_.needs_renewal()) return broken_since_.reset();
  const Clock::time_point now = Clock::now();
  if (!broken_since_) broken_since_ = now;
  if (now - *broken_since_ < kGoodBye) return;
  broken_since_.reset();
  BANYAN_LOG(info) << "a connection that carries messages was lost";
  stop_for(next_generation());
}

void NetExecutor::sleep(const std::function<bool()>& try_again) {
  if (!try_again()) waiter_.wait(kLongestNap);
}

// ---- What to wait for ----

void NetExecutor::prepare(WaitSet& set) {
  transport_->prepare(set);
  if (agreement_) set.wake_at(restart_at_);
  if (can_make_lanes_again() && !is_revising()) set.wake_at(looked_at_ + kLookAfter);
}

bool NetExecutor::react(std::span<const pollfd> polled) {
  const bool may_move = transport_->react(polled), was_revising = is_revising();
  look_after_lanes();
  return may_move || is_revising() != was_revising || agreement_.has_value();
}

// ---- When plans are revised ----

void NetExecutor::hear(const std::string& text) {
  if (changes_.hear(text) || talk_.hear(text)) transport_->wake();
}

void NetExecutor::propose(const FabricUpdate& wish) {
  talk_.propose(wish);
  transport_->wake();
}

void NetExecutor::attend() {
  answer_call();
  if (is_revising()) {
    go_on_revising();
  } else {
    change_plans();
  }
}

void NetExecutor::answer_call() {
  if (const std::optional<uint32_t> generation = talk_.called_to()) stop_for(*generation);
}

// ---- When calls go over to other plans one by one ----

PlanChanges::Calls NetExecutor::calls() const {
  const auto waiting =
      std::find_if(flights_.begin(), flights_.end(), [](const Flight& flight) { return !flight.has_begun(); });
  return {.plans = *plans_,
          .begun = waiting == flights_.end() ? begun_ : waiting->number - 1,
          .is_idle = flights_.empty(),
          .over = flights_.empty() ? begun_ : flights_.front().number - 1};
}

bool NetExecutor::change_plans() {
  if (!plans_->may_revise()) return false;
  if (const std::optional<FabricUpdate> wish = talk_.untold_wish()) changes_.want(*wish);
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
  if (const std::optional<FabricUpdate> wish = changes_.take_settled_wish()) talk_.forget_wish(*wish);
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
  const RevisionDecision decision{.certain = next->adopted(), .wished = next->adopted(), .has_wishes = true};
  old_ = follow(std::move(next), decision);
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
    } else if (std::set<uint32_t> cables = lost_ways_.worked(tried.peer, tried.path); !cables.empty()) {
      talk_.propose({.mended_cables = std::move(cables)});
    }
  }
}

// Nothing moves any more until all have agreed on this generation.
void NetExecutor::stop_for(uint32_t generation) {
  if (!plans_->may_revise()) return;
  agreement_.reset();
  is_stopped_ = true;
  if (suspended_.empty()) suspended_ = engine_.suspend();
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
                            .is_lost = lane.is_lost,
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
  const bool is_vain = decision.losses.empty() && !decision.has_wishes;
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
  follow(plans_->revised(update), decision);
  message_plans_ = plans_;
  streams_.renew();
  const uint64_t anew = first_to_begin_anew(decision);
  for (const Engine::Suspended& suspended : suspended_) {
    if (decision.is_over(suspended.sequence)) {
      engine_.complete(suspended.ticket);
      continue;
    }
    const auto flight = std::find_if(flights_.begin(), flights_.end(),
                                     [&](const Flight& each) { return each.number == suspended.sequence; });
    CHECK(flight != flights_.end()) << "call " << suspended.sequence << " is suspended and not in flight";
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
  for (Flight& flight : flights_) {
    if (!flight.ticket) flight.counting.reset();
  }
  is_stopped_ = false;
  if (is_reroute(decision)) reroutes_.fetch_add(1, std::memory_order_relaxed);
  adopted_.store(plans_->generation(), std::memory_order_release);
  talk_.finish();
  begin_waiting();
  ++steps_;
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
std::shared_ptr<NetPlans> NetExecutor::follow(std::unique_ptr<NetPlans> plans, const RevisionDecision& decision) {
  tell_people(plans->adopted(), decision);
  const std::set<uint32_t>&before = plans_->adopted().lost_cables, &now = plans->adopted().lost_cables;
  std::set<uint32_t> given_up;
  std::set_difference(now.begin(), now.end(), before.begin(), before.end(), std::inserter(given_up, given_up.end()));
  lost_ways_.lose(given_up, plans_->ways_across(given_up), Clock::now());
  lost_ways_.keep(now);
  return std::exchange(plans_, std::move(plans));
}

void NetExecutor::tell_people(const FabricUpdate& update, const RevisionDecision& decision) const {
  if (rank_ != 0) return;
  const auto names_of = [&](const std::set<uint32_t>& cables, const std::set<uint32_t>& but) {
    std::string names;
    for (const uint32_t cable : cables) {
      if (!but.contains(cable)) names += " " + plans_->cable_name(cable);
    }
    return names;
  };
  const std::set<uint32_t>& before = plans_->adopted().lost_cables;
  const std::string lost = names_of(update.lost_cables, before), mended = names_of(before, update.lost_cables);
  const std::string tried = names_of(decision.certain.lost_cables, update.lost_cables);
  if (decision.has_wishes && decision.losses.empty()) {
    BANYAN_LOG(info) << "plans are revised: generation " << update.generation
                     << (mended.empty() ? "" : ", and use links again that carry again:" + mended);
  } else if (!tried.empty() && !decision.has_wishes) {
    BANYAN_LOG(warning) << "there is no way without lost links, so these are tried again:" << tried;
  } else {
    BANYAN_LOG(warning) << (lost.empty() ? "connections were lost and made again" : "went on without lost links:")
                        << lost;
  }
}

void NetExecutor::break_with(const Error& error) {
  options_.tell_peers(error);
  transport_->wake();
}

}  // namespace banyan::run
