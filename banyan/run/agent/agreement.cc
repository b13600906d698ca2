#include "banyan/run/agent/agreement.h"

#include <algorithm>
#include <functional>

#include "banyan/base/check.h"
#include "banyan/base/rank_list.h"
#include "banyan/run/join/wire.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;
using Kind = Agreement::PaxosMessage::Kind;

// A rank that is not the lowest waits before it proposes: kTurn, and kTurnEach for every lower rank, which goes first.
constexpr milliseconds kTurn{200}, kTurnEach{50};
// The least time for a proposal whose patience with late ranks has run out already.
constexpr milliseconds kRound{200};
// A proposer may be quiet for its patience and this much longer.
constexpr milliseconds kSlack{250};
// A ballot of a peer is below this, so that this rank can go on to propose above it.
constexpr Agreement::Ballot kLowestOutOfReach = Agreement::Ballot{1} << 63;

uint32_t proposer_of(Agreement::Ballot ballot) { return static_cast<uint32_t>(ballot); }

bool ascends(const std::vector<uint32_t>& ranks) {
  return std::ranges::adjacent_find(ranks, std::greater_equal<>()) == ranks.end();
}

void write(WireWriter& writer, const Agreement::Proposal& proposal) {
  writer.number(proposal.ballot).ranks(proposal.list.ranks);
  for (const std::string& card : proposal.list.cards) writer.text(card);
}

Agreement::Proposal read_proposal(WireReader& reader) {
  Agreement::Proposal proposal;
  proposal.ballot = reader.number<uint64_t>();
  proposal.list.ranks = reader.ranks();
  for (size_t i = 0; i < proposal.list.ranks.size(); ++i) proposal.list.cards.push_back(reader.text());
  if (!ascends(proposal.list.ranks)) throw Error(ErrorCode::invalid_input, "a list of survivors does not ascend");
  return proposal;
}

bool contains(const std::vector<uint32_t>& ranks, uint32_t rank) {
  return std::ranges::find(ranks, rank) != ranks.end();
}

}  // namespace

std::string Agreement::PaxosMessage::encode() const {
  const uint8_t flags = static_cast<uint8_t>((has_announced ? 1 : 0) | (has_withdrawn ? 2 : 0) | (proposal ? 4 : 0));
  WireWriter writer;
  writer.number(static_cast<uint8_t>(kind)).number(ballot).number(flags).ranks(excluded).ranks(gone).number(least);
  writer.text(card);
  if (proposal) write(writer, *proposal);
  return writer.take();
}

Agreement::PaxosMessage Agreement::PaxosMessage::parse(std::string_view bytes) {
  WireReader reader(bytes);
  PaxosMessage paxos;
  const uint8_t kind = reader.number<uint8_t>();
  if (kind < static_cast<uint8_t>(Kind::prepare) || kind > static_cast<uint8_t>(Kind::excluded)) {
    throw Error(ErrorCode::invalid_input, "there is no paxos of kind " + std::to_string(kind));
  }
  paxos.kind = static_cast<Kind>(kind);
  paxos.ballot = reader.number<uint64_t>();
  if (paxos.ballot >= kLowestOutOfReach) throw Error(ErrorCode::invalid_input, "a ballot that cannot be outbid");
  const uint8_t flags = reader.number<uint8_t>();
  paxos.has_announced = (flags & 1) != 0;
  paxos.has_withdrawn = (flags & 2) != 0;
  paxos.excluded = reader.ranks();
  paxos.gone = reader.ranks();
  paxos.least = reader.number<uint32_t>();
  paxos.card = reader.text();
  if ((flags & 4) != 0) paxos.proposal = read_proposal(reader);
  reader.end();
  const bool needs_proposal = paxos.kind == Kind::accept || paxos.kind == Kind::decided;
  if (needs_proposal && !paxos.proposal) throw Error(ErrorCode::invalid_input, "a paxos without its proposal");
  return paxos;
}

// ---- The ballot of this rank

void Agreement::Round::prepare(Clock::time_point end) {
  phase_ = Phase::preparing;
  end_ = end;
  is_overdue_ = false;
  promises_.clear();
  confirmed_.clear();
}

