// What is one communication on several ranks, and what a rank's trace lost of it.
//
// Every rank has for each group a sequence of calls. Mostly they are equal, and the n-th is the n-th. Else sequences
// are merged rank by rank into one: two calls can be the same one when kind, bytes and root agree; of the alignments
// with the fewest left-overs the one is taken in which the same calls end at the same time, by clocks that were set by
// the groups without losses. (A collective ends on all ranks within microseconds of one another; it may start at any
// time.) What a rank has not of the merged sequence is inserted there. That it happened is sure: a collective that
// ended on one rank has run on all.
//
// Complexity O(calls) where nothing was lost, else O(calls * left-overs) for the group.
#include <algorithm>
#include <map>
#include <optional>
#include <queue>
#include <set>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/rank_list.h"
#include "banyan/predict/job/kineto_draft.h"

namespace banyan {
namespace {

constexpr int64_t kLeftOver = int64_t{100} * 1'000'000'000;  // costs more than any mismatch in time
constexpr int64_t kMostApart = 1'000'000'000;
constexpr int64_t kImpossible = INT64_MAX / 4;
constexpr uint64_t kMostCells = 300'000'000;

// One call on one rank.
struct Item {
  uint32_t work = 0, call = 0;
  int64_t start = 0, end = 0;
};

struct Member {
  uint32_t draft = 0;
  std::vector<Item> items;
};

// The calls of a group, or the messages from one rank to another.
struct Channel {
  std::string name;  // as errors call it
  bool messages = false;
  std::vector<Member> members;  // all, in the order of the group; of messages: sender, receiver
};

// What calls that are the same must agree on. `bytes` of nothing fits any.
struct Signature {
  bool kind_known = false;
  JobCollective kind = JobCollective::all_reduce;
  std::optional<uint64_t> bytes;
  std::optional<uint32_t> root;
};

class Matcher {
 public:
  Matcher(std::vector<RankDraft>& drafts, std::vector<int64_t>& offsets) : drafts_(drafts), offsets_(offsets) {}

  std::vector<JobGroup> match() {
    offsets_.assign(drafts_.size(), 0);
    for (uint32_t d = 0; d < drafts_.size(); ++d) draft_of_rank_[drafts_[d].rank] = d;
    world_ = world();
    for (uint32_t d = 0; d < drafts_.size(); ++d) find_groups(d);
    gather();
    std::vector<size_t> unequal;
    for (size_t c = 0; c < channels_.size(); ++c) {
      if (!equal(channels_[c])) {
        unequal.push_back(c);
        continue;
      }
      agree(channels_[c]);
      compare_clocks(channels_[c]);
    }
    set_clocks();
    for (const size_t c : unequal) align(channels_[c]);
    return std::move(groups_);
  }

 private:
  // ---- groups

  uint32_t world() const {
    uint32_t size = 0;
    for (const RankDraft& draft : drafts_) size = std::max({size, draft.rank + 1, draft.world_size.value_or(0)});
    return std::max(size, static_cast<uint32_t>(drafts_.size()));
  }

  std::vector<uint32_t> everyone() const {
    std::vector<uint32_t> ranks(world_);
    for (uint32_t r = 0; r < world_; ++r) ranks[r] = r;
    return ranks;
  }

  [[noreturn]] static void fail(ErrorCode code, const RankDraft& draft, uint64_t event, const std::string& text) {
    throw Error(code, text, draft.source + " event " + std::to_string(event));
  }

  std::string words(const RankDraft& draft, const DraftWork& work) const {
    return "'" + draft.names[work.name].substr(0, 60) + "'";
  }

