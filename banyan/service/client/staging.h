// Staging: buffers of a call in memory that the daemon sees.
//
// Buffers in the process's RegionPool are named where they are. All others are copied: `stage` copies what is sent,
// `finish` what has come, and of buffers with gaps only the pieces.
//
// Inputs stay as they were until the call is done, also in place: the daemon may be killed in the middle, and with it
// all that it keeps. So what would be written over an input comes to a block, wherever the input lies. That is one copy
// of the output in this process; the daemon saves one, since it needs not keep what no result overwrites
// (run/engine/kept_input.h), and its memory does not grow with its tenants' buffers. An undo log in the tenant's memory
// would need the same memory and the same copy, and a protocol between the two.
//
// Blocks are powers of two bytes, kept for later calls, so a program that repeats its calls takes memory once; trim()
// gives back what no call uses. Small ones are cut out of arenas, since the daemon does not map regions without end.
// The first arena is small, and each is twice as large as the one before: a process may have many communicators.
//
// One thread.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "banyan/run/call/call.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/protocol/submission.h"

namespace banyan::service {

// Work to do when a call is over. Move-only.
struct StagedCall {
  struct Block {
    Attachment::Memory memory;
    size_t bytes = 0;
  };
  struct Copy {
    std::byte* to = nullptr;
    const std::byte* from = nullptr;
    size_t bytes = 0;
  };
  StagedCall() = default;
  StagedCall(StagedCall&&) = default;
  StagedCall& operator=(StagedCall&&) = default;

  std::vector<Block> blocks;                                       // to be given back
  std::vector<Copy> copies;                                        // of what has come
  std::vector<std::shared_ptr<const Attachment::Offered>> offers;  // of what was named
};

class Staging {
 public:
  static constexpr size_t kLeastBlock = 64, kMostInArena = 64 << 10, kFirstArena = 16 << 10, kLargestArena = 1 << 20;

  // `attachment` outlives it.
  Staging(Attachment& attachment, uint32_t rank, uint32_t size) : attachment_(attachment), rank_(rank), size_(size) {}
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  // The submission of a call, but for its sequence, and what it has taken. The call is possible (expect_possible).
  // Throws what Attachment throws; then nothing has been taken.
  struct Staged {
    Submission submission;
    StagedCall call;
  };
  Staged stage(const run::Call& call);
  // Copies what has come, if the call is done, and gives the blocks back.
  void finish(StagedCall call, bool is_done);
  void trim();

  // In blocks, those in use among them.
  size_t held_bytes() const { return held_; }

 private:
  BufferName place_counts(const run::Call& call, bool has_displacements, StagedCall& staged);
  BufferName place_send(const run::Call& call, StagedCall& staged);
  BufferName place_recv(const run::Call& call, StagedCall& staged);
  std::optional<BufferName> name(const std::byte* begin, size_t bytes, StagedCall& staged);
  StagedCall::Block& take(size_t bytes, StagedCall& staged);
  StagedCall::Block taken(size_t bytes);
  StagedCall::Block cut(size_t bytes);
  void give_back(StagedCall::Block block);
  Attachment::Memory allocate(size_t bytes);

  Attachment& attachment_;
  const uint32_t rank_, size_;
  std::array<std::vector<StagedCall::Block>, 64> free_;  // of 2^i bytes
  Attachment::Memory arena_;                             // of which a part is left
  size_t arena_bytes_ = 0, arena_left_ = 0;
  size_t held_ = 0;
};

}  // namespace banyan::service
