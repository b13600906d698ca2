// Obedience: whose commands a daemon carries out, beside those that come to its own operators' socket.
//
// All daemons of a cluster have one secret. Were each to obey all others, whoever has one host would have all of them.
// So a daemon answers what others ask only to look, and obeys only
//   - daemons of the hosts that --obey names, where they call from an address of their host;
//   - the newer one of its own host that it has started, or of which that one has told (succession.h);
//   - the steward's wish to plan around a slow link, where its own rules say "on_slow_link": "replan".
// A daemon itself says of which host it is, by a number that is on that host's card. So somebody who has the secret,
// and may write where daemons meet or calls from an address of such a host, can have himself obeyed.
//
// On the reactor's thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "banyan/service/cluster/mesh.h"

namespace banyan::service {

class Obedience {
 public:
  struct Parts {
    std::string own;                                                // this host, as daemons call it
    std::vector<std::string> hosts;                                 // names, which may hold * and ?
    std::function<std::string(const std::string& host)> name_of;    // for people; empty: its card is not known
    std::function<bool(const DaemonName&)> is_where_its_card_says;  // mesh.h
    // True if the service may plan around slow links here, and that host's daemon shares out links.
    std::function<bool(const std::string& host)> may_replan_alone;
  };
  // Throws Error{invalid_input} for an empty name.
  explicit Obedience(Parts parts);

  // A newer daemon of this host.
  void follow(uint64_t incarnation) { successors_.insert(incarnation); }
  // Why a daemon that asks for this (operator_api.h) is not obeyed. Nothing: it is, or only wants to look.
  std::optional<std::string> refusal(const DaemonName& asking, const std::string& command,
                                     const std::string& body) const;
  const std::vector<std::string>& hosts() const { return parts_.hosts; }

 private:
  const Parts parts_;
  std::set<uint64_t> successors_;
};

}  // namespace banyan::service
