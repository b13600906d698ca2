#include "banyan/run/execute/plan_changes.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run {
namespace {

using Phase = PlanSwitch::Phase;

Call call_of(const CallShape& shape) {
  return {.kind = shape.kind,
          .type = shape.type.element(),
          .codec = shape.type.codec(),
          .other = shape.root,
          .count = shape.count};
}

// Nobody may avoid all paths and rely on what is lost: when that carries again, none would be left.
void expect_paths_beside_avoided(const NetPlans& plans, FabricUpdate update) {
  if (update.avoided_cables.empty() || update.lost_cables.empty()) return;
  update.lost_cables.clear();
  update.needed_cables.clear();
  plans.source()->revised(update);
}

}  // namespace

PlanChanges::PlanChanges(Options options) : options_(std::move(options)), switch_(options_.rank, options_.ranks) {}

bool PlanChanges::receive(const std::string& text) {
  if (!text.starts_with(PlanSwitch::kPrefix)) return false;
  const std::lock_guard lock(mutex_);
  received_.push_back(text);
  return true;
}

uint64_t PlanChanges::propose(const PlanWish& wish) {
  const std::lock_guard lock(mutex_);
  proposed_.push_back(wish);
  return ++proposals_;
}

bool PlanChanges::advance(const NetPlans& plans, const Calls& calls) {
  std::vector<std::string> received;
  std::vector<PlanWish> proposed;
  {
    const std::lock_guard lock(mutex_);
    received.swap(received_);
    proposed.swap(proposed_);
  }
  // Wishes and texts first: they may begin a change, bring it on or end it.
  for (const PlanWish& wish : proposed) switch_.want(wish);
  for (const std::string& text : received) switch_.receive(text);
  if (switch_.can_begin()) switch_.begin({.adopted = plans.adopted(), .shapes = plans.shapes()});
  bool moved = !received.empty();
  // This rank does what its phase asks for: it prepares, answers, drains or rests.
  const auto& change = switch_.change();
  if (!change) {
    next_.reset();
  } else if (change->phase == Phase::preparing) {
    moved |= prepare(plans);
    if (change->phase != Phase::preparing) begun_when_ready_ = calls.begun;
  } else if (change->phase == Phase::asked) {
    switch_.hold(limit(calls));
  } else if (change->phase == Phase::draining && calls.over >= change->limit) {
    switch_.drained();
  } else if (calls.is_idle) {
    switch_.rest(calls.begun);
  }
  moved |= switch_.has_texts();
  send_texts();
  return moved;
}

// As many calls more as were begun while the last answer was on its way; so this rank need not wait for the next one.
// None, where it is asked again because all rest.
uint64_t PlanChanges::limit(const Calls& calls) const {
  if (calls.is_idle && switch_.change()->is_agreed()) return calls.begun;
  const uint64_t lately = calls.begun - std::min(calls.begun, begun_when_ready_);
  return calls.begun + lately + (calls.is_idle ? 0 : 1);
}

void PlanChanges::send_texts() {
  for (const std::string& text : switch_.take_texts()) options_.send(text);
}

// ---- The next plans ----

void PlanChanges::begin_draft(const NetPlans& plans) {
  const auto make = [change = *switch_.change(), present = std::make_shared<const NetPlans>(plans)] {
    expect_paths_beside_avoided(*present, change.update);
    std::unique_ptr<NetPlans> next = present->revised(change.update);
    for (const CallShape& shape : change.shapes) next->plan(call_of(shape));
    return next;
  };
  draft_ = make_in(options_.background, make, options_.wake);
}

// True if anything has come of it since.
bool PlanChanges::prepare(const NetPlans& plans) {
  try {
    if (!next_) {
      // Plans are made in the background while calls go on.
      if (!draft_.valid()) begin_draft(plans);
      if (!is_made(draft_)) return false;
      Made<std::unique_ptr<NetPlans>> made = draft_.get();
      if (const Error* const failure = std::get_if<Error>(&made)) throw Error(*failure);
      next_ = std::get<std::unique_ptr<NetPlans>>(std::move(made));
    }
    // All lanes are asked for at once; this rank is ready when they all stand.
    if (!are_connected()) return false;
    switch_.ready("");
  } catch (const Error& error) {
    // The reason goes to rank 0, which drops the change for all.
    switch_.ready(error.message());
    next_.reset();
  }
  return true;
}

bool PlanChanges::are_connected() {
  bool are = true;
  for (const NetPlans::Lane& lane : next_->lanes()) {
    are &= options_.connects(lane.peer, next_->transport_lane(lane.lane));
  }
  return are;
}

std::unique_ptr<NetPlans> PlanChanges::go_over() {
  switch_.gone_over();
  CHECK(next_ != nullptr);
  return std::move(next_);
}

void PlanChanges::interrupt(uint32_t generation) {
  switch_.interrupt(generation);
  draft_ = {};
  next_.reset();
}

const FabricUpdate* PlanChanges::decided() const {
  const auto& change = switch_.change();
  // Rank 0 has said `go`, so all adopt it, though no call follows it here yet.
  return change && change->is_agreed() && change->phase <= Phase::going ? &change->update : nullptr;
}

}  // namespace banyan::run
