// CarriedBytes: what calls that are over have put on links, by tenant, since the daemon began.
//
// Tenants name themselves, so only so many are told apart. Any thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace banyan::service {

class CarriedBytes {
 public:
  static constexpr size_t kMostTenants = 1000;
  static constexpr const char* kOthers = "others";

  using ByTenant = std::map<std::string, std::map<uint32_t, double>>;  // and link

  void add(const std::string& tenant, uint32_t link, double bytes) {
    const std::lock_guard lock(mutex_);
    const bool is_one_of_others = by_tenant_.size() >= kMostTenants && !by_tenant_.contains(tenant);
    by_tenant_[is_one_of_others ? kOthers : tenant][link] += bytes;
  }
  // A copy.
  ByTenant by_tenant() const {
    const std::lock_guard lock(mutex_);
    return by_tenant_;
  }

 private:
  mutable std::mutex mutex_;  // protects what follows
  ByTenant by_tenant_;
};

}  // namespace banyan::service
