#include "banyan/service/operate/operator_commands.h"

#include "banyan/base/json_line.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/units.h"

namespace banyan::service {
namespace {

constexpr JsonForm kForm{.name = "command", .depth = 8};
constexpr uint64_t kMostWeight = 1000;
constexpr const char* kAsAtFirst = "as at first";

std::string name_of(JsonNode node) {
  std::string name = node.text();
  if (name.empty()) throw node.error("is empty");
  return name;
}

std::vector<std::string> names_of(JsonNode root, std::string_view key) {
  std::vector<std::string> names;
  if (const auto list = root.find(key)) {
    for (const JsonNode item : list->items()) names.push_back(name_of(item));
  }
  return names;
}

}  // namespace

void GrantChange::apply(Grant& grant) const {
  if (weight) grant.weight = *weight;
  if (share_class) grant.share_class = *share_class;
  if (cap) grant.cap = *cap;
  grant.has_own_share = true;
}

SetCommand read_set_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"tenant", "weight", "class", "cap", "reset", "hosts"});
  SetCommand command{.tenant = name_of(root.at("tenant"))};
  if (const auto resets = root.find("reset")) command.resets = resets->boolean();
  GrantChange& change = command.change;
  if (const auto weight = root.find("weight")) change.weight = static_cast<uint32_t>(weight->whole(1, kMostWeight));
  if (const auto share_class = root.find("class")) {
    change.share_class = share_class->parsed([](const std::string& text) { return parse_share_class(text); });
  }
  if (const auto cap = root.find("cap")) {
    change.cap.emplace();
    if (cap->text() != "none") *change.cap = cap->bandwidth().bytes_per_second();
  }
  if (command.resets == (change != GrantChange())) {
    throw root.error(command.resets ? "resets, and says something new" : "says neither weight, class, cap nor reset");
  }
  return command;
}

ReplanCommand read_replan_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"communicator", "avoid", "restore", "bandwidth", "plan", "hosts"});
  ReplanCommand command{.communicator = name_of(root.at("communicator")),
                        .avoid = names_of(root, "avoid"),
                        .restore = names_of(root, "restore")};
  if (const auto bandwidth = root.find("bandwidth")) {
    for (const auto& [link, value] : bandwidth->members()) {
      command.bandwidth[std::string(link)] = value.bandwidth().bytes_per_second();
    }
  }
  if (const auto plan = root.find("plan")) command.plan = name_of(*plan);
  if (command.avoid.empty() && command.restore.empty() && command.bandwidth.empty() && command.plan.empty()) {
    throw root.error("says neither avoid, restore, bandwidth nor plan");
  }
  return command;
}

std::string LoneReplanCommand::encode() const {
  JsonLine links;
  for (const auto& [link, rate] : rates) {
    links.add(link, rate ? Bandwidth::bytes_per_second(*rate).to_string() : kAsAtFirst);
  }
  return JsonLine().add("communicator", communicator).add("rates", std::move(links)).take();
}

LoneReplanCommand read_lone_replan_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"communicator", "rates"});
  LoneReplanCommand command{.communicator = name_of(root.at("communicator"))};
  for (const auto& [link, rate] : root.at("rates").members()) {
    std::optional<uint64_t>& said = command.rates[std::string(link)];
    if (rate.text() != kAsAtFirst) said = rate.bandwidth().bytes_per_second();
  }
  return command;
}

bool read_drain_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  return document.root().with_keys({"drain", "hosts"}).at("drain").boolean();
}

void check_upgrade_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  document.root().with_keys({"hosts"});
}

RulesCommand read_rules_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"text", "check", "older", "hosts"});
  RulesCommand command{.text = name_of(root.at("text"))};
  if (const auto check = root.find("check")) command.only_checks = check->boolean();
  if (const auto older = root.find("older")) command.may_be_older = older->boolean();
  return command;
}

std::vector<std::string> hosts_of_command(std::string_view json) {
  const JsonDocument document(json, kForm);
  return names_of(document.root(), "hosts");
}

}  // namespace banyan::service
