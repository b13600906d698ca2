#include "banyan/predict/job/kineto_draft.h"

#include <algorithm>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/predict/job/kineto_link.h"

namespace banyan {
namespace {

using Kind = KinetoEvent::Kind;

constexpr std::string_view kParamComms = "record_param_comms";
// Beyond this, times of one trace are no times of one run.
constexpr int64_t kLongestTrace = int64_t{1'000'000'000} * 3600 * 24 * 12;

bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// What `call` leaves open is taken from `other`.
void fill(CommCall& call, const CommCall& other) {
  if (!call.kind_known && other.kind_known) {
    call.kind = other.kind;
    call.collective = other.collective;
    call.kind_known = true;
  }
  if (call.kind != other.kind || call.collective != other.collective) return;
  if (!call.in_elements) call.in_elements = other.in_elements;
  if (!call.out_elements) call.out_elements = other.out_elements;
  if (call.width == 0) call.width = other.width;
  if (call.group.empty()) {
    call.group = other.group;
    call.group_is_object = other.group_is_object;
  }
  if (call.group_size == 0) call.group_size = other.group_size;
  if (call.ranks.empty()) call.ranks = other.ranks;
  if (call.first_rank < 0) call.first_rank = other.first_rank;
  if (call.rank_stride == 0) call.rank_stride = other.rank_stride;
  if (!call.peer) call.peer = other.peer;
  if (!call.global_peer) call.global_peer = other.global_peer;
}

bool has_size(const CommCall& call) { return call.width > 0 && (call.in_elements || call.out_elements); }

class Drafter {
 public:
  Drafter(KinetoTrace trace, std::optional<HostTrace> host, const KinetoOptions& options)
      : trace_(std::move(trace)), host_(std::move(host)), options_(options) {}

  RankDraft make() && {
    copy_counts();
    only_the_step();
    check_span();
    parents_ = nest_operators(trace_);
    if (host_) link();
    find_launchers();
    mend_gpu_clock();
    collect_comm_operators();
    make_works();
    host_communications();
    make_threads();
    mend_overlaps();
    set_origin();
    return std::move(draft_);
  }

 private:
  const KinetoEvent& event(uint32_t i) const { return trace_.events[i]; }

  void copy_counts() {
    draft_.source = trace_.source;
    draft_.world_size = trace_.world_size;
    LinkCounts& counts = draft_.counts;
    counts.events = trace_.event_count;
    counts.without_time = trace_.without_time;
    counts.without_end = trace_.without_end;
    counts.ends_alone = trace_.ends_alone;
    counts.mended_text = trace_.mended_text;
    counts.cut_files = trace_.cut;
    if (trace_.cut) {
      draft_.note(trace_.source + " ends in the middle, at byte " + std::to_string(trace_.position) + " after event " +
                  std::to_string(trace_.event_count) + ": read up to there");
    }
    if (host_) {
      draft_.host_source = host_->source;
      draft_.groups = std::move(host_->groups);
      counts.missing_parents = host_->missing_parents;
      counts.repeated_nodes = host_->repeated_ids;
      counts.mended_text += host_->mended_text;
      counts.cut_files += host_->cut;
      if (host_->cut) draft_.note(host_->source + " ends in the middle: read up to there");
    }
    draft_.groups.insert(draft_.groups.end(), trace_.groups.begin(), trace_.groups.end());
  }

  // Keeps what began, or for a GPU was launched, within ProfilerStep#N.
  void only_the_step() {
    if (!options_.step) return;
    const std::string name = "ProfilerStep#" + std::to_string(*options_.step);
    int64_t begin = 0, end = 0;
    bool found = false;
    std::string known;
    for (const KinetoEvent& e : trace_.events) {
      if (e.on_gpu()) continue;
      if (trace_.name(e) == name) {
        begin = found ? std::min(begin, e.start) : e.start;
        end = found ? std::max(end, e.end()) : e.end();
        found = true;
      } else if (trace_.name(e).starts_with("ProfilerStep#") && known.size() < 200) {
        known += (known.empty() ? "" : ", ") + std::string(trace_.name(e).substr(13));
      }
    }
    if (!found) {
      throw Error(ErrorCode::not_found,
                  "has no step " + std::to_string(*options_.step) +
                      (known.empty() ? "; it has no ProfilerStep annotations, so read it whole" : "; it has " + known),
                  trace_.source);
    }
    std::unordered_map<int64_t, int64_t> launched;
    for (const KinetoEvent& e : trace_.events) {
      if (e.kind == Kind::runtime && e.correlation > 0) launched.try_emplace(e.correlation, e.start);
    }
    std::erase_if(trace_.events, [&](const KinetoEvent& e) {
      int64_t at = e.start;
      if (e.on_gpu()) {
        const auto call = launched.find(e.correlation);
        if (call != launched.end()) at = call->second;
      }
      return at < begin || at >= end || trace_.name(e) == name;
    });
  }

  void check_span() const {
    if (trace_.events.empty()) {
      throw Error(ErrorCode::invalid_input,
                  "has no operators, kernels or calls of the CUDA runtime; record it with torch.profiler and the "
                  "activities CPU and CUDA",
                  trace_.source);
    }
    if (trace_.events.size() >= kNoIndex / 2)
      throw Error(ErrorCode::unsupported, "has more than 2^31 events", trace_.source);
    const auto first = std::min_element(trace_.events.begin(), trace_.events.end(),
                                        [](const auto& a, const auto& b) { return a.start < b.start; });
    const auto last = std::max_element(trace_.events.begin(), trace_.events.end(),
                                       [](const auto& a, const auto& b) { return a.end() < b.end(); });
    // An event of time zero among others of today is one that lost its time, see mend_gpu_clock.
    const int64_t begin = first->on_gpu() && first->start == 0 ? last->start : first->start;
    if (last->end() - begin > kLongestTrace) {
      throw Error(ErrorCode::invalid_input,
                  "event " + std::to_string(last->number) + " ends more than 12 days after event " +
                      std::to_string(first->number) + " begins; take out what does not belong to the run",
                  trace_.source);
    }
  }

  void link() {
    HostLinks links = link_host(trace_, parents_, *host_);
    node_of_ = std::move(links.node_of);
    LinkCounts& counts = draft_.counts;
    counts.linked_by_record_id = links.by_record_id;
    counts.linked_by_index = links.by_index;
    counts.linked_by_name = links.by_name;
    counts.contradicted_links = links.contradicted;
    counts.links_taken_back = links.taken_back;
    counts.host_alone = links.host_alone;
    counts.kineto_alone = links.kineto_alone;
  }

  // By event of a GPU: the call that launched it, or kNoIndex.
  void find_launchers() {
    std::unordered_map<int64_t, uint32_t> calls;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const KinetoEvent& e = event(i);
      if (e.kind != Kind::runtime || e.correlation <= 0) continue;
      const auto [at, added] = calls.try_emplace(e.correlation, i);
      if (added) continue;
      // A call of the runtime and the driver's within it share a correlation; the outer one is the launch.
      const KinetoEvent& other = event(at->second);
      const bool nested = e.lane == other.lane && e.start <= other.end() && other.start <= e.end();
      if (!nested) ++draft_.counts.repeated_correlations;
      if (e.duration > other.duration) at->second = i;
    }
    calls_ = std::move(calls);
    launcher_.assign(trace_.events.size(), kNoIndex);
    std::vector<uint32_t> orphans;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const KinetoEvent& e = event(i);
      if (!e.on_gpu()) continue;
      const auto at = e.correlation > 0 ? calls_.find(e.correlation) : calls_.end();
      if (at != calls_.end()) {
        launcher_[i] = at->second;
        ++draft_.counts.launched_by_correlation;
      } else {
        orphans.push_back(i);
      }
    }
    if (!orphans.empty()) adopt(orphans);
  }