  // The members of a call's group: global ranks in its order.
  std::vector<uint32_t> members_of(RankDraft& draft, const CommCall& call, const DraftWork& work) {
    if (!call.ranks.empty()) return call.ranks;
    if (!call.group.empty()) {
      for (const KinetoGroup& group : draft.groups) {
        if (group.name != call.group) continue;
        if (!group.ranks.empty()) return group.ranks;
        if (group.size == 0 || group.size == world_) return everyone();
      }
    }
    if (call.first_rank >= 0 && call.group_size > 0 && call.group_size <= world_) {
      std::vector<uint32_t> ranks;
      const int64_t stride = call.group_size == 1 ? 1 : call.rank_stride;
      for (uint32_t i = 0; i < call.group_size && stride > 0; ++i) {
        const int64_t rank = call.first_rank + stride * i;
        if (rank >= int64_t{Job::kMaxRanks}) break;
        ranks.push_back(static_cast<uint32_t>(rank));
      }
      if (ranks.size() == call.group_size) return ranks;
    }
    if (call.group_size == 1) return {draft.rank};
    if (call.group_size == 0 || call.group_size == world_) {
      ++draft.counts.groups_assumed;
      return everyone();
    }
    fail(ErrorCode::invalid_input, draft, work.event,
         words(draft, work) + " is of group '" + call.group.substr(0, 60) + "' of " + std::to_string(call.group_size) +
             " ranks, and nothing says which: give the host trace with its process_group:init node, or record with a "
             "PyTorch that writes distributedInfo (2.3 or newer)");
  }

  void find_groups(uint32_t d) {
    RankDraft& draft = drafts_[d];
    // Groups that are told apart by an address, which is another one on every rank, are numbered as they first occur
    // among those of the same members.
    std::map<std::string, std::string> name_of_object;
    std::map<std::vector<uint32_t>, uint32_t> objects;
    std::map<std::pair<std::string, std::vector<uint32_t>>, uint32_t> seen;
    for (const DraftWork& work : draft.works) {
      for (uint32_t k = 0; k < work.calls; ++k) {
        DraftCall& row = draft.calls[work.first_call + k];
        std::vector<uint32_t> ranks = members_of(draft, row.call, work);
        std::string name = row.call.group;
        if (row.call.group_is_object || name.empty()) {
          const auto [at, added] = name_of_object.try_emplace(name, "");
          if (added) at->second = "group " + std::to_string(objects[ranks]++);
          name = at->second;
        } else {
          name = "group " + name;
        }
        const auto [at, added] = seen.try_emplace({name, ranks}, 0);
        if (added) at->second = add_group(draft, work, name, std::move(ranks));
        row.group = at->second;
        settle(draft, work, row);
      }
    }
    for (DraftLostCall& lost : draft.lost) {
      if (lost.call.ranks.empty() && !lost.call.group.empty()) {
        for (const KinetoGroup& group : draft.groups) {
          if (group.name == lost.call.group) lost.call.ranks = group.ranks.empty() ? everyone() : group.ranks;
        }
      }
    }
  }

  uint32_t add_group(const RankDraft& draft, const DraftWork& work, const std::string& name,
                     std::vector<uint32_t> ranks) {
    const auto [at, added] = group_numbers_.try_emplace({name, ranks}, static_cast<uint32_t>(groups_.size()));
    if (!added) return at->second;
    std::vector<uint32_t> sorted = ranks, absent;
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) {
      fail(ErrorCode::invalid_input, draft, work.event, name + " names a rank twice");
    }
    if (!std::binary_search(sorted.begin(), sorted.end(), draft.rank)) {
      fail(ErrorCode::invalid_input, draft, work.event,
           words(draft, work) + " of rank " + std::to_string(draft.rank) + " is of " + name + ", to which only " +
               list_ranks(sorted) + " belong; is this the trace of another rank?");
    }
    JobGroup group{.name = name, .ranks = {}};
    for (const uint32_t rank : ranks) {
      const auto draft_at = draft_of_rank_.find(rank);
      if (draft_at == draft_of_rank_.end()) {
        absent.push_back(rank);
      } else {
        group.ranks.push_back(draft_at->second);
      }
    }
    if (!absent.empty()) {
      std::sort(absent.begin(), absent.end());
      fail(ErrorCode::invalid_input, draft, work.event,
           words(draft, work) + " is of " + name + ", to which " + list_ranks(absent) + " " +
               agree_words(absent, "belong", "belongs") + ", and there is no trace of " +
               (absent.size() == 1 ? "it" : "them") + "; give the traces of all ranks of a group");
    }
    groups_.push_back(std::move(group));
    return at->second;
  }

