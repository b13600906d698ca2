// Region: a memfd of a client, mapped by the daemon, of which nobody can take anything away any more.
//
// It can never be made shorter: where the memfd once was, a touch would end the daemon by SIGBUS. Files and other
// memory have no such seals and are refused, as are huge pages, which can be missing when they are touched.
//
// Its pages are charged to whoever touches them first: to the client, if it is honest. But a client could leave pages
// out, or punch them out again (FALLOC_FL_PUNCH_HOLE), and a thread that touches a page meanwhile sleeps: for many
// seconds, where the memory is mapped many times. So all pages have to be there, and once the daemon has mapped them,
// it seals the memfd against being written to by others (F_SEAL_FUTURE_WRITE, Linux 5.1): the mappings that are there
// go on, and nothing can be punched out any more. The price: nobody maps it for writing any more, another daemon
// neither. Memory that was offered to a daemon that has ended cannot be offered to the next.
//
// The kernel tells how many pages the memfd has, and not where. So it is mapped whole, and has no pages behind its end:
// such are dropped, and its seals let none come (F_SEAL_GROW). To ask where the first hole is (SEEK_HOLE) takes 0.09 us
// a page, and takes pages for holes that are there and were never written. A huge page at the end may stand for as many
// pages that are missing: 2 MiB, where memfds have such.
//
// Dropping and sealing wait for the lock of the memfd. Its owner holds that for as long as it likes: by a write to the
// memfd from a page of a file whose file system is its own (FUSE) and never brings the page. So this is made on a
// thread that serves the client's account alone. Nothing takes that lock later.
#pragma once

#include <cstddef>
#include <cstdint>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::service {

class Region {
 public:
  // May wait without an end, see above; takes 0.6 us for each page behind the end, of which there may be as many as
  // before it. The descriptor is not needed any more afterwards. Throws Error{invalid_input} for memory without
  // F_SEAL_SHRINK and F_SEAL_GROW, or with F_SEAL_FUTURE_WRITE or F_SEAL_SEAL, which can be sealed no further; for
  // memory that has other pages than `bytes` have, cannot be written to, or is empty; Error{io}.
  Region(const run::FileDescriptor& fd, uint64_t bytes);
  ~Region();
  Region(Region&& other) noexcept;
  Region& operator=(Region&&) = delete;

  std::byte* data() const { return data_; }
  uint64_t size() const { return size_; }

 private:
  std::byte* data_ = nullptr;
  uint64_t size_ = 0;
};

}  // namespace banyan::service
