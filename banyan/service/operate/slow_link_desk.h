// SlowLinkDesk: has calls planned around slow links without an operator, where the rules let it ("on_slow_link":
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
#include <memory>
#include <string>
#include <vector>

#include "banyan/run/system/reactor.h"
#include "banyan/service/operate/event_log.h"
#include "banyan/service/operate/operator_desk.h"
#include "banyan/service/view/host_view.h"
#include "banyan/service/view/slow_link_replans.h"

namespace banyan::service {

class SlowLinkDesk {
 public:
  static constexpr std::chrono::milliseconds kLook{400};
  // Kind of the findings about links that are planned around.
  static constexpr const char* kKind = "planned around";

  // References outlive it.
  struct Parts {
    run::Reactor& reactor;
    OperatorDesk& operators;
    EventLog& events;
    std::function<bool()> may_act;     // the rules of this host let the service
    std::function<bool()> is_steward;  // this daemon shares out links
  };
  explicit SlowLinkDesk(Parts parts);
  ~SlowLinkDesk();
  SlowLinkDesk(const SlowLinkDesk&) = delete;
  SlowLinkDesk& operator=(const SlowLinkDesk&) = delete;

  // As in SlowLinkReplans: what another daemon, or an operator, has done.
  void note(const SlowLinkReplans::Rates& rates) { replans_.note(rates, now()); }
  void leave(const std::string& link) { replans_.leave(link); }

  // For the view of this host.
  std::vector<FindingView> findings() const;

 private:
  SlowLinkReplans::Time now() const { return parts_.reactor.now().time_since_epoch(); }
  void look();
  void decide(const std::vector<HostView>& views);

  const Parts parts_;
  SlowLinkReplans replans_;
  run::Reactor::Timer timer_;
  bool is_looking_ = false;
  // Gone with this object: what answers under way look at.
  const std::shared_ptr<const bool> lives_ = std::make_shared<const bool>(true);
};

}  // namespace banyan::service
