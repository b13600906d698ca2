#include "banyan/run/transport/ucx/library.h"

#include <dlfcn.h>

#include <string>

#include "banyan/base/error.h"

namespace banyan::run::ucx {
namespace {

Error missing(const std::string& why) {
  return Error(ErrorCode::unsupported,
               "UCX cannot be used: " + why + "; install it (Debian: libucx0) or choose another transport");
}

std::string last_failure() {
  const char* const text = dlerror();
  return text == nullptr ? "the dynamic linker does not say why" : text;
}

void* load() {
  void* const handle = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (handle == nullptr) throw missing(last_failure());
  return handle;
}

template <typename Function>
Function find(void* handle, const char* name) {
  void* const found = dlsym(handle, name);
  if (found == nullptr) throw missing(last_failure());
  return reinterpret_cast<Function>(found);
}

}  // namespace

Library::Library() : handle_(load()) {
  const auto into = [this]<typename Function>(Function& function, const char* name) {
    function = find<Function>(handle_, name);
  };
  into(init_version, "ucp_init_version");
  into(cleanup, "ucp_cleanup");
  into(config_read, "ucp_config_read");
  into(config_modify, "ucp_config_modify");
  into(config_release, "ucp_config_release");
  into(worker_create, "ucp_worker_create");
  into(worker_destroy, "ucp_worker_destroy");
  into(worker_get_address, "ucp_worker_get_address");
  into(worker_release_address, "ucp_worker_release_address");
  into(worker_get_efd, "ucp_worker_get_efd");
  into(worker_arm, "ucp_worker_arm");
  into(worker_progress, "ucp_worker_progress");
  into(worker_set_am_recv_handler, "ucp_worker_set_am_recv_handler");
  into(ep_create, "ucp_ep_create");
  into(ep_close_nbx, "ucp_ep_close_nbx");
  into(ep_flush_nbx, "ucp_ep_flush_nbx");
  into(am_send_nbx, "ucp_am_send_nbx");
  into(request_check_status, "ucp_request_check_status");
  into(request_free, "ucp_request_free");
  into(status_string, "ucs_status_string");
}

}  // namespace banyan::run::ucx
