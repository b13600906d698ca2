#include "banyan/service/cluster/reachable_directory.h"

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/network.h"

namespace banyan::service {
namespace {

// The loopback is that of daemons of one machine, whatever they call their hosts.
void drop(std::vector<std::string>& addresses, const std::vector<std::string>& own) {
  std::erase_if(addresses, [&](const std::string& each) {
    return !run::is_loopback(each) && std::ranges::find(own, each) != own.end();
  });
}

}  // namespace

void ReachableDirectory::keep_reachable(HostCard& card, const std::vector<std::string>& own) {
  if (run::share_loopback(card.host, here_.host) || card.addresses.empty()) return;
  const std::string best = card.addresses.front();
  drop(card.addresses, own);
  for (OlderDaemon& daemon : card.older) drop(daemon.addresses, own);
  if (!card.addresses.empty()) {
    warned_of_.erase(card.host);
  } else if (warned_of_.insert(card.host).second) {
    here_.warn("the daemon of host " + in_quotes(card.name) + " says that it is reached at " + best +
               ", which this host has, too; start it with --address and one by which others reach that host alone");
  }
}

std::optional<HostCard> ReachableDirectory::find(const std::string& host) {
  std::optional<HostCard> card = directory_->find(host);
  if (card) keep_reachable(*card, here_.addresses());
  return card;
}

HostCards ReachableDirectory::cards() {
  HostCards all = directory_->cards();
  const std::vector<std::string> own = here_.addresses();
  for (HostCard& card : all.cards) keep_reachable(card, own);
  return all;
}

}  // namespace banyan::service
