#include "banyan/service/client/moving_executor.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

using Phase = run::PlanSwitch::Phase;

// There is something to do here.
constexpr const char* kLook = "look";
// How the refusal of a rank begins that will never consent.
constexpr const char* kStays = "it stays with its daemon: ";

}  // namespace

// Goes on with a change while an executor waits for the end of a call.
class MovingExecutor::PumpingWatch : public run::Watch {
 public:
  PumpingWatch(MovingExecutor& executor, run::Watch& watch) : executor_(executor), watch_(watch) {}
  void waiting_for(uint32_t rank) override {
    if (!executor_.is_quiet()) executor_.pump();
    watch_.waiting_for(rank);
  }
  void woke() override { watch_.woke(); }

 private:
  MovingExecutor& executor_;
  run::Watch& watch_;
};

MovingExecutor::MovingExecutor(Options options, const run::Deadline& deadline)
    : options_(std::move(options)),
      stays_(options_.stays),
      failures_(options_.fail_peers),
      agreement_(options_.rank, options_.size),
      mover_(std::make_unique<SessionMover>(mover_options())),
      next_(*mover_) {
  executors_.begin_with(options_.open(opening_of(0), deadline));
}

// The executors' hooks use the rest. In a forked process the thread is missing, and locks may be held for ever.
MovingExecutor::~MovingExecutor() {
  if (fork_guard_.is_in_child()) {
    [[maybe_unused]] const SessionMover* const of_the_parent = mover_.release();
    return;
  }
  mover_->stop();
  next_.take().reset();
  executors_.drop_all();
}

SessionMover::Options MovingExecutor::mover_options() {
  return {.rank = options_.rank,
          .size = options_.size,
          .find = options_.find,
          .open = options_.open,
          .opened =
              [this] {
                texts_.note();
                wake();
                options_.send(kLook);
              },
          .wish = [this](uint32_t generation, uint32_t tries) { return says_wish(generation, tries); },
          .opening_time = options_.opening_time,
          .first_pause = options_.first_pause,
          .longest_pause = options_.longest_pause};
}

SessionMover::Opening MovingExecutor::opening_of(uint32_t generation) {
  return {.generation = generation,
          .fail_peers = [this, generation](const Error& error) { failures_.record(generation, error); },
          .succeeded = [this, generation] { record_succeeded(generation); }};
}

// Any thread.
void MovingExecutor::record_succeeded(uint32_t generation) {
  if (stays_ || generation < executors_.generation()) return;
  succeeded_ = generation;
  texts_.note();
  wake();
  mover_->wish_from(generation);
}

// By the mover's thread.
bool MovingExecutor::says_wish(uint32_t generation, uint32_t tries) {
  if (stays_ || generation < executors_.generation()) return false;
  options_.send(MoveAgreement::wish(options_.rank, generation, tries));
  return true;
}

// ---- Calls ----

void MovingExecutor::start(const run::Call& call, const run::CallNumbers& numbers) {
  if (is_quiet()) return begin(call, numbers);
  waiting_.push_back({.call = call, .numbers = numbers});
  pump();
}

void MovingExecutor::begin(const run::Call& call, const run::CallNumbers& numbers) {
  executors_.begin(call, numbers);
  calls_.record(call);
}

bool MovingExecutor::advance() {
  if (!is_quiet()) pump();
  const size_t calls = executors_.calls();
  const bool has_old_calls = executors_.calls_before() > 0;
  if (executors_.calls() == 0 && !waiting_.empty()) return false;
  if (!executors_.advance()) return false;
  const bool are_old_over = has_old_calls && executors_.calls_before() == 0;
  const bool is_idle = calls > 0 && executors_.calls() == 0;
  if (are_old_over || (is_idle && is_changing_)) pump();
  return true;
}

