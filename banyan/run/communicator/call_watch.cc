#include "banyan/run/communicator/call_watch.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "banyan/base/rank_list.h"
#include "banyan/run/call/mismatch.h"
#include "banyan/run/record/log.h"
#include "banyan/run/record/message_stall.h"

namespace banyan::run {
namespace {

using std::chrono::milliseconds;

// After so long without a move a warning tells of it; each next one comes after twice the time.
constexpr milliseconds kFirstWarning{10'000};
// After so long without a move the ranks compare what they called; each next time after kRarer times the time.
constexpr milliseconds kFirstComparison{1000};
constexpr int kRarer = 2;

// Of the calls that the ranks have told of.
template <typename Answers>
std::optional<Mismatch> difference_between(const Answers& answers) {
  std::vector<CallOfRank> calls;
  for (uint32_t rank = 0; rank < answers.size(); ++rank) {
    for (const OperationRecord& call : answers[rank].news.calls) calls.push_back({.rank = rank, .record = &call});
  }
  return find_mismatch(calls);
}

// The rank that keeps all from going on, as far as these answers tell.
template <typename Answers>
Stall stall_of(const Answers& answers) {
  std::vector<RankState> states;
  for (uint32_t rank = 0; rank < answers.size(); ++rank) {
    states.push_back(answers[rank].news.state(rank, answers[rank].health));
  }
  return diagnose_stall(states);
}

// Where the flight records are; nothing where that folder cannot be made.
std::string hint_at_records() {
  try {
    return "; see 'banyan doctor " + recorder_directory() + "'";
  } catch (const Error&) {
    return "";
  }
}

std::string in_seconds(TimeSource::TimePoint::duration time) {
  return std::to_string(std::chrono::duration_cast<std::chrono::seconds>(time).count()) + " s";
}

}  // namespace

CallWatch::CallWatch(Options options, const TimeSource& time, Patience& patience, Peers& peers, CallLog& log,
                     FirstError& first_error)
    : options_(std::move(options)),
      time_(time),
      patience_(patience),
      peers_(peers),
      log_(log),
      first_error_(first_error),
      is_mute_(std::make_unique<std::atomic<bool>[]>(peers.size())) {}

// ---- While nothing moves ----

void CallWatch::look(const Look& look) {
  first_error_.expect_none();
  look_at_ranks(look);
  const TimePoint now = time_.now();
  const bool has_calls = log_.under_way() > 0;
  // A call that waits for the first time has all of its time, whatever was waited for before.
  const bool is_new = has_calls && !log_.oldest().has_waited();
  const bool has_moved = look.steps != steps_seen_ || is_new;
  if (!has_moved) count_wait(now);
  looked_at_ = now;
  patience_.look(now, has_calls);
  waits_for_ = patience_.counts() && look.rank != options_.rank ? look.rank : kNoRank;
  if (has_calls) {
    log_.notice_wait(now);
    if (!has_moved) log_.oldest().entry.wait_for(look.rank);
  }
  if (has_moved) return restart_at(now, look);
  if (patience_.counts()) look_at_time(look);
}

// A rank that is gone may have done its part before. All it did can be seen once its going is; so this rank looks at
// its own work once more before it judges. Bytes of a rank that has left may come later still than its good-bye, which
// comes over another connection, and may take another way: who sees that connection end waits for that. Others give the
// bytes the time in which a lost packet is sent again, but for little of a short timeout.
void CallWatch::look_at_ranks(const Look& look) {
  constexpr milliseconds kLastBytes{200};
  // A state may be set between these two loads. Then this sight differs from the last one, and nothing is judged yet.
  Sight sight{.changes = peers_.changes(), .rank = look.rank, .steps = look.steps};
  sight.has_left = peers_.health(look.rank) == Health::left;
  sight.is_anybody_dead = sight.changes != changes_settled_ && peers_.first_dead().has_value();
  if (sight == last_sight_) {
    if (sight.is_anybody_dead) expect_nobody_dead();
    changes_settled_ = sight.changes;
    const bool may_come = look.notices_last_bytes || time_.now() - left_at_ < std::min(kLastBytes, look.timeout / 4);
    if (sight.has_left && !may_come) expect_present(look);
  }
  const bool had_left = last_sight_.has_left && last_sight_.rank == sight.rank && last_sight_.steps == sight.steps;
  if (sight.has_left && !had_left) left_at_ = time_.now();
  last_sight_ = sight;
}

void CallWatch::count_wait(TimePoint now) {
  if (waits_for_ != kNoRank) log_.count_wait(waits_for_, now - looked_at_);
  looked_at_ = now;
}

void CallWatch::restart_at(TimePoint now, const Look& look) {
  steps_seen_ = look.steps;
  patience_.begin(now);
  compare_after_ = std::min(kFirstComparison, look.timeout / 4);
  warn_after_ = kFirstWarning;
  has_asked_last_ = false;
  if (silence_watch_ != nullptr) silence_watch_.reset();
}

void CallWatch::look_at_time(const Look& look) {
  if (patience_.waited() >= look.timeout) {
    throw Error(ErrorCode::timed_out, "nothing has moved for " + std::to_string(look.timeout.count()) + " ms while " +
                                          peers_.name_of(options_.rank) + " waited " + own_wait(look.rank));
  }
  if (patience_.waited() > warn_after_) warn(look);
  compare_calls(look.timeout);
  if (silence_watch_ == nullptr && patience_.waited() > look.timeout / 4) silence_watch_ = peers_.watch_for_silence();
}

std::string CallWatch::awaited(uint32_t rank) const {
  return rank == options_.rank ? "nobody that it knows" : peers_.name_of(rank);
}

// What this rank itself is in: "for rank 1 in allreduce #17 of 1024 float32 sum", "to send 40 bytes (tag 0) to rank 1".
std::string CallWatch::own_wait(uint32_t rank) const {
  const std::string for_rank = "for " + awaited(rank);
  if (log_.under_way() > 0) return for_rank + " in " + log_.describe_oldest();
  const RankNews own = log_.news();
  const std::string words = words_of_wait(own.state(options_.rank, Health::alive));
  constexpr std::string_view kVerb = "waits ";
  return words.empty() ? for_rank : words.substr(kVerb.size()) + peers_.legend();
}

milliseconds CallWatch::left_of(milliseconds timeout) const {
  return std::max(std::chrono::ceil<milliseconds>(timeout - patience_.waited()), milliseconds(0));
}

// Tells a person what this rank waits for. Over connections that is a neighbour, which may wait itself: so the others
// are asked whom they wait for, and the rank at the end of the chain is named.
void CallWatch::warn(const Look& look) {
  constexpr milliseconds kAnswerTime{500};
  std::string whom = awaited(look.rank), why;
  const std::string call = log_.under_way() > 0 ? log_.describe_oldest() : "a message";
  const TimePoint::duration waited = patience_.waited();
  const Stall stall = stall_of(ask_ranks(std::min(kAnswerTime, left_of(look.timeout))));
  patience_.go_on(time_.now());
  if (!stall.ranks.empty()) {
    whom = list_ranks(stall.ranks);
    why = ": " + stall.sentence;
  }
  BANYAN_LOG(warning) << "communicator '" << options_.communicator << "': still waiting for " << whom << " (" << call
                      << "), " << in_seconds(waited) << " of " << in_seconds(look.timeout) << why;
  warn_after_ *= 2;
}

// Ranks that call different things may wait for each other and never exchange a word. So they compare their calls now
// and then, and for the last time so long before the timeout that all answers are there when it comes.
void CallWatch::compare_calls(milliseconds timeout) {
  constexpr milliseconds kAnswerTime{500}, kLastAnswerTime{1000};
  const milliseconds last = std::min(kLastAnswerTime, timeout / 4), left = left_of(timeout);
  const bool is_last = !has_asked_last_ && left <= last;
  if (!is_last && patience_.waited() <= compare_after_) return;
  compare_after_ *= kRarer;
  if (has_asked_last_) return;
  has_asked_last_ = is_last;
  last_answers_ = ask_ranks(std::min(left, is_last ? last : kAnswerTime));
  patience_.go_on(time_.now());
  if (const auto found = difference_between(last_answers_)) throw Error(ErrorCode::mismatch, found->sentence);
}

void CallWatch::expect_nobody_dead() const {
  if (const std::optional<uint32_t> dead = peers_.first_dead()) {
    throw Error(ErrorCode::peer_lost, peers_.name_of(*dead) + " is dead: " + peers_.why(*dead));
  }
}

void CallWatch::expect_present(const Look& look) const {
  if (peers_.health(look.rank) != Health::left || look.can_do_without) return;
  std::string text = peers_.name_of(look.rank) + " has left";
  if (log_.under_way() > 0) text += ": it ended its part before this rank's " + log_.describe_oldest();
  throw Error(ErrorCode::peer_lost, text);
}

// ---- The answers of others ----

Health CallWatch::health_of(uint32_t rank) const {
  const Health health = peers_.health(rank);
  const bool is_mute = is_mute_[rank].load(std::memory_order_acquire);
  return health == Health::alive && is_mute ? Health::silent : health;
}

CallWatch::Answers CallWatch::ask_ranks(milliseconds at_most) {
  Answers answers;
  for (const PeerReport& report : peers_.ask(at_most)) {
    const bool has_answered = report.health == Health::alive;
    is_mute_[answers.size()].store(report.health == Health::silent, std::memory_order_release);
    answers.push_back({.news = has_answered ? RankNews::decode(report.text) : RankNews(), .health = report.health});
  }
  return answers;
}

// A rank that did not answer just before the timeout need not be given as much time again. One that did, and is too
// busy to do so once more, is as it was; unless that tells nothing of why all stand still: then it is asked once more,
// since it may have been stopped meanwhile.
CallWatch::Answers CallWatch::ask_about_timeout() {
  constexpr milliseconds kAnswerTime{100}, kLastAnswerTime{1000};
  std::vector<bool> was_mute;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) was_mute.push_back(is_mute_[rank]);
  Answers answers = ask_ranks(kAnswerTime);
  bool is_any_mute = false;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) {
    if (!is_mute_[rank] || was_mute[rank]) continue;
    is_any_mute = true;
    answers[rank] = last_answers_[rank];
    is_mute_[rank].store(false, std::memory_order_release);
  }
  const FindingKind kind = is_any_mute ? stall_of(answers).kind : FindingKind::late;
  const bool tells_nothing = kind == FindingKind::none || kind == FindingKind::circle || kind == FindingKind::lost ||
                             kind == FindingKind::stuck;
  return tells_nothing ? ask_ranks(kLastAnswerTime) : answers;
}

