// World: the processes that have met.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace banyan::run {

// One process, as it describes itself to the others.
struct Member {
  std::string host_name;  // for people
  std::string host_id;    // equal where processes can see each other by process id
  int32_t pid = 0;
  uint64_t start_time = 0;             // as /proc/<pid>/stat tells it: with it, a process id is never used twice
  std::vector<std::string> addresses;  // without ports, the best first
  uint16_t port = 0;                   // of its listener
};

struct World {
  uint32_t rank = 0;  // this process
  std::vector<Member> members;
  std::string place = {};  // where they met: "tcp://node7:29501"
};

}  // namespace banyan::run