void MovingExecutor::finish(run::Watch& watch) {
  if (!waiting_.empty()) wait_to_begin(watch);
  PumpingWatch pumping(*this, watch);
  executors_.finish(pumping);
  if (!is_quiet()) pump();
}

void MovingExecutor::wait_to_begin(run::Watch& watch) {
  run::BackOff back_off = this->back_off();
  const auto has_begun = [this] {
    pump();
    return waiting_.empty();
  };
  while (!has_begun()) {
    if (back_off.pause()) continue;
    watch.waiting_for(waiting_for());
    sleep(has_begun);
    watch.woke();
    back_off.slept();
  }
}

bool MovingExecutor::begin_waiting() {
  bool has_begun = false;
  while (!waiting_.empty() && agreement_.plan().may_begin(calls_.next())) {
    if (agreement_.plan().must_go_over(calls_.next())) go_over();
    const WaitingCall waiting = waiting_.front();
    waiting_.pop_front();
    begin(waiting.call, waiting.numbers);
    has_begun = true;
  }
  return has_begun;
}

// ---- Messages ----

uint64_t MovingExecutor::start_message(const run::Call& call) {
  if (!is_quiet()) pump();
  if (holds_messages()) return messages_.hold(call);
  record_message();
  return executors_.present().start_message(call);
}

bool MovingExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool has_changed = !is_quiet() && pump();
  const size_t known = done.size();
  const bool moved = executors_.present().advance_messages(done);
  messages_.rename(done, known);
  return moved || has_changed;
}

// From this rank's consent until its calls go over, or nothing comes of it.
bool MovingExecutor::holds_messages() const {
  const auto& change = agreement_.plan().change();
  return change && change->phase != Phase::preparing && change->phase < Phase::draining;
}

void MovingExecutor::begin_held_messages() {
  if (messages_.is_empty() || holds_messages()) return;
  record_message();
  messages_.begin(executors_.present());
}

void MovingExecutor::record_message() {
  has_messages_ = true;
  stays_ = true;
}

// ---- A change ----

void MovingExecutor::receive(const std::string& text) {
  texts_.put(text);
  wake();
}

uint64_t MovingExecutor::propose(const run::PlanWish& /*wish*/) {
  throw Error(ErrorCode::unsupported,
              "the plans of '" + options_.name +
                  "' cannot be revised here: the service has made them; ask who operates it (banyan service replan)");
}

// Goes on with a change as far as possible. Whether anything moved.
bool MovingExecutor::pump() {
  const std::vector<std::string> heard = texts_.take();
  const uint64_t begun = calls_.begun();
  for (const std::string& text : heard) {
    agreement_.receive(text);
    follow_change();
  }
  agreement_.begin_if_asked(executors_.generation(), calls_.shapes());
  follow_change();
  bool moved = !heard.empty() || begin_waiting();
  follow_change();  // calls that were due may have been the last that had to wait
  begin_held_messages();
  moved |= agreement_.has_texts() || calls_.begun() != begun;
  for (const std::string& text : agreement_.take_texts()) options_.send(text);
  is_changing_ = agreement_.plan().change() || next_.is_there() || executors_.has_before() || !waiting_.empty() ||
                 !messages_.is_empty();
  return moved;
}

void MovingExecutor::follow_change() {
  run::PlanSwitch& plan = agreement_.plan();
  drop_what_is_over();
  const auto& change = plan.change();
  if (change && change->phase == Phase::preparing) {
    prepare();
  } else {
    next_.end_late();
  }
  if (!change) return;
  const bool is_idle = executors_.present_calls() == 0 && waiting_.empty();
  if (change->phase == Phase::asked) {
    plan.hold(is_idle && change->is_agreed() ? calls_.begun() : calls_.limit(is_idle));
  }
  // Also when no other call is made: it could begin at once then.
  if (waiting_.empty() && plan.must_go_over(calls_.next())) go_over();
  if (is_idle) plan.rest(calls_.begun());
  if (change->phase == Phase::draining && executors_.calls_before() == 0) plan.drained();
}

