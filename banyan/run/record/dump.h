// Dumps: what one rank of one communicator knew when something went wrong, as a file that people and `banyan doctor`
// read. The format is described in docs/formats/flight-recorder.md.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/call/operation.h"
#include "banyan/run/record/message_book.h"
#include "banyan/run/record/stall.h"

namespace banyan::run {

// timeout: an operation took too long. error: it failed otherwise. asked: a person, or a peer in trouble, wanted it.
enum class DumpReason : uint8_t { timeout, error, asked };
inline constexpr std::array<std::string_view, 3> kDumpReasons = {"timeout", "error", "asked"};
inline std::string_view to_string(DumpReason reason) { return kDumpReasons[static_cast<size_t>(reason)]; }

// The knowledge of a rank about a peer.
struct PeerRecord {
  uint32_t rank = 0;
  Health health = Health::unknown;
  uint64_t sequence = 0;  // of the newest collective that was seen of it; 0: none

  friend bool operator==(const PeerRecord&, const PeerRecord&) = default;
};

struct RankDump {
  static constexpr uint32_t kMaxSize = 1u << 20;

  std::string communicator;  // its name, for people
  std::string id;            // tells communicators of one name apart; may be empty
  uint32_t rank = 0, size = 1;

  std::string host, program;
  int64_t pid = 0, thread = 0;
  int64_t started = 0;  // the process, ns of CLOCK_REALTIME; 0: not known

  int64_t time = 0;         // when it was written, ns of CLOCK_MONOTONIC
  int64_t wall_offset = 0;  // ns; plus a time of CLOCK_MONOTONIC gives one of CLOCK_REALTIME
  DumpReason reason = DumpReason::asked;
  std::string message;  // the error's text

  uint32_t waits_for = kNoRank;             // whom this rank waits for in its newest collective
  std::vector<PeerRecord> peers;            // any, in any order
  std::vector<OperationRecord> operations;  // the oldest first
  uint64_t begun = 0;                       // operations in all; those that are not in `operations` are too long ago
  uint64_t torn = 0;                        // records that could not be read
  MessageRecords messages;                  // between two ranks, which are not among the operations

  // The newest collective, if any is in the records.
  const OperationRecord* newest() const;
  friend bool operator==(const RankDump&, const RankDump&) = default;
};

// With what this process and this memory of a Recorder tell: all but communicator, id, rank, size, reason, message,
// peers and messages. Throws Error{invalid_input} when there is no recorder in the memory.
RankDump begin_dump(std::span<const std::byte> recorder);

std::string dump_to_json(const RankDump& dump);
// Throws Error{invalid_input} that says what is wrong where; whatever it returns is consistent: ranks are below the
// size, peers and tickets occur once, tickets ascend. Records of version 1 have no messages.
RankDump parse_dump(std::string_view json);

// BANYAN_RECORDER_DIR, or "banyan-recorder-<user number>" in the system's folder for temporary files. Missing folders
// are made, the last with mode 0700. Throws Error{io}, and Error{invalid_usage} when the default folder belongs to
// somebody else, or others may write to it.
std::string recorder_directory();

// "<communicator>-rank<N>.json", or "<communicator>.<id>-rank<N>.json" where there is an id; characters that are not
// letters, digits, '_' or '-' become '_'.
std::string dump_file_name(const RankDump& dump);
// Into the directory, whole or not at all; an older dump of the same name is replaced. The newest kMostDumps files that
// a process has written stay. Its first dump into the default folder removes all dumps there but the newest
// kMostInFolder of the last day. Returns the path. Throws Error{io}.
inline constexpr size_t kMostDumps = 16, kMostInFolder = 4096;
std::string write_dump(const RankDump& dump, const std::string& directory);

// Every "*-rank<N>.json" of the directory, in the order of their names. Throws Error: no such directory, none in it, or
// a broken one, which it names.
std::vector<RankDump> read_dumps(const std::string& directory);

}  // namespace banyan::run
