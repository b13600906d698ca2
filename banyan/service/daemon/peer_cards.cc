#include "banyan/service/daemon/peer_cards.h"

#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/record/log.h"

namespace banyan::service {

std::optional<HostCard> PeerCards::look(const std::string& host) {
  Seen& seen = seen_[host];
  if (now_() < seen.next) return seen.card;
  try {
    seen.card = directory_.find(host);
    seen.next = now_() + kPause;
    if (seen.card) found_(*seen.card);
  } catch (...) {
    BANYAN_LOG(warning) << "where the daemon of host " << in_quotes(host) << " is now: " << current_error().what();
    seen.next = now_() + kLongPause;
  }
  return seen.card;
}

void PeerCards::follow(SessionLanes& lanes, const OpenSession& open, const std::vector<HostCard>& cards) {
  std::vector<uint64_t> incarnations;
  for (const HostCard& card : cards) incarnations.push_back(card.incarnation);
  lanes.connections().on_failed_call([this, &lanes, hosts = open.hosts, host_of_rank = open.host_of_rank,
                                      incarnations = std::move(incarnations)](uint32_t failed) mutable {
    const uint32_t host = host_of_rank[failed];
    const std::optional<HostCard> card = look(hosts[host]);
    if (!card) return;
    const std::vector<HostCard> daemons = card->daemons();
    size_t next = 0;  // behind the one that was called; the newest where that is known no more
    for (size_t i = 0; i < daemons.size(); ++i) {
      if (daemons[i].incarnation == incarnations[host]) next = (i + 1) % daemons.size();
    }
    if (daemons[next].incarnation == incarnations[host]) return;
    incarnations[host] = daemons[next].incarnation;
    for (uint32_t rank = 0; rank < host_of_rank.size(); ++rank) {
      if (host_of_rank[rank] == host) lanes.connections().retarget(rank, target_at(daemons[next]));
    }
  });
}

}  // namespace banyan::service
