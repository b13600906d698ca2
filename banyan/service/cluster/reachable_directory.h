// ReachableDirectory: a directory on whose cards are only addresses at which a host is found from here.
//
// An address that this host has, too (that of docker0 is the same on many), leads back to it: its word that a port is
// closed would be believed of the other host's daemon. The runtime drops such addresses when ranks meet
// (run/join/reach.h). There all cards are of processes that live. Here some are of hosts that are gone, whose addresses
// others may have by now, so cards are held against this host alone.
//
// One thread at a time.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "banyan/service/cluster/host_directory.h"

namespace banyan::service {

class ReachableDirectory : public HostDirectory {
 public:
  struct Here {
    std::string host;                                     // as on its card
    std::function<std::vector<std::string>()> addresses;  // by which others may reach it, as they are now
    std::function<void(const std::string& words)> warn;   // once of a host that has no address of its own
  };
  ReachableDirectory(std::unique_ptr<HostDirectory> directory, Here here)
      : directory_(std::move(directory)), here_(std::move(here)) {}

  void publish(const HostCard& card) override { directory_->publish(card); }
  void leave() override { directory_->leave(); }
  std::optional<HostCard> find(const std::string& host) override;
  HostCards cards() override;

 private:
  void keep_reachable(HostCard& card, const std::vector<std::string>& own);

  const std::unique_ptr<HostDirectory> directory_;
  const Here here_;
  std::set<std::string> warned_of_;  // hosts
};

}  // namespace banyan::service
