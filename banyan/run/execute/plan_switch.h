// PlanSwitch: how the ranks of a communicator go over to other plans while calls go on. As long as nothing is lost, no
// call has to be stopped or repeated as in a revision (revision.h): calls up to an agreed one follow the old plans, all
// later ones the new. Old and new plans have lanes of their own, so both kinds may be in flight.
//
// Rank 0 leads, and does one change after the other:
//   want     each -> rank 0: a wish, with its number among those of this rank
//   prepare  rank 0 -> all: the update of the next generation, which is the present one after all wishes so far, and
//            calls that it is to be prepared for. Each rank plans for it and connects the lanes, while calls go on by
//            the old plans
//   ready    each -> rank 0: it could go over now, or why not
//   drop     rank 0 -> all, if somebody cannot: the plans stay
//   hold     rank 0 -> all, when all are ready: say how far you will go without hearing more
//   held     each -> rank 0: the number of the last call that it will begin before it hears more: some calls ahead, so
//            that it need not stop for the answer
//   go       rank 0 -> all: the last call that follows the old plans, which is the greatest of these numbers
//   rest     each -> rank 0: all calls that it has begun are over here, and they are fewer than that. As soon as all
//            have said so, rank 0 asks them to hold again: a rank that has begun no call since names the last one that
//            it has begun, others the one of the last go. So calls that nobody makes any more are not waited for
//   drained  each -> rank 0: those calls are over here, and confirmed: so they are over everywhere. A call that is over
//            here and not confirmed (revision.h) may still need its lanes
//   done     rank 0 -> all, when all have drained: the old lanes can be closed
//
// Whatever the order in which texts arrive, how late, or how often:
// (1) No two ranks carry out a call by plans of different generations. A rank begins no call after the one that it has
//     named in `held` until it hears `go`, whose number is at least that; so nobody has begun a call after the last one
//     of the old plans by then. A rank that has already gone over when it is asked again names the last call before
//     that, and no rank names a later one: then the number stays as it was.
// (2) Generations grow. A text about a settled one is ignored.
// (3) A rank that is lost before all have answered leaves the old plans in force; the others wait with calls that the
//     lost rank would have had to join, too, and end with the communicator.
// A change that is under way when all ranks are stopped (revision.h) is given up by all, unless rank 0 has said `go`:
// then rank 0 itself reports the new plans as adopted, and all restart with them.
//
// Rank 0 alone keeps wishes. It takes those of each rank in the order of their numbers, whatever the order of texts,
// and each becomes part of exactly one change that is carried out or refused, in the order in which rank 0 has taken
// them: so the last wish counts. Those of a change that is given up for a revision are part of the next change. But the
// part of a wish about cables that carry again is forgotten when a revision comes, which may have found them lost once
// more; a rank that still finds that they carry says so again (lost_paths.h).
//
// Pure: texts come in by receive(), and go out by take_texts(). One thread.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/codec/wire_type.h"
#include "banyan/run/call/call.h"
#include "banyan/run/execute/fabric_update.h"

namespace banyan::run {

// Properties of a call that plans depend on; all ranks make the call with the same counts.
struct CallShape {
  OperationKind kind = OperationKind::barrier;
  uint32_t root = 0;
  codec::WireType type = {};
  uint64_t count = 0;  // as in Call

  auto operator<=>(const CallShape&) const = default;
};

class PlanSwitch {
 public:
  static constexpr const char* kPrefix = "switch ";
  static constexpr size_t kMostShapes = 64;  // of one change

  PlanSwitch(uint32_t rank, uint32_t ranks) : rank_(rank), ranks_(ranks) {}

  // ---- What the executor tells ----

  // A text of any rank, which begins with kPrefix. A text that cannot be read is ignored.
  void receive(const std::string& text);
  // This rank wishes for something. Returns the number of the wish, from 1 on.
  uint64_t want(const PlanWish& wish);
  // On rank 0: the same for a rank that has sent its wish by other means, and wants nothing by want().
  void want_of(uint32_t rank, const PlanWish& wish) { take(rank, taken_[rank].last + 1, wish); }
  // The update that calls are planned for at present, and the calls that rank 0 would have others prepare for.
  struct Plans {
    const FabricUpdate& adopted;
    std::vector<CallShape> shapes;
  };
  // On rank 0, when can_begin(): begins a change.
  bool can_begin() const { return rank_ == 0 && !change_ && !steps_.empty(); }
  void begin(const Plans& plans);
  // True if a rank says by this text that it cannot go over to the change().
  bool is_refusal(const std::string& text) const;
  // It could go over to the change(), or why not.
  void ready(const std::string& refusal);
  // Answers when it is asked: this rank will begin calls up to this number, and then wait. If it is asked again, only
  // the number of the call that it rests after counts; any other one stands for the Change::limit that was agreed.
  void hold(uint64_t last);
  // This rank has begun calls up to this number; they are over here, and none waits. It matters while going.
  void rest(uint64_t begun);
  // This rank has obeyed must_go_over(): its calls follow the new plans from now on.
  void gone_over();
  // All calls by the old plans are over here, and confirmed.
  void drained();
  // This rank has stopped for a revision of this generation (revision.h): whatever is under way is over.
  void interrupt(uint32_t generation);

