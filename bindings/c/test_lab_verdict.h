// What is to be said of a run in a lab, from what was done to the network and from how its ranks have ended.
#pragma once

#include <banyan/banyan.h>

#include <functional>
#include <string>
#include <vector>

#include "bindings/c/test_lab_events.h"
#include "bindings/c/test_lab_oracle.h"

namespace banyan::c {

struct RankEnd {
  bool is_over = false;  // all its calls were right, until all had heard that it is over
  banyan_result_t result = BANYAN_SUCCESS;
  LabTime failed_at{0};
  std::string text = {}, wrong = {};
  std::string trouble = {};  // it hangs, or was ended by a signal
};

struct LabCase {
  const LabTopology& topology;
  LabMode mode = LabMode::cuts;
  std::vector<LabOutage> outages = {};
  std::vector<RankEnd> ends = {};
  std::function<LabTime(LabSpan)> withheld;  // for how long the machine did not let processes run
};

enum class LabOutcome {
  went_on,
  cut_off,   // the ranks were parted for longer than calls wait, and said so
  unclear,   // losses came one so soon after the other that nothing is promised
  withheld,  // calls failed that should not, but the machine itself stood still
  failed,
};
constexpr size_t kLabOutcomes = 5;

struct LabVerdict {
  LabOutcome outcome = LabOutcome::failed;
  bool had_to_go_on = false;
  std::string why = {};
};

// The timeout of calls in labs.
constexpr LabTime kLabTimeout{8000};
// What a loss may cost besides the outage itself (docs/run.md): 2 s until connections count as lost, and one for the
// ranks to agree, to connect and to begin again.
constexpr LabTime kLabRecovery{3000};

LabVerdict judge(const LabCase& lab);

}  // namespace banyan::c