void Agreement::Round::take_promise(uint32_t from, Promise promise) {
  promises_[from] = std::move(promise);
  pending_.erase(from);
}

void Agreement::Round::extend(Clock::time_point end) {
  is_overdue_ = false;
  end_ = end;
}

void Agreement::Round::accept(uint32_t own, Clock::time_point end) {
  CHECK(phase_ == Phase::preparing) << "phase " << static_cast<int>(phase_);
  phase_ = Phase::accepting;
  end_ = end;
  confirmed_ = {own};
}

void Agreement::Round::decide(uint32_t own) {
  CHECK(phase_ == Phase::accepting) << "phase " << static_cast<int>(phase_);
  phase_ = Phase::deciding;
  confirmed_ = {own};
}

// ---- Events

void Agreement::send(uint32_t to, PaxosMessage paxos) {
  if (to != own_ && !gone_.contains(to)) outbox_.emplace_back(to, std::move(paxos));
}

void Agreement::send_all(const PaxosMessage& paxos) {
  for (const uint32_t rank : question_->candidates) send(rank, paxos);
}

void Agreement::call(SurvivorQuestion question, Clock::time_point now) {
  CHECK(!question_) << "epoch " << question.epoch << " is asked for twice";
  question_ = std::move(question);
  least_ = std::max(least_, question_->rule.least_of(question_->candidates.size()));
  called_at_ = idle_since_ = leader_seen_at_ = now;
  out_.insert(question_->excluded.begin(), question_->excluded.end());
  // Others may have decided, or asked for a promise, before this application called. Now it can answer.
  if (decided_) {
    decide(*decided_);
  } else if (out_.contains(own_)) {
    fail_as_left_out();
  } else if (promised_ != 0 && is_led()) {
    send(proposer_of(promised_), promise_message());
  }
  tick(now);
}

void Agreement::received(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  if (gone_.contains(from)) return;
  // A ballot of its own will be above all that it has seen.
  highest_ = std::max(highest_, paxos.ballot);
  // Answers count for the ballot that this rank leads now; those to earlier ones come too late.
  const bool is_current = paxos.ballot == promised_ && proposer_of(promised_) == own_;
  const Phase phase = round_.phase();
  switch (paxos.kind) {
    case Kind::prepare:
      return on_prepare(from, paxos, now);
    case Kind::accept:
      return on_accept(from, paxos, now);
    case Kind::decide:
      return on_decide(from, paxos, now);
    case Kind::abandon:
      return on_abandon(from, paxos, now);
    case Kind::decided: {
      // (1): a decision is adopted. A proposer that hears of it tells all others, too.
      const bool was_leading = !round_.is_idle();
      step_down(now);
      decide(*paxos.proposal);
      if (was_leading) send_all(paxos);
      return;
    }
    case Kind::excluded:
      if (question_ && !is_settled()) fail_as_left_out();
      return;
    case Kind::rejected:
      if (!round_.is_idle() && paxos.ballot > promised_) step_down(now);
      return;
    case Kind::pending:
      if (is_current && phase == Phase::preparing) round_.take_pending(from);
      return;
    case Kind::promise:
      if (is_current && phase == Phase::preparing) on_promise(from, paxos, now);
      return;
    case Kind::accepted:
    case Kind::learned:
      if (!is_current || phase != (paxos.kind == Kind::accepted ? Phase::accepting : Phase::deciding)) return;
      round_.take_confirmation(from);
      return phase == Phase::accepting ? check_accepted() : check_learned();
    case Kind::withdrawn:
      if (is_current) on_withdrawn(from, now);
      return;
  }
}

void Agreement::give_up(const Error& why) {
  if (question_ && !is_settled()) fail(why.code(), why.message());
}

