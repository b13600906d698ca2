#include "apps/run/launch_plan.h"

#include <algorithm>

#include "apps/command.h"

namespace banyan::app {
namespace {

constexpr uint32_t kMaxSlots = 4096;

// As one word of a shell.
std::string quoted(const std::string& text) {
  std::string word = "'";
  for (const char c : text) {
    word += c == '\'' ? "'\\''" : std::string(1, c);
  }
  return word + "'";
}

std::string exports(const Variables& variables) {
  std::string lines;
  for (const auto& [name, value] : variables) lines += "export " + name + "=" + quoted(value) + "\n";
  return lines;
}

}  // namespace

std::vector<HostSlots> parse_hosts(const std::string& text) {
  std::vector<HostSlots> hosts;
  if (text.empty()) return hosts;
  for (const std::string& piece : split_list(text, "--hosts")) {
    HostSlots host{.name = piece};
    if (const size_t colon = piece.rfind(':'); colon != std::string::npos) {
      host.name = piece.substr(0, colon);
      host.slots = static_cast<uint32_t>(parse_count(piece.substr(colon + 1), "--hosts", {.most = kMaxSlots}));
    }
    // ssh would take such a name for an option.
    if (host.name.empty() || host.name.starts_with('-')) {
      throw Error(ErrorCode::invalid_input, "'" + piece + "' is no host; write node7 or node7:2", "--hosts");
    }
    hosts.push_back(std::move(host));
  }
  return hosts;
}

LaunchPlan plan_launch(const LaunchRequest& request) {
  const bool is_local = request.hosts.empty();
  std::vector<HostSlots> hosts = request.hosts;
  if (is_local) hosts.push_back({.name = "", .slots = request.processes});
  uint64_t slots = 0;
  for (const HostSlots& host : hosts) slots += host.slots;
  const uint32_t size = request.processes == 0 ? static_cast<uint32_t>(slots) : request.processes;
  if (size > slots) {
    throw Error(ErrorCode::invalid_input,
                std::to_string(size) + " processes, but the hosts have room for " + std::to_string(slots) +
                    "; write node7:2 for a host that takes two",
                "-n");
  }
  std::string master = hosts.front().name.substr(hosts.front().name.find('@') + 1);  // without the user, if any
  if (is_local) master = "127.0.0.1";

  LaunchPlan plan{.program = request.program, .ranks = {}};
  for (const HostSlots& host : hosts) {
    const auto first = static_cast<uint32_t>(plan.ranks.size());
    const uint32_t here = std::min(host.slots, size - first);
    for (uint32_t local = 0; local < here; ++local) {
      Variables variables = {{"RANK", std::to_string(first + local)},
                             {"WORLD_SIZE", std::to_string(size)},
                             {"LOCAL_RANK", std::to_string(local)},
                             {"LOCAL_WORLD_SIZE", std::to_string(here)},
                             {"MASTER_ADDR", master},
                             {"MASTER_PORT", std::to_string(request.port)}};
      plan.ranks.push_back({.host = host.name, .variables = std::move(variables), .number = first + local});
    }
  }
  return plan;
}

std::string remote_script(const LaunchPlan& plan, const LaunchPlan::Rank& rank, const Variables& variables,
                          const std::string& folder) {
  std::string script = "cd " + quoted(folder) + " || exit 126\n" + exports(variables) + exports(rank.variables);
  script += "exec 3<&0\n";
  for (const std::string& word : plan.program) script += quoted(word) + " ";
  // `cat` ends with the connection. `wait` is left early by a trapped signal, so it is asked again.
  return script +
         "</dev/null 3<&- &\n"
         "program=$!\n"
         "(cat; kill -TERM $program; sleep 5; kill -KILL $program) <&3 3<&- >/dev/null 2>&1 &\n"
         "watch=$!\n"
         "exec 3<&- </dev/null\n"
         "trap 'kill -TERM $program' TERM HUP INT\n"
         "wait $program\n"
         "status=$?\n"
         "while kill -0 $program 2>/dev/null; do wait $program; status=$?; done\n"
         "kill $watch 2>/dev/null\n"
         "exit $status\n";
}

std::vector<std::string> ssh_command(const std::string& host, size_t script_size) {
  // BatchMode: a question for a password would never be seen. The far side reads just the script, so that what follows
  // on its standard input, which is nothing but its end, is left to the script.
  return {"ssh", "-o", "BatchMode=yes",
          "--",  host, "exec sh -c 'script=$(head -c " + std::to_string(script_size) + ") && eval \"$script\"'"};
}

}  // namespace banyan::app
