#include "banyan/run/transport/ucx/worker.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::run::ucx {
namespace {

constexpr unsigned kMessageId = 1;
// A forced end waits for nobody.
constexpr std::chrono::milliseconds kMostForClosing{200};

// UCX warns of settings for devices that it does not use.
bool may_use_shared_memory() {
  const char* const devices = std::getenv("UCX_TLS");
  if (devices == nullptr || devices[0] == '^') return true;
  for (const char* const name : {"all", "sm", "shm", "mm", "posix", "sysv"}) {
    const std::string list = "," + std::string(devices) + ",";
    if (list.find("," + std::string(name) + ",") != std::string::npos) return true;
  }
  return false;
}

}  // namespace

Worker::Worker(WorkerListener& listener) : listener_(listener) {
  try {
    start();
  } catch (...) {
    if (worker_ != nullptr) library_.worker_destroy(worker_);
    if (context_ != nullptr) library_.cleanup(context_);
    throw;
  }
}

void Worker::demand(ucs_status_t status, const std::string& what) const {
  if (status != UCS_OK) throw Error(ErrorCode::io, "UCX " + what + ": " + library_.status_string(status));
}

void Worker::start() {
  ucp_config_t* config = nullptr;
  demand(library_.config_read(nullptr, nullptr, &config), "cannot read its UCX_ variables");
  ucp_params_t params{};
  params.field_mask = UCP_PARAM_FIELD_FEATURES | UCP_PARAM_FIELD_NAME;
  params.features = UCP_FEATURE_AM | UCP_FEATURE_WAKEUP;
  params.name = "banyan";
  let_shared_memory_fail(config);
  const ucs_status_t status = library_.init_version(UCP_API_MAJOR, UCP_API_MINOR, &params, config, &context_);
  library_.config_release(config);
  demand(status, "does not start (see its variables UCX_TLS and UCX_NET_DEVICES)");

  ucp_worker_params_t worker_params{};
  worker_params.field_mask = UCP_WORKER_PARAM_FIELD_THREAD_MODE;
  // One at a time, but the thread that makes the transport need not be the one that uses it.
  worker_params.thread_mode = UCS_THREAD_MODE_SERIALIZED;
  demand(library_.worker_create(context_, &worker_params, &worker_), "cannot make a worker");
  demand(library_.worker_get_efd(worker_, &event_fd_), "has nothing to sleep on with the devices it is told to use");
  listen();
}

// Only devices that report the failure of a peer are used, and shared memory does when it is asked to. Who has an
// opinion on it keeps it.
void Worker::let_shared_memory_fail(ucp_config_t* config) const {
  for (const char* const variable : {"UCX_MM_ERROR_HANDLING", "UCX_POSIX_ERROR_HANDLING", "UCX_SYSV_ERROR_HANDLING"}) {
    if (std::getenv(variable) != nullptr) return;
  }
  if (!may_use_shared_memory()) return;
  const ucs_status_t status = library_.config_modify(config, "MM_ERROR_HANDLING", "y");
  if (status != UCS_ERR_NO_ELEM) demand(status, "does not let shared memory report failures");
}

void Worker::listen() {
  ucp_am_handler_param_t handler{};
  handler.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID | UCP_AM_HANDLER_PARAM_FIELD_FLAGS |
                       UCP_AM_HANDLER_PARAM_FIELD_CB | UCP_AM_HANDLER_PARAM_FIELD_ARG;
  handler.id = kMessageId;
  handler.flags = UCP_AM_FLAG_WHOLE_MSG;
  handler.cb = on_message;
  handler.arg = this;
  demand(library_.worker_set_am_recv_handler(worker_, &handler), "takes no active messages");
}

Worker::~Worker() {
  if (has_let_go()) {
    library_.worker_destroy(worker_);
    library_.cleanup(context_);
  } else {
    // UCX ends the process when it is told to give up what it still has to do. Better to lose its memory; nobody calls
    // it any more.
    for (auto& parcel : parcels_) static_cast<void>(parcel.release());
  }
}

bool Worker::has_let_go() {
  const bool is_kept =
      std::ranges::any_of(endpoints_, [](const auto& endpoint) { return endpoint && endpoint->is_abandoned; });
  if (is_kept || !has_finished()) return false;
  for (const auto& endpoint : endpoints_) {
    if (endpoint && endpoint->handle != nullptr) close(*endpoint);
  }
  const auto end = std::chrono::steady_clock::now() + kMostForClosing;
  while (!has_finished() && std::chrono::steady_clock::now() < end) library_.worker_progress(worker_);
  return has_finished();
}

std::vector<std::byte> Worker::address() const {
  ucp_address_t* address = nullptr;
  size_t size = 0;
  demand(library_.worker_get_address(worker_, &address, &size), "does not know its own address");
  const auto* const bytes = reinterpret_cast<const std::byte*>(address);
  std::vector<std::byte> copy(bytes, bytes + size);
  library_.worker_release_address(worker_, address);
  return copy;
}

