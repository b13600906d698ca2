// Messages between daemons over the mesh: one variant, and its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/service/share/route_adviser.h"
#include "banyan/service/share/steward.h"

namespace banyan::service {

struct RanksOnHost {
  std::string host;
  std::vector<uint32_t> ranks;
};

// A text of a rank of a communicator to others of it, by which their executors agree on plans (run/execute/revision.h).
struct SessionText {
  std::string communicator;     // as in OpenSessions::Key
  std::vector<uint32_t> ranks;  // whom it is for, all on one host
  std::string text;
  uint32_t user = 0;  // of the session that says it
};
// The daemon of another rank's host has not let that rank in: the communicator never comes about.
struct SessionRefusal {
  std::string communicator;        // as above
  Error error{ErrorCode::io, ""};  // names the rank that was refused, its host and why
  uint32_t user = 0;               // of the session that was refused
};
// To the steward: how the calls of a communicator go, and who wants to know its rate.
struct Activity {
  CallReport report;
  std::vector<RanksOnHost> members;
};
// From the steward: how fast the calls of a communicator may go, in bytes per second on the link that one uses most. 0:
// as fast as they go.
struct SessionRate {
  std::string communicator;
  std::vector<uint32_t> ranks;  // as above
  uint64_t rate = 0;
};

// From the steward, to rank 0: what others leave it of links (share/route_adviser.h).
struct SessionView {
  std::string communicator;
  std::vector<LinkPart> view;
};

// An operator asks a daemon, which asks this one (host_operations.h).
struct OperatorQuestion {
  uint64_t number = 0;  // of those of the daemon that asks
  std::string command, body;
};
struct OperatorAnswer {
  uint64_t number = 0;  // of the question
  bool is_refusal = false;
  std::string body;  // or why not
};

using MeshMessage =
    std::variant<SessionText, Activity, SessionRate, OperatorQuestion, OperatorAnswer, SessionView, SessionRefusal>;

std::string encode(const MeshMessage& message);
// Throws Error{invalid_input} for what is no message. That its numbers make sense, the receiver sees to.
MeshMessage decode_mesh_message(std::string_view bytes);

}  // namespace banyan::service
