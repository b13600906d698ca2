#include "banyan/service/session/peer_cards.h"

#include <cstdint>
#include <string>

namespace banyan::service {
namespace {

struct Followed {
  std::weak_ptr<SessionLanes> lanes;
  std::vector<std::string> hosts;
  std::vector<uint32_t> host_of_rank;
  std::vector<uint64_t> incarnations;  // that are called, by host
  std::vector<bool> is_looked_for;     // by host
};

// The one behind the one that was called; the newest where that is known no more.
void call_next(Followed& followed, uint32_t host, const HostCard& card) {
  const std::shared_ptr<SessionLanes> lanes = followed.lanes.lock();
  if (!lanes) return;
  const std::vector<HostCard> daemons = card.daemons();
  size_t next = 0;
  for (size_t i = 0; i < daemons.size(); ++i) {
    if (daemons[i].incarnation == followed.incarnations[host]) next = (i + 1) % daemons.size();
  }
  if (daemons[next].incarnation == followed.incarnations[host]) return;
  followed.incarnations[host] = daemons[next].incarnation;
  for (uint32_t rank = 0; rank < followed.host_of_rank.size(); ++rank) {
    if (followed.host_of_rank[rank] == host) lanes->connections().retarget(rank, target_at(daemons[next]));
  }
}

}  // namespace

void follow_daemons(CardCache& cache, const std::shared_ptr<SessionLanes>& lanes, const OpenSession& open,
                    const std::vector<HostCard>& cards) {
  const auto followed = std::make_shared<Followed>(Followed{.lanes = lanes,
                                                            .hosts = open.hosts,
                                                            .host_of_rank = open.host_of_rank,
                                                            .incarnations = {},
                                                            .is_looked_for = std::vector<bool>(open.hosts.size())});
  for (const HostCard& card : cards) followed->incarnations.push_back(card.incarnation);
  lanes->connections().on_failed_call([&cache, followed](uint32_t failed) {
    const uint32_t host = followed->host_of_rank[failed];
    if (followed->is_looked_for[host]) return;
    followed->is_looked_for[host] = true;
    cache.look({followed->hosts[host]}, [&cache, followed, host] {
      followed->is_looked_for[host] = false;
      if (const HostCard* const card = cache.find(followed->hosts[host])) call_next(*followed, host, *card);
    });
  });
}

}  // namespace banyan::service
