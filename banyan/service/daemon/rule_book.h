// RuleBook: the rules in force (share/rules.h), from a file that can be read again while everything runs.
//
// A file with a mistake changes nothing. Without a file everything is granted.
//
// One thread.
#pragma once

#include <map>
#include <optional>
#include <string>

#include "banyan/service/daemon/client_connection.h"
#include "banyan/service/daemon/operator_commands.h"
#include "banyan/service/share/rules.h"

namespace banyan::service {

class RuleBook {
 public:
  // `path`: empty: none. Throws what Rules::parse throws, Error{not_found}, Error{io}.
  explicit RuleBook(std::string path);
  // Reads the file again. Throws the same, and nothing has changed then.
  void reload();

  const Rules& rules() const { return rules_; }
  // What a communicator gets, whatever it calls: as the rules say, and what was set for its tenant (as shares name it).
  Grant grant(const Subject& subject, const std::string& tenant) const;
  // Beyond the rules, until this ends; nothing: takes back what was set. Throws Error{unsupported} for too many.
  void set(const std::string& tenant, const std::optional<GrantChange>& change);

 private:
  Rules read() const;

  const std::string path_;
  Rules rules_;
  std::map<std::string, GrantChange> changes_;  // by tenant
};

// Who a client is, as rules know it: its user's name, its cgroup (of cgroup v2; empty where it cannot be read), and its
// tenant, which is the user where the client names none.
Subject subject_of(const ClientIdentity& client, const std::string& tenant);

}  // namespace banyan::service
