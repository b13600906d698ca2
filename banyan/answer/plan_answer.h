// Plans as they are answered: a forest, or what is quickest for a size, with its bound, accepted by the verifier.
//
// The command line and Python ask here, so that both say the same.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "banyan/answer/codec_choice.h"
#include "banyan/plan/forest/forest.h"
#include "banyan/predict/collective/schedule_simulation.h"
#include "banyan/schedule/schedule_file.h"

namespace banyan::answer {

struct PlanSeconds {
  double bound = 0, switches = 0, packing = 0, lowering = 0, verify = 0;
  double total = 0;  // all of it, verification included
};

// One of the plans that were there to choose from, and the time that the simulator gives it.
struct Contender {
  std::string planner;
  Picoseconds time;
};

struct PlanAnswer {
  plan::ForestPlan plan;
  PlanSeconds seconds;
  std::string planner = "forest";          // whose plan it is
  std::vector<Contender> contenders = {};  // of a choice, the quickest first
  // After a choice: the planner whose plan calls of this size follow in the runtime. The runtime chooses by an
  // estimate, which is 5 % worse for streams that share a link (plan/choose.h). Empty for all-to-alls, which are chosen
  // otherwise.
  std::string followed = {};
  size_t left_out = 0;                     // plans that cannot be quicker, by their busiest link or height alone
  std::optional<CodecChoice> codecs = {};  // of a choice with codecs; the rest is that of the chosen one
};

// Plans a forest, or the paths of an all-to-all, and has the verifier look at it; options.observer hears of both. A
// plan of ours that the verifier rejects, or whose time is not what the planner says, is a bug and ends the process.
// Throws what plan_forest throws, and Error{unsupported} beyond 16384 ranks.
PlanAnswer make_plan(const Fabric& fabric, const Collective& collective, const plan::ForestOptions& options);

struct CodecQuestion {
  CodecWish wish;
  CodecCores cores = {};
};

// Puts the quickest of all plans for that size in the place of the forest; with a question of codecs, that of the code
// which is chosen, for its bytes. `planning` hears of the other planners, then
// `simulating` of the simulations; either may be null. Throws Error{invalid_input} for a size of zero, and
// Error{aborted} when `simulating` ends a simulation.
void choose_by_simulation(PlanAnswer& answer, Bytes total, plan::PlanObserver* planning,
                          predict::SimulationObserver* simulating, const CodecQuestion* codecs = nullptr);

// The contents of the answer's file. The schedule is moved: it may be large.
schedule::ScheduleFile to_file(PlanAnswer&& answer);

}  // namespace banyan::answer
