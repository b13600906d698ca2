// The name by which a tenant is counted where names are to be bounded.
//
// Programs choose the names of their tenants. So of each user only so many are told apart, and the rest are
// "USER/others": whoever makes up names takes none from another user. Users are the kernel's word, but in a container
// they may be many: beyond a bound of all, what is new is "others".
//
// Pure.
#pragma once

#include <cstddef>
#include <string>

#include "banyan/service/share/sharer.h"

namespace banyan::service {

inline constexpr const char* kOthers = "others";
inline constexpr size_t kMostTenantsOfUser = 16;

inline std::string user_of(const std::string& tenant) { return sharer_of(tenant, false); }
// The name for the rest of the tenants of this tenant's user.
inline std::string others_of(const std::string& tenant) { return user_of(tenant) + "/" + kOthers; }

// `known`: an ordered map or set of the names that are told apart already. O(log n).
template <typename Known>
std::string tenant_label(const std::string& tenant, const Known& known, size_t most) {
  if (known.contains(tenant)) return tenant;
  const std::string user = user_of(tenant), others = others_of(tenant);
  size_t of_user = 0;
  const std::string first = user + "/";
  for (auto each = known.lower_bound(first); each != known.end() && of_user < kMostTenantsOfUser; ++each, ++of_user) {
    if constexpr (requires { each->first; }) {
      if (!each->first.starts_with(first)) break;
    } else {
      if (!each->starts_with(first)) break;
    }
  }
  if (known.size() < most) return of_user < kMostTenantsOfUser ? tenant : others;
  return known.contains(others) ? others : kOthers;
}

}  // namespace banyan::service
