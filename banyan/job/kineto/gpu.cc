#include "banyan/job/kineto/gpu.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {
namespace {

using Kind = Event::Kind;

class GpuWorkMaker {
 public:
  GpuWorkMaker(const RankReading& reading, CommOperators& operators, RankDraft& draft)
      : reading_(reading), operators_(operators), draft_(draft) {}

  GpuWorks make() && {
    const Launches& launches = reading_.launches;
    out_.work_of.assign(reading_.event_count(), kNoIndex);
    draft_.works.reserve(launches.gpu_events.size());
    for (size_t k = 0; k < launches.gpu_events.size(); ++k) {
      const uint32_t i = launches.gpu_events[k];
      const Event& e = reading_.event(i);
      DraftWork work{.start = e.start,
                     .end = e.end(),
                     .launched = launches.launched[k],
                     .launch = {},
                     .track = track_of(e.track),
                     .name = draft_.names.add(reading_.name(i)),
                     .event = e.number};
      CommCall by_name;
      if (e.kind == Kind::memcpy || e.kind == Kind::memset) {
        work.kind = DraftWork::Kind::memory;
        work.bytes = e.bytes;
        ++draft_.counts.memory;
      } else if (read_kernel_name(reading_.name(i), by_name) || e.comm != kNoIndex) {
        out_.communicates = true;
        if (!communicate(i, by_name, work)) continue;
      } else {
        ++draft_.counts.kernels;
      }
      out_.work_of[i] = next_work();
      draft_.works.push_back(work);
    }
    if (reading_.host && !bare_works_.empty()) describe_by_order();
    return std::move(out_);
  }

 private:
  uint32_t next_work() const { return static_cast<uint32_t>(draft_.works.size()); }

  uint32_t track_of(uint32_t trace_track) {
    const auto [at, added] = tracks_.try_emplace(trace_track, static_cast<uint32_t>(draft_.tracks.size()));
    if (added) {
      const Track& track = reading_.trace.tracks[trace_track];
      draft_.tracks.push_back({.label = track.label, .device = track.process, .stream = track.thread});
    }
    return at->second;
  }

  // Fills in the calls of a kernel. False: it belongs to a work before, which then lasts longer.
  bool communicate(uint32_t i, const CommCall& by_name, DraftWork& work) {
    const Event& e = reading_.event(i);
    const std::optional<CommCall> own = e.comm == kNoIndex ? std::nullopt : std::optional(reading_.trace.comms[e.comm]);
    const uint32_t launcher = reading_.launches.launcher[i];
    uint32_t from = launcher;
    if (launcher != kNoIndex && reading_.event(launcher).kind == Kind::runtime) from = reading_.parents[launcher];
    const std::optional<CommFacts> facts = from == kNoIndex ? std::nullopt : operators_.around(from);
    work.kind = DraftWork::Kind::comm;
    if (folds(e, facts)) return false;

    std::vector<CommCall> calls;
    if (facts || own) {
      CommCall call = own ? *own : facts->call;
      if (own && facts) call.fill_from(facts->call);
      if (!call.kind_known) call.fill_from(by_name);
      count_source(own && own->has_size(), facts && facts->by_host);
      calls.push_back(std::move(call));
      if (facts && facts->node != kNoIndex) node_of_work_.emplace_back(next_work(), facts->node);
    } else if (launcher != kNoIndex) {
      for (CommFacts& gathered : operators_.gathered_before(launcher)) {
        count_source(false, gathered.by_host);
        calls.push_back(std::move(gathered.call));
      }
      if (calls.size() > 1) draft_.counts.calls_coalesced += calls.size();
    }
    if (calls.empty()) {
      calls.push_back(by_name);
      bare_works_.push_back(next_work());
    }
    draft_.set_calls(work, std::move(calls));
    return true;
  }

  void count_source(bool by_kernel, bool by_host) {
    LinkCounts& counts = draft_.counts;
    ++(by_kernel ? counts.comm_by_kernel : by_host ? counts.comm_by_host : counts.comm_by_operator);
  }

