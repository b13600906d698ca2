// FileVersion: by what one sees that a file is not the one any more that was read.
#pragma once

#include <sys/stat.h>

#include <cstdint>

namespace banyan::service {

struct FileVersion {
  uint64_t device = 0, file = 0, size = 0;
  int64_t written = 0, changed = 0;  // nanoseconds

  static FileVersion of(const struct stat& status) {
    const auto nanoseconds = [](const timespec& time) { return int64_t{time.tv_sec} * 1'000'000'000 + time.tv_nsec; };
    return {.device = status.st_dev,
            .file = status.st_ino,
            .size = static_cast<uint64_t>(status.st_size),
            .written = nanoseconds(status.st_mtim),
            .changed = nanoseconds(status.st_ctim)};
  }
  friend bool operator==(const FileVersion&, const FileVersion&) = default;
};

}  // namespace banyan::service
