// The messages between a client and the daemon of its host over their control connection: a unix socket that keeps
// messages apart (SOCK_SEQPACKET). Calls do not go this way (rings.h).
//
// The client says hello and offers its doorbell; the daemon says welcome, with its own descriptor to be woken by. Then
// the client offers memory, opens sessions and closes them. Each wish has a number, which its answer bears. A side that
// says something else, or in another order, is hung up on.
//
// Descriptors go beside the bytes of a message (SCM_RIGHTS): Hello one, the memory of the DoorbellPage; Welcome one, an
// eventfd that the client sets when the daemon sleeps; OfferRegion and ShowRecord one, a sealed memfd.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/capability.h"
#include "banyan/service/protocol/region_table.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

constexpr size_t kMaxMessage = 256 * 1024;  // bytes

// ---- From the client ----

struct Hello {
  uint32_t version = kProtocolVersion;
  std::string program;  // for people
};
struct OfferRegion {
  uint64_t wish = 0, bytes = 0;
};
struct WithdrawRegion {
  RegionTable::Place place;
};
struct OpenSession {
  uint64_t wish = 0;
  uint32_t session = 0;        // chosen by the client, below DoorbellPage::kSessions and not in use
  BufferName page;             // of its SessionPage, which is zeroed
  Capability capability = {};  // of the job
  uint64_t communicator = 0;
  std::string name;    // of the communicator
  std::string tenant;  // as its program calls it; empty: its user
  uint32_t rank = 0;
  std::vector<uint32_t> members;  // rank i is process members[i] of the job
  uint32_t job_size = 0;
  std::vector<std::string> hosts;          // each once, as their daemons call themselves (Welcome::host)
  std::vector<uint32_t> host_of_rank;      // index into hosts
  uint32_t timeout = 0, join_timeout = 0;  // milliseconds
  bool checksums = false;
};
struct CloseSession {
  uint32_t session = 0;
};
// A rank has died, or has left.
struct RankGone {
  uint32_t session = 0, rank = 0;
};
// Asks how the hosts of this user's communicators are connected, and what others leave of their links.
struct AskHints {
  uint64_t wish = 0;
};

// The flight record (run/record/recorder.h) of a rank whose communicator does without the daemon: operators see it,
// too. There is no answer. Until it is hidden.
struct ShowRecord {
  uint32_t record = 0;  // chosen by the client, and not in use
  Capability capability = {};
  uint64_t communicator = 0;
  std::string name = {}, tenant = {};  // as in OpenSession
  uint32_t rank = 0, size = 0;
};
struct HideRecord {
  uint32_t record = 0;
};

// ---- From the daemon ----

struct Welcome {
  uint32_t version = kProtocolVersion;
  std::string host;            // by which daemons know each other
  Capability capability = {};  // a new one, for a job of which this process is the first
  bool is_crowded = false;     // the daemon needs the cores on which this process may wait
};
struct RegionPlaced {
  uint64_t wish = 0;
  RegionTable::Place place;
};
struct SessionOpened {
  uint64_t wish = 0;
  std::string means;  // for people: "TCP"
};
// The wish was not granted; nothing has changed.
struct Refused {
  uint64_t wish = 0;
  Error error{ErrorCode::io, ""};
};
// Calls of this session fail with this error from now on. The rank finds out why at its next call, and tells the other
// ranks.
struct SessionFailed {
  uint32_t session = 0;
  Error error{ErrorCode::io, ""};
};
struct HintsGiven {
  uint64_t wish = 0;
  std::string hints;  // JSON, as view/hints.h says
};

// A newer daemon of this host has taken its place for what opens from now on, at the same socket. Sessions that are
// open go on here.
struct Succeeded {};

using ClientMessage = std::variant<Hello, OfferRegion, WithdrawRegion, OpenSession, CloseSession, RankGone, AskHints,
                                   ShowRecord, HideRecord>;
using DaemonMessage = std::variant<Welcome, RegionPlaced, SessionOpened, Refused, SessionFailed, HintsGiven, Succeeded>;

// Their fields are in messages.cc, in rows of wire_fields.h.
std::string encode(const ClientMessage& message);
std::string encode(const DaemonMessage& message);
// Throw Error{invalid_input} for what is no message. The receiver checks that the numbers make sense.
ClientMessage decode_client_message(std::string_view bytes);
DaemonMessage decode_daemon_message(std::string_view bytes);

// ---- Over the socket ----

struct Parcel {
  std::string bytes;
  std::optional<run::FileDescriptor> descriptor;
};
// Sends without waiting. False when the socket is full. Throws Error{peer_lost} when the other side has gone,
// Error{io}.
bool send_parcel(int socket, std::string_view bytes, int descriptor = -1);
// The next one, without waiting; nothing when there is none. Throws Error{peer_lost} when the other side has gone, or
// says something empty, Error{invalid_input} for a message that is longer than kMaxMessage or brings more than one
// descriptor, Error{io}, also where this process has no descriptor free for the one that comes. All descriptors of a
// message, whatever else is wrong with it, are returned, or go to `close`, or are closed if `close` is empty. Closing
// may wait for the sender: a socket may linger, and a file may be of a file system of the sender's.
std::optional<Parcel> receive_parcel(int socket, const std::function<void(run::FileDescriptor)>& close = {});

}  // namespace banyan::service
