#include "banyan/job/kineto/kineto.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/job/kineto/draft.h"
#include "banyan/job/kineto/emit.h"
#include "banyan/job/kineto/match.h"

namespace banyan::job::kineto {
namespace {

// One rank's traces, read when they are asked for, so that only one rank's events are in memory.
struct Opened {
  std::function<TraceSource()> kineto, host;  // host may be empty
  std::optional<uint32_t> rank;
};

RankDraft read_rank(const Opened& files, uint32_t place, const Options& options) {
  std::optional<HostTrace> host;
  if (files.host) host = read_host_trace(files.host());
  Trace trace = read_trace(files.kineto());
  const std::optional<uint32_t> own = trace.rank;
  RankDraft draft = make_rank_draft(std::move(trace), std::move(host), options);
  draft.rank = files.rank.value_or(own.value_or(place));
  if (draft.rank >= Job::kMaxRanks) {
    throw Error(ErrorCode::unsupported,
                "is given as the trace of rank " + std::to_string(draft.rank) + ", and ranks go up to " +
                    std::to_string(Job::kMaxRanks - 1),
                draft.source);
  }
  if (files.rank && own && *own != *files.rank) {
    throw Error(ErrorCode::mismatch,
                "is the trace of rank " + std::to_string(*own) + " (distributedInfo), but was given as that of rank " +
                    std::to_string(*files.rank),
                draft.source);
  }
  return draft;
}

void refuse_repeated(const std::vector<RankDraft>& drafts) {
  for (size_t i = 1; i < drafts.size(); ++i) {
    if (drafts[i].rank != drafts[i - 1].rank) continue;
    throw invalid(drafts[i - 1].source + " and " + drafts[i].source + " are both of rank " +
                  std::to_string(drafts[i].rank) + "; say which rank each is of");
  }
}

// How much later than the first each rank's trace begins, by clocks that are set right. Ranks without a clock in common
// are not compared: the first of each clock is not late.
std::vector<int64_t> lateness(const std::vector<RankDraft>& drafts, const RankClocks& clocks) {
  std::vector<int64_t> begins;
  std::vector<int64_t> first(drafts.size(), INT64_MAX);  // by clock
  for (uint32_t d = 0; d < drafts.size(); ++d) {
    begins.push_back(drafts[d].origin - clocks.offset(d));
    first[clocks.clock(d)] = std::min(first[clocks.clock(d)], begins[d]);
  }
  for (uint32_t d = 0; d < drafts.size(); ++d) begins[d] -= first[clocks.clock(d)];
  return begins;
}

LinkedJob read_all(std::vector<Opened> ranks, const Options& options) {
  if (ranks.empty()) throw invalid("no traces were given");
  std::vector<RankDraft> drafts;
  for (uint32_t place = 0; place < ranks.size(); ++place) drafts.push_back(read_rank(ranks[place], place, options));
  std::ranges::stable_sort(drafts, {}, &RankDraft::rank);
  refuse_repeated(drafts);
  const auto [groups, clocks] = match_ranks(drafts);
  const std::vector<int64_t> late = lateness(drafts, clocks);

  Job::Builder builder(options.name);
  for (const Group& group : groups) builder.add_group(group.name, group.ranks);
  LinkReport report;
  for (uint32_t d = 0; d < drafts.size(); ++d) {
    drafts[d].origin -= late[d];  // all programs begin together
    emit_rank(drafts[d], d, options, builder);
    const int64_t offset = clocks.are_common(0, d) ? clocks.offset(d) - clocks.offset(0) : 0;
    report.ranks.push_back({.rank = drafts[d].rank,
                            .kineto = drafts[d].source,
                            .host = drafts[d].host_source,
                            .counts = drafts[d].counts,
                            .unknown = std::move(drafts[d].unknown),
                            .clock_offset = std::chrono::nanoseconds(offset),
                            .notes = std::move(drafts[d].notes)});
    drafts[d] = RankDraft();
  }
  return {std::move(builder).build(), std::move(report)};
}

}  // namespace

LinkedJob read_job(std::span<const RankTraces> ranks, const Options& options) {
  std::vector<Opened> opened;
  for (const RankTraces& files : ranks) {
    Opened one{
        .kineto = [path = files.kineto] { return TraceSource::from_file(path); }, .host = {}, .rank = files.rank};
    if (!files.host.empty()) one.host = [path = files.host] { return TraceSource::from_file(path); };
    opened.push_back(std::move(one));
  }
  return read_all(std::move(opened), options);
}

LinkedJob read_job(std::span<const RankTraceTexts> ranks, const Options& options) {
  std::vector<Opened> opened;
  for (size_t i = 0; i < ranks.size(); ++i) {
    const std::string place = std::to_string(i);
    Opened one{.kineto = [text = ranks[i].kineto, place] { return TraceSource::from_text(text, "kineto " + place); },
               .host = {},
               .rank = ranks[i].rank};
    if (!ranks[i].host.empty()) {
      one.host = [text = ranks[i].host, place] { return TraceSource::from_text(text, "host " + place); };
    }
    opened.push_back(std::move(one));
  }
  return read_all(std::move(opened), options);
}

}  // namespace banyan::job::kineto
