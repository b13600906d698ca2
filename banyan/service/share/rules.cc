#include "banyan/service/share/rules.h"

#include <algorithm>
#include <array>
#include <set>

#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/nearest.h"
#include "banyan/base/text.h"

namespace banyan::service {
namespace {

constexpr JsonForm kRulesForm{.name = "table of rules", .depth = 8, .tells_lines = true};  // the format needs 5
constexpr size_t kMostFile = 16 << 20;
constexpr size_t kMostRules = 10'000;
constexpr size_t kMostName = 200, kMostPattern = 4096, kMostReason = 1000;  // bytes
constexpr uint64_t kMostWeight = 1000;

constexpr std::array<std::string_view, 3> kClassNames = {"high", "normal", "low"};  // in the order of ShareClass
constexpr std::array<std::string_view, 1> kQuotas = {"cgroup"};
constexpr std::array<std::string_view, 2> kOnSlowLink = {"tell", "replan"};

// Bytes of the character that begins here, in UTF-8.
size_t character_at(std::string_view text, size_t at) {
  size_t length = 1;
  while (at + length < text.size() && (static_cast<uint8_t>(text[at + length]) & 0xc0) == 0x80) ++length;
  return length;
}

bool fits(const std::optional<std::string>& pattern, std::string_view text) {
  return !pattern || is_like(*pattern, text);
}

// And not whatever there is.
bool names_something(std::string_view pattern) { return pattern.find_first_not_of("*?/") != std::string_view::npos; }

// Whether its groups are below one that it names. Users to whom groups of their own are delegated make some of any name
// below those. "..": as in containers, which see the groups of others from their own.
bool is_below_a_name(std::string_view pattern) {
  while (pattern.starts_with("/../")) pattern.remove_prefix(3);
  return pattern.size() > 1 && pattern[0] == '/' && std::string_view("*?/.").find(pattern[1]) == std::string_view::npos;
}

std::string text_of(JsonNode node, size_t most) {
  std::string text = node.text();
  if (text.empty()) throw node.error("is empty; say something or leave it out");
  if (text.size() > most) throw node.error("is longer than " + std::to_string(most) + " bytes");
  return text;
}

// Its place among the known ones.
size_t known_name(JsonNode node, std::string_view what, std::span<const std::string_view> known) {
  const std::string name = text_of(node, kMostName);
  NearestName nearest(name);
  std::string list;
  for (size_t i = 0; i < known.size(); ++i) {
    if (known[i] == name) return i;
    nearest.offer(known[i]);
    list += (i == 0 ? "" : ", ") + std::string(known[i]);
  }
  throw node.error("is unknown " + std::string(what) + " " + in_quotes(name) + nearest.hint() + "; known are " + list);
}

}  // namespace

// What follows the last * seen is tried at every place behind it. Earlier ones need not be tried again: wherever they
// end, the last one can take more. So this takes |pattern| * |text| steps at most.
bool is_like(std::string_view pattern, std::string_view text) {
  size_t p = 0, t = 0, behind_star = std::string_view::npos, tried = 0;
  while (t < text.size()) {
    if (p < pattern.size() && pattern[p] == '*') {
      behind_star = ++p;
      tried = t;
    } else if (p < pattern.size() && pattern[p] == '?') {
      ++p;
      t += character_at(text, t);
    } else if (p < pattern.size() && pattern[p] == text[t]) {
      ++p;
      ++t;
    } else if (behind_star != std::string_view::npos) {
      t = ++tried;
      p = behind_star;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', p) == std::string_view::npos;
}

std::string_view to_string(ShareClass share_class) { return kClassNames.at(static_cast<size_t>(share_class)); }

ShareClass parse_share_class(std::string_view text) {
  NearestName nearest(text);
  for (size_t i = 0; i < kClassNames.size(); ++i) {
    if (kClassNames[i] == text) return static_cast<ShareClass>(i);
    nearest.offer(kClassNames[i]);
  }
  throw invalid("is no class: " + in_quotes(text) + nearest.hint() + "; known are high, normal, low");
}

class Rules::Reader {
 public:
  explicit Reader(std::span<const std::string_view> plans) : plans_(plans) {}

  Rules read(std::string_view text) {
    if (text.size() > kMostFile) throw invalid("is larger than 16 MiB, which no table of rules is");
    const JsonDocument document(text, kRulesForm);
    const JsonNode root = document.root().with_keys({"version", "on_slow_link", "rules"});
    Rules rules;
    rules.version_ = root.at("version").whole(1);
    if (const auto acts = root.find("on_slow_link")) {
      rules.replans_alone_ = known_name(*acts, "way to treat slow links", kOnSlowLink) == 1;
    }
    const JsonNode list = root.at("rules");
    if (list.size() > kMostRules) {
      throw list.error("has " + std::to_string(list.size()) + " rules; give at most " + std::to_string(kMostRules));
    }
    for (const JsonNode node : list.items()) rules.rules_.push_back(rule(node));
    size_t number = 0;
    for (const JsonNode node : list.items()) expect_nothing_for_a_name(node, std::span(rules.rules_).subspan(number++));
    rules.class_begins_ = class_begins(rules.rules_);
    return rules;
  }

 private:
  static std::vector<uint64_t> class_begins(const std::vector<Rule>& rules) {
    std::set<uint64_t> begins;
    for (const Rule& rule : rules) {
      if (rule.match.least_bytes > 0) begins.insert(rule.match.least_bytes);
      if (rule.match.most_bytes < UINT64_MAX) begins.insert(rule.match.most_bytes + 1);
    }
    return {begins.begin(), begins.end()};
  }

  Rule rule(JsonNode node) {
    if (!node.has("name")) throw node.error("has no \"name\"");
    const std::string name = this->name(node.at("name"));
    return within(name, [&] {
      node.with_keys({"name", "match", "then"});
      Rule rule{.match = match(node.at("match")), .grant = grant(node.at("then"))};
      rule.grant.rule = name;
      if (rule.grant.has_own_quota) expect_known_at_once(node, rule.match);
      rule.grant.has_own_share = rule.match.tenant && rule.match.tenant->find_first_of("*?") == std::string::npos;
      return rule;
    });
  }

  // What a program is called is its own choice: nobody may have more for it than what the rules behind this one give.
  static void expect_nothing_for_a_name(JsonNode node, std::span<const Rule> rules) {
    const auto& [match, grant] = rules.front();
    if (grant.denial || !match.is_by_choice() || match.is_by_kernel()) return;
    // More than is given without any rule counts as more; so does more than what a later rule gives to anybody it may
    // take.
    std::string more = grant.weight > 1                        ? "weight " + std::to_string(grant.weight)
                       : grant.share_class == ShareClass::high ? "class high"
                                                               : "";
    for (const Rule& later : rules.subspan(1)) {
      if (!more.empty()) break;
      if (!later.match.is_by_choice() && match.overlaps(later.match)) more = gain(grant, later.grant);
    }
    if (more.empty()) return;
    const char* const who = match.tenant || match.communicator ? " to every user whose program says this name; "
                                                               : " to every user who may name control groups; ";
    within(grant.rule, [&]() -> void {
      throw node.at("match").error(
          "gives " + more + who +
          "match \"user\" as well, or a \"cgroup\" whose first group is named, as in /kubepods*");
    });
  }

  // What the first one gives, in words, that the second one does not.
  static std::string gain(const Grant& first, const Grant& second) {
    const char* const what = second.denial                                            ? "what is denied"
                             : second.cap && (!first.cap || *first.cap > *second.cap) ? "more than the cap"
                             : first.share_class < second.share_class                 ? "a higher class than is given"
                                                                                      : nullptr;
    return what == nullptr ? "" : std::string(what) + " by rule " + in_quotes(second.rule);
  }

  template <typename Step>
  static auto within(const std::string& name, Step step) -> decltype(step()) {
    try {
      return step();
    } catch (const Error& error) {
      throw Error(error.code(), "rule " + in_quotes(name) + ": " + error.message(), error.where());
    }
  }

  static void expect_known_at_once(JsonNode node, const Match& match) {
    if (match.is_of_process_alone() && match.cgroup && is_below_a_name(*match.cgroup)) return;
    throw node.at("then").at("quota").error(
        "is decided when a program attaches: have the rule match a \"cgroup\" whose first group is named, as in "
        "/kubepods*, with or without \"user\", and nothing else");
  }

  std::string name(JsonNode node) {
    std::string name = text_of(node, kMostName);
    if (name == Grant().rule) throw node.error("is 'default', as is reported where no rule matches; choose another");
    if (!names_.insert(name).second) throw node.error("is " + in_quotes(name) + ", as another rule is; choose another");
    return name;
  }

  Match match(JsonNode node) {
    node.with_keys({"tenant", "user", "cgroup", "communicator", "kind", "bytes", "hosts"});
    Match match;
    if (const auto tenant = node.find("tenant")) match.tenant = text_of(*tenant, kMostPattern);
    if (const auto user = node.find("user")) read_user(*user, match);
    if (const auto cgroup = node.find("cgroup")) match.cgroup = text_of(*cgroup, kMostPattern);
    if (const auto name = node.find("communicator")) match.communicator = text_of(*name, kMostPattern);
    if (const auto kind = node.find("kind")) match.kinds = kinds(*kind);
    if (const auto bytes = node.find("bytes")) read_bytes(*bytes, match);
    if (const auto hosts = node.find("hosts")) match.hosts = this->hosts(*hosts);
    return match;
  }

  // No system has users whose names are numbers.
  static void read_user(JsonNode node, Match& match) {
    if (node.is_number()) {
      match.user_id = static_cast<uint32_t>(node.whole(0, UINT32_MAX));
      return;
    }
    if (!node.is_text()) throw node.error("is not a user's name or number: it is " + node.in_words());
    const std::string text = text_of(node, kMostPattern);
    if (text.find_first_not_of("0123456789") != std::string::npos) {
      match.user = text;
      return;
    }
    if (text.size() > 10 || std::stoull(text) > UINT32_MAX) {
      throw node.error("is no user's number, which is at most " + std::to_string(UINT32_MAX) + ": it is " +
                       node.in_words());
    }
    match.user_id = static_cast<uint32_t>(std::stoull(text));
  }

  static std::vector<run::OperationKind> kinds(JsonNode node) {
    if (node.is_text()) return {node.parsed(run::parse_operation_kind)};
    if (!node.is_array()) throw node.error("is not a kind of call or a list of them: it is " + node.in_words());
    if (node.size() == 0) throw node.error("is empty; name a kind of call, or leave it out for all");
    std::vector<run::OperationKind> kinds;
    for (const JsonNode item : node.items()) {
      const run::OperationKind kind = item.parsed(run::parse_operation_kind);
      if (std::find(kinds.begin(), kinds.end(), kind) != kinds.end()) throw item.error("stands there before; keep one");
      kinds.push_back(kind);
    }
    return kinds;
  }

  static void read_bytes(JsonNode node, Match& match) {
    constexpr const char* kExamples = "a size or a range such as \"64KiB\", \"..1MiB\", \"1MiB..\" or \"1MiB..2MiB\"";
    if (!node.is_text()) throw node.error("is not " + std::string(kExamples) + ": it is " + node.in_words());
    const std::string text = node.text();
    const size_t dots = text.find("..");
    const std::string_view least = trim(std::string_view(text).substr(0, dots));
    const std::string_view most = dots == std::string::npos ? least : trim(std::string_view(text).substr(dots + 2));
    if (least.empty() && most.empty()) throw node.error("is " + in_quotes(text) + "; give " + kExamples);
    node.placed([&] {
      if (!least.empty()) match.least_bytes = Bytes::parse(least).count();
      if (!most.empty()) match.most_bytes = Bytes::parse(most).count();
    });
    if (match.least_bytes > match.most_bytes) {
      throw node.error("is " + in_quotes(text) + ", whose first end is above the second; exchange them");
    }
  }

  static std::vector<std::string> hosts(JsonNode node) {
    if (node.size() == 0) throw node.error("is empty; name a host, or leave it out for all");
    std::vector<std::string> hosts;
    for (const JsonNode item : node.items()) hosts.push_back(text_of(item, kMostPattern));
    return hosts;
  }

  Grant grant(JsonNode node) const {
    for (const char* const key : {"transport", "compression"}) {
      if (const auto given = node.find(key)) {
        throw given->error("means nothing to the service, which carries float32 as it is over TCP; remove it");
      }
    }
    node.with_keys({"deny", "weight", "class", "cap", "plan", "quota", "log"});
    Grant grant;
    if (const auto reason = node.find("deny")) {
      for (const auto& [key, value] : node.members()) {
        if (key != "deny") throw value.error("says nothing beside \"deny\"; remove one of them");
      }
      grant.denial = text_of(*reason, kMostReason);
    }
    if (const auto weight = node.find("weight")) grant.weight = static_cast<uint32_t>(weight->whole(1, kMostWeight));
    if (const auto of = node.find("class")) {
      grant.share_class = static_cast<ShareClass>(known_name(*of, "class", kClassNames));
    }
    if (const auto cap = node.find("cap")) grant.cap = cap->bandwidth().bytes_per_second();
    if (const auto plan = node.find("plan")) {
      grant.plan = plans_.empty() ? text_of(*plan, kMostName) : plans_[known_name(*plan, "plan", plans_)];
    }
    if (const auto quota = node.find("quota")) {
      known_name(*quota, "quota", kQuotas);
      grant.has_own_quota = true;
    }
    if (const auto log = node.find("log")) grant.logs = log->boolean();
    return grant;
  }

  const std::span<const std::string_view> plans_;  // empty: any
  std::set<std::string> names_;
};

Rules Rules::parse(std::string_view text, const std::string& name, std::span<const std::string_view> plans) {
  try {
    return Reader(plans).read(text);
  } catch (const Error& error) {
    throw error.within(name);
  }
}

bool Rules::Match::is_by_kernel() const {
  return user_id || (user && names_something(*user)) || (cgroup && is_below_a_name(*cgroup)) ||
         (tenant && names_something(tenant->substr(0, tenant->find('/'))));
}

bool Rules::Match::is_by_choice() const { return tenant || communicator || (cgroup && !is_below_a_name(*cgroup)); }

bool Rules::Match::overlaps(const Match& other) const {
  if (least_bytes > other.most_bytes || other.least_bytes > most_bytes) return false;
  return kinds.empty() || other.kinds.empty() ||
         std::find_first_of(kinds.begin(), kinds.end(), other.kinds.begin(), other.kinds.end()) != kinds.end();
}

// A user's name has no slash.
bool Rules::Match::takes_tenant(const Subject& subject) const {
  if (!tenant) return true;
  const bool is_named = tenant->find('/') != std::string::npos;
  if (is_named == subject.tenant.empty()) return false;
  const std::string name = is_named ? "/" + subject.tenant : "";
  return is_like(*tenant, subject.user + name) || is_like(*tenant, std::to_string(subject.user_id) + name);
}

bool Rules::Match::takes(const Subject& subject) const {
  if (user_id && *user_id != subject.user_id) return false;
  if (!takes_tenant(subject) || !fits(user, subject.user) || !fits(cgroup, subject.cgroup)) return false;
  if (!fits(communicator, subject.communicator)) return false;
  if (hosts.empty()) return true;
  const auto is_named = [&](const std::string& host) {
    return std::any_of(hosts.begin(), hosts.end(), [&](const std::string& name) { return is_like(name, host); });
  };
  return !subject.hosts.empty() && std::all_of(subject.hosts.begin(), subject.hosts.end(), is_named);
}

bool Rules::Match::takes(const AskedCall& call) const {
  return call.bytes >= least_bytes && call.bytes <= most_bytes &&
         (kinds.empty() || std::find(kinds.begin(), kinds.end(), call.kind) != kinds.end());
}

Grant Rules::grant(const Subject& subject) const {
  for (const Rule& rule : rules_) {
    if (!rule.match.looks_at_calls() && rule.match.takes(subject)) return rule.grant;
  }
  return {};
}

Grant Rules::grant(const Subject& subject, const AskedCall& call) const {
  for (const Rule& rule : rules_) {
    if (rule.match.takes(call) && rule.match.takes(subject)) return rule.grant;
  }
  return {};
}

size_t Rules::size_class(uint64_t bytes) const {
  return static_cast<size_t>(std::upper_bound(class_begins_.begin(), class_begins_.end(), bytes) -
                             class_begins_.begin());
}

std::vector<uint64_t> Rules::size_classes() const {
  std::vector<uint64_t> begins = {0};
  begins.insert(begins.end(), class_begins_.begin(), class_begins_.end());
  return begins;
}

std::optional<std::string> Rules::rule_with_plan_of_calls() const {
  for (const Rule& rule : rules_) {
    if (rule.match.looks_at_calls() && !rule.grant.plan.empty()) return rule.grant.rule;
  }
  return std::nullopt;
}

std::optional<std::string> Rules::quota_group(const Subject& subject) const {
  for (const Rule& rule : rules_) {
    if (!rule.match.is_of_process_alone() || !rule.match.takes(subject)) continue;
    if (!rule.grant.has_own_quota) return std::nullopt;
    const std::string& cgroup = subject.cgroup;
    for (size_t end = cgroup.find('/', 1); end != std::string::npos; end = cgroup.find('/', end + 1)) {
      if (is_like(*rule.match.cgroup, std::string_view(cgroup).substr(0, end))) return cgroup.substr(0, end);
    }
    return cgroup;
  }
  return std::nullopt;
}

std::vector<std::string> Rules::warnings() const {
  std::vector<std::string> warnings;
  for (const Rule& rule : rules_) {
    const std::optional<std::string>& tenant = rule.match.tenant;
    if (!tenant || tenant->find('/') != std::string::npos) continue;
    warnings.push_back("rule " + in_quotes(rule.grant.rule) + " takes programs of user " + in_quotes(*tenant) +
                       " that name no tenant; what programs name is \"*/" + *tenant + "\", or \"USER/" + *tenant +
                       "\" of one user");
  }
  return warnings;
}

bool Rules::looks_at_calls() const {
  return std::any_of(rules_.begin(), rules_.end(), [](const Rule& rule) { return rule.match.looks_at_calls(); });
}

CallGrants::Answer CallGrants::of(const AskedCall& call) {
  const std::pair key(call.kind, rules_->size_class(call.bytes));
  const auto found = known_.find(key);
  if (found != known_.end()) return {.grant = found->second, .is_new = false};
  Grant grant = rules_->grant(subject_, call);
  if (grant.denial && grant.rule == rules_->grant(subject_).rule) grant.denial.reset();
  if (change_) change_(grant);
  return {.grant = known_.emplace(key, std::move(grant)).first->second, .is_new = true};
}

}  // namespace banyan::service
