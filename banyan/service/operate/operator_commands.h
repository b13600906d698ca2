// Commands of operators to daemons, as JSON (operator_api.h says how each looks).
//
// Pure. All throw Error{invalid_input} naming the field.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/service/share/rules.h"

namespace banyan::service {

// Changes of parts of a grant; parts that are left out stay as the rules say.
struct GrantChange {
  std::optional<uint32_t> weight = {};
  std::optional<ShareClass> share_class = {};
  std::optional<std::optional<uint64_t>> cap = {};  // bytes per second on any link; an inner nothing: none

  void apply(Grant& grant) const;
  friend bool operator==(const GrantChange&, const GrantChange&) = default;
};

struct SetCommand {
  std::string tenant;
  bool resets = false;
  GrantChange change = {};
};
SetCommand read_set_command(std::string_view json);

struct ReplanCommand {
  std::string communicator;                        // its id, or its name, which may hold * and ?
  std::vector<std::string> avoid, restore;         // links
  std::map<std::string, uint64_t> bandwidth = {};  // by link, bytes per second
  std::string plan = {};                           // text of a schedule file; empty: none
};
ReplanCommand read_replan_command(std::string_view json);

// Not of an operator: the service acts alone (slow_link_watch.h).
struct LoneReplanCommand {
  std::string communicator = {};                              // as above
  std::map<std::string, std::optional<uint64_t>> rates = {};  // by link, bytes per second; nothing: as it was at first

  std::string encode() const;
};
LoneReplanCommand read_lone_replan_command(std::string_view json);

void check_upgrade_command(std::string_view json);  // it says which hosts, and nothing else

bool read_drain_command(std::string_view json);

struct RulesCommand {
  std::string text;
  bool only_checks = false;
  bool may_be_older = false;  // their version may be less than that of those in force
};
RulesCommand read_rules_command(std::string_view json);

// "hosts" of any of these: by name; empty: all.
std::vector<std::string> hosts_of_command(std::string_view json);

}  // namespace banyan::service
