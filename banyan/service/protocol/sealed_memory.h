// SealedMemory: a memfd of a client, as the daemon may map it.
//
// It is sealed so that it can never be made shorter: where the memfd once was, a touch would end the daemon by SIGBUS.
// Files and other memory have no such seals and are refused, as are huge pages, which can be missing when they are
// touched.
//
// Its pages are charged to whoever touches them first. That is an honest client; but a client can leave pages out, and
// punch them out again (FALLOC_FL_PUNCH_HOLE; the seal that forbids it would forbid the client's own mappings, too).
// Who touches a page while pages are being punched out sleeps until that is over, which may take seconds. So whoever
// uses such memory asks now and then whether all of its pages are there (is_whole), and has nothing more to do with
// memory of which some are not. Where memory is not overcommitted (vm.overcommit_memory = 2), the first touch of what
// was punched out can still end the daemon.
//
// The kernel tells how many pages the memfd has, and not where. So it is mapped whole, and has no pages behind its end:
// such are dropped, and its seals let none come (F_SEAL_GROW). To ask where the first hole is (SEEK_HOLE) takes 0.09 us
// a page, and takes pages for holes that are there and were never written. A huge page at the end may stand for as many
// pages that are missing: 2 MiB, where memfds have such.
//
// Dropping waits for the lock of the memfd. Its owner holds that for as long as it likes: by a write to the memfd from
// a page of a file whose file system is its own (FUSE) and never brings the page. Nothing else that is asked of a memfd
// here or in regions takes that lock. So this is made on a thread that serves the client's user alone.
#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::service {

class SealedMemory {
 public:
  // Keeps a descriptor of its own. May wait without an end, see above; takes 0.6 us for each page behind the end, of
  // which there may be as many as before it. Throws Error{invalid_input} for what is not sealed as above
  // (F_SEAL_SHRINK, F_SEAL_GROW, and F_SEAL_SEAL, so that all seals are known), has not as many pages as `bytes` have,
  // cannot be written to, or is empty; Error{io}.
  SealedMemory(const run::FileDescriptor& fd, uint64_t bytes);

  uint64_t bytes() const { return bytes_; }
  // For reading and writing, to be unmapped by the caller. Throws Error{invalid_input} where it cannot be written to,
  // Error{io}.
  std::byte* map() const;
  // Whether all pages are there, in memory or swapped out. A system call.
  bool is_whole() const;

 private:
  run::FileDescriptor file_;
  uint64_t bytes_ = 0;
};

}  // namespace banyan::service
