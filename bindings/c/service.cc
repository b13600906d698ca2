// What the service of this host tells its users.
#include "banyan/compose/settings.h"
#include "banyan/service/client/use_service.h"
#include "bindings/c/handles.h"

using banyan::c::expect_pointer;
using banyan::c::guarded;

BANYAN_CALL(get_service_hints, const char** hints) {
  return guarded(nullptr, [&] {
    expect_pointer(hints, "hints");
    *hints = nullptr;
    thread_local std::string told;
    told = banyan::service::service_hints(banyan::compose::region_pool());
    *hints = told.c_str();
  });
}
