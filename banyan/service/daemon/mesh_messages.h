// What daemons tell each other over the mesh: one variant, and its bytes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace banyan::service {

// What a rank of a communicator says to others of it: their executors agree on plans (run/execute/revision.h).
struct SessionText {
  std::string communicator;     // as in OpenSessions::Key
  std::vector<uint32_t> ranks;  // whom it is for, all on one host
  std::string text;
};

using MeshMessage = std::variant<SessionText>;

std::string encode(const MeshMessage& message);
// Throws Error{invalid_input}.
MeshMessage decode_mesh_message(std::string_view bytes);

}  // namespace banyan::service
