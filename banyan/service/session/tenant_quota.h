// Quotas of tenants: what all processes of one user, or of one control group, together may have of a daemon, and how
// often they may ask it for something. Quotas of single connections are not enough: whoever needs more connects again.
//
// 1. The used amount of a resource is the sum of the charges that live. So it is never less than any of them.
// 2. take() leaves no more used than is allowed; add() may.
// 3. No cost is negative, so nobody gains by what it has done.
//
// Pure: time comes from the caller. Amounts are taken and given back by any thread, the rest is for one thread.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>

namespace banyan::service {

// Things that are allowed at a mean rate, some at once.
class TokenBucket {
 public:
  using Time = std::chrono::nanoseconds;  // since any fixed moment; never goes back

  TokenBucket(double per_second, double most) : per_second_(per_second), most_(most), left_(most) {}
  // A cost may be more than is left: whoever comes next waits longer.
  void take(Time now, double cost);
  // Until something is left; zero: there is something.
  Time wait(Time now) const;

 private:
  double left_at(Time now) const;

  double per_second_, most_, left_;
  Time at_{0};
};

// Kinds of things of which a user may have only so many at once.
enum class Resource : uint8_t {
  connections,
  sessions,
  ranks,         // of the communicators of its sessions: for each of them there are lanes, and parts of plans
  regions,       // mappings, of which a process may have 65,530 by default
  region_bytes,  // addresses; the pages are the user's
  messages,      // under way, beside those that each session may have
  kept_bytes,    // memory of the daemon: lanes, messages that nobody receives, inputs that outputs overwrite
  closing,       // descriptors that a thread of this user closes (tenant_threads.h), which may take for ever
  shared_lanes   // ends of lanes between sessions of one daemon: a mapping and two descriptors each
};
inline constexpr size_t kResources = 9;

struct TenantLimits {
  std::array<uint64_t, kResources> most{2048, 8192,  262'144, 16'384, uint64_t{1} << 40, 262'144, uint64_t{1} << 30,
                                        1024, 65'536};
  double acts_per_second = 2000, acts_at_once = 4000;  // of control: see TenantAccount::act
  double events_per_second = 1, events_at_once = 50;   // events for operators

  uint64_t& operator[](Resource resource) { return most[static_cast<size_t>(resource)]; }
  uint64_t operator[](Resource resource) const { return most[static_cast<size_t>(resource)]; }
  // Limits by the memory of this machine, by the part of it that this process may have (less in a container with a
  // limit), and by the descriptors and mappings that it may have: so that one user leaves something to others.
  static TenantLimits of_machine();
};

class TenantAccount : public std::enable_shared_from_this<TenantAccount> {
 public:
  using Time = TokenBucket::Time;

  // Is shared by all that charge it. `owner`: for people, "user 1000" or "control group /kubepods/pod7".
  TenantAccount(std::string owner, const TenantLimits& limits);

  // An amount that an account has taken; given back as this is destroyed.
  class Charge {
   public:
    Charge() = default;
    Charge(Charge&& other) noexcept { swap(other); }
    Charge& operator=(Charge&& other) noexcept {
      Charge(std::move(other)).swap(*this);
      return *this;
    }
    ~Charge();

   private:
    friend class TenantAccount;
    Charge(std::shared_ptr<TenantAccount> account, Resource resource, uint64_t amount)
        : account_(std::move(account)), resource_(resource), amount_(amount) {}
    void swap(Charge& other) noexcept {
      std::swap(account_, other.account_);
      std::swap(resource_, other.resource_);
      std::swap(amount_, other.amount_);
    }

    std::shared_ptr<TenantAccount> account_;  // null: nothing is charged
    Resource resource_ = Resource::connections;
    uint64_t amount_ = 0;
  };
  // Throws Error{unsupported}, in words that name user and quota, when it would be too much. Any thread.
  Charge take(Resource resource, uint64_t amount);
  // Even if it is too much: nobody can be refused any more. Any thread.
  Charge add(Resource resource, uint64_t amount);
  // True if take() would succeed now. Any thread.
  bool has_room(Resource resource, uint64_t amount) const;
  uint64_t used(Resource resource) const { return used_[static_cast<size_t>(resource)]; }  // any thread

  uint32_t number() const { return number_; }  // of this account, and of no other one that was or will be
  const std::string& owner() const { return owner_; }
  // It has had something done that costs the daemon's control so much: 1 is a short message.
  void act(Time now, double cost) { acts_.take(now, cost); }
  // The time for which the daemon is to leave its wishes unread.
  Time wait(Time now) const { return acts_.wait(now); }
  // The event that operators are to read about it: empty if it has had too many, else `words`, with the number of
  // events that were left out before.
  std::string record(Time now, std::string words);

 private:
  const std::string owner_;
  const uint32_t number_;
  const TenantLimits limits_;
  std::array<std::atomic<uint64_t>, kResources> used_{};
  TokenBucket acts_, events_;
  uint64_t left_out_ = 0;
};

// One for each user that has anything, and for each control group that has a quota of its own (rules.h), whatever the
// numbers of the users in it: root of a container takes as many as it likes.
class TenantAccounts {
 public:
  explicit TenantAccounts(TenantLimits limits) : limits_(limits) {}
  // `group`: the control group whose it is; empty: it is the user's.
  std::shared_ptr<TenantAccount> of(uint32_t user, const std::string& group = "");

 private:
  // A user that has gone and comes again soon finds its bucket as it left it.
  static constexpr size_t kMostIdle = 256;

  const TenantLimits limits_;
  std::map<std::string, std::shared_ptr<TenantAccount>> accounts_;  // by owner; shared with what charges them
};

}  // namespace banyan::service
