#include "banyan/job/kineto/channels.h"

#include <algorithm>
#include <map>
#include <utility>

#include "banyan/base/error.h"

namespace banyan::job::kineto {
namespace {

[[noreturn]] void fail(const RankDraft& draft, const DraftWork& work, const std::string& text) {
  throw Error(ErrorCode::invalid_input, draft.in_words(work) + ": no rank's trace says " + text, draft.where(work));
}

}  // namespace

bool CallSignature::fits(const CallSignature& other) const {
  if (kind && other.kind && *kind != *other.kind) return false;
  if (bytes && other.bytes && *bytes != *other.bytes) return false;
  return !root || !other.root || *root == *other.root || kind != other.kind;
}

void CallSignature::widen(const CallSignature& other) {
  if (!kind) kind = other.kind;
  if (!bytes) bytes = other.bytes;
  if (!root) root = other.root;
}

CallSignature signature_of(const DraftCall& call) {
  if (call.call.kind != CommCall::Kind::collective) return {.kind = {}, .bytes = call.bytes, .root = {}};
  CallSignature out{.kind = {}, .bytes = call.bytes, .root = {}};
  if (call.call.kind_known) out.kind = call.call.collective;
  if (call.call.collective == CollectiveKind::all_to_all) out.bytes.reset();  // may be uneven
  if (is_rooted(call.call.collective) && call.call.peer) out.root = call.root;
  return out;
}

bool MessageChannel::is_in_line(const std::vector<RankDraft>& drafts) const {
  const size_t count = members.front().items.size();
  for (const ChannelMember& member : members) {
    if (member.items.size() != count) return false;
  }
  for (size_t i = 0; i < count; ++i) {
    CallSignature all;
    for (const ChannelMember& member : members) {
      const CallSignature one = signature_of(drafts[member.draft].calls[member.items[i].call]);
      if (!all.fits(one)) return false;
      all.widen(one);
    }
  }
  return true;
}

void MessageChannel::agree_on_calls(std::vector<RankDraft>& drafts) const {
  for (size_t i = 0; i < members.front().items.size(); ++i) {
    CallSignature all;
    std::optional<uint64_t> most;
    bool uneven = false;
    for (const ChannelMember& member : members) {
      const DraftCall& call = drafts[member.draft].calls[member.items[i].call];
      all.widen(signature_of(call));
      if (!call.bytes) continue;
      uneven = uneven || (most && *most != *call.bytes);
      most = std::max(most.value_or(0), *call.bytes);
    }
    const RankDraft& somebody = drafts[members.front().draft];
    const DraftWork& work = somebody.works[members.front().items[i].work];
    if (!messages && !all.kind) fail(somebody, work, "what it does; give the host trace of one rank of " + name);
    if (!most && (messages || *all.kind != CollectiveKind::barrier)) {
      fail(somebody, work,
           "how large it is; give the host trace (ExecutionTraceObserver) of one rank of " + name +
               ", or record with PyTorch 2.3 or newer");
    }
    for (const ChannelMember& member : members) {
      DraftCall& call = drafts[member.draft].calls[member.items[i].call];
      LinkCounts& counts = drafts[member.draft].counts;
      if (!call.bytes || !call.call.kind_known) ++counts.comm_by_peers;
      if (uneven) ++counts.uneven;
      call.bytes = most.value_or(0);
      if (messages) continue;
      call.call.collective = *all.kind;
      call.call.kind_known = true;
      call.root = all.root.value_or(0);
      if (is_rooted(*all.kind) && !all.root) ++counts.roots_assumed;
    }
  }
}

std::string MessageChannel::describe(const std::vector<RankDraft>& drafts, uint32_t member,
                                     const ChannelItem& item) const {
  const RankDraft& draft = drafts[members[member].draft];
  const CallSignature what = signature_of(draft.calls[item.call]);
  std::string text = messages ? "a message" : what.kind ? std::string(to_string(*what.kind)) : "something";
  if (what.bytes) text += " of " + std::to_string(*what.bytes) + " bytes";
  if (what.root) text += " with root " + std::to_string(*what.root);
  return text + " (" + draft.where(draft.works[item.work]) + ")";
}

std::vector<MessageChannel> gather_channels(const std::vector<RankDraft>& drafts, const std::vector<Group>& groups) {
  std::vector<MessageChannel> channels(groups.size());
  std::map<std::pair<uint32_t, uint32_t>, size_t> place;  // group, draft: its member
  for (uint32_t g = 0; g < groups.size(); ++g) {
    channels[g].name = groups[g].name;
    for (const uint32_t d : groups[g].ranks) {
      place[{g, d}] = channels[g].members.size();
      channels[g].members.push_back({d, {}});
    }
  }
  std::map<std::pair<uint32_t, uint32_t>, size_t> pairs;  // sender, receiver: the channel
  for (uint32_t d = 0; d < drafts.size(); ++d) {
    const RankDraft& draft = drafts[d];
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < draft.works.size(); ++i) {
      if (draft.works[i].calls > 0) order.push_back(i);
    }
    std::ranges::stable_sort(order, {}, [&](uint32_t a) { return draft.works[a].start; });
    for (const uint32_t i : order) {
      const DraftWork& work = draft.works[i];
      for (uint32_t k = work.first_call; k < work.first_call + work.calls; ++k) {
        const DraftCall& call = draft.calls[k];
        const ChannelItem item{i, k, work.start, work.end};
        if (call.call.kind == CommCall::Kind::collective) {
          channels[call.group].members[place.at({call.group, d})].items.push_back(item);
          continue;
        }
        if (call.peer == DraftCall::kItself) continue;
        const bool sends = call.call.kind == CommCall::Kind::send;
        const std::pair pair = sends ? std::pair(d, call.peer) : std::pair(call.peer, d);
        const auto [at, added] = pairs.try_emplace(pair, channels.size());
        if (added) {
          channels.push_back({.name = "messages from rank " + std::to_string(drafts[pair.first].rank) + " to rank " +
                                      std::to_string(drafts[pair.second].rank),
                              .messages = true,
                              .members = {{pair.first, {}}, {pair.second, {}}}});
        }
        channels[at->second].members[sends ? 0 : 1].items.push_back(item);
      }
    }
  }
  return channels;
}

}  // namespace banyan::job::kineto
