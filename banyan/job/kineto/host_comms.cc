#include "banyan/job/kineto/host_comms.h"

#include <algorithm>
#include <utility>

#include "banyan/job/kineto/draft.h"

namespace banyan::job::kineto {
namespace {

// c10d:: operators, as they began.
std::vector<uint32_t> find_callers(const RankReading& reading) {
  std::vector<uint32_t> callers;
  for (uint32_t i = 0; i < reading.event_count(); ++i) {
    if (reading.event(i).kind == Event::Kind::cpu_op && reading.name(i).starts_with("c10d::")) callers.push_back(i);
  }
  std::ranges::stable_sort(callers, {}, [&](uint32_t a) { return reading.event(a).start; });
  return callers;
}

// The track of the thread that called.
uint32_t calling_track(const RankReading& reading, const CommFacts& facts, const std::vector<uint32_t>& callers) {
  const Event& e = reading.event(facts.event);
  if (!reading.name(facts.event).starts_with("gloo:")) return e.track;
  auto at = std::ranges::upper_bound(callers, e.start, {}, [&](uint32_t i) { return reading.event(i).start; });
  for (int back = 0; at != callers.begin() && back < 64; ++back) {
    --at;
    CommCall called;
    if (read_comm_name(reading.name(*at), called) == CommName::call && called.kind == facts.call.kind &&
        called.collective == facts.call.collective) {
      return reading.event(*at).track;
    }
  }
  return e.track;
}

}  // namespace

HostComms add_host_comms(const RankReading& reading, CommOperators& operators, const GpuWorks& gpu, RankDraft& draft) {
  HostComms out;
  std::vector<CommFacts> rest = operators.rest();
  if (rest.empty()) return out;
  const std::vector<uint32_t> callers = find_callers(reading);
  const auto track = static_cast<uint32_t>(draft.tracks.size());
  if (!gpu.communicates) {
    draft.tracks.push_back({.label = "communication of the host", .device = -1, .stream = -1, .host = true});
  }
  for (CommFacts& facts : rest) {
    const Event& e = reading.event(facts.event);
    const std::string_view name = reading.name(facts.event);
    HostComm call{.track = calling_track(reading, facts, callers), .time = e.start};
    if (gpu.communicates) {
      call.name = draft.names.add(to_words(facts.call));
      call.lost = static_cast<uint32_t>(draft.lost.size());
      draft.lost.push_back({.call = std::move(facts.call), .launch = {}, .time = e.start});
      ++draft.counts.calls_without_kernel;
    } else {
      call.name = draft.names.add(name == kParamComms ? std::string_view(to_words(facts.call)) : name);
      call.work = static_cast<uint32_t>(draft.works.size());
      ++(facts.by_host ? draft.counts.comm_by_host : draft.counts.comm_by_operator);
      if (name.starts_with("gloo:")) out.pool.push_back(facts.event);
      DraftWork work{.start = e.start,
                     .end = e.end(),
                     .launched = e.start,
                     .launch = {},
                     .track = track,
                     .name = call.name,
                     .kind = DraftWork::Kind::comm,
                     .event = e.number};
      std::vector<CommCall> calls;
      calls.push_back(std::move(facts.call));
      draft.set_calls(work, std::move(calls));
      draft.works.push_back(work);
    }
    out.calls.push_back(call);
  }
  return out;
}

}  // namespace banyan::job::kineto
