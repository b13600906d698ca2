// Prediction: what a simulation says of when everything ends, where the time went, and how busy each link was.
//
// It is what reports are made of: the breakdown that is printed, the Chrome trace, the page (report/). Times are
// virtual and begin at 0. Spans may be left out (options of the simulators), sums never are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/fabric/fabric.h"
#include "banyan/predict/fluid/fluid_network.h"
#include "banyan/predict/simulation/link_events.h"

namespace banyan::predict {

// The activity of one stream of one rank, or of one link, from `begin` to `end`.
struct PredictedSpan {
  enum class Kind : uint8_t { compute, memory, collective, send, receive, wait, host };
  uint32_t rank = 0;  // number in Prediction::ranks
  uint16_t stream = 0;
  Kind kind = Kind::compute;
  uint32_t name = 0;  // into Prediction::names
  Picoseconds begin{0}, end{0};
};

std::string_view to_string(PredictedSpan::Kind kind);

// A rank and the parts of its time. The five parts add up to Prediction::time.
struct PredictedRank {
  std::string name;   // of its node in the fabric
  uint32_t job = 0;   // into Prediction::jobs
  uint32_t node = 0;  // of the fabric
  std::vector<std::string> streams;
  Picoseconds compute{0};  // at least one stream computes or moves memory
  Picoseconds exposed{0};  // none does, and its own bytes are on the way
  Picoseconds waiting{0};  // neither, and it waits in a collective for its other members, or for a receiver
  Picoseconds host{0};     // none of these, and its host is at work, or pauses as a trace says
  Picoseconds bubble{0};   // none of these: nothing to do until a message comes, or nothing at all
};

struct PredictedJob {
  std::string name, tenant;
  Picoseconds begin{0}, end{0};
  std::optional<Picoseconds> alone;           // how long it would have taken with the fabric to itself
  std::optional<Picoseconds> failed_at = {};  // a link that it used failed, and the rest of it was given up
};

struct PredictedLink {
  double bytes = 0;         // that crossed it, of all flows
  Picoseconds full{0};      // as long as it was a bottleneck
  std::vector<float> load;  // of capacity, 0 to 1, in Prediction::load_step; empty when not recorded
};

struct Prediction {
  std::string title;  // one line: what was simulated on what
  Picoseconds time{0};
  bool complete = true;  // false: stopped early; everything is as of `time`
  std::vector<PredictedJob> jobs;
  std::vector<PredictedRank> ranks;
  std::vector<std::string> names;
  std::vector<PredictedSpan> spans;  // by begin
  std::vector<PredictedLink> links;  // by number of the fabric's link
  std::vector<LinkEvent> events;     // of links, until `time`; by time and link, of one link one at a time
  Picoseconds load_step{0};
  WindowError window;
};

// A point of a sweep over sizes.
struct PredictedPoint {
  Bytes total;
  std::string plan;
  Picoseconds time{0};
  double algbw = 0, busbw = 0;  // bytes per second
  Bytes slice{0};               // that moved at once; 0: not known
};

// The same simulation with one resource doubled.
struct WhatIf {
  std::string resource;  // in words: "links between boxes", "compute of all ranks"
  Picoseconds time{0};   // with it doubled
  double gain = 0;       // of Prediction::time: 0.2 is a fifth less; below 0 it would take longer
};

}  // namespace banyan::predict

namespace banyan {
using predict::Prediction;
}  // namespace banyan