  static std::string agree_words(const std::vector<uint32_t>& ranks, const char* many, const char* one) {
    return banyan::agree(ranks, many, one);
  }

  // Bytes, root and peer of a call.
  void settle(RankDraft& draft, const DraftWork& work, DraftCall& row) {
    const JobGroup& group = groups_[row.group];
    const CommCall& call = row.call;
    const auto members = static_cast<uint32_t>(group.ranks.size());
    bool fits = true;
    try {
      if (call.kind_known) row.bytes = comm_bytes(call, members, fits);
    } catch (const Error& error) {
      throw error.within(draft.source + " event " + std::to_string(work.event));
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
      fail(ErrorCode::invalid_input, draft, work.event,
           words(draft, work) + " does not say which rank it " +
               (call.kind == CommCall::Kind::send ? "sends to" : "receives from") + " among " +
               std::to_string(members) + " of " + group.name +
               "; give the host trace, whose record_param_comms says so");
    }
    row.peer = drafts_[peer].rank == draft.rank ? kNoIndex - 1 : peer;
  }

  // ---- sequences

  void gather() {
    channels_.resize(groups_.size());
    for (size_t g = 0; g < groups_.size(); ++g) {
      channels_[g].name = groups_[g].name;
      for (const uint32_t d : groups_[g].ranks) {
        channels_[g].members.push_back({d, {}});
        place_[{static_cast<uint32_t>(g), d}] = channels_[g].members.size() - 1;
      }
    }
    std::map<std::pair<uint32_t, uint32_t>, size_t> pairs;
    for (uint32_t d = 0; d < drafts_.size(); ++d) {
      RankDraft& draft = drafts_[d];
      std::vector<uint32_t> order;
      for (uint32_t i = 0; i < draft.works.size(); ++i) {
        if (draft.works[i].calls > 0) order.push_back(i);
      }
      std::stable_sort(order.begin(), order.end(),
                       [&](uint32_t a, uint32_t b) { return draft.works[a].start < draft.works[b].start; });
      for (const uint32_t i : order) {
        const DraftWork& work = draft.works[i];
        for (uint32_t k = 0; k < work.calls; ++k) {
          const DraftCall& row = draft.calls[work.first_call + k];
          const Item item{i, work.first_call + k, work.start, work.end};
          if (row.call.kind == CommCall::Kind::collective) {
            channels_[row.group].members[place_.at({row.group, d})].items.push_back(item);
          } else if (row.peer != kNoIndex - 1) {
            const bool sends = row.call.kind == CommCall::Kind::send;
            const auto [at, added] =
                pairs.try_emplace(sends ? std::pair(d, row.peer) : std::pair(row.peer, d), channels_.size());
            if (added) {
              channels_.emplace_back();
              Channel& channel = channels_.back();
              channel.messages = true;
              channel.name = "messages from rank " + std::to_string(drafts_[at->first.first].rank) + " to rank " +
                             std::to_string(drafts_[at->first.second].rank);
              channel.members = {{at->first.first, {}}, {at->first.second, {}}};
            }
            channels_[at->second].members[sends ? 0 : 1].items.push_back(item);
          }
        }
      }
    }
  }

  DraftCall& row(const Member& member, const Item& item) const { return drafts_[member.draft].calls[item.call]; }

  Signature signature(const Channel& channel, const Member& member, const Item& item) const {
    const DraftCall& call = row(member, item);
    Signature out;
    out.kind_known = call.call.kind_known;
    out.kind = call.call.collective;
    out.bytes = call.bytes;
    if (!channel.messages && out.kind == JobCollective::all_to_all) out.bytes.reset();  // may be uneven
    if (!channel.messages && is_rooted(out.kind) && call.call.peer) out.root = call.root;
    if (channel.messages) {
      out.kind = JobCollective::all_reduce;
      out.kind_known = true;
    }
    return out;
  }

  static bool fit(const Signature& a, const Signature& b) {
    if (a.kind_known && b.kind_known && a.kind != b.kind) return false;
    if (a.bytes && b.bytes && *a.bytes != *b.bytes) return false;
    return !(a.root && b.root && *a.root != *b.root && a.kind == b.kind);
  }

