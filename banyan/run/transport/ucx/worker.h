// Worker: one UCX context and worker, as far as Transport needs them: endpoints by their peers' addresses, active
// messages of up to kParcelBytes, and a file descriptor to sleep on.
//
// One thread at a time. The WorkerListener is told what happens, from within progress() and send() only.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "banyan/run/transport/ucx/library.h"

namespace banyan::run::ucx {

// Stands in front of every message.
struct Header {
  uint64_t ticket;    // the receiver's
  uint64_t position;  // of the first byte in its stream
  uint64_t consumed;  // by the sender, of what it gets on this lane
  uint32_t rank;      // of the sender, in the receiver's numbers
  uint32_t lane;
};

class Worker;

// A message on its way. UCX reads it until it is sent.
struct Parcel {
  static constexpr size_t kBytes = size_t{64} << 10;
  Header header;
  uint32_t channel;  // for WorkerListener::sent()
  uint32_t size;     // of the bytes in use
  uint32_t rank;     // set by send(), as is
  Worker* worker;    // whose it is
  std::array<std::byte, kBytes> bytes;
};

class WorkerListener {
 public:
  // Any header and bytes may come, from whoever can reach the worker.
  virtual void arrived(const Header& header, std::span<const std::byte> bytes) = 0;
  // A parcel that was still on its way when send() returned no longer is, for better or worse.
  virtual void sent(uint32_t channel) = 0;
  virtual void failed(uint32_t rank, const std::string& why) = 0;

 protected:
  ~WorkerListener() = default;
};

class Worker {
 public:
  // Throws Error{unsupported} without a UCX, Error{io} when it does not start (wrong UCX_ variables, for instance).
  explicit Worker(WorkerListener& listener);
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;
  ~Worker();

  std::vector<std::byte> address() const;

  // `address` must be one of UCX: it does not look twice. Throws Error{io} when no transport leads there,
  // Error{peer_lost} when one does and nobody is there any more.
  void connect(uint32_t rank, std::span<const std::byte> address);
  // No more is sent to this rank, and what is on its way is given up. A connection that may not be settled is kept by
  // UCX, and with it the worker, beyond its end: UCX ends the process when it is told to give up its own first
  // messages.
  void cut(uint32_t rank, bool is_settled);
  // Begins to bring all that was sent out of this process.
  void flush();
  // Nothing of flush() and cut() is left to be done.
  bool has_finished();

  Parcel& take_parcel();
  // Sends a parcel from take_parcel(). True if it is still on its way. Failures are told to the listener.
  bool send(uint32_t rank, Parcel& parcel);

  // True if anything happened. Throws what the listener threw.
  bool progress();
  // From now on event_fd() is readable when progress() has something to do. False: it has already.
  bool arm();
  int event_fd() const { return event_fd_; }

 private:
  struct Endpoint {
    Worker* worker = nullptr;
    uint32_t rank = 0;
    ucp_ep_h handle = nullptr;
    bool is_abandoned = false;
  };
  static ucs_status_t on_message(void* self, const void* header, size_t header_size, void* bytes, size_t size,
                                 const ucp_am_recv_param_t* param);
  static void on_sent(void* request, ucs_status_t status, void* parcel);
  static void on_failure(void* endpoint, ucp_ep_h handle, ucs_status_t status);
  template <typename Notify>
  void notify(Notify notify);
  void start();
  void let_shared_memory_fail(ucp_config_t* config) const;
  void listen();
  void close(Endpoint& endpoint);
  bool has_let_go();
  void remember(void* request);
  void demand(ucs_status_t status, const std::string& what) const;

  const Library library_;
  WorkerListener& listener_;
  ucp_context_h context_ = nullptr;
  ucp_worker_h worker_ = nullptr;
  int event_fd_ = -1;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;  // by rank
  std::vector<void*> unfinished_;                     // requests
  std::vector<std::unique_ptr<Parcel>> parcels_;      // all there are
  std::vector<Parcel*> free_;
  std::exception_ptr trouble_;  // of the listener, on its way past UCX, which is written in C
};

}  // namespace banyan::run::ucx
