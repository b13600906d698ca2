#include "banyan/job/kineto/draft.h"

#include <algorithm>
#include <utility>

#include "banyan/job/kineto/comm_operators.h"
#include "banyan/job/kineto/gpu.h"
#include "banyan/job/kineto/host_comms.h"
#include "banyan/job/kineto/reading.h"
#include "banyan/job/kineto/threads.h"
#include "banyan/job/kineto/window.h"

namespace banyan::job::kineto {
namespace {

// What the files themselves tell, and what was mended while they were read.
void take_over(const Trace& trace, RankDraft& draft) {
  draft.source = trace.source;
  draft.world_size = trace.world_size;
  LinkCounts& counts = draft.counts;
  counts.events = trace.event_count;
  counts.without_time = trace.without_time;
  counts.without_end = trace.without_end;
  counts.ends_alone = trace.ends_alone;
  counts.mended_text = trace.mended_text;
  counts.cut_files = trace.cut;
  for (const UnknownCategory& row : trace.unknown) counts.unknown_events += row.events;
  draft.unknown = trace.unknown;
  if (trace.cut) {
    draft.note(trace.source + " ends in the middle, at byte " + std::to_string(trace.position) + " after event " +
               std::to_string(trace.event_count) + ": read up to there");
  }
}

void take_over(const HostTrace& host, RankDraft& draft) {
  draft.host_source = host.source;
  LinkCounts& counts = draft.counts;
  counts.missing_parents = host.missing_parents;
  counts.repeated_nodes = host.repeated_ids;
  counts.mended_text += host.mended_text;
  counts.cut_files += host.cut;
  if (host.cut) draft.note(host.source + " ends in the middle: read up to there");
}

std::vector<uint32_t> link(const RankReading& reading, LinkCounts& counts) {
  HostLinks links = link_host(reading.trace, reading.parents, *reading.host);
  counts.linked_by_record_id = links.by_record_id;
  counts.linked_by_index = links.by_index;
  counts.linked_by_name = links.by_name;
  counts.contradicted_links = links.contradicted;
  counts.links_taken_back = links.taken_back;
  counts.host_alone = links.host_alone;
  counts.kineto_alone = links.kineto_alone;
  return std::move(links.node_of);
}

int64_t first_moment(const RankDraft& draft) {
  int64_t first = INT64_MAX;
  for (const DraftThread& thread : draft.threads) {
    for (const DraftPoint& point : thread.points)
      first = std::min(first, point.begin == INT64_MIN ? point.end : point.begin);
  }
  for (const DraftWork& work : draft.works) first = std::min(first, work.start);
  return first == INT64_MAX ? 0 : first;
}

}  // namespace

void RankDraft::set_calls(DraftWork& work, std::vector<CommCall> given) {
  work.first_call = static_cast<uint32_t>(calls.size());
  work.calls = static_cast<uint32_t>(given.size());
  for (CommCall& call : given) {
    ++(call.kind == CommCall::Kind::collective ? counts.collectives : counts.messages);
    calls.push_back({.call = std::move(call)});
  }
}

RankDraft make_rank_draft(Trace trace, std::optional<HostTrace> host, const Options& options) {
  RankDraft draft;
  take_over(trace, draft);
  if (host) take_over(*host, draft);
  if (options.step) keep_step(trace, *options.step);
  check_window(trace);

  RankReading reading{.trace = std::move(trace), .host = std::move(host), .parents = {}, .node_of = {}, .launches = {}};
  reading.launches = find_launches(reading.trace, draft);
  reading.parents = nest_operators(reading.trace);
  if (reading.host) reading.node_of = link(reading, draft.counts);
  for (const Event& e : reading.trace.events) draft.counts.operators += e.kind == Event::Kind::cpu_op;

  CommOperators operators(reading);
  const GpuWorks gpu = add_gpu_works(reading, operators, draft);
  const HostComms host_comms = add_host_comms(reading, operators, gpu, draft);
  add_threads(reading, gpu, host_comms, options, draft);
  mend_overlaps(draft);
  draft.origin = first_moment(draft);

  draft.rank_lists = std::move(reading.trace.rank_lists);
  if (reading.host) draft.groups = std::move(reading.host->groups);
  draft.groups.insert(draft.groups.end(), reading.trace.groups.begin(), reading.trace.groups.end());
  return draft;
}

}  // namespace banyan::job::kineto
