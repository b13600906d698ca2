// CarriedBytes: what calls that are over have put on links, by tenant, since the daemon began.
//
// Tenants name themselves, so only so many are told apart (tenant_label.h), and one of which nothing was carried for
// kKept is forgotten where another one wants its place. Any thread.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

#include "banyan/service/share/tenant_label.h"

namespace banyan::service {

class CarriedBytes {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr size_t kMostTenants = 256;
  static constexpr std::chrono::minutes kKept{5};

  using ByTenant = std::map<std::string, std::map<uint32_t, double>>;  // and link

  void add(const std::string& tenant, uint32_t link, double bytes, Clock::time_point now = Clock::now()) {
    const std::lock_guard lock(mutex_);
    if (tenant_label(tenant, by_tenant_, kMostTenants) != tenant) {
      std::erase_if(by_tenant_, [&](const auto& each) { return each.second.last + kKept <= now; });
    }
    Carried& carried = by_tenant_[tenant_label(tenant, by_tenant_, kMostTenants)];
    carried.by_link[link] += bytes;
    carried.last = now;
  }
  // A copy.
  ByTenant by_tenant() const {
    const std::lock_guard lock(mutex_);
    ByTenant copy;
    for (const auto& [tenant, carried] : by_tenant_) copy.emplace(tenant, carried.by_link);
    return copy;
  }

 private:
  struct Carried {
    std::map<uint32_t, double> by_link;
    Clock::time_point last;
  };
  mutable std::mutex mutex_;  // protects what follows
  std::map<std::string, Carried> by_tenant_;
};

}  // namespace banyan::service
