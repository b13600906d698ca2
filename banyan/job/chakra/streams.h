// Names of streams in jobs that come from Chakra traces: the reader makes them, the writer knows them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "banyan/job/job.h"

namespace banyan::job::chakra {

struct StreamLabel {
  enum class Kind : uint8_t { host, compute, memory, collectives, messages, markers };
  Kind kind = Kind::compute;
  std::optional<uint64_t> number;  // the attribute `stream`; host and markers have none

  bool is_free() const { return kind == Kind::messages || kind == Kind::markers; }
  // "host", "compute", "stream 7" (computes, memory and collectives alike), "messages", "stream 7 messages", "markers".
  std::string name() const;
};

// The stream of a node of this kind.
StreamLabel stream_label(NodeKind kind, bool is_on_host, std::optional<uint64_t> number);

}  // namespace banyan::job::chakra
