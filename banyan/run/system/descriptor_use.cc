#include "banyan/run/system/descriptor_use.h"

#include <dirent.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>

namespace banyan::run {
namespace {

uint64_t used_descriptors() {
  constexpr const char* kFolder = "/proc/self/fd";
  struct stat status {};
  if (stat(kFolder, &status) == 0 && status.st_size > 0) return static_cast<uint64_t>(status.st_size);
  DIR* const listing = opendir(kFolder);
  if (listing == nullptr) return 0;
  uint64_t count = 0;
  while (readdir(listing) != nullptr) ++count;
  closedir(listing);
  constexpr uint64_t kOthers = 3;  // ".", ".." and that of the listing
  return count < kOthers ? 0 : count - kOthers;
}

}  // namespace

uint64_t allowed_descriptors() {
  rlimit own{};
  return getrlimit(RLIMIT_NOFILE, &own) == 0 ? own.rlim_cur : 0;
}

uint64_t make_room_for_descriptors(uint64_t more) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return UINT64_MAX;
  const uint64_t used = used_descriptors();
  const auto room = [&] { return limit.rlim_cur - std::min<uint64_t>(used, limit.rlim_cur); };
  if (room() >= more || limit.rlim_cur == limit.rlim_max) return room();
  const rlimit raised{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  if (setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return room();
}

DescriptorUse descriptor_use() { return {.used = used_descriptors(), .allowed = allowed_descriptors()}; }

}  // namespace banyan::run
