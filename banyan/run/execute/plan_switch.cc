#include "banyan/run/execute/plan_switch.h"

#include <algorithm>
#include <sstream>
#include <string_view>

#include "banyan/base/check.h"

namespace banyan::run {
namespace {

constexpr uint32_t kLeader = 0;
constexpr uint32_t kMostKinds = 64;  // of calls, with some to spare
constexpr std::string_view kWantText = "switch want ";

std::ostream& operator<<(std::ostream& stream, const CallShape& shape) {
  return stream << ' ' << static_cast<uint32_t>(shape.kind) << ' ' << shape.root << ' '
                << static_cast<uint32_t>(shape.type.number()) << ' ' << shape.count;
}

std::istream& operator>>(std::istream& stream, CallShape& shape) {
  uint32_t kind = 0, type = 0;
  stream >> kind >> shape.root >> type >> shape.count;
  if (kind >= kMostKinds || !codec::WireType::is_known(type)) stream.setstate(std::ios::failbit);
  if (!stream) return stream;
  shape.kind = static_cast<OperationKind>(kind);
  shape.type = codec::WireType::of_number(static_cast<uint8_t>(type));
  return stream;
}

std::string rest_of(std::istream& stream) {
  std::string words;
  stream.get();
  std::getline(stream, words);
  return words;
}

// The first round goes without saying, as among ranks that know of one only.
std::string words_of_round(uint32_t round) { return round > 1 ? " " + std::to_string(round) : ""; }

}  // namespace

// Words with spaces between: kind, generation, rank; then what the kind needs.
void PlanSwitch::say(const char* kind, uint32_t generation, const std::string& rest) {
  texts_.push_back(std::string(kPrefix) + kind + " " + std::to_string(generation) + " " + std::to_string(rank_) +
                   (rest.empty() ? "" : " ") + rest);
}

void PlanSwitch::receive(const std::string& text) {
  std::istringstream stream(text.substr(std::string_view(kPrefix).size()));
  std::string kind;
  uint32_t generation = 0, rank = 0;
  if (!(stream >> kind >> generation >> rank) || rank >= ranks_) return;
  if (kind == "want") {
    uint64_t number = 0;
    PlanWish wish;
    if (!(stream >> number >> wish)) return;
    // A wish from before a revision: the cables may have been lost once more.
    if (generation < interrupted_) wish.mended_cables.clear();
    take(rank, number, wish);
  } else if (kind == "prepare") {
    Change change;
    change.wishes.resize(ranks_);
    for (uint64_t& number : change.wishes) stream >> number;
    size_t shapes = 0;
    stream >> change.update >> shapes;
    change.shapes.resize(stream ? std::min(shapes, kMostShapes) : 0);
    for (CallShape& shape : change.shapes) stream >> shape;
    if (stream && rank == kLeader && change.update.generation == generation) hear_prepare(std::move(change));
  } else if (is_under_way(generation)) {
    // Texts of other generations are about something settled, and ignored (2).
    Said said{.kind = kind, .rank = rank};
    if (kind == "held" || kind == "go") stream >> said.number;
    if (!stream) return;
    if (kind == "ready" || kind == "drop") {
      said.words = rest_of(stream);
    } else if (!(stream >> said.round)) {
      said.round = 1;
    }
    if (rank == kLeader) hear_of_change(said);
    hear_answer(said);
  }
}

// ---- All ranks ----

uint64_t PlanSwitch::want(const PlanWish& wish) {
  const uint64_t number = ++wanted_;
  if (rank_ == kLeader) {
    take(rank_, number, wish);
  } else {
    std::ostringstream rest;
    rest << number << ' ' << wish;
    say("want", settled_, rest.str());
  }
  return number;
}

bool PlanSwitch::is_refusal(const std::string& text) const {
  if (!text.starts_with(kPrefix)) return false;
  std::istringstream stream(text.substr(std::string_view(kPrefix).size()));
  std::string kind;
  uint32_t generation = 0, rank = 0;
  stream >> kind >> generation >> rank;
  return stream && kind == "ready" && is_under_way(generation) && !rest_of(stream).empty();
}

// `prepare` has come.
void PlanSwitch::hear_prepare(Change change) {
  const uint32_t generation = change.update.generation;
  if (generation <= latest()) return;  // it has heard this already, or of a later one
  // Rank 0 begins the next change when all have drained, or when one is dropped. That text may come after this one.
  if (is(Phase::waiting)) drop("it was given up");
  if (is(Phase::is_drained)) settle();
  if (change_) return;
  change.phase = Phase::preparing;
  change_ = std::move(change);
}

// Says `ready`: it could go over, or why not.
void PlanSwitch::ready(const std::string& refusal) {
  CHECK(is(Phase::preparing));
  change_->phase = Phase::waiting;
  say("ready", change_->update.generation, refusal);
}

// What rank 0 says about the change that is under way. It says nothing before all ranks have answered what it has said
// before, so this rank is in the phase that fits, or has heard this already.
void PlanSwitch::hear_of_change(const Said& said) {
  if (said.kind == "drop" && is(Phase::waiting)) {
    drop(said.words.empty() ? "it was given up" : said.words);
  } else if (said.kind == "hold" && said.round == change_->round + 1) {
    hear_to_hold(said.round);
  } else if (said.kind == "go" && is(Phase::holding) && said.round == change_->round) {
    change_->phase = Phase::going;
    change_->limit = said.number;
  } else if (said.kind == "done" && is(Phase::is_drained)) {
    settle();
  }
}

// `hold` has come, in the second round and later ones since all ranks rest.
void PlanSwitch::hear_to_hold(uint32_t round) {
  if (is(Phase::preparing)) return;
  change_->round = round;
  if (change_->phase > Phase::going) return say_held();  // it has called on since it rested
  change_->phase = Phase::asked;
}

// Says `held`. It begins no call after this one until `go` (1).
void PlanSwitch::hold(uint64_t last) {
  CHECK(is(Phase::asked));
  change_->phase = Phase::holding;
  if (change_->round == 1 || change_->rested == last) change_->limit = last;
  change_->rested.reset();
  say_held();
}

void PlanSwitch::say_held() {
  say("held", change_->update.generation, std::to_string(change_->limit) + words_of_round(change_->round));
}

// Says `rest`, once in a round: its calls are over, and fewer than the last one by the old plans.
void PlanSwitch::rest(uint64_t begun) {
  if (!is(Phase::going) || begun >= change_->limit || change_->rested) return;
  change_->rested = begun;
  say("rest", change_->update.generation, std::to_string(change_->round));
}

// All later calls follow the new plans: the generation is settled here (2).
void PlanSwitch::gone_over() {
  CHECK(is(Phase::going));
  change_->phase = Phase::draining;
  refusal_.clear();
  settled_ = change_->update.generation;
  conclude("");
}

// Says `drained`.
void PlanSwitch::drained() {
  CHECK(is(Phase::draining));
  change_->phase = Phase::is_drained;
  say("drained", change_->update.generation);
}

void PlanSwitch::drop(const std::string& why) {
  refusal_ = why;
  settled_ = change_->update.generation;
  conclude(why);
  settle();
}

// The wishes of the change are adopted, or refused.
void PlanSwitch::conclude(const std::string& refusal) {
  for (const Step& step : change_->steps) {
    if (step.rank == rank_) outcomes_[step.number] = {.generation = settled_, .refusal = refusal};
  }
  change_->steps.clear();
  while (outcomes_.size() > kMostOutcomes) outcomes_.erase(outcomes_.begin());
}

// The change is over, one way or the other.
void PlanSwitch::settle() {
  if (is(Phase::is_drained)) closed_before_ = change_->update.generation;
  change_.reset();
  answers_ = {};
}

void PlanSwitch::interrupt(uint32_t generation) {
  CHECK(generation > settled_) << "generation " << generation << " after " << settled_;
  // All that was under way is settled by the revision. Rank 0 reports the new plans as adopted if it has said `go`.
  interrupted_ = settled_ = generation;
  if (change_ && change_->is_agreed()) conclude("");  // the revision adopts it
  // Wishes of a change that is given up come before later ones in the next change, without what the revision may
  // disprove.
  if (change_) steps_.insert(steps_.begin(), change_->steps.begin(), change_->steps.end());
  for (Step& step : steps_) step.wish.mended_cables.clear();
  std::erase_if(steps_, [](const Step& step) { return step.wish.is_empty(); });
  for (auto& [rank, taken] : taken_) {
    for (auto& [number, wish] : taken.early) wish.mended_cables.clear();
  }
  change_.reset();
  answers_ = {};
  std::erase_if(texts_, [](const std::string& text) { return !text.starts_with(kWantText); });
}

// ---- Rank 0 ----

void PlanSwitch::take(uint32_t rank, uint64_t number, const PlanWish& wish) {
  if (rank_ != kLeader) return;
  Taken& taken = taken_[rank];
  // Wishes of a rank are taken in the order of their numbers, each once: those after a gap wait.
  if (number <= taken.last) return;  // it was heard before
  taken.early.emplace(number, wish);
  for (auto next = taken.early.begin(); next != taken.early.end() && next->first == taken.last + 1;
       next = taken.early.erase(next)) {
    taken.last = next->first;
    steps_.push_back({.rank = rank, .number = next->first, .wish = std::move(next->second)});
  }
}

std::optional<WishOutcome> PlanSwitch::outcome(uint64_t wish) const {
  const auto found = outcomes_.find(wish);
  return found == outcomes_.end() ? std::nullopt : std::optional(found->second);
}

// Says `prepare`: the update of the next generation is the present one after all wishes so far.
void PlanSwitch::begin(const Plans& plans) {
  CHECK(can_begin());
  Change change{.update = plans.adopted, .shapes = plans.shapes, .wishes = std::vector<uint64_t>(ranks_)};
  change.shapes.resize(std::min(change.shapes.size(), kMostShapes));
  // All wishes so far, in the order in which they were taken: so the last one counts.
  change.steps = std::exchange(steps_, {});
  for (const Step& step : change.steps) {
    change.wishes[step.rank] = step.number;
    change.update = change.update.after(step.wish);
  }
  change.update.generation = latest() + 1;
  std::ostringstream rest;
  for (const uint64_t number : change.wishes) rest << number << ' ';
  rest << change.update << ' ' << change.shapes.size();
  for (const CallShape& shape : change.shapes) rest << shape;
  say("prepare", change.update.generation, rest.str());
  answers_ = {};
  change_ = std::move(change);
}

// When all have said `ready`, it says `hold` or `drop`; after all `held`, `go`; after all `rest`, `hold` again; and
// after all `drained`, `done`.
void PlanSwitch::hear_answer(const Said& said) {
  if (rank_ != kLeader || !change_) return;
  // Each rank's answer counts once, and those of an earlier round say nothing about this one.
  const bool is_of_round = said.round == answers_.round;
  if (said.kind == "ready" && answers_.ready.insert(said.rank).second) {
    if (answers_.refusal.empty() && !said.words.empty()) {
      answers_.refusal = "rank " + std::to_string(said.rank) + ": " + said.words;
    }
    if (answers_.ready.size() < ranks_) return;
    if (answers_.refusal.empty()) {
      ask_to_hold();
    } else {
      say("drop", change_->update.generation, answers_.refusal);
    }
  } else if (said.kind == "held" && is_of_round && answers_.held.insert(said.rank).second) {
    answers_.most = std::max(answers_.most, said.number);
    if (answers_.held.size() == ranks_) go();
  } else if (said.kind == "rest" && is_of_round && answers_.rested.insert(said.rank).second) {
    if (answers_.rested.size() == ranks_) ask_to_hold();
  } else if (said.kind == "drained" && answers_.drained.insert(said.rank).second) {
    if (answers_.drained.size() == ranks_) say("done", change_->update.generation);
  }
}

void PlanSwitch::ask_to_hold() {
  ++answers_.round;
  answers_.held.clear();
  answers_.rested.clear();
  answers_.most = 0;
  say("hold", change_->update.generation, answers_.round > 1 ? std::to_string(answers_.round) : "");
}

void PlanSwitch::go() {
  say("go", change_->update.generation, std::to_string(answers_.most) + words_of_round(answers_.round));
  // It counts from now on, whatever becomes of the text.
  if (!is(Phase::holding)) return;  // it has gone over, by the same number
  change_->phase = Phase::going;
  change_->limit = answers_.most;
}

}  // namespace banyan::run
