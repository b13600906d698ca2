// A view that is short enough to go to another daemon, whatever programs have opened.
#pragma once

#include <cstddef>

#include "banyan/service/view/host_view.h"

namespace banyan::service {

// As JSON, of what one daemon tells another.
inline constexpr size_t kMostViewBytes = size_t{4} << 20;
// The kind of the trouble that says how much the view leaves out.
inline constexpr const char* kLeftOutTrouble = "left out";

// Pure. The view, where it takes `most` bytes of JSON at most by an upper bound that is about twice what it takes. From
// a longer one, whole communicators are left out, and counted in one of its troubles: users have their communicators in
// turn, each one's first first, and of those the small ones first. If the tenants of links and ways would take more
// than half of `most`, their bytes are summed up under "others". O(n log n) in communicators.
HostView short_view(HostView view, size_t most = kMostViewBytes);

}  // namespace banyan::service
