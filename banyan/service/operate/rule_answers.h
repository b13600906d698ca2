// Operators' commands about rules: daemons carry them out, and answer as JSON (operator_api.h says how it looks).
//
// On the thread of the RuleBook.
#pragma once

#include <span>
#include <string>

#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/operate/rule_book.h"

namespace banyan::service {

// A communicator that is open, as rules know it.
struct RuledCommunicator {
  std::string id, name, tenant;
  Subject subject;
};

// Version and text.
std::string rules_in_force(const RuleBook& book);
// The rules of a command in place of those in force, unless it only checks; and what that changes for these
// communicators, but for what was set for tenants beyond the rules. Throws what RuleBook::replace throws, and
// Error{invalid_usage} for older rules than are in force, and nothing has changed then.
std::string load_rules(RuleBook& book, const RulesCommand& command, std::span<const RuledCommunicator> communicators);

}  // namespace banyan::service