  // ---- What it says ----

  // To be brought to all ranks, this one too, in this order.
  std::vector<std::string> take_texts() { return std::exchange(texts_, {}); }
  bool has_texts() const { return !texts_.empty(); }

  enum class Phase : uint8_t {
    preparing,   // the executor makes plans and lanes
    waiting,     // it is ready; others may not be
    asked,       // asks for hold()
    holding,     // no call after the limit may begin
    going,       // the last call by the old plans is known
    draining,    // has gone over; old calls are under way
    is_drained,  // others may not be
  };
  // A wish of a rank.
  struct Step {
    uint32_t rank = 0;
    uint64_t number = 0;  // among those of its rank
    PlanWish wish;
    auto operator<=>(const Step&) const = default;
  };
  struct Change {
    FabricUpdate update;
    std::vector<CallShape> shapes;
    std::vector<uint64_t> wishes;  // by rank: the number of the last one that is in it; 0: none
    std::vector<Step> steps = {};  // on rank 0: these, until it has gone over
    Phase phase = Phase::preparing;
    uint64_t limit = 0;  // holding: of the calls that may begin; from going on: the last by the old plans
    uint32_t round = 0;  // how often it was asked to hold
    std::optional<uint64_t> rested = {};  // in this round, after this call

    // Rank 0 has said `go`, as far as this rank has heard.
    bool is_agreed() const { return phase >= Phase::going || round > 1; }
    // Not every call may begin.
    bool is_limited() const { return phase == Phase::holding || (phase == Phase::asked && round > 1); }
    auto operator<=>(const Change&) const = default;
  };
  // None: plans stay as they are.
  const std::optional<Change>& change() const { return change_; }
  // Why the last change was given up; empty: it was carried out, or there was none.
  const std::string& refusal() const { return refusal_; }
  // On rank 0: what has come of a wish of its own. Nothing: it waits, or is not among the last kMostOutcomes.
  static constexpr size_t kMostOutcomes = 1024;
  std::optional<WishOutcome> outcome(uint64_t wish) const;
  // The last generation that is settled: adopted here, or refused.
  uint32_t settled() const { return settled_; }
  // The last generation that anybody has used for anything, as far as this rank has heard.
  uint32_t latest() const { return change_ ? change_->update.generation : settled_; }
  // True if call `number` may begin now; if must_go_over(), only by the new plans.
  bool may_begin(uint64_t number) const { return !change_ || !change_->is_limited() || number <= change_->limit; }
  bool must_go_over(uint64_t number) const {
    return change_ && change_->phase == Phase::going && number > change_->limit;
  }
  // Generations whose lanes nobody uses any more: all before this one.
  uint32_t closed_before() const { return closed_before_; }

  auto operator<=>(const PlanSwitch&) const = default;

 private:
  // Wishes of a rank, as rank 0 takes them.
  struct Taken {
    uint64_t last = 0;                        // the number of the last one that was taken
    std::map<uint64_t, PlanWish> early = {};  // by number: those after a gap
    auto operator<=>(const Taken&) const = default;
  };
  // Answers of the ranks in a change, kept by rank 0.
  struct Answers {
    std::set<uint32_t> ready, held, rested, drained;
    uint32_t round = 0;   // of held and rested
    uint64_t most = 0;    // of held
    std::string refusal;  // of the first that is not ready
    auto operator<=>(const Answers&) const = default;
  };

  // A text about the change under way.
  struct Said {
    std::string kind;
    uint32_t rank = 0, round = 1;
    uint64_t number = 0;
    std::string words = {};
  };

  void say(const char* kind, uint32_t generation, const std::string& rest = {});
  bool is(Phase phase) const { return change_ && change_->phase == phase; }
  bool is_under_way(uint32_t generation) const { return change_ && change_->update.generation == generation; }
  void take(uint32_t rank, uint64_t number, const PlanWish& wish);
  void conclude(const std::string& refusal);
  void hear_prepare(Change change);
  void hear_of_change(const Said& said);
  void hear_to_hold(uint32_t round);
  void say_held();
  void hear_answer(const Said& said);
  void ask_to_hold();
  void go();
  void drop(const std::string& why);
  void settle();

  uint32_t rank_, ranks_;
  uint32_t settled_ = 0, closed_before_ = 0;
  std::optional<Change> change_;
  std::string refusal_;
  std::vector<std::string> texts_;
  uint64_t wanted_ = 0;  // the number of the last wish of this rank
  // Matters only on rank 0.
  std::vector<Step> steps_;                   // in no change yet, in the order in which they were taken
  std::map<uint32_t, Taken> taken_;           // by rank
  std::map<uint64_t, WishOutcome> outcomes_;  // of its own wishes, by number
  uint32_t interrupted_ = 0;                  // by a revision of this generation
  Answers answers_;
};

}  // namespace banyan::run