void Agreement::gone(uint32_t rank, Clock::time_point now, bool is_certain) {
  if (rank == own_) return;
  // A rank may be concluded to be dead first, and be certainly dead later: (2) asks for the latter.
  const bool is_certain_now = is_certain && certain_.insert(rank).second;
  const bool is_news = gone_.insert(rank).second || is_certain_now;
  CHECK(certain_.size() <= gone_.size() && !gone_.contains(own_)) << certain_.size() << " of " << gone_.size();
  if (!is_news || !question_ || is_settled() || !is_possible()) return;
  // A death may be all that was waited for. A list with the dead in it is given up for a new ballot before decide is
  // sent, and never after.
  if (round_.phase() == Phase::preparing) {
    choose_if_ready(now);
  } else if (round_.phase() == Phase::accepting) {
    if (contains(accepted_->list.ranks, rank)) propose(now);
  } else if (round_.phase() == Phase::deciding) {
    check_learned();
  } else if (proposer_of(promised_) == rank) {
    idle_since_ = now;
  }
  tick(now);
}

// ---- As acceptor

// Answers a prepare. The promise tells of the proposal that this rank accepted last, for (2), and of what the new
// proposer must know to choose a list: opinions, cards, and the ranks that this one has seen end.
Agreement::PaxosMessage Agreement::promise_message() const {
  PaxosMessage paxos{.kind = Kind::promise, .ballot = promised_};
  paxos.has_announced = accepted_ && accepted_->ballot == announced_;
  paxos.has_withdrawn = failure_.has_value();
  paxos.proposal = accepted_;
  if (question_) {
    paxos.excluded = question_->excluded;
    paxos.card = question_->card;
    paxos.least = least_;
  }
  paxos.gone.assign(gone_.begin(), gone_.end());
  return paxos;
}

void Agreement::set_promised(Ballot ballot) {
  CHECK(ballot >= promised_) << ballot << " after " << promised_;
  promised_ = ballot;
}

void Agreement::on_prepare(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  // (1): a decision is adopted by whoever proposes later.
  if (decided_) return send(from, {.kind = Kind::decided, .ballot = paxos.ballot, .proposal = decided_});
  if (question_ && contains(question_->excluded, from)) {
    return send(from, {.kind = Kind::excluded, .ballot = paxos.ballot});
  }
  // A promise is given to a higher ballot alone: this rank takes no part in lower ones.
  if (paxos.ballot <= promised_) return send(from, {.kind = Kind::rejected, .ballot = promised_});
  step_down(now);
  set_promised(paxos.ballot);
  is_abandoned_ = false;
  leader_seen_at_ = now;
  if (question_) {
    send(from, promise_message());
  } else {
    send(from, {.kind = Kind::pending, .ballot = paxos.ballot});
  }
}

void Agreement::on_accept(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  if (decided_) return send(from, {.kind = Kind::decided, .ballot = paxos.ballot, .proposal = decided_});
  if (paxos.ballot < promised_) return send(from, {.kind = Kind::rejected, .ballot = promised_});
  // An application that has not called, or knows of a failure, accepts nothing.
  if (!question_ || failure_) return send(from, {.kind = Kind::withdrawn, .ballot = paxos.ballot});
  set_promised(paxos.ballot);
  leader_seen_at_ = now;
  accepted_ = paxos.proposal;
  send(from, {.kind = Kind::accepted, .ballot = paxos.ballot});
}

void Agreement::on_decide(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  if (!decided_) {
    if (paxos.ballot < promised_) return send(from, {.kind = Kind::rejected, .ballot = promised_});
    if (!accepted_ || accepted_->ballot != paxos.ballot) return;  // this rank has not accepted such a proposal
    if (failure_) return send(from, {.kind = Kind::withdrawn, .ballot = paxos.ballot});
    step_down(now);
    decide(*accepted_);
  }
  send(from, {.kind = Kind::learned, .ballot = paxos.ballot});
}

void Agreement::on_abandon(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  out_.insert(from);
  if (paxos.ballot != promised_) return;
  // Nobody leads any more: the next one proposes when its turn comes.
  is_abandoned_ = true;
  idle_since_ = now;
  if (question_) tick(now);
}

void Agreement::decide(Proposal proposal) {
  if (!decided_) decided_ = std::move(proposal);
  if (!question_ || is_settled()) return;
  CHECK(round_.is_idle()) << "phase " << static_cast<int>(round_.phase());
  // The application learns the outcome once: as a member, or that it was left out.
  if (contains(decided_->list.ranks, own_)) {
    CHECK(ascends(decided_->list.ranks)) << list_ranks(decided_->list.ranks);
    survivors_ = decided_->list;
  } else {
    fail_as_left_out();
  }
}

