#include "banyan/service/operate/route_advice.h"

#include <algorithm>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"
#include "banyan/run/system/thread.h"

namespace banyan::service {
namespace {

RouteAdviser::Time now_of(const run::Reactor& reactor) { return reactor.now().time_since_epoch(); }

}  // namespace

RouteAdvice::RouteAdvice(Parts parts) : parts_(std::move(parts)), adviser_({.capacities = parts_.capacities}) {}

RouteAdvice::~RouteAdvice() {
  if (advice_) parts_.reactor.cancel(*advice_);
  if (thread_.joinable()) thread_.join();
}

// ---- As the steward ----

void RouteAdvice::record(const Activity& activity) {
  const auto rank0 = std::find_if(activity.members.begin(), activity.members.end(), [](const RanksOnHost& each) {
    return std::find(each.ranks.begin(), each.ranks.end(), 0u) != each.ranks.end();
  });
  if (rank0 == activity.members.end()) return;
  hosts_[activity.report.communicator] = rank0->host;
  adviser_.record(activity.report, now_of(parts_.reactor));
  if (!advice_) advice_ = parts_.reactor.after(kAdvise, [this] { advise(); });
}

void RouteAdvice::advise() {
  advice_.reset();
  const std::optional<RouteAdviser::Advice> advice = adviser_.advise(now_of(parts_.reactor));
  if (advice) {
    try {
      parts_.mesh.send_to_all(hosts_.at(advice->communicator),
                              encode(SessionView{.communicator = advice->communicator, .view = advice->view}));
    } catch (const Error& error) {
      BANYAN_LOG(debug) << "rank 0 of '" << advice->communicator << "' is not advised: " << error.what();
    }
  }
  std::erase_if(hosts_, [&](const auto& each) { return !adviser_.knows(each.first); });
  if (!hosts_.empty()) advice_ = parts_.reactor.after(kAdvise, [this] { advise(); });
}

// ---- Of the sessions here ----

void RouteAdvice::receive(const SessionView& view) {
  const std::optional<SessionPlace> place = parts_.clients.rank0_of(view.communicator);
  if (!place) {
    advised_.erase(view.communicator);
    return;
  }
  const auto weigh = lifetime_.guard([this](const Case& each) {
    cases_.push_back(each);
    if (cases_.size() == 1) weigh_next();
  });
  place->act([weigh, mailbox = parts_.reactor.mailbox(), place = *place, view](const Session& session) {
    const std::optional<PlannedCall> call = session.planned();
    if (!call) return;
    mailbox->post(
        [weigh, each = Case{.communicator = view.communicator, .place = place, .call = *call, .view = view.view}] {
          weigh(each);
        });
  });
}

void RouteAdvice::weigh_next() {
  const Case& next = cases_.front();
  const std::map<uint32_t, uint64_t> bandwidths =
      advised_[next.communicator].bandwidths(parts_.links, next.view, next.call.adopted);
  thread_ = run::start_thread("banyan-routes", [this, call = next.call, bandwidths] {
    std::optional<run::PlanWish> wish;
    try {
      wish = weigh(call, parts_.links, bandwidths);
    } catch (const Error& error) {
      BANYAN_LOG(warning) << "a communicator keeps its plans, since none can be made for what others leave it: "
                          << error.what();
    }
    // It is joined before this object ends.
    parts_.reactor.mailbox()->post(lifetime_.guard([this, wish] {
      thread_.join();
      decided(cases_.front(), wish);
      cases_.pop_front();
      if (!cases_.empty()) weigh_next();
    }));
  });
}

void RouteAdvice::decided(const Case& weighed, const std::optional<run::PlanWish>& wish) {
  if (!wish) return;
  BANYAN_LOG(info) << "communicator '" << weighed.communicator << "' plans around others, from generation "
                   << weighed.call.adopted.generation << " on";
  weighed.place.act([update = *wish](Session& session) { session.propose(update); });
}

}  // namespace banyan::service
