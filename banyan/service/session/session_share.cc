#include "banyan/service/session/session_share.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "banyan/compose/call_traffic.h"
#include "banyan/service/share/sharer.h"

namespace banyan::service {
namespace {

constexpr size_t kMostLoads = 256;

// Of calls with counts per rank these tell one from another.
uint64_t amount_of(const run::Call& call) {
  const auto sum = [](std::span<const size_t> counts) {
    return std::accumulate(counts.begin(), counts.end(), size_t{0});
  };
  return call.count + sum(call.send_counts) + sum(call.recv_counts);
}

// `most` as RateGate has it, and no more than `cap`, which is infinite where there is none.
uint64_t slower(uint64_t most, double cap) {
  if (cap >= static_cast<double>(most == VirtualQueue::kUnlimited ? UINT64_MAX : most)) return most;
  return std::max<uint64_t>(1, static_cast<uint64_t>(cap));
}

}  // namespace

double cap_of(const Grant& grant) { return grant.cap ? static_cast<double>(*grant.cap) : Steward::kNoLimit; }

std::shared_ptr<const SessionShare::Load> SessionShare::load_of(const run::Call& call,
                                                                const std::shared_ptr<run::PlanSource>& source) {
  // Loads are those of one source of plans: another one has other footprints.
  if (source_.lock() != source) {
    source_ = source;
    loads_.clear();
  }
  const LoadKey key{call.kind, call.type, amount_of(call), call.other};
  if (const auto found = loads_.find(key); found != loads_.end()) return found->second;
  auto load = std::make_shared<Load>();
  for (const auto& use : source->bytes_on_links(call)) {
    load->links.push_back({.link = use.link, .bytes = use.bytes});
    load->busiest = std::max(load->busiest, use.bytes);
  }
  // The call is no faster than its busiest link lets it, whatever the steward says.
  double least_seconds = 0;
  for (const LinkUse& use : load->links) {
    least_seconds = std::max(least_seconds, use.bytes / options_.capacities->at(use.link));
  }
  if (least_seconds > 0) load->most = std::max<uint64_t>(1, static_cast<uint64_t>(load->busiest / least_seconds));
  // Programs make few different calls. For others the cache begins anew.
  if (loads_.size() >= kMostLoads) loads_.clear();
  loads_.emplace(key, load);
  return load;
}

void SessionShare::begin(uint64_t number, const run::Call& call, const std::shared_ptr<run::PlanSource>& source) {
  std::shared_ptr<const Load> load = load_of(call, source);
  // Of an all-to-all-v no rank knows what a plan would have to carry.
  const auto question = compose::question_of(call, options_.ranks, source->plans_all_to_all());
  if (question && question->is_even) {
    planned_by_ = source;
    planned_ = *question;
    planned_load_ = load;
  }
  options_.gate->begin(number, load->busiest, load->most);
  const auto known =
      std::find_if(calls_.begin(), calls_.end(), [&](const UnderWay& each) { return each.number == number; });
  // A call that begins again by another plan keeps its place and its terms.
  if (known != calls_.end()) {
    known->load = std::move(load);
    limit(*known);
    return;
  }
  UnderWay& begun = calls_.emplace_back(UnderWay{.number = number, .load = std::move(load), .terms = {}});
  if (const auto node = expected_.extract(number); !node.empty()) begun.terms = node.mapped();
  limit(begun);
}

SessionShare::Terms SessionShare::terms_by(const Grant& grant) const {
  return {.sharer = sharer_of(options_.tenant, grant.has_own_share),
          .weight = static_cast<double>(grant.weight),
          .share_class = grant.share_class,
          .cap = cap_of(grant)};
}

SessionShare::Terms SessionShare::terms_of(const UnderWay& call) const {
  const CallReport& about = options_.about;
  return call.terms.value_or(
      Terms{.sharer = about.sharer, .weight = about.weight, .share_class = about.share_class, .cap = about.cap});
}

// Caps are kept where nobody else wants the links, too, and before the steward knows of the call.
void SessionShare::limit(const UnderWay& call) {
  options_.gate->limit(call.number, slower(call.load->most, terms_of(call).cap));
}

void SessionShare::set_terms(const Grant& grant) {
  CallReport& about = options_.about;
  about.sharer = sharer_of(options_.tenant, grant.has_own_share);
  about.weight = grant.weight;
  about.share_class = grant.share_class;
  about.cap = cap_of(grant);
  for (const UnderWay& call : calls_) limit(call);
}

void SessionShare::end(uint64_t number) {
  options_.gate->end(number);
  std::erase_if(calls_, [&](const UnderWay& call) {
    if (call.number != number) return false;
    // Only the session that reports counts the bytes of the whole call, so they count once.
    if (options_.send && options_.carried) {
      for (const LinkUse& use : call.load->links) options_.carried->add(options_.tenant, use.link, use.bytes);
    }
    return true;
  });
  if (calls_.empty()) idle_since_ = options_.now();
}

std::optional<SessionShare::Time> SessionShare::report_due() const {
  if (!options_.send || (calls_.empty() && !reported_)) return std::nullopt;
  // Another call, or other terms, are told as soon as may be; progress now and then; the end of all calls a little
  // later, since the next one may begin at once.
  const Time soonest = reported_at_ + kLeastPause;
  if (calls_.empty()) return std::max(soonest, idle_since_ + kIdle);
  const bool is_reported = calls_.front().load == reported_ && terms_of(calls_.front()) == reported_terms_;
  return is_reported ? reported_at_ + kRefresh : soonest;
}

void SessionShare::look(bool has_messages) {
  has_messages_ = has_messages;
  look_at_lanes();
  report_calls();
}

void SessionShare::look_at_lanes() {
  if (!has_lanes_in_use()) return;
  const Time now = options_.now();
  if (now < lanes_->next()) return;
  // Lanes may go at the lower of the steward's rate and the cap.
  std::optional<uint64_t> allowed = options_.gate->steward_rate();
  const double cap = calls_.empty() ? options_.about.cap : terms_of(calls_.front()).cap;
  if (cap < static_cast<double>(allowed.value_or(UINT64_MAX))) allowed = static_cast<uint64_t>(cap);
  lanes_->look(allowed, now);
}

void SessionShare::report_calls() {
  const std::optional<Time> due = report_due();
  if (!due) return;
  const Time now = options_.now();
  if (now < *due) return;
  CallReport report = options_.about;
  report.number = static_cast<uint64_t>(now.count());
  report.is_under_way = !calls_.empty();
  // The oldest call is the one that is told.
  reported_ = calls_.empty() ? nullptr : calls_.front().load;
  if (reported_) {
    reported_terms_ = terms_of(calls_.front());
    report.sharer = reported_terms_.sharer;
    report.weight = reported_terms_.weight;
    report.share_class = reported_terms_.share_class;
    report.cap = reported_terms_.cap;
    report.footprint = reported_->links;
    report.done = options_.gate->done(calls_.front().number);
  }
  reported_at_ = now;
  options_.send(report);
}

std::optional<PlannedCall> SessionShare::planned() const {
  if (!planned_by_) return std::nullopt;
  return PlannedCall{.source = planned_by_, .question = planned_, .links = planned_load_->links, .adopted = {}};
}

std::optional<SessionShare::Time> SessionShare::next() const {
  std::optional<Time> next = options_.gate->opens_at();
  const auto hasten = [&](Time time) { next = std::min(next.value_or(time), time); };
  if (const std::optional<Time> due = report_due()) hasten(*due);
  if (has_lanes_in_use()) hasten(lanes_->next());
  return next;
}

}  // namespace banyan::service