// ---- As proposer

// Begins a ballot above all that were seen. It is this rank's alone, since its number is the lower half.
void Agreement::propose(Clock::time_point now) {
  highest_ = ((highest_ >> 32) + 1) << 32 | own_;
  set_promised(highest_);
  is_abandoned_ = false;
  round_.prepare(std::max(called_at_ + question_->patience, now + kRound));
  for (const uint32_t rank : question_->candidates) {
    if (is_in_play(rank)) send(rank, {.kind = Kind::prepare, .ballot = promised_});
  }
  on_promise(own_, promise_message(), now);
}

void Agreement::on_promise(uint32_t from, const PaxosMessage& paxos, Clock::time_point now) {
  // The promise is noted with all that (2) and the choice of a list need.
  round_.take_promise(from, {.accepted = paxos.proposal,
                             .has_announced = paxos.has_announced,
                             .has_withdrawn = paxos.has_withdrawn,
                             .card = paxos.card});
  if (paxos.has_withdrawn) out_.insert(from);
  // Opinions add up: who is excluded by anybody is out, and the strictest rule counts.
  out_.insert(paxos.excluded.begin(), paxos.excluded.end());
  least_ = std::max(least_, paxos.least);
  for (const uint32_t rank : paxos.gone) {
    if (rank != own_) gone_.insert(rank);
  }
  // This rank called early and its patience has run out. The others begin to call now, so it is patient once more.
  if (round_.is_overdue()) round_.extend(now + question_->patience);
  if (out_.contains(own_)) {
    fail_as_left_out();
  } else if (is_possible()) {
    choose_if_ready(now);
  }
}