  // What has no call of its correlation: by the operator of its External id, by the arrow that ends at it.
  void adopt(const std::vector<uint32_t>& orphans) {
    std::unordered_map<int64_t, uint32_t> operators;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (event(i).kind == Kind::cpu_op && event(i).external_id > 0) operators.try_emplace(event(i).external_id, i);
    }
    std::unordered_map<int64_t, const KinetoArrow*> starts;
    for (const KinetoArrow& arrow : trace_.starts) starts.try_emplace(arrow.id, &arrow);
    std::unordered_map<std::pair<int64_t, int64_t>, int64_t, PairHash> ends;  // lane, time: id of the arrow
    for (const KinetoArrow& arrow : trace_.ends) ends.try_emplace({arrow.lane, arrow.time}, arrow.id);
    std::vector<std::pair<int64_t, uint32_t>> launches;  // correlation, call
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (launcher_[i] != kNoIndex) launches.emplace_back(event(i).correlation, launcher_[i]);
    }
    std::sort(launches.begin(), launches.end());
    for (const uint32_t i : orphans) {
      const KinetoEvent& e = event(i);
      const auto by_id = e.external_id > 0 ? operators.find(e.external_id) : operators.end();
      if (by_id != operators.end()) {
        launcher_[i] = by_id->second;
        ++draft_.counts.launched_by_external_id;
        continue;
      }
      const auto end = ends.find({e.lane, e.start});
      const auto arrow = starts.find(e.correlation > 0 || end == ends.end() ? e.correlation : end->second);
      const uint32_t around = arrow == starts.end() ? kNoIndex : event_around(arrow->second->lane, arrow->second->time);
      if (around != kNoIndex) {
        launcher_[i] = around;
        ++draft_.counts.launched_by_arrow;
        continue;
      }
      ++draft_.counts.without_launcher;
      // Correlations count up: it was launched after the call with the next lower one.
      const auto after = std::lower_bound(launches.begin(), launches.end(), std::pair(e.correlation, uint32_t{0}));
      if (after != launches.begin() && event(std::prev(after)->second).start <= e.start) {
        launcher_[i] = std::prev(after)->second;
        ++draft_.counts.launched_by_order;
      }
      draft_.note("event " + std::to_string(e.number) + " ('" + std::string(trace_.name(e).substr(0, 60)) +
                  "') has no call that launched it (correlation " + std::to_string(e.correlation) + ")");
    }
  }

  // The shortest event of a host's thread around a moment.
  uint32_t event_around(uint32_t lane, int64_t time) {
    if (by_lane_.empty()) {
      by_lane_.resize(trace_.lanes.size());
      for (uint32_t i = 0; i < trace_.events.size(); ++i) {
        if (event(i).kind == Kind::cpu_op || event(i).kind == Kind::runtime) by_lane_[event(i).lane].push_back(i);
      }
      for (auto& lane_events : by_lane_) {
        std::sort(lane_events.begin(), lane_events.end(),
                  [&](uint32_t a, uint32_t b) { return event(a).start < event(b).start; });
      }
    }
    const std::vector<uint32_t>& all = by_lane_[lane];
    auto at = std::upper_bound(all.begin(), all.end(), time, [&](int64_t t, uint32_t i) { return t < event(i).start; });
    for (int back = 0; at != all.begin() && back < 64; ++back) {
      --at;
      if (event(*at).end() >= time) return *at;
    }
    return kNoIndex;
  }

  // GPU events without a time (pytorch/kineto issue 109) begin when they were launched; a GPU clock that is behind the
  // host's throughout is set right.
  void mend_gpu_clock() {
    uint64_t linked = 0;
    std::vector<int64_t> early;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      KinetoEvent& e = trace_.events[i];
      if (launcher_[i] == kNoIndex) continue;
      const KinetoEvent& call = event(launcher_[i]);
      if (e.start == 0 && e.duration == 0 && call.start > 1'000'000) {
        e.start = call.end();
        ++draft_.counts.without_gpu_time;
        continue;
      }
      if (call.kind != Kind::runtime) continue;
      ++linked;
      if (e.start < call.start) early.push_back(call.start - e.start);
    }
    if (early.size() * 2 <= linked) {
      draft_.counts.before_launch = early.size();
      return;
    }
    const int64_t shift = *std::max_element(early.begin(), early.end());
    for (KinetoEvent& e : trace_.events) {
      if (e.on_gpu()) e.start += shift;
    }
    ++draft_.counts.clocks_shifted;
    draft_.note("the GPU's clock is " + std::to_string(shift) + " ns behind the host's: " +
                std::to_string(early.size()) + " of " + std::to_string(linked) + " kernels began before their launch");
  }

  // What the trace tells about an operator, from its own args and from the host's node.
  std::optional<CommCall> call_of(uint32_t operator_event) const {
    const KinetoEvent& e = event(operator_event);
    std::optional<CommCall> call;
    if (e.comm != kNoIndex) call = trace_.comms[e.comm];
    const uint32_t node = node_of_.empty() ? HostLinks::kNone : node_of_[operator_event];
    if (node != HostLinks::kNone && host_->nodes[node].comm != HostNode::kNone) {
      const CommCall& known = host_->comms[host_->nodes[node].comm];
      if (call) {
        fill(*call, known);
      } else {
        call = known;
      }
    }
    return call;
  }

  struct CommOperator {
    uint32_t event;
    bool taken = false;
  };

  void collect_comm_operators() {
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const KinetoEvent& e = event(i);
      if (e.kind != Kind::cpu_op) continue;
      const std::string_view name = trace_.name(e);
      CommCall by_name;
      const bool bare =
          (name.starts_with("gloo:") || name.starts_with("nccl:")) && read_comm_name(name, by_name) == CommName::call;
      if (!bare && name != kParamComms && !name.starts_with("c10d::")) continue;
      if (!bare && !call_of(i)) continue;
      comm_place_[i] = comm_operators_.size();
      comm_operators_.push_back({i});
    }
    std::sort(comm_operators_.begin(), comm_operators_.end(), [&](const CommOperator& a, const CommOperator& b) {
      return event(a.event).start != event(b.event).start ? event(a.event).start < event(b.event).start
                                                          : event(a.event).duration > event(b.event).duration;
    });
    for (size_t k = 0; k < comm_operators_.size(); ++k) comm_place_[comm_operators_[k].event] = k;
  }

  void take(uint32_t operator_event) {
    const auto at = comm_place_.find(operator_event);
    if (at != comm_place_.end()) comm_operators_[at->second].taken = true;
  }

  // Walks outwards from an operator to the one that tells of a communication. All around it are taken, too.
  // Returns its event, or kNoIndex.
  uint32_t find_comm_around(uint32_t from, CommCall& call, bool& by_host) {
    uint32_t found = kNoIndex;
    int up = 0;
    for (uint32_t i = from; i != kNoIndex && up < 64; i = parents_[i], ++up) {
      if (event(i).kind != Kind::cpu_op) continue;
      take(i);
      const std::optional<CommCall> known = call_of(i);
      if (!known) continue;
      // The innermost says it; nccl:all_reduce within record_param_comms knows less than the latter.
      if (found == kNoIndex) by_host = event(i).comm == kNoIndex;
      if (found == kNoIndex || (trace_.name(event(i)) == kParamComms && trace_.name(event(found)) != kParamComms)) {
        found = i;
        CommCall wider = *known;
        fill(wider, call);
        call = std::move(wider);
      }
    }
    if (found != kNoIndex || !host_) return found;
    // The host's nodes around the innermost operator that is linked: Kineto may have dropped some.
    up = 0;
    for (uint32_t i = from; i != kNoIndex && up < 64; i = parents_[i], ++up) {
      if (node_of_[i] == HostLinks::kNone) continue;
      for (uint32_t node = node_of_[i]; node != HostNode::kNone && up < 64; node = host_->nodes[node].parent, ++up) {
        if (host_->nodes[node].comm == HostNode::kNone) continue;
        call = host_->comms[host_->nodes[node].comm];
        by_host = true;
        return kNoIndex - 1 - node;  // no event has this number, see check_span
      }
      break;
    }
    return kNoIndex;
  }

  uint32_t lane_of(uint32_t trace_lane) {
    const auto [at, added] = lanes_.try_emplace(trace_lane, static_cast<uint32_t>(draft_.lanes.size()));
    if (added) {
      const KinetoLane& lane = trace_.lanes[trace_lane];
      draft_.lanes.push_back({.label = lane.label, .device = lane.process});
      lane_by_stream_.try_emplace({lane.process, lane.thread}, at->second);
    }
    return at->second;
  }

  uint32_t name_of(const KinetoEvent& e) {
    const auto [at, added] = names_.try_emplace(e.name, 0);
    if (added) at->second = draft_.add_name(trace_.name(e));
    return at->second;
  }

  void make_works() {
    std::vector<uint32_t> order;
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (event(i).on_gpu()) order.push_back(i);
    }
    // As they were launched: coalesced calls and folded kernels are found by what came before.
    const auto launched = [&](uint32_t i) {
      return launcher_[i] == kNoIndex ? event(i).start : event(launcher_[i]).start;
    };
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return launched(a) != launched(b) ? launched(a) < launched(b) : event(a).start < event(b).start;
    });
    draft_.works.reserve(order.size());
    for (const uint32_t i : order) {
      const KinetoEvent& e = event(i);
      DraftWork work{
          .start = e.start, .end = e.end(), .launched = launched(i), .lane = lane_of(e.lane), .event = e.number};
      work.name = name_of(e);
      CommCall by_name;
      if (e.kind == Kind::memcpy || e.kind == Kind::memset) {
        work.kind = DraftWork::Kind::memory;
        work.bytes = e.bytes;
        ++draft_.counts.memory;
      } else if (read_kernel_name(trace_.name(e), by_name) || e.comm != kNoIndex) {
        gpu_comm_ = true;
        if (!communicate(i, by_name, work)) continue;
      } else {
        ++draft_.counts.kernels;
      }
      work_of_[i] = static_cast<uint32_t>(draft_.works.size());
      draft_.works.push_back(work);
    }
    if (host_ && !bare_works_.empty()) describe_by_order();
  }

  // Kernels of which only the name is known, because the operators around them are not in the Kineto trace: between the
  // calls before and after them, the host trace has calls that no kernel has. They are taken in their order.
  void describe_by_order() {
    std::vector<bool> used(host_->nodes.size());
    for (const auto& [work, node] : node_of_work_) used[node] = true;
    auto after = node_of_work_.begin();
    uint32_t low = 0;
    for (const uint32_t i : bare_works_) {
      while (after != node_of_work_.end() && after->first < i) low = std::max(low, (after++)->second);
      const uint32_t high = after == node_of_work_.end() ? static_cast<uint32_t>(host_->nodes.size()) : after->second;
      DraftWork& work = draft_.works[i];
      CommCall& call = draft_.calls[work.first_call].call;
      for (uint32_t node = low; node < high; ++node) {
        const HostNode& candidate = host_->nodes[node];
        if (used[node] || candidate.comm == HostNode::kNone || host_->name(candidate) != kParamComms) continue;
        const CommCall& known = host_->comms[candidate.comm];
        const bool fits =
            call.kind_known ? known.kind == CommCall::Kind::collective && known.collective == call.collective
                            : known.kind != CommCall::Kind::collective || known.collective == JobCollective::all_to_all;
        if (!fits) continue;
        used[node] = true;
        low = node;
        if (known.kind != CommCall::Kind::collective) {
          --draft_.counts.collectives;
          ++draft_.counts.messages;
        }
        call = known;
        ++draft_.counts.comm_by_order;
        break;
      }
    }
  }

  // Fills in the calls of a kernel. False: it belongs to the work before, which then lasts longer.
  bool communicate(uint32_t i, const CommCall& by_name, DraftWork& work) {
    const KinetoEvent& e = event(i);
    CommCall own;
    if (e.comm != kNoIndex) own = trace_.comms[e.comm];
    uint32_t from = kNoIndex;
    if (launcher_[i] != kNoIndex) {
      from = event(launcher_[i]).kind == Kind::runtime ? parents_[launcher_[i]] : launcher_[i];
    }
    CommCall around;
    bool by_host = false;
    const uint32_t found = from == kNoIndex ? kNoIndex : find_comm_around(from, around, by_host);
    work.kind = DraftWork::Kind::comm;
    // Several kernels of one call: the first stands for all.
    const int64_t key = found != kNoIndex                         ? int64_t{found}
                        : e.comm != kNoIndex && e.external_id > 0 ? -2 - e.external_id
                                                                  : -1;
    if (key != -1) {
      const auto [at, added] = work_of_call_.try_emplace(key, static_cast<uint32_t>(draft_.works.size()));
      if (!added) {
        DraftWork& first = draft_.works[at->second];
        first.start = std::min(first.start, e.start);
        first.end = std::max(first.end, e.end());
        ++draft_.counts.kernels_folded;
        return false;
      }
    }
    std::vector<CommCall> calls;
    if (found != kNoIndex || e.comm != kNoIndex) {
      CommCall call = e.comm != kNoIndex ? own : around;
      if (e.comm != kNoIndex && found != kNoIndex) fill(call, around);
      if (!call.kind_known) fill(call, by_name);
      ++(has_size(own) ? draft_.counts.comm_by_kernel
         : by_host     ? draft_.counts.comm_by_host
                       : draft_.counts.comm_by_operator);
      calls.push_back(std::move(call));
    } else {
      calls = coalesced(i);
      if (calls.empty()) {
        calls.push_back(by_name);
        bare_works_.push_back(static_cast<uint32_t>(draft_.works.size()));
      }
    }
    if (found != kNoIndex && host_) {
      const uint32_t node = found > kNoIndex / 2 ? kNoIndex - 1 - found : node_of_[found];
      if (node != HostLinks::kNone) node_of_work_.emplace_back(static_cast<uint32_t>(draft_.works.size()), node);
    }
    set_calls(std::move(calls), work);
    return true;
  }

  void set_calls(std::vector<CommCall> calls, DraftWork& work) {
    work.first_call = static_cast<uint32_t>(draft_.calls.size());
    if (calls.size() > UINT16_MAX) calls.resize(UINT16_MAX);
    work.calls = static_cast<uint16_t>(calls.size());
    for (CommCall& call : calls) {
      ++(call.kind == CommCall::Kind::collective ? draft_.counts.collectives : draft_.counts.messages);
      draft_.calls.push_back({.call = std::move(call)});
    }
  }

  // A kernel that no call is around of carries out those that its thread gathered before (ncclGroupEnd).
  std::vector<CommCall> coalesced(uint32_t i) {
    std::vector<CommCall> calls;
    if (launcher_[i] == kNoIndex) return calls;
    const KinetoEvent& launcher = event(launcher_[i]);
    size_t& next = next_pending_[launcher.lane];
    for (; next < comm_operators_.size() && event(comm_operators_[next].event).start < launcher.start; ++next) {
      CommOperator& candidate = comm_operators_[next];
      if (candidate.taken || event(candidate.event).lane != launcher.lane) continue;
      std::optional<CommCall> call = call_of(candidate.event);
      if (!call || trace_.name(event(candidate.event)) != kParamComms) continue;
      candidate.taken = true;
      ++(event(candidate.event).comm == kNoIndex ? draft_.counts.comm_by_host : draft_.counts.comm_by_operator);
      calls.push_back(std::move(*call));
    }
    if (calls.size() > 1) draft_.counts.calls_coalesced += calls.size();
    return calls;
  }

  // Communications without kernels. Where the trace has none with kernels, they are Gloo's; else the kernel was lost.
  void host_communications() {
    struct Found {
      uint32_t event;
      CommCall call;
    };
    std::vector<Found> found;
    // gloo:all_reduce has the times, the record_param_comms around it knows the size.
    for (const CommOperator& candidate : comm_operators_) {
      const std::string_view name = trace_.name(event(candidate.event));
      if (candidate.taken || !(name.starts_with("gloo:") || name.starts_with("nccl:"))) continue;
      CommCall call;
      read_comm_name(name, call);
      bool by_host = false;
      if (const auto known = call_of(candidate.event)) {
        fill(call, *known);
        by_host = event(candidate.event).comm == kNoIndex;
      }
      CommCall around;
      bool around_by_host = false;
      // nccl:all_reduce within a call that has its kernel.
      const auto holder = comm_place_.find(parents_[candidate.event]);
      if (holder != comm_place_.end() && comm_operators_[holder->second].taken) continue;
      const uint32_t outer = parents_[candidate.event] == kNoIndex
                                 ? kNoIndex
                                 : find_comm_around(parents_[candidate.event], around, around_by_host);
      if (outer != kNoIndex) fill(call, around);
      if (!gpu_comm_) ++(by_host || around_by_host ? draft_.counts.comm_by_host : draft_.counts.comm_by_operator);
      take(candidate.event);
      found.push_back({candidate.event, std::move(call)});
    }
    for (CommOperator& candidate : comm_operators_) {
      if (candidate.taken) continue;
      const auto call = call_of(candidate.event);
      if (!call) continue;
      candidate.taken = true;
      if (!gpu_comm_)
        ++(event(candidate.event).comm == kNoIndex ? draft_.counts.comm_by_host : draft_.counts.comm_by_operator);
      // An outer one of those that are taken knows no more.
      found.push_back({candidate.event, *call});
    }
    std::sort(found.begin(), found.end(),
              [&](const Found& a, const Found& b) { return event(a.event).start < event(b.event).start; });
    std::vector<uint32_t> callers;  // c10d:: operators, as they began
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (event(i).kind == Kind::cpu_op && trace_.name(event(i)).starts_with("c10d::")) callers.push_back(i);
    }
    std::sort(callers.begin(), callers.end(), [&](uint32_t a, uint32_t b) { return event(a).start < event(b).start; });
    uint32_t lane = kNoIndex;
    for (Found& one : found) {
      const KinetoEvent& e = event(one.event);
      const uint32_t thread = calling_thread(e, one.call, callers);
      if (gpu_comm_) {
        draft_.lost.push_back({.call = std::move(one.call), .thread = thread, .time = e.start});
        ++draft_.counts.calls_without_kernel;
        continue;
      }
      if (lane == kNoIndex) {
        lane = static_cast<uint32_t>(draft_.lanes.size());
        draft_.lanes.push_back({.label = "communication of the host", .device = -1, .host = true});
      }
      if (trace_.name(e).starts_with("gloo:")) pool_.push_back(one.event);
      DraftWork work{.start = e.start,
                     .end = e.end(),
                     .launched = e.start,
                     .thread = thread,
                     .lane = lane,
                     .name = draft_.add_name(trace_.name(e) == kParamComms ? std::string_view(to_words(one.call))
                                                                           : trace_.name(e)),
                     .kind = DraftWork::Kind::comm,
                     .event = e.number};
      std::vector<CommCall> calls;
      calls.push_back(std::move(one.call));
      set_calls(std::move(calls), work);
      draft_.works.push_back(work);
    }
  }

  static std::string to_words(const CommCall& call) {
    return call.kind == CommCall::Kind::send      ? "send"
           : call.kind == CommCall::Kind::receive ? "receive"
                                                  : std::string(to_string(call.collective));
  }

  // Gloo's operators run on threads of its own; c10d::allreduce_ tells who called.
  uint32_t calling_thread(const KinetoEvent& e, const CommCall& call, const std::vector<uint32_t>& callers) const {
    if (!trace_.name(e).starts_with("gloo:")) return e.lane;
    auto at = std::upper_bound(callers.begin(), callers.end(), e.start,
                               [&](int64_t t, uint32_t i) { return t < event(i).start; });
    for (int back = 0; at != callers.begin() && back < 64; ++back) {
      --at;
      CommCall called;
      if (read_comm_name(trace_.name(event(*at)), called) == CommName::call && called.kind == call.kind &&
          called.collective == call.collective) {
        return event(*at).lane;
      }
    }
    return e.lane;
  }

  // ---- host threads

  void make_threads() {
    const bool host_only = draft_.works.empty() || std::all_of(draft_.lanes.begin(), draft_.lanes.end(),
                                                               [](const DraftLane& l) { return l.host; });
    std::vector<bool> in_pool(trace_.events.size());
    for (const uint32_t i : pool_) in_pool[i] = true;
    std::vector<std::vector<uint32_t>> on_thread(trace_.lanes.size());
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      const KinetoEvent& e = event(i);
      if (e.on_gpu() || e.kind == Kind::annotation || in_pool[i]) continue;
      bool below_pool = false;
      for (uint32_t up = parents_[i]; up != kNoIndex && !below_pool && !pool_.empty(); up = parents_[up])
        below_pool = in_pool[up];
      if (!below_pool) on_thread[e.lane].push_back(i);
    }
    for (uint32_t i = 0; i < trace_.events.size(); ++i) {
      if (launcher_[i] != kNoIndex) launches_[launcher_[i]].push_back(i);
    }
    std::unordered_map<int64_t, const KinetoSync*> syncs;
    for (const KinetoSync& sync : trace_.syncs) syncs.try_emplace(sync.correlation, &sync);
    thread_of_.assign(trace_.lanes.size(), kNoIndex);
    for (uint32_t lane = 0; lane < trace_.lanes.size(); ++lane) {
      if (on_thread[lane].empty()) continue;
      make_thread(lane, on_thread[lane], syncs, host_only);
    }
    for (DraftWork& work : draft_.works) {
      if (work.lane < draft_.lanes.size() && draft_.lanes[work.lane].host)
        place(work.thread, work.point, work.launched);
    }
    for (DraftLostCall& lost : draft_.lost) place(lost.thread, lost.point, lost.time);
    std::sort(draft_.records.begin(), draft_.records.end(),
              [](const DraftRecord& a, const DraftRecord& b) { return a.time < b.time; });
    for (DraftWait& wait : draft_.waits) wait.thread = thread_of_[wait.thread];
    for (DraftRecord& record : draft_.records) record.thread = thread_of_[record.thread];
  }

  // From a lane of the trace and a time to a thread and the point of a launch at that time.
  void place(uint32_t& thread, uint32_t& point, int64_t time) {
    const uint32_t lane = thread;
    thread = thread == kNoIndex ? kNoIndex : thread_of_[thread];
    if (thread == kNoIndex) return;
    const auto at = call_points_.find({lane, time});
    point = at == call_points_.end() ? kNoIndex : at->second;
  }

  uint32_t outermost_name(uint32_t i) {
    uint32_t inner = i;
    for (int up = 0; inner != kNoIndex && event(inner).kind != Kind::cpu_op && up < 64; ++up) inner = parents_[inner];
    return inner == kNoIndex ? draft_.add_name("host") : name_of(event(inner));
  }

  struct Busy {
    int64_t begin, end;
    uint32_t last;  // event
  };

  void make_thread(uint32_t lane, std::vector<uint32_t>& events,
                   const std::unordered_map<int64_t, const KinetoSync*>& syncs, bool host_only) {
    std::stable_sort(events.begin(), events.end(), [&](uint32_t a, uint32_t b) {
      return event(a).start != event(b).start ? event(a).start < event(b).start : event(a).duration > event(b).duration;
    });
    std::vector<DraftPoint> points;
    std::vector<std::pair<size_t, uint32_t>> launched;  // point, event of the GPU
    for (const uint32_t i : events) {
      const KinetoEvent& e = event(i);
      const auto launches = launches_.find(i);
      if (launches != launches_.end()) {
        add_launch(i, launches->second, points, launched);
      } else if (e.kind == Kind::runtime) {
        const auto sync = syncs.find(e.correlation);
        add_call(i, sync == syncs.end() ? nullptr : sync->second, points);
      }
    }
    for (const DraftWork& work : gloo() ? std::span<const DraftWork>(draft_.works) : std::span<const DraftWork>()) {
      if (work.thread == lane) points.push_back(call_point(lane, work.launched, work.name));
    }
    for (const DraftLostCall& lost : draft_.lost) {
      if (lost.thread == lane) points.push_back(call_point(lane, lost.time, draft_.add_name(to_words(lost.call))));
    }
    if (points.empty() && !host_only) return;
    // Where the thread was busy, and the pauses between.
    std::vector<Busy> busy;
    for (const uint32_t i : events) {
      const KinetoEvent& e = event(i);
      if (!busy.empty() && e.start <= busy.back().end) {
        busy.back().end = std::max(busy.back().end, e.end());
      } else {
        busy.push_back({e.start, e.end(), i});
      }
    }
    const int64_t handoff = options_.handoff.count();
    for (size_t k = 0; k < busy.size(); ++k) {
      if (host_only)
        points.push_back({.kind = DraftPoint::Kind::launch,
                          .begin = busy[k].end,
                          .end = busy[k].end,
                          .name = outermost_name(busy[k].last)});
      const int64_t next = k + 1 < busy.size() ? busy[k + 1].begin : busy[k].end;
      const bool pause = next - busy[k].end >= handoff || (gloo() && next - busy[k].end >= 1000);
      if (pause) {
        points.push_back(
            {.kind = DraftPoint::Kind::gap, .begin = busy[k].end, .end = next, .name = outermost_name(busy[k].last)});
      }
    }
    // Before its first event a thread waits for whoever starts it.
    points.push_back({.kind = DraftPoint::Kind::gap,
                      .begin = INT64_MIN,
                      .end = busy.front().begin,
                      .name = draft_.add_name("before the first event")});
    // The end of the thread.
    points.push_back({.kind = DraftPoint::Kind::launch,
                      .begin = busy.back().end,
                      .end = busy.back().end,
                      .name = outermost_name(busy.back().last)});
    finish_thread(lane, std::move(points), launched);
  }

  bool gloo() const { return !gpu_comm_ && !draft_.lanes.empty() && draft_.lanes.back().host; }

  DraftPoint call_point(uint32_t lane, int64_t time, uint32_t name) {
    call_points_[{lane, time}] = 0;
    return {.kind = DraftPoint::Kind::launch, .begin = time, .end = time, .name = name};
  }

  void finish_thread(uint32_t lane, std::vector<DraftPoint> points,
                     const std::vector<std::pair<size_t, uint32_t>>& launched) {
    std::vector<uint32_t> order(points.size()), place(points.size());
    for (uint32_t k = 0; k < order.size(); ++k) order[k] = k;
    std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) {
      return points[a].end != points[b].end ? points[a].end < points[b].end : points[a].begin < points[b].begin;
    });
    DraftThread thread;
    thread.label = "host " + trace_.lanes[lane].label;
    const auto number = static_cast<uint32_t>(draft_.threads.size());
    for (uint32_t k = 0; k < order.size(); ++k) {
      place[order[k]] = k;
      thread.points.push_back(points[order[k]]);
      const DraftPoint& point = thread.points.back();
      if (point.kind != DraftPoint::Kind::launch) continue;
      const auto call = call_points_.find({lane, point.end});
      if (call != call_points_.end()) call->second = k;
    }
    for (const auto& [point, i] : launched) {
      const auto work = work_of_.find(i);
      if (work == work_of_.end()) continue;
      draft_.works[work->second].thread = number;
      draft_.works[work->second].point = place[point];
    }
    thread_of_[lane] = number;
    draft_.threads.push_back(std::move(thread));
  }

  // A call that launches: what it launches may start at its end, or earlier where it did.
  void add_launch(uint32_t i, const std::vector<uint32_t>& gpu_events, std::vector<DraftPoint>& points,
                  std::vector<std::pair<size_t, uint32_t>>& launched) {
    const KinetoEvent& call = event(i);
    int64_t boundary = call.end();
    for (const uint32_t g : gpu_events) boundary = std::min(boundary, std::max(event(g).start, call.start));
    for (const uint32_t g : gpu_events) launched.emplace_back(points.size(), g);
    points.push_back({.kind = DraftPoint::Kind::launch, .begin = boundary, .end = boundary, .name = outermost_name(i)});
    // A copy to pageable memory, or by cudaMemcpy, returns when it is done.
    const std::string_view name = trace_.name(call);
    const bool blocks = (name.ends_with("Memcpy") || name.ends_with("Memset")) && call.kind == Kind::runtime;
    for (const uint32_t g : gpu_events) {
      const std::string_view copied = trace_.name(event(g));
      const auto work = work_of_.find(g);
      if (event(g).kind != Kind::memcpy || work == work_of_.end() || event(g).end() > call.end()) continue;
      if (!blocks && !(contains(copied, "DtoH") && contains(copied, "Pageable"))) continue;
      points.push_back({.kind = DraftPoint::Kind::work,
                        .begin = boundary,
                        .end = call.end(),
                        .name = outermost_name(i),
                        .work = work->second});
      ++draft_.counts.syncs;
    }
  }

  uint32_t lane_of_stream(int64_t device, int64_t stream) const {
    if (stream < 0) return kNoIndex;
    const auto at = lane_by_stream_.find({device, stream});
    if (at != lane_by_stream_.end()) return at->second;
    // A device that is not said, or another number for it: the stream alone, if that is one lane.
    uint32_t found = kNoIndex;
    for (const auto& [key, lane] : lane_by_stream_) {
      if (key.second != stream) continue;
      if (found != kNoIndex) return kNoIndex;
      found = lane;
    }
    return found;
  }

  // A call of the runtime that launches nothing: it may wait, or make a stream wait.
  void add_call(uint32_t i, const KinetoSync* sync, std::vector<DraftPoint>& points) {
    const KinetoEvent& e = event(i);
    const std::string_view name = trace_.name(e);
    if (contains(name, "EventRecord")) {
      draft_.records.push_back({e.start, e.lane});
      return;
    }
    if (contains(name, "StreamWaitEvent")) {
      DraftWait wait{.time = e.start, .thread = e.lane};
      if (sync) {
        wait.lane = lane_of_stream(sync->device, sync->stream);
        wait.source = lane_of_stream(sync->device, sync->source_stream);
        // A stream on which nothing ran neither waits nor is waited for.
        if ((sync->stream >= 0 && wait.lane == kNoIndex) || (sync->source_stream >= 0 && wait.source == kNoIndex))
          return;
        const auto record = calls_.find(sync->record);
        if (record != calls_.end()) wait.recorded = event(record->second).start;
      }
      draft_.waits.push_back(wait);
      return;
    }
    DraftPoint point{.begin = e.start, .end = e.end(), .name = outermost_name(i), .before = e.start};
    if (contains(name, "StreamSynchronize")) {
      point.kind = DraftPoint::Kind::stream;
      if (sync) point.lane = lane_of_stream(sync->device, sync->stream);
      if (sync && sync->stream >= 0 && point.lane == kNoIndex) return;
    } else if (contains(name, "DeviceSynchronize") || contains(name, "CtxSynchronize")) {
      point.kind = DraftPoint::Kind::device;
    } else if (contains(name, "EventSynchronize")) {
      point.kind = DraftPoint::Kind::event;
      if (sync) point.lane = lane_of_stream(sync->device, sync->source_stream);
      if (sync && sync->source_stream >= 0 && point.lane == kNoIndex) return;
      const auto record = sync ? calls_.find(sync->record) : calls_.end();
      if (record != calls_.end()) point.before = event(record->second).start;
    } else {
      return;
    }
    ++draft_.counts.syncs;
    points.push_back(point);
  }

  // ---- the GPU's side

  // A stream does one thing at a time. What overlaps in the trace is cut at the next one's start.
  void mend_overlaps() {
    std::vector<std::vector<uint32_t>> lanes(draft_.lanes.size());
    for (uint32_t i = 0; i < draft_.works.size(); ++i) lanes[draft_.works[i].lane].push_back(i);
    for (uint32_t lane = 0; lane < lanes.size(); ++lane) {
      if (draft_.lanes[lane].host) continue;
      std::stable_sort(lanes[lane].begin(), lanes[lane].end(),
                       [&](uint32_t a, uint32_t b) { return draft_.works[a].start < draft_.works[b].start; });
      for (size_t k = 0; k + 1 < lanes[lane].size(); ++k) {
        DraftWork& work = draft_.works[lanes[lane][k]];
        const DraftWork& next = draft_.works[lanes[lane][k + 1]];
        if (work.end <= next.start) continue;
        ++draft_.counts.overlaps;
        draft_.counts.overlap_ns += work.end - next.start;
        work.end = next.start;
      }
    }
  }

  void set_origin() {
    int64_t origin = INT64_MAX;
    for (const DraftThread& thread : draft_.threads) {
      for (const DraftPoint& point : thread.points)
        origin = std::min(origin, point.begin == INT64_MIN ? point.end : point.begin);
    }
    for (const DraftWork& work : draft_.works) origin = std::min(origin, work.start);
    draft_.origin = origin == INT64_MAX ? 0 : origin;
    uint64_t operators = 0;
    for (const KinetoEvent& e : trace_.events) operators += e.kind == Kind::cpu_op;
    draft_.counts.operators = operators;
  }

  struct PairHash {
    size_t operator()(const std::pair<int64_t, int64_t>& pair) const {
      return std::hash<int64_t>{}(pair.first * 0x9E3779B97F4A7C15 ^ pair.second);
    }
  };

  KinetoTrace trace_;
  std::optional<HostTrace> host_;
  const KinetoOptions& options_;
  RankDraft draft_;

  std::vector<uint32_t> parents_, launcher_;  // by event
  std::vector<uint32_t> node_of_;             // by event: of the host trace
  std::vector<std::vector<uint32_t>> by_lane_;
  std::unordered_map<int64_t, uint32_t> calls_;                   // of the runtime, by correlation
  std::unordered_map<uint32_t, std::vector<uint32_t>> launches_;  // by event of the host
  std::vector<CommOperator> comm_operators_;                      // as they began
  std::unordered_map<uint32_t, size_t> comm_place_;
  std::unordered_map<uint32_t, size_t> next_pending_;  // by lane
  std::unordered_map<int64_t, uint32_t> work_of_call_;
  std::unordered_map<uint32_t, uint32_t> work_of_;           // by event
  std::vector<std::pair<uint32_t, uint32_t>> node_of_work_;  // of the host trace, works ascending
  std::vector<uint32_t> bare_works_;                         // communications of which only the kernel's name is known
  std::vector<uint32_t> pool_;                               // gloo's operators
  std::unordered_map<uint32_t, uint32_t> lanes_, names_;
  std::unordered_map<std::pair<int64_t, int64_t>, uint32_t, PairHash> lane_by_stream_, call_points_;
  std::vector<uint32_t> thread_of_;  // by lane
  bool gpu_comm_ = false;
};

}  // namespace

uint32_t RankDraft::add_name(std::string_view name) {
  // The last few names repeat; all others are kept apart by the caller.
  for (size_t back = 0; back < 8 && back < names.size(); ++back) {
    if (names[names.size() - 1 - back] == name) return static_cast<uint32_t>(names.size() - 1 - back);
  }
  names.emplace_back(name);
  return static_cast<uint32_t>(names.size() - 1);
}

RankDraft make_rank_draft(KinetoTrace trace, std::optional<HostTrace> host, const KinetoOptions& options) {
  return Drafter(std::move(trace), std::move(host), options).make();
}

}  // namespace banyan
