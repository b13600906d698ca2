// remake: a new value in the place of an old one, without a copy in between.
//
// For small plain structs on paths where nanoseconds count. A struct that is made, returned and assigned is copied
// right after it was written: by loads that are wider than the stores, and processors hold such a load back until all
// of the stores have left the core, about fifteen cycles each time.
#pragma once

#include <new>
#include <type_traits>

namespace banyan {

// *place becomes what `make` returns, which is written there directly.
template <class T, class Make>
void remake(T& place, Make&& make) {
  static_assert(std::is_trivially_destructible_v<T>);
  static_assert(std::is_same_v<std::invoke_result_t<Make>, T>, "else it would be converted, and copied");
  ::new (&place) T(make());
}

}  // namespace banyan
