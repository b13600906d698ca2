#include "banyan/run/execute/net_executor.h"

#include <utility>

#include "banyan/run/system/back_off.h"

namespace banyan::run {
namespace {

constexpr std::chrono::milliseconds kLongestNap{50};

}  // namespace

NetExecutor::NetExecutor(NetPlans::Options plans, Options options)
    : own_{.rank = plans.rank, .ranks = plans.ranks},
      options_(std::move(options)),
      transport_(options_.transport([this](uint32_t peer, uint32_t lane) { return plans_.path(peer, lane); })),
      plans_(std::move(plans), options_, *transport_),
      streams_(*transport_,
               {.rank = own_.rank,
                .ranks = own_.ranks,
                .channel = [this](uint32_t peer) { return transport_->channel(peer, plans_.message_lane()); },
                .control = plans_.can_make_lanes_again() ? plans_.lanes() : nullptr,
                .is_gone = options_.is_gone}),
      messages_(streams_, {.rank = own_.rank,
                           .ranks = own_.ranks,
                           .keeper = options_.keeper,
                           .budget = options_.budget,
                           .words = message_words}),
      flights_(own_, options_, plans_, *transport_),
      revision_(own_, options_, {.plans = plans_, .messages = streams_, .flights = flights_, .work = work_}) {}

NetExecutor::~NetExecutor() {
  try {
    flights_.let_go_at_end();
  } catch (...) {  // no connection, or no memory: whoever wants it finds that out
  }
  const bool is_over = flights_.is_empty() && !messages_.is_sending();
  if (options_.abandons && plans_.lanes() != nullptr && !is_over) plans_.lanes()->abandon();
}

std::vector<NetExecutor::LaneOnCables> NetExecutor::loads() const {
  std::vector<LaneOnCables> all;
  if (plans_.lanes() == nullptr) return all;
  for (const LaneLoad& load : plans_.lanes()->loads()) {
    all.push_back({.load = load, .cables = plans_.cables_of(load.peer, load.lane)});
  }
  return all;
}

// ---- Calls ----

void NetExecutor::start(const Call& call, const CallNumbers& numbers) {
  revision_.answer();
  flights_.start(call, numbers);
}

bool NetExecutor::advance() {
  waits_for_peers_ = false;
  if (flights_.is_empty()) return true;
  // It goes on until the oldest call is over or nothing moves; with a budget, a step at a time.
  while (!flights_.is_first_over()) {
    if (!move()) return false;
    if (options_.budget && !flights_.is_first_over()) return false;
  }
  if (!has_sent_all()) return false;
  flights_.end_first();
  revision_.call_ended();
  work_.add_step();
  work_.end_call(flights_.steps());
  return true;
}

// What is on its way only while this rank sees to it must have gone before the caller turns to other things. Messages
// may have to wait for receives that the caller has still to post. What has not gone may be of later calls, which a
// peer takes only when this rank takes what that has sent it.
bool NetExecutor::has_sent_all() {
  try {
    if (!transport_->has_unsent_but(NetPlans::is_for_messages)) return true;
    waiter_.wait(std::chrono::milliseconds(0));
    if (!transport_->has_unsent_but(NetPlans::is_for_messages)) return true;
    move();
  } catch (const Error& error) {
    if (!revision_.stop_after(error)) throw;
  }
  return false;
}

// False when nothing could be moved.
bool NetExecutor::move() {
  revision_.answer();
  if (revision_.has_seen_break() && !is_revising()) revision_.look_at_messages();
  // A revision comes first: nothing moves until all ranks have agreed.
  if (is_revising()) return revision_.advance();
  const bool have_begun = change_plans() || flights_.begin_waiting();
  // Who waits for messages may not come to this call before it has them.
  const bool have_messages = streams_.advance();
  const bool has_progressed = progress_calls();
  waits_for_peers_ = !have_messages && !is_revising() && flights_.waits_for_peers();
  return has_progressed || have_messages || have_begun;
}

bool NetExecutor::progress_calls() {
  try {
    return flights_.progress();
  } catch (const Error& error) {
    if (!revision_.stop_after(error)) throw;
    return true;
  }
}

void NetExecutor::finish(Watch& watch) {
  BackOff back_off = this->back_off();
  while (!advance()) {
    const uint64_t before = steps();
    // It looks again for a while before it sleeps.
    if (back_off.pause()) continue;
    watch.waiting_for(waiting_for());
    sleep([&] { return advance() || steps() != before; });
    watch.woke();
    back_off.slept();
  }
}

uint32_t NetExecutor::waiting_for() const {
  if (is_revising()) return revision_.missing().value_or(own_.rank);
  if (const std::optional<uint32_t> rank = flights_.waiting_for()) return *rank;
  return messages_.waiting_for().value_or(own_.rank);
}

// ---- Messages ----

bool NetExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool moved = move_messages(done);
  if (!moved) return false;
  work_.add_step();
  work_.end_message();
  return true;
}

bool NetExecutor::move_messages(std::vector<MessageDone>& done) {
  revision_.answer();
  if (is_revising()) return flights_.is_empty() && revision_.advance();  // else advance() does
  const bool has_changed = flights_.is_empty() && change_plans();
  const bool have_streams_moved = streams_.advance();
  const bool moved = messages_.advance(done) || have_streams_moved || has_changed;
  revision_.look_at_messages();
  return moved;
}

// ---- Other plans ----

void NetExecutor::receive(const std::string& text) {
  if (plans_.receive(text) || revision_.receive(text)) transport_->wake();
}

uint64_t NetExecutor::propose(const PlanWish& wish) {
  const uint64_t number = plans_.propose(wish);
  transport_->wake();
  return number;
}

bool NetExecutor::change_plans() {
  if (!plans_.may_revise()) return false;
  const bool moved = plans_.advance(flights_.state());
  revision_.settle(plans_.changes().settled());
  if (moved) work_.add_step();
  return moved;
}

void NetExecutor::poll() {
  revision_.answer();
  if (is_revising()) {
    revision_.advance();
    return;
  }
  change_plans();
  // Confirmations that are due go without a call.
  while (flights_.settle() && progress_calls()) {
    work_.add_step();
    if (!is_revising()) change_plans();
  }
}

bool NetExecutor::is_unsettled() const {
  return flights_.is_settling() || streams_.is_renewing() || plans_.changes().is_preparing();
}

// ---- What to wait for ----

void NetExecutor::sleep(const std::function<bool()>& try_again) {
  if (!try_again()) waiter_.wait(kLongestNap);
}

void NetExecutor::prepare(WaitSet& set) {
  transport_->prepare(set);
  revision_.prepare(set);
  if (const auto until = flights_.holds_until()) set.wake_at(*until);
}

bool NetExecutor::react(std::span<const pollfd> polled) {
  const bool may_move = transport_->react(polled), was_revising = is_revising();
  revision_.look_at_lanes();
  if (const auto until = flights_.holds_until(); until && Clock::now() >= *until) return true;
  return may_move || is_revising() != was_revising || revision_.is_agreed();
}

void NetExecutor::break_with(const Error& error) {
  options_.fail_peers(error);
  transport_->wake();
}

}  // namespace banyan::run