// ---- The cause of an error ----

Error CallWatch::cause_of(const Error& error) {
  if (first_error_.is_set()) return first_error_.get();
  switch (error.code()) {
    case ErrorCode::peer_lost:
      return cause_of_loss(error);
    case ErrorCode::mismatch:
    case ErrorCode::timed_out:
      return explained(error);
    default:
      return error;
  }
}

// A rank that loses a connection learns only afterwards that the process at the other end died, or why it gave up.
Error CallWatch::cause_of_loss(const Error& error) {
  constexpr milliseconds kNewsTime{400}, kLastNews{50};
  // A rank that has said good-bye may have gone because of a death, but then its own news of that is on the way.
  bool has_anybody_left = false;
  for (uint32_t rank = 0; rank < peers_.size(); ++rank) has_anybody_left |= peers_.health(rank) == Health::left;
  const TimePoint end = time_.now() + (has_anybody_left ? kLastNews : kNewsTime);
  for (;;) {
    const uint32_t seen = first_error_.news();
    if (first_error_.is_set()) return first_error_.get();
    try {
      expect_nobody_dead();
    } catch (const Error& death) {
      return death;
    }
    const milliseconds left = std::chrono::ceil<milliseconds>(end - time_.now());
    if (left.count() <= 0) return error;
    first_error_.wait_for_news(seen, left);
  }
}

// A rank sees little of a difference between calls: what comes to it at the wrong time, or nothing at all. All of them
// together know what each has called, and whom it waits for.
Error CallWatch::explained(const Error& error) {
  constexpr milliseconds kAnswerTime{1000};
  const bool has_asked = error.code() == ErrorCode::timed_out && has_asked_last_;
  const Answers answers = has_asked ? ask_about_timeout() : ask_ranks(kAnswerTime);
  if (const auto found = difference_between(answers)) {
    return Error(ErrorCode::mismatch, found->sentence + peers_.legend());
  }
  if (first_error_.is_set()) return first_error_.get();  // others may have gone because of that
  if (error.code() == ErrorCode::mismatch) return Error(error.code(), error.message() + peers_.legend());
  const Stall stall = stall_of(answers);
  return Error(error.code(),
               error.message() + (stall.sentence.empty() ? "" : ": " + stall.sentence) + hint_at_records());
}

}  // namespace banyan::run