  // Several kernels of one call: the first stands for all.
  bool folds(const Event& e, const std::optional<CommFacts>& facts) {
    std::pair<CallBy, int64_t> key;
    if (facts) {
      key = facts->event != kNoIndex ? std::pair(CallBy::event, int64_t{facts->event})
                                     : std::pair(CallBy::node, int64_t{facts->node});
    } else if (e.comm != kNoIndex && e.external_id > 0) {
      key = {CallBy::external_id, e.external_id};
    } else {
      return false;
    }
    const auto [at, added] = work_of_call_.try_emplace(key, next_work());
    if (added) return false;
    DraftWork& first = draft_.works[at->second];
    first.start = std::min(first.start, e.start);
    first.end = std::max(first.end, e.end());
    ++draft_.counts.kernels_folded;
    return true;
  }

  // Kernels of which only the name is known, because the operators around them are not in the Kineto trace: between the
  // calls before and after them, the host trace has calls that no kernel has. They are taken in their order.
  void describe_by_order() {
    const HostTrace& host = *reading_.host;
    std::vector<bool> used(host.nodes.size());
    for (const auto& [work, node] : node_of_work_) used[node] = true;
    struct Candidates {
      std::vector<uint32_t> nodes;  // ascending
      size_t next = 0;
    };
    // By what the name of their kernel can say: a collective, or nothing of what consists of messages.
    std::map<std::optional<CollectiveKind>, Candidates> candidates;
    for (uint32_t node = 0; node < host.nodes.size(); ++node) {
      if (used[node] || host.nodes[node].comm == HostNode::kNone || host.name(host.nodes[node]) != kParamComms)
        continue;
      const CommCall& known = host.comms[host.nodes[node].comm];
      const bool messages = known.kind != CommCall::Kind::collective || known.collective == CollectiveKind::all_to_all;
      candidates[messages ? std::nullopt : std::optional(known.collective)].nodes.push_back(node);
    }
    auto after = node_of_work_.begin();
    uint32_t low = 0;
    for (const uint32_t i : bare_works_) {
      while (after != node_of_work_.end() && after->first < i) low = std::max(low, (after++)->second);
      const uint32_t high = after == node_of_work_.end() ? static_cast<uint32_t>(host.nodes.size()) : after->second;
      CommCall& call = draft_.calls[draft_.works[i].first_call].call;
      auto& [nodes, next] = candidates[call.kind_known ? std::optional(call.collective) : std::nullopt];
      while (next < nodes.size() && nodes[next] < low) ++next;
      if (next == nodes.size() || nodes[next] >= high) continue;
      low = nodes[next++];
      const CommCall& known = host.comms[host.nodes[low].comm];
      if (known.kind != CommCall::Kind::collective) {
        --draft_.counts.collectives;
        ++draft_.counts.messages;
      }
      call = known;
      ++draft_.counts.comm_by_order;
    }
  }

  enum class CallBy : uint8_t { event, node, external_id };

  const RankReading& reading_;
  CommOperators& operators_;
  RankDraft& draft_;
  GpuWorks out_;
  std::unordered_map<uint32_t, uint32_t> tracks_;  // by track of the trace
  std::map<std::pair<CallBy, int64_t>, uint32_t> work_of_call_;
  std::vector<std::pair<uint32_t, uint32_t>> node_of_work_;  // of the host trace, works ascending
  std::vector<uint32_t> bare_works_;                         // of which only the kernel's name is known
};

}  // namespace

GpuWorks add_gpu_works(const RankReading& reading, CommOperators& operators, RankDraft& draft) {
  return GpuWorkMaker(reading, operators, draft).make();
}

void mend_overlaps(RankDraft& draft) {
  std::vector<std::vector<uint32_t>> tracks(draft.tracks.size());
  for (uint32_t i = 0; i < draft.works.size(); ++i) tracks[draft.works[i].track].push_back(i);
  for (uint32_t track = 0; track < tracks.size(); ++track) {
    std::vector<uint32_t>& works = tracks[track];
    std::ranges::stable_sort(works, {}, [&](uint32_t a) { return draft.works[a].start; });
    for (size_t k = 0; k < works.size(); ++k) {
      DraftWork& work = draft.works[works[k]];
      // With room between, for works that other ranks prove.
      work.order = static_cast<int64_t>(k) << 32;
      if (draft.tracks[track].host || k + 1 == works.size()) continue;
      const int64_t next = draft.works[works[k + 1]].start;
      if (work.end <= next) continue;
      ++draft.counts.overlaps;
      draft.counts.add_time(&LinkCounts::overlap_ns, work.end - next);
      work.end = next;
    }
  }
}

}  // namespace banyan::job::kineto
