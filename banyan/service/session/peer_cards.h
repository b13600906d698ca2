// Lanes to a daemon that does not answer, and how they find the one that does.
//
// A daemon that was killed comes back at another port. Sessions that were opened just before that know the old one:
// when a call of theirs fails, its card is looked for, and they call the new one. Sessions whose connections were to
// the old daemon do not live on: their clients on that host end them. If a host has several daemons (HostCard::older),
// calls go to one after the other until one takes them.
//
// On the reactor's thread.
#pragma once

#include <memory>
#include <vector>

#include "banyan/service/cluster/card_cache.h"
#include "banyan/service/protocol/messages.h"
#include "banyan/service/session/open_sessions.h"

namespace banyan::service {

// From now on these lanes, which were made for `cards` (of open.hosts), follow the daemons that come. The cache
// outlives them.
void follow_daemons(CardCache& cache, const std::shared_ptr<SessionLanes>& lanes, const OpenSession& open,
                    const std::vector<HostCard>& cards);

}  // namespace banyan::service
