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
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/compose/planner.h"
#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/gather.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/operate/rule_book.h"
#include "banyan/service/session/carried_bytes.h"
#include "banyan/service/session/way_meter.h"
#include "banyan/service/session/workers.h"
#include "banyan/service/view/host_view.h"

namespace banyan::service {

// A session of a client of this host, open or being opened.
struct KnownSession {
  uint32_t number = 0;                   // among those of its client
  std::shared_ptr<WorkerClient> memory;  // shared with its worker
  uint32_t rank = 0;
  std::string id;  // of the communicator, for people
  std::string name;
  Subject subject;
  std::string tenant;  // to which its share belongs
};

class HostOperations {
 public:
  static constexpr std::chrono::milliseconds kReplanTime{5000};

  // This host: its sessions, and what others do for it.
  class Host {
   public:
    virtual std::vector<KnownSession> sessions() = 0;
    // Those that have said hello; shared with their workers.
    virtual std::vector<std::shared_ptr<WorkerClient>> clients() = 0;
    // But for what workers know.
    virtual HostView describe() = 0;
    virtual void drain(bool drains) = 0;
    // `done` once, later or at once: with the process of the newer daemon, or why there is none.
    using Upgraded = std::function<void(int process, const std::string& refusal)>;
    virtual void upgrade(Upgraded done) = 0;
    virtual void rules_changed() = 0;  // sessions that are open are to get what they grant now
    // The service has had plans made for these rates of links, as in LoneReplanCommand.
    virtual void has_replanned(const std::map<std::string, std::optional<uint64_t>>& rates) = 0;
    // An operator has said something of this link.
    virtual void operator_said(const std::string& link) = 0;

   protected:
    ~Host() = default;
  };
  struct Parts {
    run::Reactor& reactor;
    Workers& workers;
    RuleBook& rules;
    EventLog& events;
    std::shared_ptr<const compose::PlannerFiles> files;  // shared with plan sources
    std::vector<double> capacities;                      // by link, of payload; empty: no fabric is known
    std::shared_ptr<CarriedBytes> carried;               // shared with sessions
    std::shared_ptr<WayMeter> ways;                      // the same
  };
  // `host` outlives it.
  HostOperations(Parts parts, Host& host);

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
  void tell_that_an_operator_said(const run::PlanWish& wish) const;
  void look_after(const std::shared_ptr<Replan>& replan);
  run::PlanWish wish_of(const ReplanCommand& command) const;
  std::vector<uint32_t> cables_called(const std::string& link) const;
  struct Listing;
  static void add_session(Listing& listing, const Session& session);
  void add_links(HostView& view, const CarriedBytes::ByTenant& carried) const;
  void add_ways(HostView& view, const std::vector<WayMeter::Row>& rows) const;

  Parts parts_;
  Host& host_;
  std::vector<std::string> link_names_;
  std::vector<uint32_t> link_cables_;
  uint64_t replans_ = 0;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
