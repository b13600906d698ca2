// Rules: what an operator grants to whom, as one table in a file.
//
// The first rule that matches a communicator, or a call of it, decides; where none matches, the defaults do. The file
// is read as a whole or not at all: a mistake is an Error{invalid_input} that says where it is and what would be right,
// and the rules in force stay.
//
//   { "version": 7,                                // 1 or above, for people; reported back
//     "on_slow_link": "tell", "rules": [           // or "replan": what the service does about one; may be left out
//       { "name": "interactive",                   // unique
//         "match": { "user": "alice", "communicator": "serve-*", "bytes": "..1MiB" },
//         "then":  { "class": "high", "weight": 4 } },
//       { "name": "batch", "match": { "cgroup": "/slurm/*" }, "then": { "weight": 1, "cap": "10GB/s", "log": true } },
//       { "name": "nobody else", "match": {}, "then": { "deny": "this cluster is for alice" } } ] }
//
// Keys of "match": "tenant", "user" (name, or number: 1000 or "1000"), "cgroup", "communicator" (its name), "kind" (of
// call: "allreduce", or a list of kinds), "bytes" (of the larger buffer: "64KiB" and no other size, or with both ends
// "..1MiB", "1MiB..", "1MiB..2MiB"), "hosts" (a list: all hosts of the communicator are among these, and it has some).
// Names may hold * for any number of characters and ? for one; upper and lower case differ. All that is named must
// match; an empty match takes everything. A rule that names a kind or bytes is asked for each call; all others when a
// communicator is opened.
//
// Keys of "then": "deny" (why, and nothing else beside it), "weight" (1 to 1000, of the tenant where the rule names it
// without * and ?, else of its user with all that it does: sharer.h), "class" ("high", "normal", "low"), "cap" (bytes
// per second on any link), "plan" (planner's name), "log" (true, false), "quota" ("cgroup": each control group that the
// rule takes has a quota of its own, apart from that of its user). A key that is left out is as in Grant below.
//
// A quota is decided when a program attaches, and then its user and its cgroup are all that is known: a rule that gives
// one matches "cgroup", maybe "user", and nothing else. The group that has the quota is the nearest one to the root
// that the pattern takes: by "/kubepods/*", "/kubepods/pod7" with all that is below it. So nobody has more by making
// groups in his own.
//
// Programs choose the names of tenants and communicators, and users those of control groups below their own; the kernel
// says who they are. So a tenant is "USER/NAME" (the user by name or number), or, where the program says no name, the
// user alone: a pattern with a / is for the first kind, one without for the second. A rule that names a tenant, a
// communicator or a "cgroup" that begins with a pattern, and gives more than is had without that name (weight above 1,
// class high, or a higher class, more cap or no denial than a later rule that looks at no names) has to match "user", a
// "cgroup" whose first group is named ("/slurm*", "/../kubepods*") or a tenant of one user, too; else it is refused.
//
// Pure: no clock, no files. Any thread; a table does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/units.h"
#include "banyan/run/call/operation.h"

namespace banyan::service {

enum class ShareClass : uint8_t { high, normal, low };
std::string_view to_string(ShareClass share_class);   // "high", ...
ShareClass parse_share_class(std::string_view text);  // throws Error{invalid_input}

// True if a name is as the pattern says, in which * stands for any number of characters and ? for one.
bool is_like(std::string_view pattern, std::string_view text);

struct Grant {
  std::optional<std::string> denial = {};  // why; nothing else counts then
  uint32_t weight = 1;
  ShareClass share_class = ShareClass::normal;
  std::optional<uint64_t> cap = {};  // bytes per second on any link
  std::string plan = {};             // empty: the daemon chooses
  bool logs = false;
  bool has_own_quota = false;    // its control group
  bool has_own_share = false;    // of the weight: as in sharer.h; the rule names exactly this tenant
  std::string rule = "default";  // that granted it; no rule has this name

