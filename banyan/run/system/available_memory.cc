#include "banyan/run/system/available_memory.h"

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>

namespace banyan::run {
namespace {

// The number after `name` in a file of names and numbers.
std::optional<uint64_t> number_after(const std::string& path, const std::string& name) {
  std::ifstream file(path);
  std::string line;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    std::string word;
    uint64_t number = 0;
    if (words >> word && word == name && words >> number) return number;
  }
  return std::nullopt;
}

// The number that is all of a file; nothing when there is none, or "max".
std::optional<uint64_t> number_in(const std::string& path) {
  std::ifstream file(path);
  uint64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// Where a version of control groups keeps its numbers, and what it calls them.
struct Names {
  const char* mount;
  const char *limit, *usage, *reclaimable;
};
constexpr Names kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};
constexpr Names kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                          "total_inactive_file"};

// Of one group.
uint64_t limit_of(const std::string& folder, const Names& names) {
  return number_in(folder + names.limit).value_or(UINT64_MAX);
}
uint64_t left_in(const std::string& folder, const Names& names) {
  const auto limit = number_in(folder + names.limit), usage = number_in(folder + names.usage);
  if (!limit || !usage) return UINT64_MAX;
  const uint64_t cache = number_after(folder + "memory.stat", names.reclaimable).value_or(0);
  const uint64_t used = *usage - std::min(*usage, cache);
  return *limit - std::min(*limit, used);
}
using OfGroup = uint64_t (*)(const std::string& folder, const Names& names);

// The least of a group and those above it. In a container the path may not be visible; then the mount stands for it.
uint64_t least_of(const std::string& root, const Names& names, std::string path, OfGroup of_group) {
  uint64_t least = UINT64_MAX;
  for (;;) {
    least = std::min(least, of_group(root + names.mount + path + "/", names));
    if (path.empty()) return least;
    path.erase(path.rfind('/'));
  }
}

// The least of all groups of this process, of both versions.
uint64_t least_of_groups(const std::string& root, OfGroup of_group) {
  uint64_t least = UINT64_MAX;
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;  // "4:memory:/path" in version 1, "0::/path" in version 2
  while (std::getline(groups, line)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1), slash = line.find('/', second + 1);
    if (slash == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(slash);
    if (path == "/") path.clear();
    if (controllers == ",,") least = std::min(least, least_of(root, kVersion2, path, of_group));
    if (controllers.find(",memory,") != std::string::npos) {
      least = std::min(least, least_of(root, kVersion1, path, of_group));
    }
  }
  return least;
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  uint64_t available = UINT64_MAX;
  if (const auto kibibytes = number_after(root + "/proc/meminfo", "MemAvailable:")) {
    available = (*kibibytes + number_after(root + "/proc/meminfo", "SwapFree:").value_or(0)) * 1024;
  }
  return std::min(available, least_of_groups(root, left_in));
}

uint64_t most_memory(const std::string& root) {
  const auto kibibytes = number_after(root + "/proc/meminfo", "MemTotal:");
  return std::min(kibibytes ? *kibibytes * 1024 : UINT64_MAX, least_of_groups(root, limit_of));
}

}  // namespace banyan::run
