// ClusterSide: this daemon among those of the other hosts. It has their cards and its own, the mesh of messages
// between them, and the link to the steward, which shares out the links of the network.
//
// Until begin() nobody finds this daemon. From then on its card says where it is, and which older daemon of its host
// carries sessions still.
//
// On the reactor's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/join/outgoing_connects.h"
#include "banyan/service/cluster/card_cache.h"
#include "banyan/service/cluster/mesh.h"
#include "banyan/service/daemon/daemon_core.h"
#include "banyan/service/operate/steward_link.h"

namespace banyan::service {

class ClusterSide {
 public:
  struct Events {
    std::function<void(const DaemonName& from, const std::string& message)> received;
    // A caller that is no daemon: as run::Acceptor.
    std::function<std::optional<std::string>(const run::Greeting& greeting, run::Admitted& connection)> admit;
  };
  // `core` outlives it; `clients` does not, but is there from begin() until the reactor ends.
  ClusterSide(DaemonCore& core, const ClientTable& clients);

  // Listens for other daemons, and takes no call yet. Once. Throws Error{io}.
  void listen();
  // Publishes this daemon's card, and takes calls of other daemons from then on. Once, after listen(). Throws
  // Error{invalid_input}.
  void begin(std::optional<OlderDaemon> older, Events events);
  // Takes no call any more.
  void hang_up() { acceptor_.reset(); }

  const HostCard& own() const { return own_; }
  CardCache& cards() { return cards_; }
  const CardCache& cards() const { return cards_; }
  Mesh& mesh() { return *mesh_; }
  run::OutgoingConnects& connects() { return connects_; }
  // Callers wait that have not proved who they are.
  bool has_strangers() const { return acceptor_ && acceptor_->has_strangers(); }

  // The older daemon of this host, while it lives.
  std::optional<DaemonName> older() const;
  void forget_older();

  // Links are shared out, since their network is known.
  bool has_steward() const { return steward_.has_value(); }
  // The host of the steward; none where links are not shared out.
  std::optional<std::string> steward_host();
  // A session of this host reports; only where links are shared out.
  void report(const Activity& activity) { steward_->report(activity); }
  // From other daemons. Ignored where links are not shared out.
  void receive(const Activity& activity);
  void receive(const SessionView& view);

 private:
  std::optional<std::string> admit(const run::Greeting& greeting, run::Admitted& connection);
  void share_out_links();

  DaemonCore& core_;
  const ClientTable& clients_;
  run::OutgoingConnects connects_;
  CardCache cards_;
  Events events_;
  HostCard own_;
  std::optional<run::Listener> listener_;  // until begin()
  std::optional<Mesh> mesh_;
  std::optional<RouteAdvice> routes_;   // none without a fabric
  std::optional<StewardLink> steward_;  // the same
  std::optional<run::Acceptor> acceptor_;
};

}  // namespace banyan::service
