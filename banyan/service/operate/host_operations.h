// HostOperations: what operators ask of this host alone: how it does, and what it is to do.
//
// Commands, with the bodies and answers of operator_api.h: "view" (a HostView), "rules", "load rules", "set",
// "replan", "drain", "upgrade"; "replan alone" of the service itself (slow_link_watch.h). A replan is asked for by the
// host of rank 0, and its answer waits until all ranks have agreed, or kReplanTime is over.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/gather.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/session/client_table.h"
#include "banyan/service/session/session_opening.h"
#include "banyan/service/session/workers.h"
#include "banyan/service/view/host_view.h"
#include "banyan/service/view/slow_link_replans.h"

namespace banyan::service {

class HostOperations {
 public:
  static constexpr std::chrono::milliseconds kReplanTime{5000};

  // `done` once, later or at once: with the process of the newer daemon, or why there is none.
  using Upgraded = std::function<void(int process, const std::string& refusal)>;
  // References outlive it.
  struct Parts {
    run::Reactor& reactor;
    Workers& workers;
    const ClientTable& clients;
    RuleBook& rules;
    EventLog& events;
    const SessionMaker& maker;
    SlowLinkReplans& slow_links;                 // what the service or an operator does about links
    std::function<HostView()> describe;          // this host, but for what workers know
    std::function<void(Upgraded done)> upgrade;  // has a newer daemon take the place of this one
  };
  explicit HostOperations(Parts parts);

  using Answer = Gather::Answer;  // an object of JSON
  // Body of "view", for a view that is short enough for another daemon (view/short_view.h).
  static constexpr const char* kShortly = R"({"is_short":true})";
  // Once, at once or later.
  using Reply = std::function<void(Answer)>;
  void answer(const std::string& command, const std::string& body, const Reply& reply);
  uint64_t replans() const { return replans_; }

 private:
  struct Replan;

  void view(const std::string& body, Reply reply);
  std::string set(const std::string& body);
  std::string drain(const std::string& body);
  void upgrade(const std::string& body, Reply reply);
  std::string load_rules(const std::string& body);
  void replan(const std::string& body, Reply reply);
  void replan_alone(const std::string& body, Reply reply);
  void begin(const std::shared_ptr<Replan>& replan, const std::string& communicator, Reply reply);
  run::PlanWish wish_of(const LoneReplanCommand& command) const;
  void leave_links_of(const run::PlanWish& wish) const;
  void look_after(const std::shared_ptr<Replan>& replan);
  run::PlanWish wish_of(const ReplanCommand& command) const;
  std::vector<uint32_t> cables_called(const std::string& link) const;
  struct Listing;
  static void add_session(Listing& listing, const Session& session);
  void add_links(HostView& view, const CarriedBytes::ByTenant& carried) const;
  void add_ways(HostView& view, const std::vector<WayMeter::Row>& rows) const;

  const Parts parts_;
  std::vector<std::string> link_names_;
  std::vector<uint32_t> link_cables_;
  uint64_t replans_ = 0;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