  friend bool operator==(const Grant&, const Grant&) = default;
};

// The program or communicator that asks, and the call that it asks for.
struct Subject {
  std::string tenant = {};  // as the program says; empty: it says none
  std::string user = {}, cgroup = {}, communicator = {};
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
  // Throws Error{invalid_input}; `name` is that of the file, for its words. If `plans` are given, no "plan" may have
  // another name.
  static Rules parse(std::string_view text, const std::string& name, std::span<const std::string_view> plans = {});

  // The grant of a communicator, whatever it calls.
  Grant grant(const Subject& subject) const;
  // The grant of one call of it, by the first rule that matches both, which may be one that does not look at calls.
  Grant grant(const Subject& subject, const AskedCall& call) const;
  // True if any rule looks at calls, so that grant() of a communicator is not all.
  bool looks_at_calls() const;
  // Sizes of one class are the same to every rule: calls of a kind whose sizes are of a class get the same. Classes are
  // numbered from 0 in the order of sizes, and begin at these sizes; at most two for each rule, and one.
  size_t size_class(uint64_t bytes) const;
  std::vector<uint64_t> size_classes() const;
  // The first rule that looks at calls and says which plan is to be followed, for a caller that cannot follow it.
  std::optional<std::string> rule_with_plan_of_calls() const;
  // The control group whose quota counts for such a program; nothing: that of its user does.
  std::optional<std::string> quota_group(const Subject& subject) const;
  // Rules that are allowed and hardly meant, in words that name each.
  std::vector<std::string> warnings() const;
  uint64_t version() const { return version_; }
  // True if the service has calls planned around slow links by itself (view/slow_link_replans.h).
  bool replans_alone() const { return replans_alone_; }
  size_t size() const { return rules_.size(); }

 private:
  class Reader;  // of a file

  struct Match {
    std::optional<std::string> tenant, user, cgroup, communicator;
    std::optional<uint32_t> user_id;
    std::vector<run::OperationKind> kinds;  // empty: any
    uint64_t least_bytes = 0, most_bytes = UINT64_MAX;
    std::vector<std::string> hosts;  // empty: any

    // True if it looks at who a program is, and not only at what it says.
    bool is_by_kernel() const;
    bool is_by_choice() const;
    bool overlaps(const Match& other) const;  // whether there can be a call that both take, but for who calls
    bool is_of_process_alone() const { return !tenant && !communicator && hosts.empty() && !looks_at_calls(); }
    bool looks_at_calls() const { return !kinds.empty() || least_bytes > 0 || most_bytes < UINT64_MAX; }
    bool takes(const Subject& subject) const;
    bool takes(const AskedCall& call) const;
    bool takes_tenant(const Subject& subject) const;
  };
  struct Rule {
    Match match;
    Grant grant;
  };
  uint64_t version_ = 0;
  bool replans_alone_ = false;
  std::vector<Rule> rules_;
  std::vector<uint64_t> class_begins_;  // of all size classes but the first, ascending
};

// CallGrants: what each call of one communicator gets, where rules look at calls.
//
// A denial of a whole communicator counts when one is opened: it does not end those that are open. A denial of calls
// alone ends one at such a call.
//
// A rule sees of a call its kind and the class of its size (Rules::size_class), so there are few answers, and each is
// found once.
//
// Pure. One thread. of() takes time O(log n) in the number of size classes, and the first time of a kind and class one
// walk through the rules.
class CallGrants {
 public:
  using Change = std::function<void(Grant& grant)>;
  // `rules`: shared with whoever has them in force. `change`: of each grant, beyond the rules.
  CallGrants(std::shared_ptr<const Rules> rules, Subject subject, Change change = {})
      : rules_(std::move(rules)), subject_(std::move(subject)), change_(std::move(change)) {}

  struct Answer {
    const Grant& grant;  // stays as long as this
    bool is_new;         // nobody has asked for this kind and size class before
  };
  Answer of(const AskedCall& call);

 private:
  const std::shared_ptr<const Rules> rules_;
  const Subject subject_;
  const Change change_;
  std::map<std::pair<run::OperationKind, size_t>, Grant> known_;
};

}  // namespace banyan::service
