// Ourselves and SimGrid (S4U, model CM02 without cross-traffic and TCP window) on the same flows over the same links:
// CPU seconds of both, and whether they agree. Usage: simulators_compare [pairs|all-to-all|shifts]...
// SimGrid has one engine a process, so each of its runs is a process of its own.
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <set>
#include <simgrid/s4u.hpp>
#include <string>
#include <vector>

#include "bench/simulators/cases.h"

namespace banyan::bench {
namespace {

namespace sg = simgrid::s4u;

struct Platform {
  std::vector<sg::Host*> hosts;
};

Platform make_platform(const Case& what) {
  sg::NetZone* zone = sg::create_full_zone("fabric");
  Platform platform;
  for (size_t rank = 0; rank < what.fabric.ranks().size(); ++rank) {
    platform.hosts.push_back(zone->create_host("h" + std::to_string(rank), 1e9)->seal());
  }
  std::vector<sg::Link*> links;
  for (size_t link = 0; link < what.fabric.links().size(); ++link) {
    const double bandwidth = static_cast<double>(what.fabric.links()[link].bandwidth.bytes_per_second());
    links.push_back(zone->create_link("l" + std::to_string(link), bandwidth)->set_latency(0)->seal());
  }
  Ways ways(what.fabric);
  std::set<std::pair<uint32_t, uint32_t>> known;
  for (uint32_t phase = 0; phase < what.phases; ++phase) {
    for (const CaseFlow& flow : what.flows(what.fabric, phase)) {
      if (!known.emplace(flow.from, flow.to).second) continue;
      std::vector<sg::LinkInRoute> route;
      for (const LinkId link : ways.find(flow)) route.emplace_back(links[index(link)]);
      zone->add_route(platform.hosts[flow.from]->get_netpoint(), platform.hosts[flow.to]->get_netpoint(), nullptr,
                      nullptr, route, false);
    }
  }
  zone->seal();
  return platform;
}

Answer simgrid_answer(const Case& what) {
  std::vector<std::string> words = {"compare",
                                    "--log=root.thresh:warning",
                                    "--cfg=network/model:CM02",
                                    "--cfg=network/crosstraffic:0",
                                    "--cfg=network/TCP-gamma:0",
                                    "--cfg=contexts/nthreads:1"};
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  int argc = static_cast<int>(argv.size());
  sg::Engine engine(&argc, argv.data());
  const Platform platform = make_platform(what);
  Answer answer;
  sg::Actor::create("all", platform.hosts[0], [&] {
    for (uint32_t phase = 0; phase < what.phases; ++phase) {
      std::vector<sg::CommPtr> comms;
      for (const CaseFlow& flow : what.flows(what.fabric, phase)) {
        comms.push_back(sg::Comm::sendto_async(platform.hosts[flow.from], platform.hosts[flow.to],
                                               static_cast<uint64_t>(flow.bytes)));
      }
      for (const sg::CommPtr& comm : comms) comm->wait();
    }
  });
  const clock_t start = clock();
  engine.run();
  answer.cpu_seconds = static_cast<double>(clock() - start) / CLOCKS_PER_SEC;
  answer.makespan = sg::Engine::get_clock();
  return answer;
}

// In a process of its own. A makespan of zero: it failed.
Answer simgrid(const Case& what) {
  int ends[2];
  if (pipe(ends) != 0) return {};
  const pid_t child = fork();
  if (child == 0) {
    const Answer answer = simgrid_answer(what);
    const bool sent = write(ends[1], &answer, sizeof answer) == sizeof answer;
    _exit(sent ? 0 : 1);
  }
  close(ends[1]);
  Answer answer;
  if (read(ends[0], &answer, sizeof answer) != sizeof answer) answer = {};
  close(ends[0]);
  waitpid(child, nullptr, 0);
  return answer;
}

int compare(const Case& what) {
  const Answer own = ours(what, Picoseconds(0));
  std::printf("%-30s Banyan %8.3f s CPU, makespan %.9f s\n", what.name.c_str(), own.cpu_seconds, own.makespan);
  std::fflush(stdout);
  const Answer theirs = simgrid(what);
  const double off = std::abs(theirs.makespan - own.makespan) / own.makespan;
  std::printf("%-30s SimGrid %7.3f s CPU, makespan %.9f s: %.1f times as long, %s (%.1e)\n", "", theirs.cpu_seconds,
              theirs.makespan, theirs.cpu_seconds / own.cpu_seconds, off <= 1e-6 ? "the same answer" : "ANOTHER ANSWER",
              off);
  return off <= 1e-6 ? 0 : 1;
}

}  // namespace
}  // namespace banyan::bench

int main(int argc, char** argv) {
  using namespace banyan::bench;
  int wrong = 0;
  const std::vector<std::string> names(argv + 1, argv + argc);
  const auto wants = [&](const char* name) {
    return names.empty() || std::find(names.begin(), names.end(), name) != names.end();
  };
  if (wants("shifts")) wrong += compare(shifts());
  if (wants("pairs")) wrong += compare(random_pairs());
  if (!names.empty() && wants("all-to-all")) wrong += compare(all_to_all());  // SimGrid takes hours for it
  return wrong;
}
