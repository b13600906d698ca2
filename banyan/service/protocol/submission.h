// Submission and Completion: what a client and the daemon of its host tell each other about calls, in memory that both
// see (rings.h).
//
// A submission is a Call (run/call/call.h) whose buffers are *named* instead of pointed to: region, generation, offset.
// Regions are memory of the client, which the daemon has mapped (region_table.h). Whatever a client writes may be
// wrong, hostile, or change while it is read: the daemon copies a submission once, and looks at the copy only
// (validate.h).
//
// The layout is fixed: a client and a daemon of different builds understand each other, or one refuses the other's
// version when they meet. Numbers are of the host's byte order. Bytes that are said to be zero are refused otherwise,
// so that they can get a meaning later.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace banyan::service {

constexpr uint8_t kProtocolVersion = 2;  // 1: of 0.2.0, whose memory cannot be sealed further

// Bytes of a region, beginning at `offset`. Their number follows from the call; if it is 0, the name is not looked at.
struct BufferName {
  static constexpr uint32_t kNone = UINT32_MAX;

  uint32_t region = kNone;  // its place in the table of the connection; kNone: the call has no such buffer
  uint32_t generation = 0;  // of that place, which grows whenever another region takes it
  uint64_t offset = 0;
};

enum class SubmissionFlag : uint32_t {
  // `counts` names 64-bit numbers, one for each rank and list: the lists that the kind has (call.h), in the order
  // send_counts, send_displacements, recv_counts, recv_displacements. They begin at a multiple of 8 bytes. This flag:
  // the displacements are among them, of both directions. A reduce-scatterv has none.
  has_displacements = 1,
};

// Fields that a kind does not use are not looked at, but for version, type, op, flags and zeros.
struct alignas(64) Submission {
  uint8_t version = kProtocolVersion;
  uint8_t kind = 0, type = 0, op = 0;  // OperationKind, element::DataType, element::ReduceOp
  uint32_t flags = 0;
  uint64_t sequence = 0;  // of this session: the last one and 1
  uint64_t count = 0;     // elements
  BufferName send = {}, recv = {}, counts = {};
  uint32_t other = 0;         // root or peer; kAnyRank of a recv
  uint32_t tag = 0;           // of messages
  uint32_t milliseconds = 0;  // without progress; 0: as the session was opened with
  uint32_t zero = 0;
  double factor = 1;  // of premul_sum
  uint8_t zeros[32] = {};
};
static_assert(sizeof(Submission) == 128 && std::is_trivially_copyable_v<Submission>);
static_assert(offsetof(Submission, zeros) + sizeof(Submission::zeros) == sizeof(Submission), "bytes without a name");

// Calls for all ranks are completed in their order, messages whenever they are done. A session that fails says so by
// the control connection (messages.h), and completes nothing else.
struct Completion {
  uint64_t sequence = 0;  // of the submission
  uint32_t peer = 0;      // of a message: its receiver, or its sender
  uint32_t zero = 0;
};
static_assert(sizeof(Completion) == 16 && std::is_trivially_copyable_v<Completion>);

}  // namespace banyan::service