void MovingExecutor::prepare() {
  const auto& change = *agreement_.plan().change();
  const uint32_t generation = change.update.generation;
  std::string refusal = refusal_of(change);
  // It would wait in vain in the trial.
  if (refusal.empty() && agreement_.is_refused(generation)) refusal = "another rank does not come";
  if (refusal.empty()) {
    std::optional<std::string> prepared = next_.prepare(opening_of(generation), change.shapes);
    if (!prepared) return;
    refusal = *std::move(prepared);
  } else {
    next_.refuse(generation);
  }
  agreement_.plan().ready(refusal);
  calls_.record_ready();
}

// Why this rank does not take part; empty: it does.
std::string MovingExecutor::refusal_of(const run::PlanSwitch::Change& change) const {
  if (has_messages_) return std::string(kStays) + "it has exchanged messages between two ranks";
  if (options_.stays) return std::string(kStays) + "nobody drives it between its calls";
  if (succeeded_ < executors_.generation()) return {};
  const auto host_of = [&](uint32_t rank) {
    return options_.host_of_rank.empty() ? rank : options_.host_of_rank[rank];
  };
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (change.wishes[rank] > 0 && host_of(rank) == host_of(options_.rank)) return {};
  }
  return "its daemon has just been succeeded";
}

void MovingExecutor::go_over() {
  std::optional<SessionMover::Opened> next = next_.take();
  CHECK(next) << "calls go over to a session that is not there, from generation " << executors_.generation();
  executors_.go_over(std::move(next->executor), next->generation);
  agreement_.plan().gone_over();
  BANYAN_LOG(info) << "communicator '" << options_.name << "': calls from " << calls_.next()
                   << " on are the newer daemon's (generation " << executors_.generation() << ")";
  failures_.go_over(executors_.generation());
}

void MovingExecutor::drop_what_is_over() {
  const run::PlanSwitch& plan = agreement_.plan();
  const auto& change = plan.change();
  const std::optional<uint32_t> over = next_.settle(change ? change->update.generation : 0);
  if (over && *over > executors_.generation()) record_refused();
  if (!executors_.has_before() || plan.closed_before() <= executors_.generation_before()) return;
  mover_->end(executors_.drop_before());
}

void MovingExecutor::record_refused() {
  const std::string& why = agreement_.plan().refusal();
  if (why.find(kStays) != std::string::npos) stays_ = true;
  BANYAN_LOG(info) << "communicator '" << options_.name << "' does not go over to a newer daemon"
                   << (stays_ ? "" : " yet") << ": " << why;
}

// ---- What a watcher sees ----

// Calls that wait for the agreement wait in vain for a rank that has gone.
uint32_t MovingExecutor::waiting_for() const {
  const bool waits = executors_.calls() == 0 && !waiting_.empty() && options_.is_gone != nullptr;
  for (uint32_t rank = 0; waits && rank < options_.size; ++rank) {
    if (rank != options_.rank && options_.is_gone(rank)) return rank;
  }
  return executors_.oldest()->waiting_for();
}

bool MovingExecutor::can_do_without(uint32_t rank) const {
  return waiting_.empty() && messages_.is_empty() && executors_.can_do_without(rank);
}

// ---- Sleeping and failing ----

void MovingExecutor::sleep(const std::function<bool()>& try_again) {
  const auto kept = executors_.oldest();  // which `try_again` may find to be over
  kept->sleep(try_again);
}

void MovingExecutor::wake() {
  if (!fork_guard_.is_in_child()) executors_.wake();
}

void MovingExecutor::break_with(const Error& error) {
  if (!fork_guard_.is_in_child()) executors_.break_with(error);
}

std::optional<Error> MovingExecutor::broken() const {
  return fork_guard_.is_in_child() ? std::nullopt : executors_.broken();
}

}  // namespace banyan::service
