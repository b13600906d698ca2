#include "banyan/service/session/tenant_quota.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/available_memory.h"
#include "banyan/run/system/descriptor_use.h"

namespace banyan::service {
namespace {

// What one more is called, what they are called, and what helps.
struct Words {
  const char* many;
  const char* mend;
};
constexpr Words kWords[kResources] = {
    {"connections", "end some programs"},
    {"sessions", "finalize some communicators"},
    {"ranks in the communicators of its sessions", "finalize some communicators"},
    {"regions of memory", "free some memory"},
    {"bytes in regions of memory", "free some memory"},
    {"messages under way", "wait for some"},
    {"bytes kept by the service, for messages that nobody receives, for calls in place and for lanes",
     "receive messages, call with an output apart from the input, or finalize some communicators"},
    {"descriptors that are being closed", "send memory only"},
    {"lanes between ranks of one host", "finalize some communicators"}};

uint64_t memory_of_machine() {
  return static_cast<uint64_t>(std::max(1L, sysconf(_SC_PHYS_PAGES))) *
         static_cast<uint64_t>(std::max(1L, sysconf(_SC_PAGESIZE)));
}

uint64_t most_descriptors() {
  const uint64_t allowed = run::allowed_descriptors();
  return allowed == 0 ? 1024 : allowed;
}

uint64_t most_mappings() {
  uint64_t most = 65'530;
  std::ifstream("/proc/sys/vm/max_map_count") >> most;
  return most;
}

}  // namespace

// ---- TokenBucket ----

double TokenBucket::left_at(Time now) const {
  const double seconds = std::chrono::duration<double>(std::max(now - at_, Time(0))).count();
  return std::min(most_, left_ + seconds * per_second_);
}

void TokenBucket::take(Time now, double cost) {
  CHECK(cost >= 0) << cost;
  left_ = left_at(now) - cost;
  at_ = std::max(at_, now);
}

TokenBucket::Time TokenBucket::wait(Time now) const {
  const double left = left_at(now);
  if (left > 0) return Time(0);
  // A little more than nothing is to be left.
  return Time(1) + std::chrono::ceil<Time>(std::chrono::duration<double>((1e-6 - left) / per_second_));
}

// ---- Limits ----

TenantLimits TenantLimits::of_machine() {
  TenantLimits limits;
  const uint64_t descriptors = most_descriptors();
  const auto cut = [&](Resource resource, uint64_t most) { limits[resource] = std::min(limits[resource], most); };
  cut(Resource::connections, descriptors / 16);  // of three descriptors each
  cut(Resource::ranks, descriptors / 2);
  cut(Resource::regions, std::min(most_mappings() / 4, descriptors / 8));  // of a descriptor each
  cut(Resource::shared_lanes, std::min(most_mappings() / 8, descriptors / 16));
  limits[Resource::region_bytes] = memory_of_machine();
  // Of what the daemon may have itself, which is less than the machine's in a container with a limit.
  limits[Resource::kept_bytes] = std::min(run::most_memory(), memory_of_machine()) / 8;
  return limits;
}

// ---- Accounts ----

namespace {
std::atomic<uint32_t> next_number{0};
}  // namespace

TenantAccount::TenantAccount(std::string owner, const TenantLimits& limits)
    : owner_(std::move(owner)),
      number_(next_number++),
      limits_(limits),
      acts_(limits.acts_per_second, limits.acts_at_once),
      events_(limits.events_per_second, limits.events_at_once) {}

TenantAccount::Charge::~Charge() {
  if (!account_) return;
  const uint64_t used = account_->used_[static_cast<size_t>(resource_)].fetch_sub(amount_);
  CHECK(used >= amount_) << "of " << account_->owner() << ": " << used << " used, " << amount_ << " given back";
}

bool TenantAccount::has_room(Resource resource, uint64_t amount) const {
  const uint64_t used = used_[static_cast<size_t>(resource)], most = limits_[resource];
  return used <= most && amount <= most - used;
}

TenantAccount::Charge TenantAccount::take(Resource resource, uint64_t amount) {
  std::atomic<uint64_t>& used = used_[static_cast<size_t>(resource)];
  const uint64_t most = limits_[resource];
  // The amount is taken only if all of it fits; several threads may take at once.
  uint64_t before = used;
  do {
    if (before <= most && amount <= most - before) continue;
    const Words& words = kWords[static_cast<size_t>(resource)];
    throw Error(ErrorCode::unsupported, "the service has a quota for each user of " + std::to_string(most) + " " +
                                            words.many + "; " + owner() + " has " + std::to_string(before) +
                                            " and wants " + std::to_string(amount) + " more: " + words.mend);
  } while (!used.compare_exchange_weak(before, before + amount));
  CHECK(before + amount <= most) << before << " and " << amount << " of " << most;
  return Charge(shared_from_this(), resource, amount);
}

TenantAccount::Charge TenantAccount::add(Resource resource, uint64_t amount) {
  used_[static_cast<size_t>(resource)] += amount;
  return Charge(shared_from_this(), resource, amount);
}

std::string TenantAccount::record(Time now, std::string words) {
  if (events_.wait(now) > Time(0)) {
    ++left_out_;
    return {};
  }
  events_.take(now, 1);
  if (left_out_ == 0) return words;
  return words + " (" + std::to_string(std::exchange(left_out_, 0)) + " events of " + owner() +
         " before this one were left out)";
}

std::shared_ptr<TenantAccount> TenantAccounts::of(uint32_t user, const std::string& group) {
  const std::string owner = group.empty() ? "user " + std::to_string(user) : "control group " + group;
  if (accounts_.size() > kMostIdle) {
    std::erase_if(accounts_, [&](const auto& entry) { return entry.first != owner && entry.second.use_count() == 1; });
  }
  std::shared_ptr<TenantAccount>& account = accounts_[owner];
  if (!account) account = std::make_shared<TenantAccount>(owner, limits_);
  return account;
}

}  // namespace banyan::service
