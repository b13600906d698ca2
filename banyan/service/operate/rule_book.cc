#include "banyan/service/operate/rule_book.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/units.h"
#include "banyan/plan/planner.h"
#include "banyan/run/record/log.h"
#include "banyan/service/share/rule_changes.h"

namespace banyan::service {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;
constexpr size_t kMostChanges = 10'000;

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

RuleBook::RuleBook(std::string path) : path_(std::move(path)) { reload(); }

void RuleBook::reload() {
  try {
    read_file_again();
  } catch (const Error& error) {
    refusal_ = error.what();
    throw;
  }
}

void RuleBook::read_file_again() {
  if (path_.empty()) {
    text_.clear();
    put_in_force({}, "none");
    return;
  }
  std::string text = read_file(path_, kMostBytes);
  put_in_force(checked(text, path_), path_);
  text_ = std::move(text);
}

void RuleBook::replace(const std::string& text) {
  put_in_force(checked(text, "the new rules"), "by an operator");
  text_ = text;
}

void RuleBook::put_in_force(Rules rules, const std::string& from) {
  const uint64_t before = rules_->version();
  rules_ = std::make_shared<const Rules>(std::move(rules));
  refusal_.clear();
  BANYAN_LOG(info) << "rules of version " << rules_->version() << " are in force: " << from;
  warnings_ = rules_->warnings();
  if (rules_->version() < before) {
    warnings_.push_back("rules of version " + std::to_string(rules_->version()) + " (" + from +
                        ") replace those of version " + std::to_string(before));
  }
}

Rules RuleBook::checked(const std::string& text, const std::string& name) {
  std::vector<std::string_view> planners;
  for (const plan::Planner& planner : plan::planners()) planners.push_back(planner.name);
  Rules rules = Rules::parse(text, name, planners);
  if (const auto rule = rules.rule_with_plan_of_calls()) {
    throw Error(ErrorCode::unsupported,
                "rule " + in_quotes(*rule) +
                    " names a plan for calls of some kinds or sizes, but all calls of a communicator follow one; leave "
                    "out \"kind\" and \"bytes\", or \"plan\"",
                name);
  }
  return rules;
}

std::shared_ptr<CallGrants> RuleBook::grants_of_calls(const Subject& subject, const std::string& tenant) const {
  if (!rules_->looks_at_calls()) return nullptr;
  const auto change = changes_.find(tenant);
  if (change == changes_.end()) return std::make_shared<CallGrants>(rules_, subject);
  return std::make_shared<CallGrants>(rules_, subject, [what = change->second](Grant& grant) { what.apply(grant); });
}

Grant RuleBook::grant(const Subject& subject, const std::string& tenant) const {
  Grant grant = rules_->grant(subject);
  if (const auto change = changes_.find(tenant); change != changes_.end()) change->second.apply(grant);
  return grant;
}

void RuleBook::grant_anew(const ClientTable& clients) const {
  for (const KnownSession& each : clients.open_sessions()) {
    each.place.act([grant = grant(each.subject, each.tenant), calls = grants_of_calls(each.subject, each.tenant)](
                       Session& session) { session.set_terms(grant, calls); });
  }
}

void RuleBook::set(const std::string& tenant, const std::optional<GrantChange>& change) {
  if (!change) {
    changes_.erase(tenant);
  } else if (changes_.size() >= kMostChanges && !changes_.contains(tenant)) {
    throw Error(ErrorCode::unsupported, "something is set for " + std::to_string(kMostChanges) +
                                            " tenants already; reset some, or write rules");
  } else {
    changes_[tenant] = *change;
  }
}

Subject subject_of(const ClientIdentity& client, const std::string& tenant) {
  return {.tenant = tenant, .user = client.name, .cgroup = client.cgroup, .user_id = client.user};
}

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
