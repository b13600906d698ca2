#include "banyan/job/kineto/match.h"

#include "banyan/job/kineto/align.h"
#include "banyan/job/kineto/channels.h"
#include "banyan/job/kineto/groups.h"
#include "banyan/job/kineto/restore.h"

namespace banyan::job::kineto {

RankMatch match_ranks(std::vector<RankDraft>& drafts) {
  RankMatch match{.groups = find_groups(drafts), .clocks = RankClocks(static_cast<uint32_t>(drafts.size()))};
  std::vector<MessageChannel> channels = gather_channels(drafts, match.groups);
  std::vector<MessageChannel*> unequal;
  for (MessageChannel& channel : channels) {
    if (channel.is_in_line(drafts)) {
      channel.agree_on_calls(drafts);
      match.clocks.compare(channel);
    } else {
      unequal.push_back(&channel);
    }
  }
  match.clocks.settle();
  LostCalls lost(drafts, match.clocks);
  for (MessageChannel* channel : unequal) {
    lost.put_back(*channel, merge_members(*channel, drafts, match.clocks));
    channel->agree_on_calls(drafts);
  }
  return match;
}

}  // namespace banyan::job::kineto
