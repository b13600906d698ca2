#include "banyan/service/operate/slow_link_watch.h"

#include <optional>
#include <set>
#include <utility>

#include "banyan/base/words.h"
#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/view/slow_links.h"

namespace banyan::service {
namespace {

// "the service plans around leaf0->spine0 by itself, which carries 2.40 MB/s", of any communicator or of one.
std::string words_of(const std::string& link, const std::optional<uint64_t>& rate, const std::string& communicator) {
  const std::string whose = communicator.empty() ? "" : " for communicator " + communicator;
  return rate ? "the service plans around " + link + " by itself" + whose + ", which carries " +
                    format_rate(static_cast<double>(*rate))
              : "the service tries " + link + " again by itself, with the rate that the fabric has for it";
}

}  // namespace

SlowLinkWatch::SlowLinkWatch(Parts parts)
    : parts_(std::move(parts)), timer_(parts_.reactor.after(kLook, [this] { look(); })) {}

SlowLinkWatch::~SlowLinkWatch() { parts_.reactor.cancel(timer_); }

// Where a host does not answer, the answers of the others come when that is known.
void SlowLinkWatch::look() {
  timer_ = parts_.reactor.after(kLook, [this] { look(); });
  if (is_looking_ || !parts_.may_act() || !parts_.is_steward()) return;
  is_looking_ = true;
  parts_.operators.look(lifetime_.guard([this](const std::vector<HostView>& views, const auto&) {
    is_looking_ = false;
    decide(views);
  }));
}

void SlowLinkWatch::decide(const std::vector<HostView>& views) {
  std::vector<WayView> ways;
  std::set<std::string> communicators;
  for (const HostView& host : views) {
    ways.insert(ways.end(), host.ways.begin(), host.ways.end());
    for (const CommunicatorView& each : host.communicators) {
      if (!each.is_direct) communicators.insert(each.id);
    }
  }
  for (const SlowLinkReplans::Change& change :
       parts_.replans.look(find_slow_links(ways), communicators, parts_.reactor.now().time_since_epoch())) {
    for (const auto& [link, rate] : change.rates) parts_.events.warn(words_of(link, rate, change.communicator));
    const std::string communicator = change.communicator.empty() ? "*" : change.communicator;
    parts_.operators.order("replan alone",
                           LoneReplanCommand{.communicator = communicator, .rates = change.rates}.encode());
  }
}

std::vector<FindingView> SlowLinkWatch::findings() const {
  std::vector<FindingView> findings;
  if (!parts_.is_steward()) return findings;
  for (const SlowLinkReplans::Planned& each : parts_.replans.planned()) {
    findings.push_back({.kind = kKind,
                        .communicator = {},
                        .words = "link " + each.link + " is slow: the service itself has had calls planned for " +
                                 format_rate(static_cast<double>(each.bytes_per_second)) +
                                 " of it, as the rules let it, and tries it again later"});
  }
  return findings;
}

}  // namespace banyan::service
