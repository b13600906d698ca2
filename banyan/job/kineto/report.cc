#include <algorithm>
#include <array>
#include <cstdlib>
#include <string>

#include "banyan/base/text.h"
#include "banyan/base/words.h"
#include "banyan/job/kineto/kineto.h"

namespace banyan::job::kineto {
namespace {

struct Row {
  uint64_t LinkCounts::*count;
  const char* words;
  bool repair;
};

constexpr std::array kRows = {
    Row{&LinkCounts::events, "events in the files", false},
    Row{&LinkCounts::operators, "operators of the host", false},
    Row{&LinkCounts::kernels, "kernels", false},
    Row{&LinkCounts::memory, "copies and fills of memory", false},
    Row{&LinkCounts::collectives, "collectives", false},
    Row{&LinkCounts::messages, "sends and receives", false},
    Row{&LinkCounts::launched_by_correlation, "joined to their launch by correlation", false},
    Row{&LinkCounts::launched_by_external_id, "joined to their launch by External id, for the call is missing", true},
    Row{&LinkCounts::launched_by_arrow, "joined to their launch by arrow, for the call is missing", true},
    Row{&LinkCounts::linked_by_record_id, "operators linked to the host trace by record function id", false},
    Row{&LinkCounts::linked_by_index, "operators linked to the host trace by Ev Idx", false},
    Row{&LinkCounts::linked_by_name, "operators linked to the host trace by the order of names", false},
    Row{&LinkCounts::comm_by_kernel, "communications described by their kernel", false},
    Row{&LinkCounts::comm_by_operator, "communications described by the operator around their launch", false},
    Row{&LinkCounts::comm_by_host, "communications described by the host trace", false},
    Row{&LinkCounts::syncs, "calls that wait for a GPU", false},
    Row{&LinkCounts::waits, "waits of a stream for another", false},
    Row{&LinkCounts::handoffs, "pauses of a thread that end with what another one did", false},
    Row{&LinkCounts::host_alone, "operators of the host trace that the Kineto trace has not", true},
    Row{&LinkCounts::kineto_alone, "operators of the Kineto trace that the host trace has not", true},
    Row{&LinkCounts::contradicted_links, "links by number refused, for the names differ", true},
    Row{&LinkCounts::links_taken_back, "links by name taken back, for the operators lie wrongly within each other",
        true},
    Row{&LinkCounts::cut_files, "files that end in the middle: read up to there", true},
    Row{&LinkCounts::mended_text, "characters and words mended that JSON forbids", true},
    Row{&LinkCounts::unknown_events, "events of categories that are not known: left out", true},
    Row{&LinkCounts::without_time, "events without a time: left out", true},
    Row{&LinkCounts::without_end, "events without an end: last until the next one of their thread or stream begins",
        true},
    Row{&LinkCounts::ends_alone, "ends of events that never began: left out", true},
    Row{&LinkCounts::missing_parents, "operators whose parent is not in the host trace: kept", true},
    Row{&LinkCounts::repeated_nodes, "nodes of the host trace with an id that was there before: left out", true},
    Row{&LinkCounts::without_launcher, "kernels and copies without any launch", true},
    Row{&LinkCounts::launched_by_order, "of these joined to the launch with the next lower correlation", true},
    Row{&LinkCounts::repeated_correlations, "calls with the correlation of another one: the longer one launches", true},
    Row{&LinkCounts::without_gpu_time, "kernels without times: begin with their launch and take no time", true},
    Row{&LinkCounts::before_launch, "kernels that began before their launch: begin with it", true},
    Row{&LinkCounts::clocks_shifted, "clocks of GPUs set right against the host's", true},
    Row{&LinkCounts::overlaps, "kernels cut short where the next one of their stream begins", true},
    Row{&LinkCounts::cycles_broken, "waits dropped that closed a circle", true},
    Row{&LinkCounts::syncs_inferred, "calls that do not say which stream they wait for: the one that ended last before",
        true},
    Row{&LinkCounts::waits_inferred, "waits that do not say for which stream: the one recorded last that had passed",
        true},
    Row{&LinkCounts::waits_unknown, "waits that do not say for which stream, and none fits: dropped", true},
    Row{&LinkCounts::waits_against_time, "waits for what ended only later: dropped", true},
    Row{&LinkCounts::kernels_folded, "further kernels of one communication: part of it", false},
    Row{&LinkCounts::calls_coalesced, "communications that share a kernel: at once", false},
    Row{&LinkCounts::sizes_unfit, "communications whose in and out do not fit each other: the larger counts", true},
    Row{&LinkCounts::groups_assumed, "communications that do not say of which group: all ranks", true},
    Row{&LinkCounts::roots_assumed, "communications that do not say which rank is the root: the first", true},
    Row{&LinkCounts::uneven, "uneven all-to-alls: as large as the largest of them", true},
    Row{&LinkCounts::comm_by_order,
        "communications without an operator, described by the host trace's next call of their kind", true},
    Row{&LinkCounts::comm_by_peers, "communications described by other ranks' traces", true},
    Row{&LinkCounts::calls_without_kernel,
        "communications that the host called and no kernel or other rank shows: left out", true},
    Row{&LinkCounts::inserted, "communications that a rank's trace lost and others prove: put back", true},
    Row{&LinkCounts::inserted_head, "of these before the rank's first", true},
    Row{&LinkCounts::inserted_tail, "of these after the rank's last", true},
};

constexpr std::array kTimes = {&LinkCounts::idle_ns, &LinkCounts::latency_ns, &LinkCounts::overlap_ns};
static_assert(sizeof(LinkCounts) == sizeof(uint64_t) * (kRows.size() + kTimes.size()), "a count is not reported");

}  // namespace

void UnknownCategory::add_time(int64_t more) {
  if (__builtin_add_overflow(ns, more, &ns)) ns = INT64_MAX;
}

void UnknownCategory::add_to(std::vector<UnknownCategory>& rows) const {
  const auto find = [&](const std::string& wanted) {
    return std::find_if(rows.begin(), rows.end(),
                        [&](const UnknownCategory& row) { return row.name == wanted && row.on_device == on_device; });
  };
  auto row = find(name);
  if (row == rows.end()) {
    const std::string own = rows.size() < kMost ? name : "others";
    row = find(own);
    if (row == rows.end()) row = rows.insert(row, {.name = own, .on_device = on_device});
  }
  row->events += events;
  row->add_time(ns);
}

void LinkCounts::add_time(int64_t LinkCounts::*sum, int64_t ns) {
  if (__builtin_add_overflow(this->*sum, ns, &(this->*sum))) this->*sum = INT64_MAX;
}

LinkCounts& LinkCounts::operator+=(const LinkCounts& other) {
  for (const Row& row : kRows) this->*row.count += other.*row.count;
  for (const auto sum : kTimes) add_time(sum, other.*sum);
  return *this;
}

uint64_t LinkCounts::repairs() const {
  uint64_t sum = 0;
  for (const Row& row : kRows) sum += row.repair ? this->*row.count : 0;
  // These are parts of others.
  return sum - inserted_head - inserted_tail - launched_by_order;
}

LinkCounts LinkReport::total() const {
  LinkCounts sum;
  for (const RankLinkReport& rank : ranks) sum += rank.counts;
  return sum;
}

std::vector<std::string> LinkReport::unknown_lines() const {
  std::vector<UnknownCategory> all;
  for (const RankLinkReport& rank : ranks) {
    for (const UnknownCategory& row : rank.unknown) row.add_to(all);
  }
  std::vector<std::string> out;
  for (const UnknownCategory& row : all) {
    const std::string category = row.name.empty() ? "without a category" : "of category '" + row.name + "'";
    out.push_back("    " + plural(row.events, "event") + " " + category + (row.on_device ? ", of a device, " : ", ") +
                  format_duration(row.ns) + (row.events > 1 ? " all together" : ""));
  }
  return out;
}

std::vector<std::string> LinkReport::lines() const {
  const LinkCounts sum = total();
  std::vector<std::string> out;
  out.push_back(plural(ranks.size(), "rank"));
  for (const Row& row : kRows) {
    if (!row.repair && sum.*row.count > 0) out.push_back(std::to_string(sum.*row.count) + " " + row.words);
  }
  if (sum.latency_ns > 0)
    out.push_back(format_duration(sum.latency_ns) + " between launches and starts, counted to the kernels");
  const uint64_t repairs = sum.repairs();
  out.push_back(repairs == 0 ? "nothing mended" : "mended or guessed:");
  for (const Row& row : kRows) {
    if (!row.repair || sum.*row.count == 0) continue;
    std::string line = "  " + std::to_string(sum.*row.count) + " " + row.words;
    // Where, unless everywhere.
    std::string where;
    size_t concerned = 0;
    for (const RankLinkReport& rank : ranks) {
      if (rank.counts.*row.count == 0) continue;
      if (++concerned <= 6) where += (where.empty() ? "" : ", ") + std::to_string(rank.rank);
    }
    if (concerned < ranks.size()) {
      if (concerned > 6) where += " and " + std::to_string(concerned - 6) + " more";
      line += concerned == 1 ? " (rank " + where + ")" : " (ranks " + where + ")";
    }
    out.push_back(std::move(line));
    if (row.count != &LinkCounts::unknown_events) continue;
    for (std::string& category : unknown_lines()) out.push_back(std::move(category));
  }
  if (sum.overlap_ns > 0)
    out.push_back("  " + format_duration(sum.overlap_ns) + " of kernels that overlapped the next one");
  if (sum.idle_ns > 0)
    out.push_back("  " + format_duration(sum.idle_ns) +
                  " in which streams were idle and nothing in the trace says why");
  for (const RankLinkReport& rank : ranks) {
    const int64_t offset = rank.clock_offset.count();
    if (std::abs(offset) >= 1'000'000) {
      out.push_back("rank " + std::to_string(rank.rank) + ": its clock is " + format_duration(offset) +
                    " ahead of rank " + std::to_string(ranks.front().rank) + "'s");
    }
    for (const std::string& note : rank.notes) out.push_back("rank " + std::to_string(rank.rank) + ": " + note);
  }
  return out;
}

}  // namespace banyan::job::kineto
