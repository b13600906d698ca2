#include "banyan/service/share/call_grants.h"

namespace banyan::service {

CallGrants::Answer CallGrants::of(const AskedCall& call) {
  const std::pair key(call.kind, rules_->size_class(call.bytes));
  const auto found = known_.find(key);
  if (found != known_.end()) return {.grant = found->second, .is_new = false};
  Grant grant = rules_->grant(subject_, call);
  if (grant.denial && grant.rule == rules_->grant(subject_).rule) grant.denial.reset();
  if (change_) change_(grant);
  return {.grant = known_.emplace(key, std::move(grant)).first->second, .is_new = true};
}

}  // namespace banyan::service
