// Wishes of operators, as bodies of requests (banyan/service/operate/operator_api.h), and the answers of the hosts in
// words. Pure.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "apps/report.h"
#include "apps/service/operator_door.h"
#include "apps/terminal.h"

namespace banyan::app {

// As the command line gives them: empty ones are not given. The bodies throw Error{invalid_input} that names the
// option.
struct ShareWish {
  std::string tenant = {}, weight = {}, share_class = {}, cap = {};  // cap: "none" takes it away
  bool reset = false;

  Json body() const;
  std::string in_words() const;  // "weight 4, class high"
};

struct PlanWish {
  std::string communicator = {};
  std::vector<std::string> avoid = {}, restore = {}, bandwidths = {};  // "leaf0-spine1=1GB/s"
  std::string plan = {};                                               // a schedule file's text

  Json body() const;
};

// A line for each host: what `words` says of its answer, its refusal, or that it is unreachable.
std::string answers_text(const Terminal& terminal, const OperatorAnswers& answers,
                         const std::function<std::string(const Json&)>& words);

// The changes that other rules would bring to communicators; a change that several hosts report is listed once.
std::string changes_text(const Terminal& terminal, const OperatorAnswers& answers);

// The outcome of a wish for other plans, for one communicator.
struct ReplanOutcome {
  std::string id, name;
  uint64_t generation = 0;  // of the plans by which its calls go now
  std::string refusal;      // why not by new ones; empty: they do
  std::string note = {};    // what the wish does not do
};
std::vector<ReplanOutcome> outcomes_of(const OperatorAnswers& answers);
std::string outcomes_text(const Terminal& terminal, const std::vector<ReplanOutcome>& outcomes);

// The sum of this number of all hosts.
uint64_t sum_of(const OperatorAnswers& answers, const char* key);

}  // namespace banyan::app