std::vector<uint32_t> Agreement::missing() const {
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : question_->candidates) {
    if (is_in_play(rank) && !round_.promises().contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// The ranks for which (2) does not hold: of the highest proposal that was accepted, those that have not answered and
// may live, unless its proposer has answered that it never sent decide.
std::vector<uint32_t> Agreement::doubtful() const {
  // The highest proposal that anybody who answered has accepted.
  const Proposal* highest = nullptr;
  for (const auto& [rank, promise] : round_.promises()) {
    if (promise.accepted && (!highest || promise.accepted->ballot > highest->ballot)) highest = &*promise.accepted;
  }
  if (!highest) return {};
  const uint32_t proposer = proposer_of(highest->ballot);
  // First case of (2): its proposer says that it never sent decide.
  const auto of_proposer = round_.promises().find(proposer);
  if (of_proposer != round_.promises().end() && !of_proposer->second.has_announced) return {};
  std::vector<uint32_t> ranks;
  for (const uint32_t rank : highest->list.ranks) {
    if (rank != proposer && !round_.promises().contains(rank) && !certain_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// Whether a list of these ranks is allowed by the rules, and has more than half of all whose agents answer, or half
// with the lowest: of two such lists at most one exists, so a rank that gave up on the old group early does not found a
// group alone (survivors.h).
bool Agreement::is_enough(const std::vector<uint32_t>& here) const {
  if (here.size() < least_) return false;
  // Those whose agents answer count, too, though their applications have not called.
  std::vector<uint32_t> reachable = here;
  for (const uint32_t rank : round_.pending()) {
    if (is_in_play(rank)) reachable.push_back(rank);
  }
  const uint32_t lowest = *std::ranges::min_element(reachable);
  return 2 * here.size() > reachable.size() || (2 * here.size() == reachable.size() && contains(here, lowest));
}

// The end of `preparing`: once nobody is waited for any more, chooses the list of all that have promised, if (2) holds
// and they are enough. If not, goes on waiting: for an answer, a death, or the deadline.
void Agreement::choose_if_ready(Clock::time_point now) {
  const std::vector<uint32_t> absent = missing();
  const bool waits_for_nobody = std::ranges::all_of(absent, [this](uint32_t rank) { return late_.contains(rank); });
  if (!waits_for_nobody && now < round_.end()) return;
  Proposal proposal{.ballot = promised_, .list = {}};
  for (const auto& [rank, promise] : round_.promises()) {
    if (!is_in_play(rank)) continue;
    proposal.list.ranks.push_back(rank);
    proposal.list.cards.push_back(promise.card);
  }
  if (!doubtful().empty() || !is_enough(proposal.list.ranks)) return;
  // Ranks that were waited for in vain are not waited for again.
  late_.insert(absent.begin(), absent.end());
  round_.accept(own_, now + std::min(question_->patience, question_->answer_time));
  accepted_ = proposal;
  for (const uint32_t rank : proposal.list.ranks) {
    send(rank, {.kind = Kind::accept, .ballot = promised_, .proposal = proposal});
  }
  check_accepted();
}

// The end of `accepting`: everybody on the list has accepted, so decide may be sent.
void Agreement::check_accepted() {
  const std::vector<uint32_t>& ranks = accepted_->list.ranks;
  if (!std::ranges::all_of(ranks, [this](uint32_t rank) { return round_.is_confirmed(rank); })) return;
  round_.decide(own_);
  announced_ = promised_;
  for (const uint32_t rank : ranks) send(rank, {.kind = Kind::decide, .ballot = promised_});
  check_learned();
}

// The end of `deciding`: this rank decides last, when all on the list that live have. Until then a later proposer may
// overrule it if it falls silent. Those that are not on the list are told.
void Agreement::check_learned() {
  const std::vector<uint32_t>& ranks = accepted_->list.ranks;
  if (!std::ranges::all_of(ranks, [this](uint32_t rank) {
        return round_.is_confirmed(rank) || certain_.contains(rank) || out_.contains(rank);
      })) {
    return;
  }
  round_.stop();
  for (const uint32_t rank : question_->candidates) {
    if (!contains(ranks, rank)) send(rank, {.kind = Kind::decided, .ballot = promised_, .proposal = accepted_});
  }
  decide(*accepted_);
}

void Agreement::on_withdrawn(uint32_t from, Clock::time_point now) {
  out_.insert(from);
  if (round_.phase() == Phase::accepting) {
    propose(now);
  } else if (round_.phase() == Phase::deciding) {
    check_learned();
  }
}

void Agreement::step_down(Clock::time_point now) {
  if (round_.is_idle()) return;
  round_.stop();
  idle_since_ = now;
}

// ---- Time

bool Agreement::is_led() const {
  const uint32_t leader = proposer_of(promised_);
  return promised_ != 0 && leader != own_ && !is_abandoned_ && is_in_play(leader);
}

// When this rank is to propose: the lowest that lives at once, each other one later than those below it, so that two
// rarely propose at the same time. If they do, the higher ballot wins and the other steps down.
std::optional<Agreement::Clock::time_point> Agreement::turn() const {
  if (!question_ || is_settled() || !round_.is_idle()) return {};
  const auto below =
      std::ranges::count_if(question_->candidates, [this](uint32_t rank) { return rank < own_ && is_in_play(rank); });
  if (is_led()) return leader_seen_at_ + question_->patience + kSlack + below * kTurnEach;
  // After a proposal of its own that was rejected, this one lets the other finish.
  const bool was_rejected = promised_ != 0 && proposer_of(promised_) == own_;
  if (below == 0 && !was_rejected) return idle_since_;
  return idle_since_ + kTurn + below * kTurnEach;
}

std::optional<Agreement::Clock::time_point> Agreement::next_tick() const {
  if (!question_ || is_settled()) return {};
  Clock::time_point next = question_->deadline;
  if (const std::optional<Clock::time_point> own_turn = turn()) next = std::min(next, *own_turn);
  const bool may_expire = round_.phase() == Phase::preparing || round_.phase() == Phase::accepting;
  if (may_expire && !round_.is_overdue()) next = std::min(next, round_.end());
  return next;
}

void Agreement::tick(Clock::time_point now) {
  if (!question_ || is_settled()) return;
  if (now >= question_->deadline) return expire();
  if (!is_possible()) return;
  // 1. Its own turn to propose.
  if (const std::optional<Clock::time_point> own_turn = turn(); own_turn && now >= *own_turn) propose(now);
  // 2. The end of its patience: it chooses without those who have not come, or proposes without those who have not
  // accepted.
  if (is_settled() || now < round_.end()) return;
  if (round_.phase() == Phase::preparing) {
    round_.set_overdue();
    choose_if_ready(now);
  } else if (round_.phase() == Phase::accepting) {
    for (const uint32_t rank : accepted_->list.ranks) {
      if (!round_.is_confirmed(rank)) late_.insert(rank);
    }
    propose(now);
  }
}

// Whether as many as the rules want may still come. If not, it fails.
bool Agreement::is_possible() {
  const auto& all = question_->candidates;
  const auto count = std::ranges::count_if(all, [this](uint32_t rank) { return is_in_play(rank); });
  // Once decide is sent nothing is given up: somebody may have decided already.
  if (count >= static_cast<std::ptrdiff_t>(least_) || round_.phase() == Phase::deciding) return true;
  fail(ErrorCode::peer_lost, why_too_few());
  return false;
}

std::string Agreement::why_too_few() const {
  std::vector<uint32_t> here, dead, out, late;
  for (const uint32_t rank : question_->candidates) {
    const bool is_here = rank == own_ || (round_.promises().contains(rank) && is_in_play(rank));
    (is_here ? here : gone_.contains(rank) ? dead : out_.contains(rank) ? out : late).push_back(rank);
  }
  std::string text = "the survivors are too few: " +
                     std::string(question_->rule.kind == SurvivorRule::Kind::majority ? "the rule 'majority' needs "
                                                                                      : "there must be at least ") +
                     std::to_string(least_) + " of the last group's " + std::to_string(question_->candidates.size()) +
                     ", and " + list_ranks(here) + agree(here, " are", " is") + " here; missing";
  const char* separator = ": ";
  const auto add = [&](const std::vector<uint32_t>& ranks, const char* why) {
    if (!ranks.empty()) text += std::exchange(separator, ", ") + list_ranks(ranks) + why;
  };
  add(dead, " (dead)");
  add(out, " (excluded, or given up)");
  add(late, " (did not come)");
  return text;
}

void Agreement::expire() {
  std::string why;
  std::vector<uint32_t> here = {own_};
  for (const auto& [rank, promise] : round_.promises()) {
    if (rank != own_ && is_in_play(rank)) here.push_back(rank);
  }
  // Too few is said before too late: it tells more.
  const bool is_short = round_.phase() == Phase::preparing && here.size() < least_;
  if (is_short) return fail(ErrorCode::peer_lost, why_too_few());
  if (round_.is_idle() && least_ > 1 && is_led()) {
    return fail(ErrorCode::peer_lost, "the survivors did not agree in time: rank " +
                                          std::to_string(proposer_of(promised_)) +
                                          ", which leads, has not brought together " + std::to_string(least_) +
                                          " of the last group's " + std::to_string(question_->candidates.size()));
  }
  if (round_.phase() == Phase::preparing) {
    const std::vector<uint32_t> doubted = doubtful();
    why = doubted.empty() ? "have not come to the agreement: " + list_ranks(missing())
                          : "may have agreed already and do not answer: " + list_ranks(doubted);
  } else if (round_.is_idle()) {
    why = is_led() ? "rank " + std::to_string(proposer_of(promised_)) + " has not finished the agreement that it leads"
                   : "nobody led the agreement";
  } else {
    std::vector<uint32_t> waited;
    for (const uint32_t rank : accepted_->list.ranks) {
      if (!round_.is_confirmed(rank) && is_in_play(rank)) waited.push_back(rank);
    }
    why = "have not confirmed the agreement: " + list_ranks(waited);
  }
  fail(ErrorCode::timed_out, "the survivors did not agree in time: " + why);
}

void Agreement::fail_as_left_out() {
  fail(ErrorCode::peer_lost,
       "this rank was left out of the new group" + (decided_ ? " (" + list_ranks(decided_->list.ranks) + ")" : ""));
}

void Agreement::fail(ErrorCode code, const std::string& why) {
  CHECK(!is_settled()) << why;
  failure_ = Error(code, why);
  if (round_.is_idle()) return;
  round_.stop();
  send_all({.kind = Kind::abandon, .ballot = promised_});
}

}  // namespace banyan::run
