#include "banyan/job/kineto/restore.h"

#include <algorithm>
#include <utility>

#include "banyan/base/check.h"

namespace banyan::job::kineto {
namespace {

// A call may be this much later than when others say that it began: clocks and windows are not that exact.
constexpr int64_t kMostLate = 1'000'000'000;

uint32_t track_like(RankDraft& draft, const DraftTrack& like) {
  for (uint32_t track = 0; track < draft.tracks.size(); ++track) {
    if (draft.tracks[track].label == like.label) return track;
  }
  draft.tracks.push_back(like);
  return static_cast<uint32_t>(draft.tracks.size() - 1);
}

}  // namespace

LostLaunches::LostLaunches(const RankDraft& draft) {
  for (uint32_t i = 0; i < draft.lost.size(); ++i) {
    const DraftLostCall& lost = draft.lost[i];
    if (lost.launch.point == kNoIndex) continue;
    lost_[{lost.call.kind, lost.call.collective, lost.group}].emplace(lost.time, i);
  }
  for (uint32_t thread = 0; thread < draft.threads.size(); ++thread) {
    const std::vector<DraftPoint>& points = draft.threads[thread].points;
    for (uint32_t point = 0; point < points.size(); ++point) {
      if (points[point].kind != DraftPoint::Kind::launch) continue;
      launches_.push_back({points[point].end, {.thread = thread, .point = point}});
    }
  }
  // At one moment, the last one of the first thread counts.
  std::ranges::stable_sort(launches_, {}, [](const Launch& each) { return std::pair(each.time, ~each.place.thread); });
}

std::optional<uint32_t> LostLaunches::take(CommCall::Kind kind, std::optional<CollectiveKind> collective,
                                           uint32_t group, int64_t start) {
  Times* best_of = nullptr;
  Times::iterator best;
  const auto offer = [&](Times& times, Times::iterator candidate) {
    const auto distance = [&](Times::iterator it) { return std::pair(std::abs(it->first - start), it->second); };
    if (best_of != nullptr && distance(best) <= distance(candidate)) return;
    best_of = &times;
    best = candidate;
  };
  for (auto& [key, times] : lost_) {
    const auto& [key_kind, key_collective, key_group] = key;
    if (times.empty() || key_kind != kind || (collective && key_collective != *collective)) continue;
    if (key_group != kNoIndex && key_group != group) continue;
    const auto after = times.lower_bound({start, 0});
    if (after != times.end()) offer(times, after);
    // Of several that were called at once, the first.
    if (after != times.begin()) offer(times, times.lower_bound({std::prev(after)->first, 0}));
  }
  if (best_of == nullptr || best->first > start + kMostLate) return std::nullopt;
  const uint32_t index = best->second;
  best_of->erase(best);
  return index;
}

std::optional<LostLaunches::Launch> LostLaunches::last_before(int64_t time) const {
  const auto at = std::ranges::upper_bound(launches_, time, {}, &Launch::time);
  if (at == launches_.begin()) return std::nullopt;
  return *std::prev(at);
}

void LostCalls::put_back(MessageChannel& channel, const std::vector<MergedCall>& merged) {
  // From whom each call is taken where it is missing.
  std::vector<Giver> givers;
  for (const MergedCall& call : merged) {
    uint32_t m = 0;
    while (m < call.item_of.size() && call.item_of[m] == kNoIndex) ++m;
    CHECK(m < channel.members.size()) << channel.name;
    givers.push_back({call, m, channel.members[m].items[call.item_of[m]]});
  }
  for (uint32_t m = 0; m < channel.members.size(); ++m) {
    ChannelMember& member = channel.members[m];
    const std::vector<ChannelItem> own = std::move(member.items);
    member.items.clear();
    LinkCounts& counts = drafts_[member.draft].counts;
    size_t next = 0;  // of its own
    for (size_t i = 0; i < merged.size(); ++i) {
      if (merged[i].item_of[m] != kNoIndex) {
        CHECK(merged[i].item_of[m] == next) << channel.name;
        member.items.push_back(own[next++]);
        continue;
      }
      ++counts.inserted;
      counts.inserted_head += next == 0 && !own.empty();
      counts.inserted_tail += next == own.size() && !own.empty();
      const ChannelItem* previous = member.items.empty() ? nullptr : &member.items.back();
      member.items.push_back(insert(channel, m, givers[i], {previous, next < own.size() ? &own[next] : nullptr}));
    }
  }
}

ChannelItem LostCalls::insert(const MessageChannel& channel, uint32_t m, const Giver& giver, Gap gap) {
  const auto [previous, next] = gap;
  const uint32_t d = channel.members[m].draft;
  RankDraft& draft = drafts_[d];
  const RankDraft& from = drafts_[channel.members[giver.member].draft];
  const DraftWork& given = from.works[giver.item.work];
  const DraftCall& known = from.calls[giver.item.call];
  DraftWork work;
  work.kind = DraftWork::Kind::comm;
  work.inserted = true;
  work.name = draft.names.add(from.names[given.name]);
  work.event = given.event;
  work.start = giver.call.start + clocks_.offset(d);
  work.order = int64_t{1} << 62;  // after whatever else starts then
  // Beside its like on this rank, and between them. Works have room between their orders for 2^31 others, see
  // mend_overlaps.
  const ChannelItem* like = previous != nullptr ? previous : next;
  work.track = like != nullptr ? draft.works[like->work].track : track_like(draft, from.tracks[given.track]);
  if (next != nullptr && work.start >= draft.works[next->work].start) {
    work.start = draft.works[next->work].start;
    work.order = draft.works[next->work].order - (int64_t{1} << 31);
  }
  if (previous != nullptr && work.start <= draft.works[previous->work].start) {
    work.start = draft.works[previous->work].start;
    work.order = draft.works[previous->work].order + 1;
  }
  work.end = work.start;
  work.launched = work.start;
  DraftCall own{.call = known.call, .group = known.group, .root = known.root, .bytes = known.bytes};
  own.call.ranks = CommCall::kNotListed;  // it was another rank's list
  if (channel.messages) {
    own.call.kind = m == 0 ? CommCall::Kind::send : CommCall::Kind::receive;
    own.peer = channel.members[1 - m].draft;
  }
  launch(d, giver.call.what, own, work);
  draft.note(channel.name + ": put back " + channel.describe(drafts_, giver.member, giver.item) +
             ", which this rank's trace has not");
  work.first_call = static_cast<uint32_t>(draft.calls.size());
  work.calls = 1;
  draft.calls.push_back(std::move(own));
  draft.works.push_back(work);
  return {static_cast<uint32_t>(draft.works.size() - 1), work.first_call, work.start, work.end};
}

void LostCalls::launch(uint32_t d, const CallSignature& what, const DraftCall& call, DraftWork& work) {
  RankDraft& draft = drafts_[d];
  LostLaunches& launches = launches_.try_emplace(d, draft).first->second;
  if (const auto lost = launches.take(call.call.kind, what.kind, call.group, work.start)) {
    work.launch = draft.lost[*lost].launch;
    work.launched = draft.lost[*lost].time;
    --draft.counts.calls_without_kernel;
  } else if (const auto last = launches.last_before(work.start)) {
    work.launch = last->place;
    work.launched = last->time;
  }
}

}  // namespace banyan::job::kineto
