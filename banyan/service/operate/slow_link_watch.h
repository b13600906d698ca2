// SlowLinkWatch: has calls planned around slow links without an operator, where the rules let it ("on_slow_link":
// "replan").
//
// The daemon that shares out links looks at all hosts every kLook, as an operator would, and gives the command that an
// operator would give (view/slow_links.h says which links are slow, view/slow_link_replans.h when to act). Events say
// that it was the service; what is planned around is among the findings for as long.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/cluster/lifetime.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/operator_api.h"
#include "banyan/service/view/host_view.h"
#include "banyan/service/view/slow_link_replans.h"

namespace banyan::service {

class SlowLinkWatch {
 public:
  static constexpr std::chrono::milliseconds kLook{400};
  // Kind of the findings about links that are planned around.
  static constexpr const char* kKind = "planned around";

  // References outlive it.
  struct Parts {
    run::Reactor& reactor;
    OperatorApi& operators;
    EventLog& events;
    SlowLinkReplans& replans;
    std::function<bool()> may_act;     // the rules of this host let the service
    std::function<bool()> is_steward;  // this daemon shares out links
  };
  explicit SlowLinkWatch(Parts parts);
  ~SlowLinkWatch();

  // For the view of this host.
  std::vector<FindingView> findings() const;

 private:
  void look();
  void decide(const std::vector<HostView>& views);

  const Parts parts_;
  run::Reactor::Timer timer_;
  bool is_looking_ = false;
  const Lifetime lifetime_;
};

}  // namespace banyan::service
