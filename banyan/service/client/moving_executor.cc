#include "banyan/service/client/moving_executor.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

using Phase = run::PlanSwitch::Phase;

// "move 7 3 1": the daemon of rank 7's session of generation 3 has been succeeded; said for the first time.
constexpr const char* kMove = "move ";
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
      switch_(options_.rank, options_.size),
      mover_(std::make_unique<SessionMover>(SessionMover::Options{
          .rank = options_.rank,
          .size = options_.size,
          .find = options_.find,
          .open = options_.open,
          .opened =
              [this] {
                has_news_.store(true, std::memory_order_release);
                wake();
                options_.tell(kLook);
              },
          .wish = [this](uint32_t generation, uint32_t tries) { return says_wish(generation, tries); },
          .opening_time = options_.opening_time,
          .first_pause = options_.first_pause,
          .longest_pause = options_.longest_pause})) {
  auto first = std::make_shared<Carrier>();
  first->executor = options_.open(opening_of(0), deadline);
  const std::lock_guard lock(mutex_);
  present_ = std::move(first);
}

// The executors' hooks use the rest. In a forked process the thread is missing, and locks may be held for ever.
MovingExecutor::~MovingExecutor() {
  if (fork_guard_.is_in_child()) {
    [[maybe_unused]] const SessionMover* const of_the_parent = mover_.release();
    return;
  }
  mover_->stop();
  next_.reset();
  before_.reset();
  present_.reset();
}

SessionMover::Opening MovingExecutor::opening_of(uint32_t generation) {
  return {.generation = generation,
          .tell_peers = [this, generation](const Error& error) { tell_failure(generation, error); },
          .succeeded =
              [this, generation] {
                if (stays_ || generation < in_force_) return;
                succeeded_ = generation;
                has_news_.store(true, std::memory_order_release);
                wake();
                mover_->wish_from(generation);
              }};
}

// ---- Calls ----

void MovingExecutor::start(const run::Call& call, const run::CallNumbers& numbers) {
  if (is_quiet()) return begin(call, numbers);
  waiting_.push_back({.call = call, .numbers = numbers});
  pump();
}

void MovingExecutor::begin(const run::Call& call, const run::CallNumbers& numbers) {
  present_->executor->start(call, numbers);
  recent_[++begun_ % recent_.size()] = {.kind = call.kind, .root = call.other, .type = call.type, .count = call.count};
  ++present_calls_;
}

bool MovingExecutor::advance() {
  if (!is_quiet()) pump();
  if (before_calls_ > 0) {
    if (!before_->executor->advance()) return false;
    if (--before_calls_ == 0) pump();
    return true;
  }
  if (present_calls_ == 0 && !waiting_.empty()) return false;
  if (!present_->executor->advance()) return false;
  present_calls_ -= present_calls_ > 0 ? 1 : 0;
  return true;
}

