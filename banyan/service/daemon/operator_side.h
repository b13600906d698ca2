// OperatorSide: what operators of this daemon ask for, and who answers them: the operations of this host, the answers
// for the whole cluster, hints for tenants, the watch for slow links, and the records of ranks that do without the
// daemon.
//
// On the reactor's thread.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/daemon/session_opener.h"
#include "banyan/service/http/server.h"
#include "banyan/service/operate/direct_ranks.h"
#include "banyan/service/operate/hint_service.h"
#include "banyan/service/operate/host_answers.h"
#include "banyan/service/operate/obedience.h"
#include "banyan/service/operate/operator_api.h"
#include "banyan/service/operate/slow_link_watch.h"
#include "banyan/service/session/workers.h"

namespace banyan::service {

class OperatorSide {
 public:
  // All but the workers outlive it. These begin after it and end before it: only in between are they used.
  OperatorSide(DaemonCore& core, SessionOpener& opener, Workers& workers);

  // Answers other daemons, and hints, from now on. Once the cluster has begun.
  void begin(std::function<void(HostOperations::Upgraded done)> upgrade);
  // Serves operators at copies of these sockets, where they are open. Once, after begin().
  void serve(const HandedSockets& sockets);
  // Requests are let in, or wait; or their sockets are left to a newer daemon.
  void let_in(bool are_let_in);
  void close_doors();

  // From other daemons.
  void receive(const DaemonName& from, const OperatorQuestion& question) { api_->receive(from, question); }
  void receive(const DaemonName& from, const OperatorAnswer& answer);
  void forget_older() { host_answers_->forget_older(); }
  // Obeys a newer daemon of this host.
  void follow(uint64_t incarnation) { obedience_->follow(incarnation); }

  HintService& hints() { return *hints_; }
  DirectRanks& direct() { return direct_; }
  // A program was not let in, since descriptors (or memory of the kernel) are short. One event for each time that it
  // begins.
  void record_shortage(const std::string& why);
  // Tells whoever has started the daemon how it does, where that is new (Daemon::Options::tell).
  void report_state();

 private:
  struct Shortage {
    run::Reactor::TimePoint at;
    std::string why;
  };
  HostView describe();
  std::vector<FindingView> troubles() const;
  void obey();

  DaemonCore& core_;
  ClusterSide& cluster_;
  SessionOpener& opener_;
  Workers& workers_;
  std::function<void(HostOperations::Upgraded done)> upgrade_;
  const run::Reactor::TimePoint began_;
  DirectRanks direct_;
  std::optional<Shortage> shortage_;  // the last one
  std::string reported_state_ = Daemon::kServing;
  SlowLinkReplans replans_;
  HostOperations operations_;
  std::optional<HostAnswers> host_answers_;
  std::optional<Obedience> obedience_;
  std::optional<OperatorApi> api_;
  std::optional<SlowLinkWatch> slow_links_;  // none where links are not shared out
  std::optional<HintService> hints_;
  std::optional<HttpServer> http_;
};

}  // namespace banyan::service
