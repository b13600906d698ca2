// Schedules that tests can take apart, and a slow check of what they do.
//
// A ScheduleDraft is a schedule as plain lists that a test edits freely: it is how tests write schedules by hand and
// how they tamper with good ones. executes_to() decides by executing it on sets of contributions and by reading the
// rules of schedule.h literally; it is slow, and shares nothing with the verifier.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/schedule/schedule.h"

namespace banyan::testing {

struct ChunkDraft {
  NodeId root{};
  uint64_t units = 1;
  std::vector<uint32_t> in = {}, out = {};              // numbers of routes
  std::vector<uint32_t> in_steps = {}, out_steps = {};  // as long as the trees, or empty

  friend bool operator==(const ChunkDraft&, const ChunkDraft&) = default;
};

struct ScheduleDraft {
  Fabric fabric;
  Collective collective;
  std::vector<std::vector<LinkId>> routes = {};
  std::vector<ChunkDraft> chunks = {};

  // Numbers of the routes along the named nodes, each "a sw b"; new routes are added. Where several links join two
  // nodes, the first is taken; where none does, the test ends with a CHECK.
  std::vector<uint32_t> edges(std::initializer_list<std::string_view> paths);

  // Throws what Schedule::Builder throws.
  Schedule build() const;
};

// The other way round: build() of the result is `schedule` again.
ScheduleDraft draft_of(const Schedule& schedule);

// Seconds per byte if the draft does what its collective promises by the rules of schedule.h and verify.h; absent if
// not. O(chunks * edges^2 + edges * ranks): for small ones. `draft` must be one that build() accepts.
std::optional<Fraction> executes_to(const ScheduleDraft& draft);

struct RandomScheduleOptions {
  CollectiveKind kind = CollectiveKind::all_gather;
  uint32_t max_chunks_per_root = 3;
  bool steps = false;  // ties between equal depths of all trees
  uint64_t seed = 1;
};
// A right schedule made of random trees over random ranks of `fabric`, with random weights. Same seed, same schedule.
ScheduleDraft random_schedule(const Fabric& fabric, const RandomScheduleOptions& options);

}  // namespace banyan::testing
