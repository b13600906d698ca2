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

// What a group and those above it leave. In a container the path may not be visible; then the mount stands for it.
uint64_t left_in_group(const std::string& root, const Names& names, std::string path) {
  uint64_t left = UINT64_MAX;
  for (;;) {
    const std::string folder = root + names.mount + path + "/";
    const auto limit = number_in(folder + names.limit), usage = number_in(folder + names.usage);
    if (limit && usage) {
      const uint64_t cache = number_after(folder + "memory.stat", names.reclaimable).value_or(0);
      const uint64_t used = *usage - std::min(*usage, cache);
      left = std::min(left, *limit - std::min(*limit, used));
    }
    if (path.empty()) return left;
    path.erase(path.rfind('/'));
  }
}

}  // namespace

uint64_t available_memory(const std::string& root) {
  uint64_t available = UINT64_MAX;
  if (const auto kibibytes = number_after(root + "/proc/meminfo", "MemAvailable:")) {
    available = (*kibibytes + number_after(root + "/proc/meminfo", "SwapFree:").value_or(0)) * 1024;
  }
  std::ifstream groups(root + "/proc/self/cgroup");
  std::string line;  // "4:memory:/path" in version 1, "0::/path" in version 2
  while (std::getline(groups, line)) {
    const size_t first = line.find(':'), second = line.find(':', first + 1), slash = line.find('/', second + 1);
    if (slash == std::string::npos) continue;
    const std::string controllers = "," + line.substr(first + 1, second - first - 1) + ",";
    std::string path = line.substr(slash);
    if (path == "/") path.clear();
    if (controllers == ",,") available = std::min(available, left_in_group(root, kVersion2, path));
    if (controllers.find(",memory,") != std::string::npos) {
      available = std::min(available, left_in_group(root, kVersion1, path));
    }
  }
  return available;
}

}  // namespace banyan::run
