#include "banyan/service/daemon/rule_book.h"

#include <pwd.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/record/log.h"

namespace banyan::service {
namespace {

constexpr uint64_t kMostBytes = uint64_t{16} << 20;
constexpr size_t kMostChanges = 10'000;

std::string name_of(uid_t user) {
  std::vector<char> space(16'384);
  passwd entry{};
  passwd* found = nullptr;
  const bool is_known = getpwuid_r(user, &entry, space.data(), space.size(), &found) == 0 && found != nullptr;
  return is_known ? found->pw_name : std::to_string(user);
}

std::string cgroup_of(pid_t process) {
  constexpr std::string_view kUnified = "0::";
  try {
    const std::string text = read_file("/proc/" + std::to_string(process) + "/cgroup", 65'536);
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = std::min(text.find('\n', begin), text.size());
      const std::string_view line = std::string_view(text).substr(begin, end - begin);
      if (line.starts_with(kUnified)) return std::string(line.substr(kUnified.size()));
      begin = end + 1;
    }
  } catch (const Error&) {  // it has ended, or is none of ours
  }
  return {};
}

}  // namespace

RuleBook::RuleBook(std::string path) : path_(std::move(path)), rules_(read()) {}

void RuleBook::reload() { rules_ = read(); }

Grant RuleBook::grant(const Subject& subject, const std::string& tenant) const {
  Grant grant = rules_.grant(subject);
  if (const auto change = changes_.find(tenant); change != changes_.end()) change->second.apply(grant);
  return grant;
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

Rules RuleBook::read() const {
  if (path_.empty()) return {};
  Rules rules = Rules::parse(read_file(path_, kMostBytes), path_);
  // Rather than to follow some rules and not others.
  if (rules.looks_at_calls()) {
    throw Error(ErrorCode::unsupported, "the daemon does not follow rules for kinds or sizes of calls yet", path_);
  }
  if (rules.names_plans()) throw Error(ErrorCode::unsupported, "the daemon does not take plans from rules yet", path_);
  BANYAN_LOG(info) << "rules of version " << rules.version() << " are in force: " << path_;
  return rules;
}

Subject subject_of(const ClientIdentity& client, const std::string& tenant) {
  Subject subject{.user = name_of(client.user), .cgroup = cgroup_of(client.process), .user_id = client.user};
  subject.tenant = tenant.empty() ? subject.user : tenant;
  return subject;
}

}  // namespace banyan::service