  static void widen(Signature& a, const Signature& b) {
    if (!a.kind_known && b.kind_known) {
      a.kind = b.kind;
      a.kind_known = true;
    }
    if (!a.bytes) a.bytes = b.bytes;
    if (!a.root) a.root = b.root;
  }

  bool equal(const Channel& channel) const {
    const Member& first = channel.members.front();
    for (const Member& member : channel.members) {
      if (member.items.size() != first.items.size()) return false;
    }
    for (size_t i = 0; i < first.items.size(); ++i) {
      Signature all = signature(channel, first, first.items[i]);
      for (const Member& member : channel.members) {
        const Signature one = signature(channel, member, member.items[i]);
        if (!fit(all, one)) return false;
        widen(all, one);
      }
    }
    return true;
  }

  // Gives to all what some know, once the items of all members are in line.
  void agree(Channel& channel) {
    const size_t count = channel.members.front().items.size();
    for (size_t i = 0; i < count; ++i) {
      Signature all;
      uint64_t most = 0;
      bool uneven = false, any = false;
      for (const Member& member : channel.members) {
        widen(all, signature(channel, member, member.items[i]));
        const auto& bytes = row(member, member.items[i]).bytes;
        if (!bytes) continue;
        uneven = uneven || (any && most != *bytes);
        most = std::max(most, *bytes);
        any = true;
      }
      const RankDraft& somebody = drafts_[channel.members.front().draft];
      const DraftWork& work = somebody.works[channel.members.front().items[i].work];
      if (!all.kind_known) {
        fail(ErrorCode::invalid_input, somebody, work.event,
             words(somebody, work) + ": no rank's trace says what it does; give the host trace of one rank of " +
                 channel.name);
      }
      if (!any && all.kind != JobCollective::barrier) {
        fail(ErrorCode::invalid_input, somebody, work.event,
             words(somebody, work) +
                 ": no rank's trace says how large it is; give the host trace "
                 "(ExecutionTraceObserver) of one rank of " +
                 channel.name + ", or record with PyTorch 2.3 or newer");
      }
      for (const Member& member : channel.members) {
        DraftCall& call = row(member, member.items[i]);
        LinkCounts& counts = drafts_[member.draft].counts;
        if (!call.bytes || !call.call.kind_known) ++counts.comm_by_peers;
        if (uneven) ++counts.uneven;
        call.bytes = most;
        if (!channel.messages) {
          call.call.collective = all.kind;
          call.call.kind_known = true;
          call.root = all.root.value_or(0);
          if (is_rooted(all.kind) && !all.root) ++counts.roots_assumed;
        }
      }
    }
  }

  // ---- clocks

  void compare_clocks(const Channel& channel) {
    const Member& first = channel.members.front();
    for (size_t m = 1; m < channel.members.size(); ++m) {
      const Member& other = channel.members[m];
      std::vector<int64_t>& differences = differences_[{first.draft, other.draft}];
      for (size_t i = 0; i < first.items.size() && differences.size() < 10'000; ++i) {
        differences.push_back(other.items[i].end - first.items[i].end);
      }
    }
  }

  void set_clocks() {
    std::vector<std::vector<std::pair<uint32_t, int64_t>>> neighbours(drafts_.size());
    for (auto& [pair, differences] : differences_) {
      if (differences.empty()) continue;
      const auto middle = differences.begin() + static_cast<std::ptrdiff_t>(differences.size() / 2);
      std::nth_element(differences.begin(), middle, differences.end());
      neighbours[pair.first].emplace_back(pair.second, *middle);
      neighbours[pair.second].emplace_back(pair.first, -*middle);
    }
    clock_of_.assign(drafts_.size(), UINT32_MAX);
    for (uint32_t root = 0; root < drafts_.size(); ++root) {
      if (clock_of_[root] != UINT32_MAX) continue;
      clock_of_[root] = root;
      std::queue<uint32_t> todo;
      todo.push(root);
      while (!todo.empty()) {
        const uint32_t at = todo.front();
        todo.pop();
        for (const auto& [next, difference] : neighbours[at]) {
          if (clock_of_[next] != UINT32_MAX) continue;
          clock_of_[next] = root;
          offsets_[next] = offsets_[at] + difference;
          todo.push(next);
        }
      }
    }
  }

