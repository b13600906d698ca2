#include "apps/service/service_wishes.h"

#include <algorithm>
#include <array>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/text.h"
#include "banyan/base/units.h"
#include "banyan/base/utf8.h"
#include "banyan/base/words.h"
#include "banyan/service/share/rules.h"

namespace banyan::app {
namespace {

constexpr uint64_t kMostWeight = 1000;  // as in rules
constexpr const char* kNoCap = "none";

std::string bandwidth(const std::string& text) { return Bandwidth::parse(text).to_string(); }

// "1 GB/s", of a number of bytes per second or of a text.
std::string rate_in_words(const Json& rate) {
  return rate.is_number() ? format_rate(rate.get<double>()) : rate.is_string() ? rate.get<std::string>() : rate.dump();
}

std::string text_or(const Json& object, const char* key, const std::string& otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

// "weight 4, class high, cap 1 GB/s (rule 'batch')".
std::string grant_in_words(const Json& grant) {
  if (!grant.is_object()) return "nothing";
  const std::string denial = text_or(grant, "deny", "");
  std::string words;
  if (!denial.empty()) {
    words = "refused: " + denial;
  } else {
    const auto weight = grant.find("weight"), cap = grant.find("cap");
    if (weight != grant.end()) words = "weight " + weight->dump() + ", ";
    words += "class " + text_or(grant, "class", "normal");
    if (cap != grant.end() && !cap->is_null()) words += ", cap " + rate_in_words(*cap);
    if (grant.value("log", Json(false)) == Json(true)) words += ", logged";
  }
  return words + " (rule " + in_quotes(text_or(grant, "rule", "default")) + ")";
}

}  // namespace

Json ShareWish::body() const {
  Json body = {{"tenant", tenant}};
  if (reset) {
    body["reset"] = true;
    return body;
  }
  if (!weight.empty()) body["weight"] = parse_count(weight, "--weight", {.most = kMostWeight});
  if (!share_class.empty()) {
    body["class"] = to_string(parse_option("--class", [&] { return service::parse_share_class(share_class); }));
  }
  if (!cap.empty()) body["cap"] = cap == kNoCap ? cap : parse_option("--cap", [&] { return bandwidth(cap); });
  if (body.size() == 1) {
    throw invalid("what is to be set? Give --weight, --class or --cap; or --reset, which takes back what was set");
  }
  return body;
}

std::string ShareWish::in_words() const {
  if (reset) return "as the rules say";
  std::string words;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : ", ") + more; };
  if (!weight.empty()) add("weight " + weight);
  if (!share_class.empty()) add("class " + share_class);
  if (!cap.empty()) add(cap == kNoCap ? "no cap" : "cap " + bandwidth(cap));
  return words + ", until the daemons end";
}

Json PlanWish::body() const {
  Json body = {{"communicator", communicator}};
  if (!avoid.empty()) body["avoid"] = avoid;
  if (!restore.empty()) body["restore"] = restore;
  for (const std::string& each : bandwidths) {
    parse_option("--bandwidth", [&] {
      const size_t sign = each.rfind('=');
      if (sign == std::string::npos || sign == 0) {
        throw invalid("is " + in_quotes(each) + "; give a link and what it carries, as leaf0-spine1=1GB/s");
      }
      body["bandwidth"][each.substr(0, sign)] = bandwidth(each.substr(sign + 1));
    });
  }
  if (!plan.empty()) body["plan"] = plan;
  if (body.size() == 1) throw invalid("what is to change? Give --avoid, --restore, --bandwidth or --plan");
  return body;
}

std::string answers_text(const Terminal& terminal, const OperatorAnswers& answers,
                         const std::function<std::string(const Json&)>& words) {
  std::string text;
  for (const OperatorAnswers::Host& each : answers.hosts) {
    const std::string said = each.error.empty() ? words(each.said) : "refuses it: " + harmless(each.error);
    text += labelled(terminal, harmless(each.name), said);
  }
  for (const service::UnreachableHost& each : answers.unreachable) {
    text += labelled(terminal, harmless(each.host), "unreachable: " + harmless(each.why));
  }
  return text;
}

std::string changes_text(const Terminal& terminal, const OperatorAnswers& answers) {
  Table table({"communicator", "id", "tenant", "now", "then"});
  std::set<std::array<std::string, 5>> seen;
  for (const OperatorAnswers::Host& host : answers.hosts) {
    const auto changes = host.said.find("changes");
    if (changes == host.said.end() || !changes->is_array()) continue;
    for (const Json& each : *changes) {
      if (!each.is_object()) continue;
      const std::array<std::string, 5> row = {text_or(each, "name", ""), text_or(each, "communicator", ""),
                                              text_or(each, "tenant", ""), grant_in_words(each.value("from", Json())),
                                              grant_in_words(each.value("to", Json()))};
      if (!seen.insert(row).second) continue;
      std::vector<std::string> cells;
      for (const std::string& cell : row) cells.push_back(harmless(cell));
      table.add(std::move(cells));
    }
  }
  return seen.empty() ? "nothing changes for the communicators that are open\n" : table.format(terminal);
}

uint64_t sum_of(const OperatorAnswers& answers, const char* key) {
  uint64_t sum = 0;
  for (const OperatorAnswers::Host& each : answers.hosts) {
    const auto found = each.said.find(key);
    if (found != each.said.end() && found->is_number_unsigned()) sum += found->get<uint64_t>();
  }
  return sum;
}

std::vector<ReplanOutcome> outcomes_of(const OperatorAnswers& answers) {
  std::vector<ReplanOutcome> outcomes;
  for (const OperatorAnswers::Host& each : answers.hosts) {
    const auto found = each.said.find("communicators");
    if (found == each.said.end() || !found->is_array()) continue;
    for (const Json& row : *found) {
      if (!row.is_object()) continue;
      const auto generation = row.find("generation");
      const bool has_one = generation != row.end() && generation->is_number_unsigned();
      outcomes.push_back({.id = text_or(row, "id", ""),
                          .name = text_or(row, "name", ""),
                          .generation = has_one ? generation->get<uint64_t>() : 0,
                          .refusal = text_or(row, "refusal", ""),
                          .note = text_or(row, "note", "")});
    }
  }
  return outcomes;
}

std::string outcomes_text(const Terminal& terminal, const std::vector<ReplanOutcome>& outcomes) {
  if (outcomes.empty()) return "";
  Table table({"communicator", "id", "plans", "outcome"});
  for (const ReplanOutcome& each : outcomes) {
    const std::string outcome = each.refusal.empty() ? "goes by new plans" : "keeps its plans: " + each.refusal;
    table.add({harmless(each.name), harmless(each.id), std::to_string(each.generation),
               harmless(outcome + (each.note.empty() ? "" : "; " + each.note))});
  }
  return table.format(terminal);
}

}  // namespace banyan::app
