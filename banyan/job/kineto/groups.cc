#include "banyan/job/kineto/groups.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/rank_list.h"

namespace banyan::job::kineto {
namespace {

class GroupFinder {
 public:
  explicit GroupFinder(std::vector<RankDraft>& drafts) : drafts_(drafts) {
    world_ = static_cast<uint32_t>(drafts.size());
    for (uint32_t d = 0; d < drafts.size(); ++d) {
      draft_of_rank_[drafts[d].rank] = d;
      world_ = std::max({world_, drafts[d].rank + 1, drafts[d].world_size.value_or(0)});
    }
  }

  std::vector<Group> find() && {
    for (RankDraft& draft : drafts_) of_rank(draft);
    return std::move(groups_);
  }

 private:
  // All that a call says of its group.
  using Description = std::tuple<std::string, bool, uint32_t, uint32_t, int64_t, int64_t>;
  static Description describe(const CommCall& call) {
    return {call.group, call.group_is_object, call.group_size, call.ranks, call.first_rank, call.rank_stride};
  }

  struct Members {
    std::vector<uint32_t> ranks;  // global, in the group's order
    bool assumed = false;
  };
  struct Known {
    uint32_t group = kNoIndex;
    bool assumed = false;
  };

  [[noreturn]] static void fail(const RankDraft& draft, const DraftWork& work, const std::string& text) {
    throw Error(ErrorCode::invalid_input, text, draft.where(work));
  }

  void of_rank(RankDraft& draft) {
    tables_.clear();
    for (const ProcessGroup& group : draft.groups) tables_[group.name].push_back(&group);
    std::map<Description, Known> known;
    std::map<std::string, std::string> name_of_object;
    std::map<std::vector<uint32_t>, uint32_t> objects;  // how many there are of the same members
    for (const DraftWork& work : draft.works) {
      for (uint32_t k = 0; k < work.calls; ++k) {
        DraftCall& row = draft.calls[work.first_call + k];
        const auto [at, added] = known.try_emplace(describe(row.call));
        if (added) {
          std::optional<Members> members = members_of(draft, row.call);
          if (!members) fail_without_members(draft, work, row.call);
          std::string name = "group " + row.call.group;
          if (row.call.group_is_object || row.call.group.empty()) {
            const auto [object, is_new] = name_of_object.try_emplace(row.call.group);
            if (is_new) object->second = "group " + std::to_string(objects[members->ranks]++);
            name = object->second;
          }
          at->second = {add_group(draft, work, name, std::move(members->ranks)), members->assumed};
        }
        row.group = at->second.group;
        draft.counts.groups_assumed += at->second.assumed;
        settle(draft, work, row);
      }
    }
    // Of a call that was lost, the group is known where another one was of it, too.
    for (DraftLostCall& lost : draft.lost) {
      const auto at = known.find(describe(lost.call));
      if (at != known.end()) lost.group = at->second.group;
    }
  }

  std::optional<Members> members_of(const RankDraft& draft, const CommCall& call) const {
    if (call.ranks != CommCall::kNotListed) return Members{draft.rank_lists[call.ranks]};
    const auto table = call.group.empty() ? tables_.end() : tables_.find(call.group);
    if (table != tables_.end()) {
      for (const ProcessGroup* group : table->second) {
        if (!group->ranks.empty()) return Members{group->ranks};
        if (group->size == 0 || group->size == world_) return Members{everyone()};
      }
    }
    if (call.group_size > 0 && call.group_size <= world_ && call.first_rank >= 0 &&
        (call.rank_stride > 0 || call.group_size == 1)) {
      const uint64_t stride = call.group_size == 1 ? 0 : static_cast<uint64_t>(call.rank_stride);
      const auto first = static_cast<uint64_t>(call.first_rank);
      if (first < Job::kMaxRanks && stride < Job::kMaxRanks &&
          first + stride * (call.group_size - 1) < Job::kMaxRanks) {
        Members members;
        for (uint64_t i = 0; i < call.group_size; ++i)
          members.ranks.push_back(static_cast<uint32_t>(first + stride * i));
        return members;
      }
    }
    if (call.group_size == 1) return Members{{draft.rank}};
    if (call.group_size == 0 || call.group_size == world_) return Members{everyone(), true};
    return std::nullopt;
  }

