#include "lab/link_queue.h"

#include <algorithm>
#include <vector>

#include "banyan/base/check.h"

namespace banyan::lab {
namespace {

// The burst of a link that was idle: small, or short transfers would look faster than the link is; but at least
// one of the large packets that the kernel makes of several, and the bytes of a millisecond.
constexpr uint64_t kLeastBurst = kLargestPacket, kBurstsPerSecond = 1000;
constexpr uint64_t kQueueMilliseconds = 50;

// The DS field, which is a byte, under a mask.
struct Match {
  const char *value, *mask;
};
struct TrafficClass {
  const char* id;      // minor number of the class in the tree, hexadecimal
  const char* handle;  // of its queue
  std::vector<Match> matches;
};

// The highest first. What matches none is in the second.
std::vector<TrafficClass> classes_of(uint32_t count) {
  std::vector<TrafficClass> classes{{.id = "1:10", .handle = "10:", .matches = {{"0x80", "0x80"}}},
                                    {.id = "1:20", .handle = "20:", .matches = {}}};
  if (count > 2) {
    classes.push_back({.id = "1:30", .handle = "30:", .matches = {{"0x20", "0xe0"}, {"0x04", "0xfc"}}});
  }
  return classes;
}
constexpr const char* kDefaultClass = "20";

std::string rates(uint64_t bytes_per_second, uint64_t ceiling, uint64_t burst) {
  const std::string size = std::to_string(burst);
  // The quantum shares what is left among classes of one priority, of which there are none; without it, tc makes one up
  // and warns.
  return " rate " + std::to_string(bytes_per_second * 8) + "bit ceil " + std::to_string(ceiling * 8) + "bit burst " +
         size + " cburst " + size + " quantum " + std::to_string(kLargestPacket) + "\n";
}

std::string tree_commands(const std::string& interface, const LinkQueue& queue, uint64_t burst) {
  CHECK(queue.classes <= kMostClasses) << queue.classes;
  const uint64_t rate = queue.bytes_per_second;
  const uint64_t guaranteed = std::max<uint64_t>(rate * kGuaranteedPercent / 100, 1);
  const std::string limit = std::to_string(rate * kQueueMilliseconds / 1000 + burst);
  const std::string device = " dev " + interface;
  // A tree cannot be changed as a whole, so one that is there goes first.
  std::string script = "qdisc replace" + device + " root blackhole\nqdisc replace" + device +
                       " root handle 1: htb default " + kDefaultClass + "\n";
  script += "class add" + device + " parent 1: classid 1:1 htb" + rates(rate, rate, burst);
  const std::vector<TrafficClass> classes = classes_of(queue.classes);
  for (size_t number = 0; number < classes.size(); ++number) {
    const TrafficClass& each = classes[number];
    const uint64_t own = number == 0 ? rate - guaranteed * (classes.size() - 1) : guaranteed;
    script += "class add" + device + " parent 1:1 classid " + each.id + " htb prio " + std::to_string(number) +
              rates(own, rate, burst);
    script += "qdisc add" + device + " parent " + each.id + " handle " + each.handle + " bfifo limit " + limit + "\n";
    for (const Match& match : each.matches) {
      const std::string filter = "filter add" + device + " parent 1: protocol ";
      const std::string end = std::string(match.value) + " " + match.mask + " flowid " + each.id + "\n";
      script += filter + "ip prio 1 u32 match ip dsfield " + end;
      script += filter + "ipv6 prio 2 u32 match ip6 priority " + end;
    }
  }
  return script;
}

}  // namespace

std::string queue_commands(const std::string& interface, const LinkQueue& queue) {
  const std::string root = "qdisc replace dev " + interface + " root ";
  if (queue.is_cut) return root + "blackhole\n";
  const uint64_t burst = std::max(kLeastBurst, queue.bytes_per_second / kBurstsPerSecond);
  if (queue.classes > 1) return tree_commands(interface, queue, burst);
  return root + "tbf rate " + std::to_string(queue.bytes_per_second * 8) + "bit burst " + std::to_string(burst) +
         " latency " + std::to_string(kQueueMilliseconds) + "ms\n";
}

}  // namespace banyan::lab
