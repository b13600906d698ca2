#include "bindings/c/test_footprint.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "banyan/base/check.h"

namespace banyan::c {
namespace {

namespace fs = std::filesystem;

// A sanitizer keeps what was freed, to see whether it is used.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kMemoryIsTold = false;
#else
constexpr bool kMemoryIsTold = true;
#endif

size_t entries_of(const char* folder) {
  const auto count = std::distance(fs::directory_iterator(folder), fs::directory_iterator());
  return static_cast<size_t>(count);
}

}  // namespace

Footprint Footprint::now() {
  malloc_trim(0);
  Footprint footprint;
  std::ifstream statm("/proc/self/statm");
  size_t total = 0, resident = 0;
  CHECK(statm >> total >> resident);
  footprint.resident = resident * static_cast<size_t>(sysconf(_SC_PAGESIZE));
  std::ifstream maps("/proc/self/maps");
  footprint.mappings =
      static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), std::istreambuf_iterator<char>(), '\n'));
  maps.close();
  statm.close();
  footprint.descriptors = entries_of("/proc/self/fd");
  footprint.threads = entries_of("/proc/self/task");
  return footprint;
}

std::string growth(const Footprint& before, const Footprint& after, const Slack& slack) {
  std::string words;
  const auto compare = [&](const char* what, size_t old, size_t now, size_t allowed) {
    if (now > old + allowed)
      words += std::string(what) + " " + std::to_string(old) + " -> " + std::to_string(now) + "; ";
  };
  if (kMemoryIsTold) {
    compare("resident bytes", before.resident, after.resident, slack.resident);
    compare("mappings", before.mappings, after.mappings, slack.mappings);
  }
  compare("descriptors", before.descriptors, after.descriptors, slack.descriptors);
  compare("threads", before.threads, after.threads, slack.threads);
  return words;
}

}  // namespace banyan::c