  // Two that have no clock in common get one: all that hang on b's are moved.
  void join_clocks(uint32_t a, uint32_t b, int64_t difference) {
    const uint32_t from = clock_of_[b];
    const int64_t move = offsets_[a] + difference - offsets_[b];
    for (uint32_t d = 0; d < drafts_.size(); ++d) {
      if (clock_of_[d] != from) continue;
      clock_of_[d] = clock_of_[a];
      offsets_[d] += move;
    }
  }

  // ---- what was lost

  struct Merged {
    Signature what;
    int64_t start = 0, end = 0;     // by the common clock
    std::vector<uint32_t> item_of;  // by member: its item, or kNoIndex
    uint32_t seen = 0;
  };

  std::string describe(const Channel& channel, const Member& member, const Item& item) const {
    const RankDraft& draft = drafts_[member.draft];
    const DraftWork& work = draft.works[item.work];
    const Signature what = signature(channel, member, item);
    std::string text = channel.messages  ? "a message"
                       : what.kind_known ? std::string(to_string(what.kind))
                                         : "something";
    if (what.bytes) text += " of " + std::to_string(*what.bytes) + " bytes";
    if (what.root) text += " with root " + std::to_string(*what.root);
    return text + " (" + draft.source + " event " + std::to_string(work.event) + ")";
  }

