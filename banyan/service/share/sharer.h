// Sharer: whom a tenant's weight belongs to.
//
// A program chooses the name of its tenant, so a name alone may not be worth anything: a user with 16 names would have
// 16 shares of the cores and links. So all tenants of one user are one sharer, with one weight that is divided among
// what they do; but for those that an operator names, in a rule that names exactly this tenant or by setting something
// for it. Each of these is a sharer of its own.
//
// Pure.
#pragma once

#include <string>

namespace banyan::service {

// `tenant`: the user, or "user/name". Sharers have the name of the tenant or of the user; where a user has a share of
// its own beside that of its other tenants, it is called "user/".
inline std::string sharer_of(const std::string& tenant, bool has_own_share) {
  const size_t slash = tenant.find('/');
  if (!has_own_share) return tenant.substr(0, slash);
  return slash == std::string::npos ? tenant + "/" : tenant;
}

}  // namespace banyan::service
