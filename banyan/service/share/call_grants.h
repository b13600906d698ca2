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
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include "banyan/service/share/rules.h"

namespace banyan::service {

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
