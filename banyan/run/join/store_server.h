// StoreServer: hosts the store of a job, in a thread of the process of rank 0.
//
// It answers on a port that others may know or guess: callers prove themselves (handshake.h, purpose "store") before a
// byte of theirs is believed, and those that send garbage or nothing are hung up on. All that follows is encrypted by
// keys of the handshake (seal/seal.h). It sleeps when nobody asks.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "banyan/run/join/acceptor.h"
#include "banyan/run/join/deadline.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/store.h"

namespace banyan::run {

class StoreServer {
 public:
  struct Options {
    std::string job{};  // visitors of another job are sent away, to come again: the next host may be theirs
    size_t max_memory = Store::kMaxMemory;
    Acceptor::Options acceptor{};
  };

  // Starts the thread, which takes no signals. Throws Error{io}.
  StoreServer(Listener listener, Secret secret, Options options);
  // Hangs up on all visitors, and joins the thread. In a process that was forked from the owner it does nothing.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const;
  // Answers no new callers, and returns when all visitors have hung up, those too whose connection has broken and who
  // call again; false when some have not until the deadline.
  bool finish(const Deadline& deadline);
  // Callers that were not let in.
  Acceptor::Refusals refusals() const;

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace banyan::run
