#include "banyan/run/system/cores.h"

#include <sched.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace banyan::run {

Cores own_cores() {
  const char* const said = std::getenv("BANYAN_CROWDED");
  if (said != nullptr && std::string_view(said) == "1") return {};
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return {};  // more cores than the set holds
  Cores cores;
  for (uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

bool are_oversubscribed(std::span<const Cores> processes) {
  return std::any_of(processes.begin(), processes.end(), [&](const Cores& cores) {
    const auto confined = std::count_if(processes.begin(), processes.end(), [&](const Cores& other) {
      return std::includes(cores.begin(), cores.end(), other.begin(), other.end());
    });
    return confined > std::ssize(cores);
  });
}

}  // namespace banyan::run
