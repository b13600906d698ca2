// Memory as a client offers it, for tests.
#pragma once

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/service/protocol/region_table.h"

namespace banyan::service {

constexpr int kGoodSeals = F_SEAL_SHRINK | F_SEAL_GROW;

inline run::FileDescriptor memory_of(uint64_t bytes, int seals = kGoodSeals, bool has_pages = true) {
  run::FileDescriptor fd(memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const auto length = static_cast<off_t>(bytes);
  CHECK(fd.is_open() && ftruncate(fd.get(), length) == 0) << bytes;
  CHECK(!has_pages || fallocate(fd.get(), 0, 0, length) == 0) << bytes;
  CHECK(seals == 0 || fcntl(fd.get(), F_ADD_SEALS, seals) == 0) << seals;
  return fd;
}

// A region that has been offered, as whoever may look into the table sees it.
struct OfferedMemory {
  RegionTable::Place place;
  std::byte* data = nullptr;
  uint64_t size = 0;

  BufferName at(uint64_t offset) const {
    return {.region = place.index, .generation = place.generation, .offset = offset};
  }
};

inline OfferedMemory offer_memory(RegionTable& table, uint64_t bytes) {
  OfferedMemory offered{.place = table.offer({memory_of(bytes), bytes}), .size = bytes};
  offered.data = table.find(offered.at(0), bytes)->data();
  return offered;
}

}  // namespace banyan::service