void Worker::connect(uint32_t rank, std::span<const std::byte> address) {
  if (rank >= endpoints_.size()) endpoints_.resize(rank + 1);
  auto endpoint = std::make_unique<Endpoint>();
  endpoint->worker = this;
  endpoint->rank = rank;
  ucp_ep_params_t params{};
  params.field_mask =
      UCP_EP_PARAM_FIELD_REMOTE_ADDRESS | UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER;
  params.address = reinterpret_cast<const ucp_address_t*>(address.data());
  params.err_mode = UCP_ERR_HANDLING_MODE_PEER;
  params.err_handler = {.cb = on_failure, .arg = endpoint.get()};
  const ucs_status_t status = library_.ep_create(worker_, &params, &endpoint->handle);
  if (status == UCS_ERR_SHMEM_SEGMENT || status == UCS_ERR_CONNECTION_RESET || status == UCS_ERR_REJECTED ||
      UCS_IS_ENDPOINT_ERROR(status)) {
    throw Error(ErrorCode::peer_lost, "the connection to rank " + std::to_string(rank) +
                                          " was lost (UCX: " + library_.status_string(status) + ")");
  }
  demand(status, "finds no way to rank " + std::to_string(rank) + " among the devices it is told to use");
  endpoints_[rank] = std::move(endpoint);
}

void Worker::close(Endpoint& endpoint) {
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_EP_CLOSE_FLAG_FORCE;
  remember(library_.ep_close_nbx(std::exchange(endpoint.handle, nullptr), &param));
}

void Worker::remember(void* request) {
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) unfinished_.push_back(request);
}

void Worker::cut(uint32_t rank, bool is_settled) {
  if (rank >= endpoints_.size() || !endpoints_[rank] || endpoints_[rank]->handle == nullptr) return;
  if (is_settled) return close(*endpoints_[rank]);
  endpoints_[rank]->is_abandoned = true;
}

void Worker::flush() {
  for (const auto& endpoint : endpoints_) {
    const ucp_request_param_t param{};
    if (!endpoint || endpoint->handle == nullptr || endpoint->is_abandoned) continue;
    remember(library_.ep_flush_nbx(endpoint->handle, &param));
  }
}

bool Worker::has_finished() {
  std::erase_if(unfinished_, [this](void* request) {
    if (library_.request_check_status(request) == UCS_INPROGRESS) return false;
    library_.request_free(request);
    return true;
  });
  return unfinished_.empty();
}

template <typename Notify>
void Worker::notify(Notify notify) {
  try {
    notify(listener_);
  } catch (...) {
    trouble_ = std::current_exception();
  }
}

Parcel& Worker::take_parcel() {
  if (free_.empty()) {
    // on_sent() must not throw, so there is room for all of them to come back.
    if (free_.capacity() <= parcels_.size()) free_.reserve(2 * parcels_.size() + 1);
    // Not zeroed: most of it may never be used.
    parcels_.push_back(std::make_unique_for_overwrite<Parcel>());
    return *parcels_.back();
  }
  Parcel& parcel = *free_.back();
  free_.pop_back();
  return parcel;
}

bool Worker::send(uint32_t rank, Parcel& parcel) {
  Endpoint& endpoint = *endpoints_.at(rank);
  CHECK(endpoint.handle != nullptr && !endpoint.is_abandoned) << "rank " << rank << " was cut off";
  parcel.rank = rank;
  parcel.worker = this;
  ucp_request_param_t param{};
  param.op_attr_mask = UCP_OP_ATTR_FIELD_CALLBACK | UCP_OP_ATTR_FIELD_USER_DATA | UCP_OP_ATTR_FIELD_FLAGS;
  param.flags = UCP_AM_SEND_FLAG_EAGER;  // there is room for it
  param.cb.send = on_sent;
  param.user_data = &parcel;
  void* const request = library_.am_send_nbx(endpoint.handle, kMessageId, &parcel.header, sizeof parcel.header,
                                             parcel.bytes.data(), parcel.size, &param);
  if (request != nullptr && !UCS_PTR_IS_ERR(request)) return true;
  free_.push_back(&parcel);
  if (request != nullptr) listener_.failed(rank, library_.status_string(UCS_PTR_STATUS(request)));
  return false;
}

void Worker::on_sent(void* request, ucs_status_t status, void* parcel) {
  auto& done = *static_cast<Parcel*>(parcel);
  Worker& self = *done.worker;
  const uint32_t rank = done.rank;
  self.library_.request_free(request);
  self.free_.push_back(&done);
  self.notify([&](WorkerListener& listener) {
    listener.sent(done.channel);
    if (status != UCS_OK) listener.failed(rank, self.library_.status_string(status));
  });
}

void Worker::on_failure(void* endpoint, ucp_ep_h /*handle*/, ucs_status_t status) {
  const auto& failed = *static_cast<const Endpoint*>(endpoint);
  failed.worker->notify(
      [&](WorkerListener& listener) { listener.failed(failed.rank, failed.worker->library_.status_string(status)); });
}

ucs_status_t Worker::on_message(void* self, const void* header, size_t header_size, void* bytes, size_t size,
                                const ucp_am_recv_param_t* param) {
  Header head;
  // What nobody of ours sends is not for us: UCX drops it when nobody takes it.
  if (header_size != sizeof head || (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0) return UCS_OK;
  std::memcpy(&head, header, sizeof head);
  static_cast<Worker*>(self)->notify([&](WorkerListener& listener) {
    listener.arrived(head, {static_cast<const std::byte*>(bytes), size});
  });
  return UCS_OK;
}

bool Worker::progress() {
  const bool moved = library_.worker_progress(worker_) != 0;
  if (trouble_) std::rethrow_exception(std::exchange(trouble_, nullptr));
  return moved;
}

bool Worker::arm() {
  const ucs_status_t status = library_.worker_arm(worker_);
  if (status == UCS_ERR_BUSY) return false;
  demand(status, "cannot wait");
  return true;
}

}  // namespace banyan::run::ucx
