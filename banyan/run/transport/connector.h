// Connector: where a transport's connected, authenticated sockets come from.
//
// Two ranks that will exchange bytes both ask for the connection between them, by the number of a *lane*: there may be
// several connections between two ranks, each along its own path of links. The connector decides which of the two calls
// and which is called. Connections are made when they are asked for, so that nobody pays for those never used.
//
// One thread, that of the transport. Answers may be made by another thread behind the scenes.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/seal/session_keys.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// The ends of a connection as addresses without ports ("10.1.2.3"). Empty: any of this host, the first of the peer.
struct Path {
  std::string local_address;
  std::string peer_address;
  bool operator==(const Path&) const = default;
};

class Connector {
 public:
  Connector() = default;
  Connector(const Connector&) = delete;
  Connector& operator=(const Connector&) = delete;
  virtual ~Connector() = default;

  // Asks for the connection of this rank with `peer` (numbers as in the communicator). Once for each lane, unless it
  // failed.
  virtual void request(uint32_t peer, uint32_t lane, const Path& path) = 0;
  // Lanes from this number on are only to see whether they could be made. The rank of the lower number asks, the other
  // one does not, and neither uses what comes of it.
  static constexpr uint32_t kFirstTrial = 1u << 31;

  // There is this path to `peer`, whether it is asked for or not.
  virtual void know(uint32_t /*peer*/, const Path& /*path*/) {}

  struct Answer {
    uint32_t peer = 0, lane = 0;
    FileDescriptor socket{};         // connected, non-blocking, nothing sent or received but the greeting
    SessionKeys keys = {};           // of this connection; empty where nobody has shaken hands
    std::optional<Error> failure{};  // or why there is none: peer_lost, timed_out, io
  };
  // Those that have come since the last call. Never blocks.
  virtual std::vector<Answer> take() = 0;
  // Readable when take() has something.
  virtual int event_fd() const = 0;
};

}  // namespace banyan::run
