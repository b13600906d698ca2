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
  draft.counts += trace.counts;
  for (const UnknownCategory& row : trace.unknown) draft.counts.unknown_events += row.events;
  draft.unknown = trace.unknown;
  if (trace.counts.cut_files > 0) {
    draft.note(trace.source + " ends in the middle, at byte " + std::to_string(trace.position) + " after event " +
               std::to_string(trace.counts.events) + ": read up to there");
  }
}

void take_over(const HostTrace& host, RankDraft& draft) {
  draft.host_source = host.source;
  draft.counts += host.counts;
  if (host.counts.cut_files > 0) draft.note(host.source + " ends in the middle: read up to there");
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
  if (reading.host) {
    HostLinks links = link_host(reading.trace, reading.parents, *reading.host);
    draft.counts += links.counts;
    reading.node_of = std::move(links.node_of);
  }
  for (const Event& e : reading.trace.events) draft.counts.operators += e.kind == Event::Kind::cpu_op;

  CommOperators operators(reading);
  RankWorks works{.gpu = add_gpu_works(reading, operators, draft), .host = {}};
  works.host = add_host_comms(reading, operators, works.gpu, draft);
  add_threads(reading, works, options, draft);
  mend_overlaps(draft);
  draft.origin = first_moment(draft);

  draft.rank_lists = std::move(reading.trace.rank_lists);
  if (reading.host) draft.groups = std::move(reading.host->groups);
  draft.groups.insert(draft.groups.end(), reading.trace.groups.begin(), reading.trace.groups.end());
  return draft;
}

}  // namespace banyan::job::kineto
