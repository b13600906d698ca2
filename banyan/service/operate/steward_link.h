// StewardLink: brings what sessions report to the steward of the cluster, and is the steward where this daemon has to.
//
// The steward is the daemon of the first host, in the order of their names, that can be reached. It knows nothing but
// what is reported every few milliseconds, so another one takes over at once. While daemons do not agree on who it is,
// each steward knows some of the calls, and links are shared as TCP does it; sessions forget a rate that is not said
// again (rate_gate.h).
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/card_cache.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/operate/route_advice.h"
#include "banyan/service/share/steward.h"

namespace banyan::service {

class StewardLink {
 public:
  // Reports that come within this time are answered together.
  static constexpr std::chrono::microseconds kCollect{300};
  // Rates that limit somebody are said again.
  static constexpr std::chrono::milliseconds kRepeat{500};

  // All references outlive it. `own`: this host. `routes` gets every report that this daemon takes as the steward.
  // Throws what Steward's constructor throws.
  StewardLink(run::Reactor& reactor, CardCache& cards, Mesh& mesh, std::string own, Steward::Options options,
              RouteAdvice& routes);
  ~StewardLink();
  StewardLink(const StewardLink&) = delete;
  StewardLink& operator=(const StewardLink&) = delete;

  // Brings the report of a session of this host to the steward. A report that cannot be brought there now is dropped:
  // the next one follows soon.
  void report(const Activity& activity);
  // From a daemon that takes this one for the steward. Throws Error{invalid_input} for a report that makes no sense.
  void receive(const Activity& activity);

  // The host of the steward, as far as this daemon knows.
  const std::string& steward_host();

 private:
  struct Sent {
    std::vector<RanksOnHost> members;
    uint64_t rate = 0;
  };
  Steward::Time now() const { return reactor_.now().time_since_epoch(); }
  void decide();
  void decide_at(run::Reactor::TimePoint when);
  void send(const std::string& communicator, const Sent& sent);
  void repeat();

  run::Reactor& reactor_;
  CardCache& cards_;
  Mesh& mesh_;
  const std::string own_;
  Steward steward_;
  RouteAdvice& routes_;
  std::map<std::string, Sent> sent_;  // by communicator; as long as the steward knows it
  std::optional<run::Reactor::Timer> decision_;
  run::Reactor::TimePoint decides_at_;
  run::Reactor::Timer repetition_;
};

}  // namespace banyan::service
