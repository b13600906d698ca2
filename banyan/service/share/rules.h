// Rules: what an operator grants to whom, as one table in a file.
//
// The first rule that matches a communicator, or a call of it, decides; where none matches, the defaults do. The file is
// read as a whole or not at all: a mistake is an Error{invalid_input} that says where it is and what would be right, and
// the rules in force stay.
//
//   { "version": 7,                                // for people; reported back
//     "rules": [
//       { "name": "interactive",                   // unique
//         "match": { "user": "alice", "communicator": "serve-*", "bytes": "..1MiB" },
//         "then":  { "class": "high", "weight": 4 } },
//       { "name": "batch", "match": { "cgroup": "/slurm/*" }, "then": { "weight": 1, "cap": "10GB/s", "log": true } },
//       { "name": "nobody else", "match": {}, "then": { "deny": "this cluster is for alice" } } ] }
//
// What is matched: "tenant", "user" (name or number), "cgroup", "communicator" (its name), "kind" (of call: "allreduce",
// or a list of kinds), "bytes" (of the larger buffer: "64KiB", "..1MiB", "1MiB..", "1MiB..2MiB"), "hosts" (all hosts of
// the communicator are among these). Texts may hold * for any number of characters and ? for one. An empty match takes
// everything. A rule that names a kind or bytes is asked for each call; all others when a communicator is opened.
//
// What is granted: "deny" (why), "weight" (1 to 1000), "class" ("high", "normal", "low"), "cap" (bytes per second on any
// link), "plan" (planner's name), "transport" ("tcp", "auto"), "compression" (true, false), "log" (true, false).
//
// Pure: no clock, no files. Any thread; a table does not change.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/run/record/operation.h"

namespace banyan::service {

enum class ShareClass : uint8_t { high, normal, low };

struct Grant {
  std::optional<std::string> denial;  // why; nothing else counts then
  uint32_t weight = 1;
  ShareClass share_class = ShareClass::normal;
  std::optional<uint64_t> cap;  // bytes per second on any link
  std::string plan;             // empty: the daemon chooses
  std::string transport;        // the same
  bool may_compress = true;
  bool logs = false;
  std::string rule;  // that granted it; "default"
};

// Who asks, and for what.
struct Subject {
  std::string tenant, user, cgroup, communicator;
  uint32_t user_id = 0;
  std::vector<std::string> hosts = {};
};
struct AskedCall {
  run::OperationKind kind = run::OperationKind::barrier;
  uint64_t bytes = 0;  // of the larger buffer
};

class Rules {
 public:
  Rules() = default;  // everything is granted with weight 1
  // Throws Error{invalid_input}; `name` is that of the file, for its words.
  static Rules parse(std::string_view text, const std::string& name);

  // What a communicator gets, whatever it calls.
  Grant grant(const Subject& subject) const;
  // What one call of it gets: the first rule that matches both.
  Grant grant(const Subject& subject, const AskedCall& call) const;
  // Whether any rule looks at calls, so that grant() of a communicator is not all.
  bool looks_at_calls() const;
  uint64_t version() const { return version_; }
  size_t size() const { return rules_.size(); }

 private:
  struct Match {
    std::optional<std::string> tenant, user, cgroup, communicator;
    std::vector<run::OperationKind> kinds;  // empty: any
    uint64_t least_bytes = 0, most_bytes = UINT64_MAX;
    std::vector<std::string> hosts;  // empty: any
  };
  struct Rule {
    Match match;
    Grant grant;
  };
  uint64_t version_ = 0;
  std::vector<Rule> rules_;
};

}  // namespace banyan::service