  [[noreturn]] static void fail_without_members(const RankDraft& draft, const DraftWork& work, const CommCall& call) {
    fail(draft, work,
         draft.in_words(work) + " is of group '" + call.group.substr(0, 60) + "' of " +
             std::to_string(call.group_size) +
             " ranks, and nothing says which: give the host trace with its process_group:init node, or record with a "
             "PyTorch that writes distributedInfo (2.3 or newer)");
  }

  std::vector<uint32_t> everyone() const {
    std::vector<uint32_t> ranks(world_);
    std::iota(ranks.begin(), ranks.end(), 0);
    return ranks;
  }

  uint32_t add_group(const RankDraft& draft, const DraftWork& work, const std::string& name,
                     std::vector<uint32_t> ranks) {
    const auto [at, added] = numbers_.try_emplace({name, std::move(ranks)}, static_cast<uint32_t>(groups_.size()));
    const std::vector<uint32_t>& members = at->first.second;
    std::vector<uint32_t> sorted = members;
    std::sort(sorted.begin(), sorted.end());
    if (added && std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      fail(draft, work, name + " names a rank twice");
    }
    if (!std::binary_search(sorted.begin(), sorted.end(), draft.rank)) {
      fail(draft, work,
           draft.in_words(work) + " of rank " + std::to_string(draft.rank) + " is of " + name + ", to which only " +
               list_ranks(sorted) + " belong; is this the trace of another rank?");
    }
    if (!added) return at->second;
    Group group{.name = name, .ranks = {}};
    std::vector<uint32_t> absent;
    for (const uint32_t rank : members) {
      const auto draft_at = draft_of_rank_.find(rank);
      if (draft_at == draft_of_rank_.end()) {
        absent.push_back(rank);
      } else {
        group.ranks.push_back(draft_at->second);
      }
    }
    if (!absent.empty()) {
      std::sort(absent.begin(), absent.end());
      fail(draft, work,
           draft.in_words(work) + " is of " + name + ", to which " + list_ranks(absent) + " " +
               agree(absent, "belong", "belongs") + ", and there is no trace of " + agree(absent, "them", "it") +
               "; give the traces of all ranks of a group");
    }
    groups_.push_back(std::move(group));
    return at->second;
  }

  // Bytes, root and peer of a call.
  void settle(RankDraft& draft, const DraftWork& work, DraftCall& row) const {
    const Group& group = groups_[row.group];
    const CommCall& call = row.call;
    const auto members = static_cast<uint32_t>(group.ranks.size());
    bool fits = true;
    try {
      if (call.kind_known) row.bytes = comm_bytes(call, members, fits);
    } catch (const Error& error) {
      throw error.within(draft.where(work));
    }
    if (!fits) ++draft.counts.sizes_unfit;
    if (call.kind == CommCall::Kind::collective) {
      if (is_rooted(call.collective) && call.peer && *call.peer < members) row.root = *call.peer;
      return;
    }
    uint32_t peer = kNoIndex;
    if (call.global_peer) {
      const auto at = draft_of_rank_.find(*call.global_peer);
      if (at != draft_of_rank_.end()) peer = at->second;
    } else if (call.peer && *call.peer < members) {
      peer = group.ranks[*call.peer];
    }
    if (peer == kNoIndex) {
      fail(draft, work,
           draft.in_words(work) + " does not say which rank it " +
               (call.kind == CommCall::Kind::send ? "sends to" : "receives from") + " among " +
               std::to_string(members) + " of " + group.name +
               "; give the host trace, whose record_param_comms says so");
    }
    row.peer = drafts_[peer].rank == draft.rank ? DraftCall::kItself : peer;
  }

  std::vector<RankDraft>& drafts_;
  uint32_t world_ = 0;
  std::unordered_map<uint32_t, uint32_t> draft_of_rank_;
  std::unordered_map<std::string, std::vector<const ProcessGroup*>> tables_;  // of the rank that is looked at, by name
  std::vector<Group> groups_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, uint32_t> numbers_;
};

}  // namespace

std::vector<Group> find_groups(std::vector<RankDraft>& drafts) { return GroupFinder(drafts).find(); }

}  // namespace banyan::job::kineto
