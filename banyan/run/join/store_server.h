// StoreServer: hosts the store of a job, in a thread of the process of rank 0.
//
// It answers on a port that others may know or guess: callers prove themselves (handshake.h, purpose "store") before a
// byte of theirs is believed, and those that send garbage or nothing are hung up on. It sleeps when nobody asks.
#pragma once

#include <chrono>
#include <cstdint>
#include <future>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>

#include "banyan/run/join/deadline.h"
#include "banyan/run/join/listener.h"
#include "banyan/run/join/reception.h"
#include "banyan/run/join/secret.h"
#include "banyan/run/join/store_table.h"

namespace banyan {

class StoreServer {
 public:
  struct Options {
    std::string job{}; // visitors of another job are sent away, to come again: the next host may be theirs
    size_t max_memory = Store::kMaxMemory;
    Reception::Options reception{};
  };

  // Starts the thread. Throws Error{io}.
  StoreServer(Listener listener, Secret secret, Options options);
  // Hangs up on all visitors, and joins the thread.
  ~StoreServer();
  StoreServer(const StoreServer&) = delete;
  StoreServer& operator=(const StoreServer&) = delete;

  uint16_t port() const { return port_; }
  // Answers no more callers, and returns when all visitors have hung up; false when some have not until the deadline.
  bool finish(const Deadline& deadline);
  // Callers that were not let in.
  Reception::Refusals refusals() const;

 private:
  struct Visitor {
    FileDescriptor socket;
    FrameReader requests;
    StoreTable::Reply reply;  // being sent
    size_t sent = 0;
    bool is_sending = false;
    uint32_t watched_for = EPOLLIN;
    bool is_leaving = false;  // it is hung up on when all is sent
  };

  std::optional<std::string> admit(const Greeting& greeting, FileDescriptor& socket);
  void serve(uint64_t number, uint32_t events);
  // False when the visitor is gone.
  bool receive(uint64_t number, Visitor& visitor);
  bool send_reply(Visitor& visitor);
  void answer_requests(uint64_t number);
  void watch_for(Visitor& visitor, uint32_t events);
  void reply(uint64_t number, StoreTable::Reply reply);
  void drop(uint64_t number);
  void tell_when_empty();

  const Options options_;
  const uint16_t port_;
  Reactor reactor_;
  StoreTable table_;
  std::unordered_map<uint64_t, Visitor> visitors_;
  uint64_t next_visitor_ = 0;
  std::shared_ptr<std::promise<void>> empty_;  // asked for by finish(), which may have given up since
  mutable std::mutex mutex_;                   // protects what follows, while it lives and when it ends
  std::unique_ptr<Reception> reception_;
  Reception::Refusals refusals_;  // when there is no reception any more
  std::thread thread_;
};

}  // namespace banyan
