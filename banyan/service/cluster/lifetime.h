// Lifetime: callbacks that come after the end of their owner do nothing.
//
//   ask(question, lifetime_.guard([this](Answer answer) { ... }));
//
// A member of the owner. The owner ends on the thread on which the guarded callbacks are called; they may be copied and
// destroyed on any.
#pragma once

#include <memory>
#include <utility>

namespace banyan::service {

class Lifetime {
 public:
  Lifetime() = default;
  Lifetime(const Lifetime&) = delete;
  Lifetime& operator=(const Lifetime&) = delete;

  // Calls `act` while this object lives.
  template <typename Act>
  auto guard(Act act) const {
    return [lives = std::weak_ptr(token_), act = std::move(act)](auto&&... values) {
      if (!lives.expired()) act(std::forward<decltype(values)>(values)...);
    };
  }

 private:
  const std::shared_ptr<const bool> token_ = std::make_shared<const bool>(true);  // guards see its end
};

}  // namespace banyan::service
