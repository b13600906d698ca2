// Library: UCX's functions, found when they are needed and not when this program starts, because loading libucp has
// effects (threads, signal handlers, hooks in malloc) that only those who use it shall have. A host without libucp can
// run everything else.
//
// Their manual is <ucp/api/ucp.h>. Any thread.
#pragma once

#include <ucp/api/ucp.h>

namespace banyan::run::ucx {

class Library {
 public:
  // Throws Error{unsupported} when there is no libucp of this version. Once loaded, it stays, as UCX wants it.
  Library();

  decltype(&ucp_init_version) init_version;
  decltype(&ucp_cleanup) cleanup;
  decltype(&ucp_config_read) config_read;
  decltype(&ucp_config_modify) config_modify;
  decltype(&ucp_config_release) config_release;
  decltype(&ucp_worker_create) worker_create;
  decltype(&ucp_worker_destroy) worker_destroy;
  decltype(&ucp_worker_get_address) worker_get_address;
  decltype(&ucp_worker_release_address) worker_release_address;
  decltype(&ucp_worker_get_efd) worker_get_efd;
  decltype(&ucp_worker_arm) worker_arm;
  decltype(&ucp_worker_progress) worker_progress;
  decltype(&ucp_worker_set_am_recv_handler) worker_set_am_recv_handler;
  decltype(&ucp_ep_create) ep_create;
  decltype(&ucp_ep_close_nbx) ep_close_nbx;
  decltype(&ucp_ep_flush_nbx) ep_flush_nbx;
  decltype(&ucp_am_send_nbx) am_send_nbx;
  decltype(&ucp_request_check_status) request_check_status;
  decltype(&ucp_request_free) request_free;
  decltype(&ucs_status_string) status_string;

 private:
  void* const handle_;
};

}  // namespace banyan::run::ucx
