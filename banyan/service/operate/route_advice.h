// RouteAdvice: has communicators plan around each other.
//
// The steward's daemon records the reports of sessions, and sends rank 0 of one communicator after the other what the
// others leave it of links (share/route_adviser.h). The daemon of rank 0's host weighs this view on a thread of its
// own, since plans are made for that (plan_advice.h), and has the session propose to plan for it if that is worth it.
// Then its ranks agree while calls go on (run/execute/plan_switch.h).
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <optional>
#include <string>
#include <thread>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/session/client_table.h"
#include "banyan/service/session/plan_advice.h"
#include "banyan/service/share/route_adviser.h"

namespace banyan::service {

class RouteAdvice {
 public:
  static constexpr std::chrono::milliseconds kAdvise{500};  // between one communicator and the next

  // References outlive it.
  struct Parts {
    run::Reactor& reactor;
    Mesh& mesh;
    const ClientTable& clients;
    LinkTable links;
    std::vector<double> capacities;  // by link, of payload
  };
  explicit RouteAdvice(Parts parts);
  ~RouteAdvice();

  // As the steward: of a report that makes sense.
  void record(const Activity& activity);
  // From the steward, for rank 0 of its communicator. One that is not here any more is ignored.
  void receive(const SessionView& view);

 private:
  struct Case {
    std::string communicator;
    SessionPlace place;
    PlannedCall call;
    std::vector<LinkPart> view;
  };
  void advise();
  void weigh_next();
  void decided(const Case& weighed, const std::optional<run::PlanWish>& wish);

  Parts parts_;
  // As the steward.
  RouteAdviser adviser_;
  std::map<std::string, std::string> hosts_;  // of rank 0, by communicator
  std::optional<run::Reactor::Timer> advice_;
  // For the sessions here.
  std::map<std::string, AdvisedCables> advised_;  // by communicator
  std::deque<Case> cases_;                        // the first is being weighed
  std::thread thread_;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
