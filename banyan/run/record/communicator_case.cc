#include "banyan/run/record/communicator_case.h"

#include <algorithm>
#include <set>

#include "banyan/base/rank_list.h"
#include "banyan/base/text.h"
#include "banyan/base/words.h"
#include "banyan/run/call/mismatch.h"
#include "banyan/run/record/message_stall.h"
#include "banyan/run/record/straggler.h"

namespace banyan::run {
namespace {

constexpr int64_t kSecond = 1'000'000'000;
constexpr size_t kMaxMessages = 3;

bool reports_trouble(const RankDump& dump) { return dump.reason != DumpReason::asked; }

bool knows_of_nothing_better(Health health) { return health == Health::unknown || health == Health::alive; }

const OperationRecord* find_collective(const RankDump& dump, uint64_t sequence) {
  for (const OperationRecord& record : dump.operations) {
    if (is_collective(record.kind) && record.sequence == sequence) return &record;
  }
  return nullptr;
}

}  // namespace

CommunicatorCase::CommunicatorCase(std::string title, const std::vector<const RankDump*>& dumps)
    : title_(std::move(title)) {
  choose_dumps(dumps);
  choose_moment();
  for (uint32_t rank = 0; rank < size_; ++rank) {
    const RankDump* dump = dump_of(rank);
    states_.push_back(dump != nullptr ? state_of(*dump) : RankState{.rank = rank, .health = Health::unknown});
  }
  record_health();
  find_mismatch_in_history();
  stall_ = diagnose_stall(states_);
}

const RankDump* CommunicatorCase::dump_of(uint32_t rank) const {
  const auto found = dumps_.find(rank);
  return found == dumps_.end() ? nullptr : found->second;
}

Finding CommunicatorCase::finding(FindingKind kind, std::vector<uint32_t> ranks, uint64_t sequence,
                                  std::string sentence) const {
  return {.kind = kind,
          .communicator = title_,
          .ranks = std::move(ranks),
          .sequence = sequence,
          .sentence = std::move(sentence)};
}

// Comparable between ranks: on one host CLOCK_MONOTONIC itself, which nobody sets.
int64_t CommunicatorCase::clock(const RankDump& dump, int64_t time) const {
  return share_a_clock_ ? time : time + dump.wall_offset;
}

void CommunicatorCase::choose_dumps(const std::vector<const RankDump*>& dumps) {
  const auto wall = [](const RankDump* dump) { return dump->time + dump->wall_offset; };
  const RankDump* newest = *std::ranges::max_element(dumps, [&](auto* a, auto* b) { return wall(a) < wall(b); });
  size_ = newest->size;
  for (const RankDump* dump : dumps) {
    if (dump->size != size_) {
      contradiction_ = finding(FindingKind::contradiction, {dump->rank}, 0,
                               "the records are of different runs: rank " + std::to_string(dump->rank) + " tells of " +
                                   std::to_string(dump->size) + " ranks, rank " + std::to_string(newest->rank) +
                                   " of " + std::to_string(size_));
      contradiction_->because = {"the older records were left out"};
      continue;
    }
    const RankDump*& known = dumps_[dump->rank];
    if (known == nullptr || wall(known) < wall(dump)) known = dump;
  }
}

void CommunicatorCase::choose_moment() {
  const std::string& host = dumps_.begin()->second->host;
  share_a_clock_ = std::ranges::all_of(dumps_, [&](auto& entry) { return entry.second->host == host; });
  is_in_trouble_ = std::ranges::any_of(dumps_, [](auto& entry) { return reports_trouble(*entry.second); });
  moment_ = INT64_MAX;
  for (const auto& [rank, dump] : dumps_) {
    if (reports_trouble(*dump) == is_in_trouble_) moment_ = std::min(moment_, clock(*dump, dump->time));
  }
}

RankState CommunicatorCase::state_of(const RankDump& dump) const {
  RankState state{.rank = dump.rank};
  state.messages = &dump.messages;
  state.now = dump.time;
  const OperationRecord* newest = nullptr;
  uint64_t before_the_first = 0;
  for (const OperationRecord& record : dump.operations) {
    if (!is_collective(record.kind)) continue;
    if (clock(dump, record.begin) <= moment_) {
      newest = &record;
    } else if (newest == nullptr && before_the_first == 0) {
      before_the_first = record.sequence - 1;
    }
  }
  // A dump from before the trouble tells nothing of it.
  if (clock(dump, dump.time) < moment_ - kSecond) state.health = Health::unknown;
  if (newest == nullptr) {
    state.sequence = before_the_first;
    return state;
  }
  const bool ended_later = newest->end != 0 && clock(dump, newest->end) > moment_;
  state.sequence = newest->sequence;
  state.state = ended_later ? OperationState::running : newest->state;
  state.step = newest->step;
  state.operation = newest;
  if (state.is_inside()) {
    state.waits_for = newest == dump.newest() && dump.waits_for != kNoRank ? dump.waits_for : newest->waits_for;
  }
  const int64_t begun_or_ended = !state.is_inside() && newest->end != 0 ? newest->end : newest->begin;
  state.since = std::max<int64_t>(0, moment_ - clock(dump, begun_or_ended));
  return state;
}

void CommunicatorCase::record_health() {
  for (const auto& [by, dump] : dumps_) {
    for (const PeerRecord& peer : dump->peers) {
      Health& worst = claimed_.emplace(peer.rank, peer.health).first->second;
      worst = std::max(worst, peer.health);
      RankState& state = states_[peer.rank];
      if (state.health == Health::unknown) state.sequence = std::max(state.sequence, peer.sequence);
    }
  }
  for (RankState& state : states_) {
    const auto claim = claimed_.find(state.rank);
    if (claim == claimed_.end() || knows_of_nothing_better(claim->second)) continue;
    // Who wrote after the trouble had begun lived then, and was there; it ended, or left, because of it.
    const RankDump* own = dump_of(state.rank);
    const bool wrote = own != nullptr && is_in_trouble_ && clock(*own, own->time) >= moment_;
    const bool lived = wrote && claim->second != Health::silent;
    if (!lived) state.health = claim->second;
  }
}

void CommunicatorCase::find_mismatch_in_history() {
  std::vector<CallOfRank> calls;
  for (const auto& [rank, dump] : dumps_) {
    for (const OperationRecord& record : dump->operations) {
      if (is_collective(record.kind)) calls.push_back({.rank = rank, .record = &record});
    }
  }
  const std::optional<Mismatch> found = find_mismatch(calls);
  if (!found) return;
  mismatch_ = finding(FindingKind::mismatch, found->odd, found->sequence, found->sentence);
  const auto usual = std::ranges::find_if(calls, [&](const CallOfRank& call) {
    return call.record->sequence == found->sequence && !std::ranges::binary_search(found->odd, call.rank);
  });
  if (usual == calls.end()) return;  // no majority
  for (const uint32_t rank : found->odd) {
    const OperationRecord* odd = find_collective(*dumps_.at(rank), found->sequence);
    const OperationRecord* odd_next = find_collective(*dumps_.at(rank), found->sequence + 1);
    const OperationRecord* usual_next = find_collective(*dumps_.at(usual->rank), found->sequence + 1);
    if (usual_next != nullptr && signature(*usual_next) == signature(*odd)) {
      mismatch_->because.push_back("rank " + std::to_string(rank) + " seems to have left out " +
                                   describe(*usual->record) + ", for the others made its call next");
    } else if (odd_next != nullptr && signature(*odd_next) == signature(*usual->record)) {
      mismatch_->because.push_back("rank " + std::to_string(rank) +
                                   " seems to have made one call more than the others, for its next call is theirs");
    }
  }
}

// A snapshot of a healthy run shows ranks in calls that others are just about to make.
bool CommunicatorCase::is_worth_reporting(const Stall& stall) const {
  if (stall.kind == FindingKind::none) return false;
  const bool is_about_waiting = stall.kind == FindingKind::late || stall.kind == FindingKind::stuck ||
                                stall.kind == FindingKind::lost || stall.kind == FindingKind::circle ||
                                stall.kind == FindingKind::message;
  if (!is_about_waiting || is_in_trouble_) return true;
  return std::ranges::any_of(states_, [](const RankState& state) {
    return (state.is_inside() && state.since >= kSecond) || state.awaited_for() >= kSecond;
  });
}

// Two that call each other silent or dead, and both live.
std::optional<Finding> CommunicatorCase::cut_network() const {
  std::set<std::pair<uint32_t, uint32_t>> deaf;  // who does not hear whom
  for (const auto& [by, dump] : dumps_) {
    for (const PeerRecord& peer : dump->peers) {
      const bool is_lost = peer.health == Health::silent || peer.health == Health::dead;
      if (is_lost && dumps_.contains(peer.rank)) deaf.emplace(by, peer.rank);
    }
  }
  std::map<std::vector<uint32_t>, std::vector<uint32_t>> sides;  // by whom they do not hear
  for (const auto& [rank, dump] : dumps_) {
    std::vector<uint32_t> unheard;
    for (auto pair = deaf.lower_bound({rank, 0}); pair != deaf.end() && pair->first == rank; ++pair) {
      if (deaf.contains({pair->second, rank})) unheard.push_back(pair->second);
    }
    if (!unheard.empty()) sides[unheard].push_back(rank);
  }
  if (sides.empty()) return std::nullopt;
  const auto smallest = std::ranges::min_element(sides, [](const auto& a, const auto& b) {
    return std::pair(a.second.size(), a.second) < std::pair(b.second.size(), b.second);
  });
  const auto& [unheard, side] = *smallest;
  return Finding{.kind = FindingKind::silent,
                 .communicator = title_,
                 .ranks = side,
                 .sequence = states_[side.front()].sequence,
                 .sentence = list_ranks(side) + " and " + list_ranks(unheard) +
                             " do not hear each other, though all of them live: the network between them is cut",
                 .because = {"each side calls the other silent or dead, and each wrote a record"}};
}

std::optional<Finding> CommunicatorCase::main_finding() const {
  if (mismatch_) return mismatch_;
  if (auto cut = cut_network()) return cut;
  if (!is_worth_reporting(stall_)) return std::nullopt;
  return finding(stall_.kind, stall_.ranks, stall_.sequence, stall_.sentence);
}

std::vector<uint32_t> CommunicatorCase::missing() const {
  std::vector<uint32_t> ranks;
  for (uint32_t rank = 0; rank < size_; ++rank) {
    if (!dumps_.contains(rank)) ranks.push_back(rank);
  }
  return ranks;
}

// What one can say of the accused beyond the sentence.
std::vector<std::string> CommunicatorCase::evidence(const Finding& finding) const {
  std::vector<std::string> lines;
  constexpr size_t kMost = 4;
  for (size_t i = 0; i < std::min(kMost, finding.ranks.size()); ++i) {
    const uint32_t rank = finding.ranks[i];
    const std::string who = "rank " + std::to_string(rank);
    const RankDump* dump = dump_of(rank);
    if (dump == nullptr) {
      const auto claim = claimed_.find(rank);
      const std::string seen = claim == claimed_.end() || claim->second == Health::unknown
                                   ? ""
                                   : "; others called it " + std::string(to_string(claim->second));
      if (finding.kind != FindingKind::missing || !seen.empty()) lines.push_back(who + " wrote no record" + seen);
      continue;
    }
    lines.push_back(who + " is process " + std::to_string(dump->pid) + " (" + dump->program + ") on " + dump->host);
    if (states_[rank].health == Health::silent) {
      lines.push_back(who + " wrote a record all the same: it was stopped, or cut off, for a time only");
    }
    const int64_t age = moment_ - clock(*dump, dump->time);
    if (age > kSecond)
      lines.push_back("its record is " + format_duration(age) + " older than the trouble, and tells nothing of it");
    const OperationRecord* later = find_collective(*dump, finding.sequence);
    if (finding.kind != FindingKind::late || later == nullptr) continue;
    const int64_t delay = clock(*dump, later->begin) - moment_;
    if (delay > 0)
      lines.push_back(who + " called it " + format_duration(delay) + " after the first record was written");
  }
  return lines;
}

// "rank 0 says: ...", equal ones once.
std::vector<std::string> CommunicatorCase::messages() const {
  std::map<std::string, std::vector<uint32_t>> by_text;
  for (const auto& [rank, dump] : dumps_) {
    if (!dump->message.empty()) by_text[dump->message].push_back(rank);
  }
  std::vector<std::string> lines;
  for (const auto& [text, ranks] : by_text) {
    if (lines.size() == kMaxMessages) break;
    lines.push_back(list_ranks(ranks) + agree(ranks, " say: ", " says: ") + text);
  }
  return lines;
}

std::optional<Finding> CommunicatorCase::missing_records() const {
  const std::vector<uint32_t> ranks = missing();
  if (ranks.empty()) return std::nullopt;
  return finding(FindingKind::missing, ranks, 0, list_ranks(ranks) + " wrote nothing, and nobody says why");
}

std::optional<Finding> CommunicatorCase::reported() const {
  std::vector<uint32_t> ranks;
  for (const auto& [rank, dump] : dumps_) {
    if (reports_trouble(*dump)) ranks.push_back(rank);
  }
  if (ranks.empty()) return std::nullopt;
  const RankDump& first = *dumps_.at(ranks.front());
  return Finding{.kind = FindingKind::reported,
                 .communicator = title_,
                 .ranks = ranks,
                 .sequence = states_[ranks.front()].sequence,
                 .sentence = list_ranks(ranks) + agree(ranks, " report ", " reports ") +
                             (first.reason == DumpReason::timeout ? "a timeout" : "an error") +
                             ", but nothing in the records explains it",
                 .because = {"no rank waits in a call, and all ranks that wrote made the same calls"}};
}

std::vector<Finding> CommunicatorCase::findings() const {
  std::vector<Finding> found;
  if (contradiction_) found.push_back(*contradiction_);
  std::optional<Finding> cause = main_finding();
  const bool is_explained = cause.has_value();
  if (!is_explained) cause = reported();
  if (!is_explained && !cause) cause = missing_records();
  if (cause) {
    for (auto& lines : {evidence(*cause), messages()}) {
      cause->because.insert(cause->because.end(), lines.begin(), lines.end());
    }
    const std::vector<uint32_t> silent_ones = missing();
    std::vector<uint32_t> others;
    std::set_difference(silent_ones.begin(), silent_ones.end(), cause->ranks.begin(), cause->ranks.end(),
                        std::back_inserter(others));
    if (!others.empty()) cause->because.push_back(list_ranks(others) + " wrote no record");
    found.push_back(std::move(*cause));
  }
  std::vector<const RankDump*> all;
  for (const auto& [rank, dump] : dumps_) all.push_back(dump);
  if (const auto straggler = find_straggler(all)) {
    found.push_back(finding(FindingKind::straggler, {straggler->rank}, 0, straggler->sentence));
  }
  return found;
}

std::string CommunicatorCase::words(const RankState& state) const {
  if (!dumps_.contains(state.rank)) return "wrote no record";
  const std::string open = words_of_open_messages(state);
  const std::string open_too = open.empty() ? "" : "; " + open;
  if (state.awaited() == nullptr) return words_of_calls(state) + open_too;
  const std::string wait = words_of_wait(state) + " for " + format_duration(state.awaited_for());
  return (state.is_inside() ? words_of_calls(state) + "; " : "") + wait + open_too;
}

std::string CommunicatorCase::words_of_calls(const RankState& state) const {
  const bool had_messages = state.messages != nullptr && state.messages->begun > 0;
  if (state.sequence == 0 && had_messages)
    return "has called nothing yet but " + plural(state.messages->begun, "message");
  if (state.operation == nullptr) return state.sequence == 0 ? "has called nothing yet" : "between calls";
  const std::string since = state.since > 0 ? format_duration(state.since) : "";
  if (!state.is_inside()) {
    return "between calls; its last was " + name(*state.operation) +
           (since.empty() ? "" : ", finished " + since + " before");
  }
  std::string text = (state.state == OperationState::waiting ? "queued " : "in ") + name(*state.operation);
  if (!since.empty()) text += " for " + since;
  text += ", step " + std::to_string(state.step);
  return state.waits_for == kNoRank ? text : text + ", waits for rank " + std::to_string(state.waits_for);
}

CommunicatorReport CommunicatorCase::report() const {
  CommunicatorReport report{.title = title_, .size = size_, .missing = missing(), .ranks = {}};
  for (const RankState& state : states_) {
    const RankDump* dump = dump_of(state.rank);
    if (dump == nullptr && !claimed_.contains(state.rank)) continue;
    report.ranks.push_back({.rank = state.rank,
                            .health = state.health,
                            .host = dump != nullptr ? dump->host : "",
                            .pid = dump != nullptr ? dump->pid : 0,
                            .words = words(state)});
  }
  return report;
}

}  // namespace banyan::run
