#include "banyan/service/operate/rule_answers.h"

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/units.h"
#include "banyan/service/share/rule_changes.h"

namespace banyan::service {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

Json json_of(const Grant& grant) {
  Json json{{"rule", grant.rule}};
  if (grant.denial) {
    json["deny"] = *grant.denial;
    return json;
  }
  json["weight"] = grant.weight;
  json["class"] = to_string(grant.share_class);
  if (grant.cap) json["cap"] = *grant.cap;
  if (!grant.plan.empty()) json["plan"] = grant.plan;
  json["log"] = grant.logs;
  if (grant.has_own_quota) json["quota"] = "cgroup";
  return json;
}

Json json_of(const CallRange& calls) {
  Json json{{"kind", run::to_string(calls.kind)}, {"least", calls.least}};
  if (calls.most != UINT64_MAX) json["most"] = calls.most;
  return json;
}

}  // namespace

std::string rules_in_force(const RuleBook& book) {
  return text_of(Json{{"version", book.rules().version()}, {"text", book.text()}});
}

std::string load_rules(RuleBook& book, const RulesCommand& command, std::span<const RuledCommunicator> communicators) {
  const Rules rules = RuleBook::checked(command.text, "the new rules");
  if (!command.only_checks && !command.may_be_older && rules.version() < book.rules().version()) {
    throw Error(ErrorCode::invalid_usage, "rules of version " + std::to_string(book.rules().version()) +
                                              " are in force, and these are of version " +
                                              std::to_string(rules.version()) +
                                              "; give them a higher one, or load them with --older");
  }
  std::vector<Subject> subjects;
  for (const RuledCommunicator& each : communicators) subjects.push_back(each.subject);
  Json list = Json::array();
  for (const RuleChange& change : changes(book.rules(), rules, subjects)) {
    const RuledCommunicator& communicator = communicators[change.subject];
    Json row{{"communicator", communicator.id}, {"name", communicator.name}, {"tenant", communicator.tenant}};
    if (change.calls) row["calls"] = json_of(*change.calls);
    row["from"] = json_of(change.from);
    row["to"] = json_of(change.to);
    list.push_back(std::move(row));
  }
  if (!command.only_checks) book.replace(command.text);
  return text_of(Json{{"version", rules.version()}, {"warnings", rules.warnings()}, {"changes", std::move(list)}});
}

}  // namespace banyan::service
