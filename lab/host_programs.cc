#include "lab/host_programs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <optional>
#include <sstream>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"
#include "lab/tool.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;
constexpr std::chrono::milliseconds kLook{10};

struct Words {
  explicit Words(std::vector<std::string> all) : texts(std::move(all)) {
    for (std::string& text : texts) pointers.push_back(text.data());
    pointers.push_back(nullptr);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  std::vector<std::string> texts;
  std::vector<char*> pointers;
};

// Our own variables, and these in place of those of the same names.
Words environment_with(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : variables) entries.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced =
        std::any_of(variables.begin(), variables.end(), [&](const auto& each) { return each.first == name; });
    if (!is_replaced && name != "BANYAN_SECRET_FILE") entries.emplace_back(text);
  }
  return Words(std::move(entries));
}

// In the child, where another thread may hold a lock of the C library: system calls alone.
[[noreturn]] void become(const Words& words, const Words& environment, int nothing, pid_t parent) {
  constexpr int kCannotStart = 127;
  setpgid(0, 0);
  sigset_t none;
  sigemptyset(&none);
  // Then look whether the parent died before: nobody would tell us any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent || sigprocmask(SIG_SETMASK, &none, nullptr) != 0 ||
      dup2(nothing, STDIN_FILENO) < 0 || dup2(STDERR_FILENO, STDOUT_FILENO) < 0) {
    _exit(kCannotStart);
  }
  execvpe(words.pointers[0], words.pointers.data(), environment.pointers.data());
  _exit(kCannotStart);
}

// How it has ended, which it then still can be asked; nothing while it runs.
std::optional<siginfo_t> end_of(pid_t pid) {
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(pid), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid) {
    return std::nullopt;
  }
  return info;
}

std::optional<std::string> failure_of(const std::string& host, pid_t pid) {
  const std::optional<siginfo_t> end = end_of(pid);
  if (!end || (end->si_code == CLD_EXITED && end->si_status == 0)) return std::nullopt;
  return "the program of host '" + host +
         (end->si_code == CLD_EXITED
              ? "' ended with status " + std::to_string(end->si_status)
              : "' was ended by signal " + std::to_string(end->si_status) + " (" + strsignal(end->si_status) + ")");
}

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
  const Words words({"ip", "netns", "exec", lab.namespace_of(host), "sh", "-c", command});
  std::vector<std::pair<std::string, std::string>> variables = lab.host_variables(host);
  variables.emplace_back("BANYAN_SECRET", lab.secret());
  const Words environment = environment_with(variables);
  const run::FileDescriptor nothing(open("/dev/null", O_RDONLY | O_CLOEXEC));
  if (!nothing.is_open()) throw run::system_error("cannot open /dev/null");
  const pid_t parent = getpid(), pid = fork();
  const std::string& name = lab.plan().fabric().name(host);
  if (pid < 0) throw run::system_error("cannot start the program of host '" + name + "'");
  if (pid == 0) become(words, environment, nothing.get(), parent);
  setpgid(pid, pid);  // whoever comes first; fails when it has become the program already, which did it, too
  programs_.push_back({.host = name, .pid = pid});
}

std::vector<std::string> HostPrograms::failures() const {
  std::vector<std::string> lines;
  for (const Program& program : programs_) {
    if (const std::optional<std::string> line = failure_of(program.host, program.pid)) lines.push_back(*line);
  }
  return lines;
}

// They are asked how they ended only after all signals: until then their numbers stand for nobody else.
void HostPrograms::end() {
  const auto any_runs = [&] {
    return std::any_of(programs_.begin(), programs_.end(), [](const Program& each) { return runs(each.pid); });
  };
  for (const Program& program : programs_) kill(-program.pid, SIGTERM);
  const Clock::time_point until = Clock::now() + kGrace;
  while (any_runs() && Clock::now() < until) std::this_thread::sleep_for(kLook);
  for (const Program& program : programs_) {
    kill(-program.pid, SIGKILL);
    while (waitpid(program.pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
  programs_.clear();
}

}  // namespace banyan::lab
