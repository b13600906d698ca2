// PeerCards: what has become of the daemons of other hosts that do not answer.
//
// A daemon that was killed comes back at another port. Sessions that were opened just before that know the old one:
// when a call of theirs fails, they look here, and call the new one. Sessions whose connections were to the old daemon
// do not live on: their clients on that host end them. Where a host has several daemons (HostCard::older), calls go to
// one after the other until one takes them.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "banyan/service/daemon/host_directory.h"
#include "banyan/service/daemon/open_sessions.h"
#include "banyan/service/protocol/messages.h"

namespace banyan::service {

class PeerCards {
 public:
  using Clock = std::chrono::steady_clock;
  // Between two questions about one host; and after one that the directory did not answer, which may have taken long.
  static constexpr std::chrono::milliseconds kPause{100}, kLongPause{5000};

  // `found` is told of each card; it may be an old one. `now`: a clock. All outlive this.
  PeerCards(HostDirectory& directory, std::function<void(const HostCard&)> found,
            std::function<Clock::time_point()> now = Clock::now)
      : directory_(directory), found_(std::move(found)), now_(std::move(now)) {}
  PeerCards(const PeerCards&) = delete;
  PeerCards& operator=(const PeerCards&) = delete;

  // The card of a host, as old as kPause, or older while the directory does not answer. Throws nothing.
  std::optional<HostCard> look(const std::string& host);
  // From now on these lanes, which were made for `cards` (of open.hosts), follow the daemons that come. This outlives
  // them.
  void follow(SessionLanes& lanes, const OpenSession& open, const std::vector<HostCard>& cards);

 private:
  struct Seen {
    std::optional<HostCard> card;
    Clock::time_point next;  // not to be asked before
  };
  HostDirectory& directory_;
  const std::function<void(const HostCard&)> found_;
  const std::function<Clock::time_point()> now_;
  std::map<std::string, Seen> seen_;  // by host
};

}  // namespace banyan::service