void MovingExecutor::finish(run::Watch& watch) {
  if (!waiting_.empty()) wait_to_begin(watch);
  PumpingWatch pumping(*this, watch);
  oldest()->executor->finish(pumping);
  // Meanwhile later calls may have been given to the next sessions.
  (before_calls_ > 0 ? before_calls_ : present_calls_) = 0;
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

uint64_t MovingExecutor::start_message(const run::Call& call) {
  constexpr uint64_t kHeld = uint64_t{1} << 63;  // more than any executor gives
  if (!is_quiet()) pump();
  if (holds_messages()) {
    held_messages_.push_back({.call = call, .ticket = kHeld | ++held_});
    return held_messages_.back().ticket;
  }
  has_messages_ = true;
  stays_ = true;
  return present_->executor->start_message(call);
}

bool MovingExecutor::advance_messages(std::vector<MessageDone>& done) {
  const bool has_changed = !is_quiet() && pump();
  const size_t known = done.size();
  const bool moved = present_->executor->advance_messages(done);
  if (!held_tickets_.empty()) {
    for (size_t i = known; i < done.size(); ++i) {
      const auto held = held_tickets_.find(done[i].ticket);
      if (held == held_tickets_.end()) continue;
      done[i].ticket = held->second;
      held_tickets_.erase(held);
    }
  }
  return moved || has_changed;
}

// ---- A change ----

void MovingExecutor::hear(const std::string& text) {
  {
    const std::lock_guard lock(mutex_);
    heard_.push_back(text);
    has_news_.store(true, std::memory_order_release);
  }
  wake();
}

void MovingExecutor::propose(const run::FabricUpdate& /*wish*/) {
  throw Error(ErrorCode::unsupported,
              "the plans of '" + options_.name +
                  "' cannot be revised here: the service has made them; ask who operates it (banyan service replan)");
}

// By the mover's thread.
bool MovingExecutor::says_wish(uint32_t generation, uint32_t tries) {
  if (stays_ || generation < in_force_) return false;
  options_.tell(kMove + std::to_string(options_.rank) + " " + std::to_string(generation) + " " + std::to_string(tries));
  return true;
}

// Goes on with a change as far as possible. Whether anything moved.
bool MovingExecutor::pump() {
  std::vector<std::string> heard;
  {
    const std::lock_guard lock(mutex_);
    heard.swap(heard_);
    has_news_.store(false, std::memory_order_release);
  }
  const uint64_t begun = begun_;
  for (const std::string& text : heard) {
    hear_now(text);
    follow_change();
  }
  if (is_asked_ && !switch_.change()) begin_change();
  follow_change();
  bool moved = !heard.empty() || begin_waiting();
  follow_change();  // calls that were due may have been the last that had to wait
  begin_held_messages();
  moved |= switch_.has_texts() || begun_ != begun;
  say();
  is_changing_ = switch_.change() || next_ || before_ || !waiting_.empty() || !held_messages_.empty();
  return moved;
}

void MovingExecutor::hear_now(const std::string& text) {
  if (text.starts_with(run::PlanSwitch::kPrefix)) {
    switch_.hear(text);
    // Nobody needs to wait for a barrier to which a rank will not come.
    if (switch_.is_refusal(text) && switch_.change()->phase == Phase::preparing) mover_->give_up();
    return;
  }
  if (!text.starts_with(kMove) || options_.rank != 0) return;
  std::istringstream words(text.substr(std::string_view(kMove).size()));
  uint32_t rank = 0, generation = 0, tries = 0;
  if (words >> rank >> generation >> tries && rank < options_.size) hear_wish(rank, generation, tries);
}

// On rank 0: a rank has to leave its session of this generation.
void MovingExecutor::hear_wish(uint32_t rank, uint32_t generation, uint32_t tries) {
  wishes_[rank] = generation;
  is_asked_ = true;
  const auto& change = switch_.change();
  const bool may_be_missed = change && (change->phase == Phase::preparing || change->phase == Phase::waiting);
  if (may_be_missed && tries > 1) options_.tell(prepare_text_);  // by a rank that was not there yet
}

// For all that have still to leave, also those whose last change was refused: their daemons stay succeeded. Else two
// ranks that say so by turns would each refuse the change of the other.
void MovingExecutor::begin_change() {
  is_asked_ = false;
  std::erase_if(wishes_, [&](const auto& wish) { return wish.second < in_force_; });  // it has left
  const run::FabricUpdate same;
  for (const auto& [rank, generation] : wishes_) switch_.want_of(rank, ++wants_, same);
  if (!switch_.can_begin()) return;
  const std::set<run::CallShape> shapes(recent_.begin(), recent_.end());
  switch_.begin({.adopted = same, .shapes = {shapes.begin(), shapes.end()}});
}

void MovingExecutor::follow_change() {
  drop_what_is_over();
  const auto& change = switch_.change();
  if (change && change->phase == Phase::preparing) {
    prepare();
  } else if (std::optional<SessionMover::Opened> late = mover_->take(); late && late->carrier) {
    mover_->end(std::move(late->carrier));
  }
  if (!change) return;
  if (change->phase == Phase::asked) switch_.hold(limit());
  // Also when no other call is made: it could begin at once then.
  if (waiting_.empty() && switch_.must_go_over(begun_ + 1)) go_over();
  if (change->phase == Phase::draining && before_calls_ == 0) switch_.drained();
}

void MovingExecutor::prepare() {
  const auto& change = *switch_.change();
  const uint32_t generation = change.update.generation;
  std::optional<SessionMover::Opened> opened = mover_->take();
  std::string refusal = refusal_of(change);
  if (refusal.empty()) {
    if (opening_ != generation) mover_->open(opening_of(generation), change.shapes);
    opening_ = generation;
    if (!opened || opened->generation != generation) {
      if (opened && opened->carrier) mover_->end(std::move(opened->carrier));
      return;
    }
    next_ = std::move(opened->carrier);
    refusal = std::move(opened->refusal);
  } else {
    mover_->give_up();
    if (opened && opened->carrier) mover_->end(std::move(opened->carrier));
  }
  opening_ = generation;
  switch_.ready(refusal);
  begun_when_ready_ = begun_;
}

// Why this rank does not take part; empty: it does.
std::string MovingExecutor::refusal_of(const run::PlanSwitch::Change& change) const {
  if (has_messages_) return std::string(kStays) + "it has exchanged messages between two ranks";
  if (options_.stays) return std::string(kStays) + "nobody drives it between its calls";
  if (succeeded_ < in_force_) return {};
  const auto host_of = [&](uint32_t rank) {
    return options_.host_of_rank.empty() ? rank : options_.host_of_rank[rank];
  };
  for (uint32_t rank = 0; rank < options_.size; ++rank) {
    if (change.wishes[rank] > 0 && host_of(rank) == host_of(options_.rank)) return {};
  }
  return "its daemon has just been succeeded";
}

// As many calls more as were begun while the last answer was on its way; so this rank need not wait for the next one.
uint64_t MovingExecutor::limit() const {
  const bool is_idle = present_calls_ == 0 && waiting_.empty();
  return begun_ + (begun_ - std::min(begun_, begun_when_ready_)) + (is_idle ? 0 : 1);
}

void MovingExecutor::go_over() {
  CHECK(next_ && !before_) << "generation " << switch_.change()->update.generation;
  std::optional<Error> failure;
  {
    const std::lock_guard lock(mutex_);
    before_ = std::move(present_);
    present_ = std::move(next_);
    next_.reset();
    in_force_ = present_->generation;
    if (early_failure_ && early_failure_->first == in_force_) failure = std::move(early_failure_->second);
    early_failure_.reset();
  }
  before_calls_ = std::exchange(present_calls_, 0);
  switch_.gone_over();
  BANYAN_LOG(info) << "communicator '" << options_.name << "': calls from " << begun_ + 1
                   << " on are the newer daemon's (generation " << in_force_ << ")";
  if (failure) tell_failure(in_force_, *failure);
}

void MovingExecutor::drop_what_is_over() {
  const auto& change = switch_.change();
  if (next_ && (!change || change->update.generation != next_->generation)) mover_->end(std::move(next_));
  if (!next_ && opening_ && (!change || change->update.generation != *opening_)) {
    const uint32_t settled = *std::exchange(opening_, std::nullopt);
    if (settled > in_force_) note_settled();
  }
  if (!before_ || switch_.closed_before() <= before_->generation) return;
  steps_before_ += before_->executor->steps();
  progress_before_ += before_->executor->progress();
  std::shared_ptr<Carrier> over;
  {
    const std::lock_guard lock(mutex_);
    const run::SentBytes sent = before_->executor->sent_bytes();
    sent_before_.tcp += sent.tcp;
    sent_before_.shared_memory += sent.shared_memory;
    over = std::move(before_);
    before_.reset();
  }
  mover_->end(std::move(over));
}

// The change has been refused.
void MovingExecutor::note_settled() {
  const std::string& why = switch_.refusal();
  if (why.find(kStays) != std::string::npos) stays_ = true;
  BANYAN_LOG(info) << "communicator '" << options_.name << "' does not go over to a newer daemon"
                   << (stays_ ? "" : " yet") << ": " << why;
}

bool MovingExecutor::begin_waiting() {
  bool has_begun = false;
  while (!waiting_.empty() && switch_.may_begin(begun_ + 1)) {
    if (switch_.must_go_over(begun_ + 1)) go_over();
    const WaitingCall waiting = waiting_.front();
    waiting_.pop_front();
    begin(waiting.call, waiting.numbers);
    has_begun = true;
  }
  return has_begun;
}

// From this rank's consent until its calls go over, or nothing comes of it.
bool MovingExecutor::holds_messages() const {
  const auto& change = switch_.change();
  return change && change->phase != Phase::preparing && change->phase < Phase::draining;
}

void MovingExecutor::begin_held_messages() {
  if (held_messages_.empty() || holds_messages()) return;
  has_messages_ = true;
  stays_ = true;
  for (const HeldMessage& held : std::exchange(held_messages_, {})) {
    held_tickets_.emplace(present_->executor->start_message(held.call), held.ticket);
  }
}

void MovingExecutor::say() {
  for (const std::string& text : switch_.take_texts()) {
    if (options_.rank == 0 && text.starts_with(std::string(run::PlanSwitch::kPrefix) + "prepare ")) {
      prepare_text_ = text;
    }
    options_.tell(text);
  }
}

// ---- What a watcher sees ----

uint64_t MovingExecutor::steps() const {
  return steps_before_ + present_->executor->steps() + (before_ ? before_->executor->steps() : 0);
}

uint64_t MovingExecutor::progress() const {
  return progress_before_ + present_->executor->progress() + (before_ ? before_->executor->progress() : 0);
}

// Calls that wait for the agreement wait in vain for a rank that has gone.
uint32_t MovingExecutor::waiting_for() const {
  const bool waits = present_calls_ + before_calls_ == 0 && !waiting_.empty() && options_.is_gone != nullptr;
  for (uint32_t rank = 0; waits && rank < options_.size; ++rank) {
    if (rank != options_.rank && options_.is_gone(rank)) return rank;
  }
  return oldest()->executor->waiting_for();
}

bool MovingExecutor::can_do_without(uint32_t rank) const {
  return waiting_.empty() && held_messages_.empty() && present_->executor->can_do_without(rank) &&
         (!before_ || before_->executor->can_do_without(rank));
}

bool MovingExecutor::notices_last_bytes() const { return oldest()->executor->notices_last_bytes(); }

run::SentBytes MovingExecutor::sent_bytes() const {
  const std::lock_guard lock(mutex_);
  run::SentBytes sent = sent_before_;
  for (const std::shared_ptr<Carrier>& carrier : {present_, before_}) {
    if (!carrier) continue;
    sent.tcp += carrier->executor->sent_bytes().tcp;
    sent.shared_memory += carrier->executor->sent_bytes().shared_memory;
  }
  return sent;
}

// ---- Sleeping and failing ----

void MovingExecutor::sleep(const std::function<bool()>& try_again) {
  const std::shared_ptr<Carrier> kept = oldest();  // which `try_again` may find to be over
  kept->executor->sleep(try_again);
}

void MovingExecutor::wake() {
  if (fork_guard_.is_in_child()) return;
  const std::lock_guard lock(mutex_);
  if (present_) present_->executor->wake();
  if (before_) before_->executor->wake();
}

void MovingExecutor::break_with(const Error& error) {
  if (fork_guard_.is_in_child()) return;
  std::shared_ptr<Carrier> present, before;
  {
    const std::lock_guard lock(mutex_);
    present = present_;
    before = before_;
  }
  present->executor->break_with(error);
  if (before) before->executor->break_with(error);
}

std::optional<Error> MovingExecutor::broken() const {
  if (fork_guard_.is_in_child()) return std::nullopt;
  std::shared_ptr<Carrier> present, before;
  {
    const std::lock_guard lock(mutex_);
    present = present_;
    before = before_;
  }
  std::optional<Error> error = present->executor->broken();
  if (!error && before) error = before->executor->broken();
  return error;
}

// Of a session that no call is in yet, nobody needs to hear. And of two that fail for the same reason, of one.
void MovingExecutor::tell_failure(uint32_t generation, const Error& error) {
  {
    const std::lock_guard lock(mutex_);
    if (generation > in_force_) {
      if (!early_failure_ || early_failure_->first <= generation) early_failure_.emplace(generation, error);
      return;
    }
    if (told_ == error.message()) return;
    told_ = error.message();
  }
  if (options_.tell_peers) options_.tell_peers(error);
}

}  // namespace banyan::service
