#include "lab/host_programs.h"

#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <sstream>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/base/file.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{10};

// Whether a process of the group runs still; one that has ended and was not asked how does not.
bool runs(pid_t group) {
  std::error_code failure;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", failure)) {
    const std::string name = entry.path().filename();
    if (std::isdigit(static_cast<unsigned char>(name[0])) == 0) continue;
    try {
      // "pid (name) state parent group", where the name may hold anything.
      const std::string line = read_file(entry.path() / "stat");
      std::istringstream fields(line.substr(std::min(line.rfind(')') + 1, line.size())));
      char state = 0;
      pid_t parent = 0, its_group = 0;
      if (fields >> state >> parent >> its_group && its_group == group && state != 'Z' && state != 'X') return true;
    } catch (const Error&) {  // it has just ended
    }
  }
  return false;
}

}  // namespace

HostPrograms::HostPrograms(const Lab& lab, const std::string& command) {
  try {
    for (const NodeId host : lab.plan().fabric().ranks()) start(lab, host, command);
    for (const Clock::time_point end = Clock::now() + kSettled; Clock::now() < end;
         std::this_thread::sleep_for(kLook)) {
      if (const std::vector<std::string> lines = failures(); !lines.empty()) throw Error(ErrorCode::io, lines.front());
    }
  } catch (...) {
    end();
    throw;
  }
}

HostPrograms::~HostPrograms() { end(); }

void HostPrograms::start(const Lab& lab, NodeId host, const std::string& command) {
  // This tool shows the program the interfaces of its host in /sys, too.
  run::Program program{.words = {"ip", "netns", "exec", lab.namespace_of(host), "sh", "-c", command},
                       .variables = lab.host_variables(host),
                       .unset = {"BANYAN_SECRET_FILE"},
                       .input = run::Program::kNothing,
                       .output = STDERR_FILENO,
                       .has_own_group = true,
                       .signal_mask = sigset_t{}};
  program.variables.emplace_back("BANYAN_SECRET", lab.secret());
  programs_.push_back({.host = lab.plan().fabric().name(host), .shell = run::Child(program)});
}

std::vector<std::string> HostPrograms::failures() const {
  std::vector<std::string> lines;
  for (const Program& program : programs_) {
    const int status = program.shell.status().value_or(0);
    if (status != 0) lines.push_back("the program of host '" + program.host + "' " + run::format_status(status));
  }
  return lines;
}

// They are reaped only after all signals: until then their numbers stand for nobody else.
void HostPrograms::end() {
  const auto any_runs = [&] {
    return std::any_of(programs_.begin(), programs_.end(), [](const Program& each) { return runs(each.shell.id()); });
  };
  for (const Program& program : programs_) program.shell.send(SIGTERM);
  const Clock::time_point until = Clock::now() + kGrace;
  while (any_runs() && Clock::now() < until) std::this_thread::sleep_for(kLook);
  programs_.clear();
}

}  // namespace banyan::lab
