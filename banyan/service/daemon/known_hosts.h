// KnownHosts: the hosts of the cluster by what their daemons have published, looked up anew every kLook: a look may ask
// a server, and whoever needs it waits.
//
// On the reactor's thread.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "banyan/run/system/timers.h"
#include "banyan/service/daemon/host_directory.h"

namespace banyan::service {

class KnownHosts {
 public:
  static constexpr std::chrono::milliseconds kLook{2000};
  // The names of hosts for people, by what daemons call them.
  using Names = std::map<std::string, std::string>;

  // `found` is told of each card. All outlive it.
  KnownHosts(const run::Timers& timers, HostDirectory& directory, std::function<void(const HostCard&)> found = {})
      : timers_(timers), directory_(directory), found_(std::move(found)) {}

  // Some of them may be gone again. Throw what the directory throws.
  const Names& names() {
    const auto now = timers_.now();
    return looked_at_ && now - *looked_at_ < kLook ? names_ : look_anew();
  }
  const Names& look_anew() {
    looked_at_ = timers_.now();
    Names names;
    for (HostCard& card : directory_.cards()) {
      if (found_) found_(card);
      names.insert_or_assign(std::move(card.host), std::move(card.name));
    }
    return names_ = std::move(names);
  }

 private:
  const run::Timers& timers_;
  HostDirectory& directory_;
  const std::function<void(const HostCard&)> found_;
  Names names_;
  std::optional<run::Timers::TimePoint> looked_at_;
};

}  // namespace banyan::service
