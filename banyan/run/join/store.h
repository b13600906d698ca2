// Store: a small table of texts that processes share while they find each other.
//
// One process, rank 0, hosts it, the others visit. It lives as long as its host, and knows only what was put into it
// since the host came: nothing of an earlier job is ever seen. Two kinds: TcpStore (tcp_store.h) asks a StoreServer,
// FileStore (file_store.h) reads and writes files.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "banyan/run/join/deadline.h"
#include "banyan/run/join/world.h"

namespace banyan::run {

// The store carries this out for a process that ends before its time, or gives up: if nobody has added to `counter`
// yet, it adds one, and writes `value` under `key`.
struct LastWill {
  std::string counter, key, value;
  Member process;
};

// All functions throw Error{timed_out} at the deadline, Error{peer_lost} when the host is gone, Error{io}; and
// Error{invalid_input} when the store is full. One thread at a time.
class Store {
 public:
  static constexpr size_t kMaxKey = 80;                    // bytes; at least one
  static constexpr size_t kMaxValue = size_t{32} << 20;    // bytes
  static constexpr size_t kMaxMemory = size_t{256} << 20;  // bytes, of all keys and values of a StoreServer

  Store() = default;
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;
  virtual ~Store() = default;

  virtual void set(const std::string& key, const std::string& value, const Deadline& deadline) = 0;
  // Waits for the key.
  virtual std::string get(const std::string& key, const Deadline& deadline) = 0;
  // Nothing when it is not there.
  virtual std::optional<std::string> try_get(const std::string& key, const Deadline& deadline) = 0;
  // Adds to the number under this key, none being 0, at once for all, and returns what it is now. As a text it is
  // decimal. Throws Error{invalid_input} when the value is no number of 64 bits, or would be none.
  virtual int64_t add(const std::string& key, int64_t delta, const Deadline& deadline) = 0;

  // Is carried out within a second after this process has ended or has given the store up, as long as the host lives. A
  // connection that breaks is not yet an end. One for each process. Does nothing in a store that cannot tell: torch's.
  virtual void leave_will(const LastWill& /*will*/, const Deadline& /*deadline*/) {}

  // "tcp://node7:29501", for messages.
  virtual const std::string& place() const = 0;
  // The address by which this process speaks to the host: peers that can reach the host can reach it here. Empty when
  // there is none.
  virtual std::string own_address() const { return {}; }
};

// The text of a counter with `delta` added; shared by all stores, so that they agree.
std::string add_to_counter(const std::optional<std::string>& value, int64_t delta);

}  // namespace banyan::run