  void align(Channel& channel) {
    // Beginning with the one that has most, which likely lost nothing.
    std::vector<uint32_t> order(channel.members.size());
    for (uint32_t m = 0; m < order.size(); ++m) order[m] = m;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return channel.members[a].items.size() > channel.members[b].items.size();
    });
    std::vector<Merged> merged;
    for (const uint32_t m : order) {
      if (m == order.front()) {
        const Member& member = channel.members[m];
        for (uint32_t i = 0; i < member.items.size(); ++i) merged.push_back(entry(channel, m, i));
      } else {
        merged = merge(channel, merged, order.front(), m);
      }
    }
    refuse_unlikely(channel, merged);
    insert(channel, merged);
    agree(channel);
  }

  Merged entry(const Channel& channel, uint32_t m, uint32_t i) const {
    const Member& member = channel.members[m];
    Merged out;
    out.what = signature(channel, member, member.items[i]);
    out.start = member.items[i].start - offsets_[member.draft];
    out.end = member.items[i].end - offsets_[member.draft];
    out.item_of.assign(channel.members.size(), kNoIndex);
    out.item_of[m] = i;
    out.seen = 1;
    return out;
  }

  struct Alignment {
    int64_t cost = kImpossible;
    std::vector<int8_t> steps;  // 0: both, 1: merged alone, 2: member alone; from the front
  };

  // The cheapest of those within a band around the diagonal. `shift` is taken off the member's times.
  Alignment cheapest(const Channel& channel, const std::vector<Merged>& merged, const Member& member,
                     int64_t shift) const {
    const auto n = static_cast<int64_t>(merged.size()), m = static_cast<int64_t>(member.items.size());
    const int64_t band = std::abs(n - m) + 16, width = 2 * band + 1;
    if (static_cast<uint64_t>(n + 1) * static_cast<uint64_t>(width) > kMostCells) {
      throw Error(ErrorCode::unsupported,
                  channel.name + ": the traces of " + drafts_[member.draft].source + " and others have " +
                      std::to_string(m) + " and " + std::to_string(n) +
                      " calls, which is too different to be aligned; give traces of the same steps");
    }
    std::vector<Signature> own;
    for (const Item& item : member.items) own.push_back(signature(channel, member, item));
    std::vector<int64_t> above(static_cast<size_t>(width), kImpossible), here(above);
    std::vector<int8_t> steps(static_cast<size_t>((n + 1) * width), -1);
    for (int64_t i = 0; i <= n; ++i) {
      std::fill(here.begin(), here.end(), kImpossible);
      for (int64_t j = std::max<int64_t>(0, i - band); j <= std::min(m, i + band); ++j) {
        const int64_t at = j - i + band;
        int64_t best = i == 0 && j == 0 ? 0 : kImpossible;
        int8_t step = -1;
        const auto offer = [&](int64_t cost, int8_t how) {
          if (cost < best) {
            best = cost;
            step = how;
          }
        };
        if (i > 0 && j > 0 && above[static_cast<size_t>(at)] < kImpossible &&
            fit(merged[static_cast<size_t>(i - 1)].what, own[static_cast<size_t>(j - 1)])) {
          const int64_t apart =
              std::abs(merged[static_cast<size_t>(i - 1)].end - (member.items[static_cast<size_t>(j - 1)].end - shift));
          offer(above[static_cast<size_t>(at)] + std::min(apart, kMostApart), 0);
        }
        if (i > 0 && at + 1 < width && above[static_cast<size_t>(at + 1)] < kImpossible) {
          offer(above[static_cast<size_t>(at + 1)] + kLeftOver, 1);
        }
        if (j > 0 && at > 0 && here[static_cast<size_t>(at - 1)] < kImpossible) {
          offer(here[static_cast<size_t>(at - 1)] + kLeftOver, 2);
        }
        here[static_cast<size_t>(at)] = best;
        steps[static_cast<size_t>(i * width + at)] = step;
      }
      std::swap(above, here);
    }
    Alignment out;
    out.cost = above[static_cast<size_t>(m - n + band)];
    for (int64_t i = n, j = m; i > 0 || j > 0;) {
      const int8_t step = steps[static_cast<size_t>(i * width + (j - i + band))];
      CHECK(step >= 0) << i << " " << j;
      out.steps.push_back(step);
      if (step != 2) --i;
      if (step != 1) --j;
    }
    std::reverse(out.steps.begin(), out.steps.end());
    return out;
  }

  std::vector<Merged> merge(const Channel& channel, std::vector<Merged>& merged, uint32_t reference, uint32_t m) {
    const Member& member = channel.members[m];
    const uint32_t base = channel.members[reference].draft;
    Alignment best;
    if (clock_of_[base] == clock_of_[member.draft] || merged.empty() || member.items.empty()) {
      best = cheapest(channel, merged, member, offsets_[member.draft]);
    } else {
      // No clock in common: either the ends are in line or the beginnings.
      const int64_t at_end = member.items.back().end - merged.back().end,
                    at_begin = member.items.front().end - merged.front().end;
      best = cheapest(channel, merged, member, at_end);
      Alignment other = cheapest(channel, merged, member, at_begin);
      int64_t shift = at_end;
      if (other.cost < best.cost) {
        best = std::move(other);
        shift = at_begin;
      }
      join_clocks(base, member.draft, shift - offsets_[base]);
    }
    std::vector<Merged> out;
    size_t i = 0;
    uint32_t j = 0;
    // Left-overs of both sides between two that are in line contradict each other.
    size_t alone_merged = kNoIndex;
    uint32_t alone_member = kNoIndex;
    for (const int8_t step : best.steps) {
      if (step == 0) {
        alone_merged = kNoIndex;
        alone_member = kNoIndex;
        out.push_back(std::move(merged[i++]));
        widen(out.back().what, signature(channel, member, member.items[j]));
        out.back().item_of[m] = j++;
        ++out.back().seen;
        continue;
      }
      if (step == 1) {
        alone_merged = i;
      } else {
        alone_member = j;
      }
      if (alone_merged != kNoIndex && alone_member != kNoIndex)
        contradict(channel, merged, out, step == 1 ? i : alone_merged, m, alone_member);
      if (step == 1) {
        out.push_back(merged[i++]);
      } else {
        out.push_back(entry(channel, m, j++));
      }
    }
    return out;
  }

  [[noreturn]] void contradict(const Channel& channel, const std::vector<Merged>& merged,
                               const std::vector<Merged>& moved, size_t i, uint32_t m, uint32_t j) const {
    const Merged& one = i < merged.size() && !merged[i].item_of.empty() ? merged[i] : moved.back();
    uint32_t other = 0;
    while (other < channel.members.size() && one.item_of[other] == kNoIndex) ++other;
    CHECK(other < channel.members.size()) << channel.name;
    const Member &a = channel.members[other], &b = channel.members[m];
    throw Error(ErrorCode::mismatch, channel.name + ": rank " + std::to_string(drafts_[a.draft].rank) + " has " +
                                         describe(channel, a, a.items[one.item_of[other]]) + " where rank " +
                                         std::to_string(drafts_[b.draft].rank) + " has " +
                                         describe(channel, b, b.items[j]) +
                                         "; are these traces of one run and the same steps?");
  }

  // A few lost ones are mended; a rank without most of them has another window or is of another run.
  void refuse_unlikely(const Channel& channel, const std::vector<Merged>& merged) const {
    const size_t members = channel.members.size();
    for (uint32_t m = 0; m < members; ++m) {
      const size_t has = channel.members[m].items.size();
      if (has * 2 >= merged.size() || merged.size() < 4) continue;
      const RankDraft& draft = drafts_[channel.members[m].draft];
      throw Error(ErrorCode::mismatch, channel.name + ": " + draft.source + " has " + std::to_string(has) + " of " +
                                           std::to_string(merged.size()) +
                                           " calls, too few to mend; give traces of the same steps for all ranks");
    }
    size_t first = 0, last = merged.size();
    while (first < last && merged[first].seen < members) ++first;
    while (last > first && merged[last - 1].seen < members) --last;
    for (size_t i = first; i < last; ++i) {
      if (merged[i].seen * 2 >= members) continue;
      uint32_t m = 0;
      while (merged[i].item_of[m] == kNoIndex) ++m;
      const Member& member = channel.members[m];
      throw Error(ErrorCode::mismatch, channel.name + ": only " + std::to_string(merged[i].seen) + " of " +
                                           std::to_string(members) + " ranks have " +
                                           describe(channel, member, member.items[merged[i].item_of[m]]) +
                                           "; are these traces of one run?");
    }
  }

  void insert(Channel& channel, const std::vector<Merged>& merged) {
    for (uint32_t m = 0; m < channel.members.size(); ++m) {
      Member& member = channel.members[m];
      size_t first = 0, last = merged.size();
      while (first < last && merged[first].item_of[m] == kNoIndex) ++first;
      while (last > first && merged[last - 1].item_of[m] == kNoIndex) --last;
      std::vector<Item> all;
      for (size_t i = 0; i < merged.size(); ++i) {
        if (merged[i].item_of[m] != kNoIndex) {
          all.push_back(member.items[merged[i].item_of[m]]);
          continue;
        }
        LinkCounts& counts = drafts_[member.draft].counts;
        ++counts.inserted;
        if (last > first) {
          counts.inserted_head += i < first;
          counts.inserted_tail += i >= last;
        }
        all.push_back(insert_one(channel, merged, i, m, all));
      }
      member.items = std::move(all);
    }
  }

  Item insert_one(Channel& channel, const std::vector<Merged>& merged, size_t i, uint32_t m,
                  const std::vector<Item>& before) {
    Member& member = channel.members[m];
    RankDraft& draft = drafts_[member.draft];
    // From whom it is taken.
    uint32_t other = 0;
    while (merged[i].item_of[other] == kNoIndex) ++other;
    const Member& giver = channel.members[other];
    const Item given = original(channel, merged, i, other);
    const RankDraft& from = drafts_[giver.draft];
    DraftWork work;
    work.kind = DraftWork::Kind::comm;
    work.inserted = true;
    work.name = draft.add_name(from.names[from.works[given.work].name]);
    work.event = from.works[given.work].event;
    work.start = merged[i].start + offsets_[member.draft];
    // Beside its like on this rank, and between them.
    uint32_t next = kNoIndex;
    for (size_t k = i + 1; k < merged.size() && next == kNoIndex; ++k) {
      if (merged[k].item_of[m] != kNoIndex) next = member.items[merged[k].item_of[m]].work;
    }
    const uint32_t previous = before.empty() ? kNoIndex : before.back().work;
    const uint32_t like = previous != kNoIndex ? previous : next;
    work.lane = like != kNoIndex ? draft.works[like].lane : lane_for(draft, from.lanes[from.works[given.work].lane]);
    if (next != kNoIndex && work.start >= draft.works[next].start) {
      work.start = draft.works[next].start;
      work.order = draft.works[next].order - 1;
    }
    if (previous != kNoIndex && work.start <= draft.works[previous].start) {
      work.start = draft.works[previous].start;
      work.order = draft.works[previous].order + 1;
    }
    work.end = work.start;
    work.launched = work.start;
    launch(draft, merged[i].what, work);
    DraftCall call;
    call.call = row(giver, given).call;
    call.bytes = row(giver, given).bytes;
    call.root = row(giver, given).root;
    if (channel.messages) {
      call.call.kind = m == 0 ? CommCall::Kind::send : CommCall::Kind::receive;
      call.peer = channel.members[1 - m].draft;
    } else {
      call.group = row(giver, given).group;
    }
    work.first_call = static_cast<uint32_t>(draft.calls.size());
    work.calls = 1;
    draft.calls.push_back(std::move(call));
    draft.works.push_back(work);
    draft.note(channel.name + ": put back " + describe(channel, giver, given) + ", which this rank's trace has not");
    return {static_cast<uint32_t>(draft.works.size() - 1), work.first_call, work.start, work.end};
  }

  // Of a member whose items may already be the completed ones: then they are in line with the merged sequence.
  static Item original(const Channel& channel, const std::vector<Merged>& merged, size_t i, uint32_t m) {
    const std::vector<Item>& items = channel.members[m].items;
    return items.size() == merged.size() ? items[i] : items[merged[i].item_of[m]];
  }

  static uint32_t lane_for(RankDraft& draft, const DraftLane& like) {
    for (uint32_t lane = 0; lane < draft.lanes.size(); ++lane) {
      if (draft.lanes[lane].label == like.label) return lane;
    }
    draft.lanes.push_back(like);
    return static_cast<uint32_t>(draft.lanes.size() - 1);
  }

  // The host's own record of the call, if it has one whose kernel was lost; else the last thing it did before.
  void launch(RankDraft& draft, const Signature& what, DraftWork& work) const {
    DraftLostCall* best = nullptr;
    for (DraftLostCall& lost : draft.lost) {
      if (lost.used || lost.thread == kNoIndex || lost.point == kNoIndex ||
          lost.call.kind != CommCall::Kind::collective)
        continue;
      if (what.kind_known && lost.call.collective != what.kind) continue;
      if (best == nullptr || std::abs(lost.time - work.start) < std::abs(best->time - work.start)) best = &lost;
    }
    if (best != nullptr && best->time <= work.start + kMostApart) {
      best->used = true;
      work.thread = best->thread;
      work.point = best->point;
      work.launched = best->time;
      --draft.counts.calls_without_kernel;
      return;
    }
    int64_t latest = INT64_MIN;
    for (uint32_t thread = 0; thread < draft.threads.size(); ++thread) {
      const std::vector<DraftPoint>& points = draft.threads[thread].points;
      auto at = std::upper_bound(points.begin(), points.end(), work.start,
                                 [](int64_t t, const DraftPoint& point) { return t < point.end; });
      while (at != points.begin()) {
        --at;
        if (at->kind != DraftPoint::Kind::launch) continue;
        if (at->end <= latest) break;
        latest = at->end;
        work.thread = thread;
        work.point = static_cast<uint32_t>(at - points.begin());
        work.launched = at->end;
        break;
      }
    }
  }

  std::vector<RankDraft>& drafts_;
  std::vector<int64_t>& offsets_;
  uint32_t world_ = 0;
  std::unordered_map<uint32_t, uint32_t> draft_of_rank_;
  std::vector<JobGroup> groups_;
  std::map<std::pair<std::string, std::vector<uint32_t>>, uint32_t> group_numbers_;
  std::map<std::pair<uint32_t, uint32_t>, size_t> place_;  // group, draft: its member
  std::vector<Channel> channels_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<int64_t>> differences_;
  std::vector<uint32_t> clock_of_;  // drafts with the same one have a clock in common
};

}  // namespace

std::vector<JobGroup> match_ranks(std::vector<RankDraft>& drafts, std::vector<int64_t>& offsets) {
  return Matcher(drafts, offsets).match();
}

}  // namespace banyan
