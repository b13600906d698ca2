// SessionOpening: all that is known of a session that a client wishes for, and how it is made.
//
// Control finds out what is needed (the hosts' cards, what the rules grant), and a worker makes the session.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/compose/planner.h"
#include "banyan/run/execute/background.h"
#include "banyan/run/execute/plan_source.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/run/net/step_budget.h"
#include "banyan/run/seal/seal.h"
#include "banyan/run/transport/connector.h"
#include "banyan/service/cluster/host_directory.h"
#include "banyan/service/cluster/mesh_messages.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/session/open_sessions.h"
#include "banyan/service/session/session.h"
#include "banyan/service/session/tenant_quota.h"
#include "banyan/service/session/way_meter.h"
#include "banyan/service/share/class_marks.h"
#include "banyan/service/share/rules.h"

namespace banyan::service {

struct SessionOpening {
  OpenSession wish;
  std::string tenant;  // to which its share belongs
  RankView client;     // who its program is
  Grant grant;
  std::shared_ptr<CallGrants> calls;  // as SessionCalls::Options::grants
  std::vector<HostCard> cards;        // of wish.hosts
  std::shared_ptr<SessionLanes> lanes;
  std::unique_ptr<run::Connector> connector;     // over them
  std::shared_ptr<run::PlanSource> source;       // shared with the executor: see source_for()
  std::shared_ptr<TenantAccount> account;        // of its user; shared with all that the user has
  run::Background background = {};               // for its plans
  std::shared_ptr<run::StepBudget> budget = {};  // of each step; shared with its worker, which sets it
};

// Called by a session on its worker's thread.
struct SessionHooks {
  std::function<void(const std::string& text)> send_to_all;  // the sessions of its communicator, this one too
  std::function<void(const Activity& activity)> report;      // to the steward
  std::function<void(const Error& error)> failed;            // once
};

// Makes sessions from what is the same for all sessions of a daemon. Several workers may use it at the same time.
struct SessionMaker {
  std::shared_ptr<const compose::PlannerFiles> files;  // shared with plan sources
  bool is_oversubscribed = false;
  // Bytes per second of payload, by link of the fabric; shared with all sessions. None: links are not shared out.
  std::shared_ptr<const std::vector<double>> capacities = {};
  std::shared_ptr<CarriedBytes> carried = std::make_shared<CarriedBytes>();  // shared with all sessions
  std::shared_ptr<WayMeter> ways = std::make_shared<WayMeter>();             // the same
  // Code points of the packets of lanes; none: they bear none.
  std::optional<ClassMarks> marks = {};
  // Sealing of lanes between hosts. None: daemons without a secret, which are of one host.
  std::optional<run::Sealing> sealing = {};

  // Throws Error{invalid_input} when the page of the wish is not in these regions, which outlive the session; what
  // planner_from throws.
  std::unique_ptr<Session> make(SessionOpening& opening, const RegionTable& regions, SessionHooks hooks) const;
};

// The name that a program gives something, as operators see it: harmless(), and cut at a character's border, since each
// view has a copy of it.
std::string label_of(std::string_view said);
// Throws Error{invalid_input} for a wish that makes no sense, or that is for another host.
void expect_possible(const OpenSession& wish, const std::string& own_host);
// The same for a flight record.
void expect_possible(const ShowRecord& show);
// The source of its plans; none for one rank. May take long if there are many ranks. Throws what planner_from throws.
std::shared_ptr<run::PlanSource> source_for(const OpenSession& wish, const std::vector<HostCard>& cards,
                                            const compose::PlannerFiles& files);
// The targets of connections to the sessions of the ranks, by rank.
std::vector<run::ConnectTarget> targets_of(const OpenSession& wish, const std::vector<HostCard>& cards);
std::vector<RanksOnHost> members_of(const OpenSession& wish);

}  // namespace banyan::service
