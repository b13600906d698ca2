// The processes of `banyan run -n 4 -- PROGRAM`: which rank on which host, with which variables. Starts nothing itself.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace banyan::app {

struct HostSlots {
  std::string name;  // as ssh takes it: "node7", "me@node7"
  uint32_t slots = 1;
};

// "a,b:2,c"; empty: none. Throws Error{invalid_input} naming --hosts.
std::vector<HostSlots> parse_hosts(const std::string& text);

struct LaunchPlan {
  struct Rank {
    std::string host;  // empty: this one
    // RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, MASTER_ADDR, MASTER_PORT, as torchrun sets them. The secret is
    // not among them.
    std::vector<std::pair<std::string, std::string>> variables;
    std::string network_namespace{};  // of this host; empty: ours
    uint32_t number = 0;              // what it is called in output
  };
  std::vector<std::string> program;  // with its arguments
  std::vector<Rank> ranks;
};

struct LaunchRequest {
  std::vector<std::string> program;
  std::vector<HostSlots> hosts;  // none: all ranks on this one
  uint32_t processes = 0;        // 0: as many as the hosts have slots
  uint16_t port = 0;             // MASTER_PORT; the one after it is used, too (banyan/run/join/environment.h)
};

// Hosts are filled in the order given. Throws Error{invalid_input} when they have too few slots.
LaunchPlan plan_launch(const LaunchRequest& request);

using Variables = std::vector<std::pair<std::string, std::string>>;

// A script for sh that becomes this rank in the folder `folder`: it starts the program, and ends it (SIGTERM, five
// seconds later SIGKILL) when its standard input ends, as it does when the connection to us breaks. Its status is that
// of the program. `variables` are set besides those of the rank; they may be secret.
std::string remote_script(const LaunchPlan& plan, const LaunchPlan::Rank& rank, const Variables& variables,
                          const std::string& folder);

// The call of ssh that reads a script of so many bytes from standard input and runs it. Holds no secret.
std::vector<std::string> ssh_command(const std::string& host, size_t script_size);

}  // namespace banyan::app
