// RuleBook: the rules in force (share/rules.h), from a file that can be read again while everything runs.
//
// A file with a mistake changes nothing. Without a file everything is granted. Plans are named as planners are
// (plan/planner.h), and for communicators: a rule that looks at calls and names a plan is refused, since all ranks have
// to go over to a plan together.
//
// One thread.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/service/operate/operator_commands.h"
#include "banyan/service/session/client_table.h"
#include "banyan/service/share/rules.h"

namespace banyan::service {

class RuleBook {
 public:
  // `path`: empty: none. Throws what replace() throws, Error{not_found}, Error{io}.
  explicit RuleBook(std::string path);
  // Reads the file again. Throws the same, and nothing has changed then but refusal().
  void reload();
  // Why the rules of the file are not in force, as the last reload() threw it; empty: they are, or others were put in
  // their place since.
  const std::string& refusal() const { return refusal_; }

  // Other rules in place of those of the file, until it is read again. Throws what Rules::parse throws,
  // Error{unsupported}, and nothing has changed then.
  void replace(const std::string& text);
  // The rules that replace() would take. Throws what it would throw.
  static Rules checked(const std::string& text, const std::string& name);

  const Rules& rules() const { return *rules_; }
  // Likely mistakes in the rules that were put in force last: those of Rules::warnings(), and a version less than that
  // of the rules before.
  const std::vector<std::string>& warnings() const { return warnings_; }
  // As they were read or given; empty where there are none.
  const std::string& text() const { return text_; }
  // The grant of a communicator, whatever it calls: by the rules, and as set for its tenant (as shares name it).
  Grant grant(const Subject& subject, const std::string& tenant) const;
  // The same of its calls; none where rules do not look at calls, and all get what the communicator gets.
  std::shared_ptr<CallGrants> grants_of_calls(const Subject& subject, const std::string& tenant) const;
  // Gives the sessions that are open what is granted now.
  void grant_anew(const ClientTable& clients) const;

  // The operator drains this host: no communicators are opened any more.
  void drain(bool drains) { is_draining_ = drains; }
  bool is_draining() const { return is_draining_; }

  // Beyond the rules, until this ends; nothing: takes back what was set. Throws Error{unsupported} for too many.
  void set(const std::string& tenant, const std::optional<GrantChange>& change);

 private:
  void read_file_again();
  void put_in_force(Rules rules, const std::string& from);

  const std::string path_;
  std::string text_, refusal_;
  std::vector<std::string> warnings_;
  std::shared_ptr<const Rules> rules_ = std::make_shared<const Rules>();  // shared with grants of calls
  std::map<std::string, GrantChange> changes_;                            // by tenant
  bool is_draining_ = false;
};

// A client as rules know it: its user's name, its cgroup, and the tenant that it names, which may be none.
Subject subject_of(const ClientIdentity& client, const std::string& tenant);

// ---- Operators' commands about rules: daemons carry them out, and answer as JSON (operator_api.h says how it looks).

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
