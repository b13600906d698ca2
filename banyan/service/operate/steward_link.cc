#include "banyan/service/operate/steward_link.h"

#include <algorithm>
#include <set>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

using std::chrono::duration_cast;

// What a session is told: bytes per second on the link that a call uses most. 0: no limit.
uint64_t rate_of(const Steward::Row& row) {
  if (row.speed.rate >= static_cast<double>(UINT64_MAX)) return 0;
  return std::max<uint64_t>(1, static_cast<uint64_t>(row.speed.rate));
}

}  // namespace

StewardLink::StewardLink(run::Reactor& reactor, CardCache& cards, Mesh& mesh, std::string own, Steward::Options options,
                         RouteAdvice& routes)
    : reactor_(reactor),
      cards_(cards),
      mesh_(mesh),
      own_(std::move(own)),
      steward_(std::move(options)),
      routes_(routes),
      repetition_(reactor_.after(kRepeat, [this] { repeat(); })) {}

StewardLink::~StewardLink() {
  reactor_.cancel(repetition_);
  if (decision_) reactor_.cancel(*decision_);
}

const std::string& StewardLink::steward_host() {
  cards_.look_if_old([] {});
  const std::map<std::string, HostCard>& cards = cards_.cards();
  const auto found =
      std::find_if(cards.begin(), cards.end(), [&](const auto& card) { return mesh_.reaches(card.first); });
  return found == cards.end() ? own_ : found->first;
}

void StewardLink::report(const Activity& activity) {
  try {
    const std::string& steward = steward_host();
    if (mesh_.is_own(steward)) return receive(activity);
    mesh_.send(steward, encode(activity));
  } catch (const Error& error) {
    BANYAN_LOG(debug) << "how '" << activity.report.communicator << "' goes was not reported: " << error.what();
  }
}

void StewardLink::receive(const Activity& activity) {
  steward_.report(activity.report, now());
  sent_[activity.report.communicator].members = activity.members;
  routes_.record(activity);
  decide_at(reactor_.now() + kCollect);
}

void StewardLink::decide_at(run::Reactor::TimePoint when) {
  if (decision_ && decides_at_ <= when) return;
  if (decision_) reactor_.cancel(*decision_);
  decides_at_ = when;
  decision_ = reactor_.at(when, [this] { decide(); });
}

void StewardLink::decide() {
  decision_.reset();
  std::set<std::string> changed;
  for (const Steward::Speed& speed : steward_.decide(now())) changed.insert(speed.communicator);
  std::set<std::string> known;
  for (const Steward::Row& row : steward_.rows()) {
    const std::string& communicator = row.report.communicator;
    known.insert(communicator);
    if (!changed.contains(communicator)) continue;
    Sent& sent = sent_[communicator];
    sent.rate = rate_of(row);
    send(communicator, sent);
  }
  std::erase_if(sent_, [&](const auto& each) { return !known.contains(each.first); });
  if (const std::optional<Steward::Time> next = steward_.next()) {
    decide_at(run::Reactor::TimePoint(duration_cast<run::Reactor::TimePoint::duration>(*next)));
  }
}

void StewardLink::send(const std::string& communicator, const Sent& sent) {
  BANYAN_LOG(debug) << "'" << communicator << "' may go at " << sent.rate << " B/s on its busiest link";
  for (const RanksOnHost& member : sent.members) {
    try {
      mesh_.send_to_all(member.host,
                        encode(SessionRate{.communicator = communicator, .ranks = member.ranks, .rate = sent.rate}));
    } catch (const Error& error) {
      BANYAN_LOG(debug) << "a rate was not told to host " << in_quotes(member.host) << ": " << error.what();
    }
  }
}

void StewardLink::repeat() {
  repetition_ = reactor_.after(kRepeat, [this] { repeat(); });
  for (const auto& [communicator, sent] : sent_) {
    if (sent.rate > 0) send(communicator, sent);
  }
}

}  // namespace banyan::service
