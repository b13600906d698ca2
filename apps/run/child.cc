#include "apps/run/child.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::app {
namespace {

// A line that is longer is cut, so that a program without ends of lines does not take all memory.
constexpr size_t kLongestLine = 16 << 20;
// The size of a pipe, if the system allows it.
constexpr int kLargestInput = 1 << 20;

struct Pipe {
  run::FileDescriptor reading, writing;

  static Pipe make() {
    std::array<int, 2> ends;
    if (pipe2(ends.data(), O_CLOEXEC) != 0) throw run::system_error("cannot make a pipe");
    return {.reading = run::FileDescriptor(ends[0]), .writing = run::FileDescriptor(ends[1])};
  }
};

// The descriptors of the child, made before the fork.
struct Ends {
  int input = -1, output = -1, errors = -1;
  int report = -1;  // an errno goes there when there is no program
  int network = -1;
};

// In the child. Programs that look for their devices in /sys (UCX, for one) must find those of this network, so it is
// mounted anew, for this process and its children alone; control groups are seen as before. False, with errno.
bool enter_network(int network) {
  if (setns(network, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0) return false;
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) return false;
  constexpr const char* kGroups = "/sys/fs/cgroup";
  const run::FileDescriptor groups(open_tree(AT_FDCWD, kGroups, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0) return false;
  return !groups.is_open() || move_mount(groups.get(), "", AT_FDCWD, kGroups, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

// In the child: never returns.
[[noreturn]] void become(const Child::Start& start, const std::vector<char*>& words, const Ends& ends, pid_t parent) {
  const auto give_up = [&](int error) {
    const ssize_t told = write(ends.report, &error, sizeof error);
    _exit(told == sizeof error ? 127 : 126);
  };
  setpgid(0, 0);
  // Then look whether the parent died before: nobody would tell us any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(126);
  if ((ends.input >= 0 && dup2(ends.input, STDIN_FILENO) < 0) ||
      (ends.output >= 0 && dup2(ends.output, STDOUT_FILENO) < 0) ||
      (ends.errors >= 0 && dup2(ends.errors, STDERR_FILENO) < 0)) {
    give_up(errno);
  }
  if (ends.network >= 0 && !enter_network(ends.network)) give_up(errno);
  for (const std::string& name : start.unset) unsetenv(name.c_str());
  for (const auto& [name, value] : start.variables) setenv(name.c_str(), value.c_str(), 1);
  signal(SIGPIPE, SIG_DFL);
  sigprocmask(SIG_SETMASK, &start.signal_mask, nullptr);
  execvp(words[0], words.data());
  give_up(errno);
  _exit(126);
}

void write_input(const run::FileDescriptor& pipe, const std::string& text) {
  // Nobody reads yet, so it must fit.
  int holds = fcntl(pipe.get(), F_GETPIPE_SZ);
  if (holds >= 0 && text.size() > static_cast<size_t>(holds)) holds = fcntl(pipe.get(), F_SETPIPE_SZ, kLargestInput);
  if (holds < 0 || text.size() > static_cast<size_t>(holds)) {
    throw Error(ErrorCode::unsupported, "the arguments of the program are too long for another host");
  }
  const ssize_t written = write(pipe.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) throw run::system_error("cannot write to a pipe");
}

}  // namespace

Child::Child(Start start) {
  CHECK(!start.words.empty());
  std::vector<char*> words;
  for (std::string& word : start.words) words.push_back(word.data());
  words.push_back(nullptr);

  Pipe report = Pipe::make();
  Pipe input, output, errors;
  run::FileDescriptor nothing;
  Ends ends{.report = report.writing.get()};
  if (start.input) {
    input = Pipe::make();
    write_input(input.writing, *start.input);
    ends.input = input.reading.get();
  } else if (!start.reads_our_input) {
    nothing = run::FileDescriptor(open("/dev/null", O_RDONLY | O_CLOEXEC));
    if (!nothing.is_open()) throw run::system_error("cannot open /dev/null");
    ends.input = nothing.get();
  }
  if (start.is_heard) {
    output = Pipe::make();
    errors = Pipe::make();
    ends.output = output.writing.get();
    ends.errors = errors.writing.get();
    for (const run::FileDescriptor* fd : {&output.reading, &errors.reading}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  run::FileDescriptor network;
  if (!start.network_namespace.empty()) {
    network = run::FileDescriptor(open(("/run/netns/" + start.network_namespace).c_str(), O_RDONLY | O_CLOEXEC));
    if (!network.is_open())
      throw run::system_error("cannot open the network namespace '" + start.network_namespace + "'");
    ends.network = network.get();
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) throw run::system_error("cannot start a process");
  if (pid == 0) become(start, words, ends, parent);
  pid_ = pid;
  setpgid(pid, pid);  // whoever comes first; fails when it has become the program already, which did it, too
  input_ = std::move(input.writing);
  output_.fd = std::move(output.reading);
  errors_.fd = std::move(errors.reading);

  report.writing.reset();
  int error = 0;
  ssize_t count;
  do {
    count = read(report.reading.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return;  // it is the program now, which closed its end
  reap();
  throw Error(error == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              "cannot start '" + start.words[0] + "': " + std::strerror(error));
}

Child::~Child() {
  if (!is_running()) return;
  send(SIGKILL);
  reap();
}

bool Child::has_ended() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == pid_;
}

int Child::reap() {
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  CHECK_EQ(reaped, pid_) << "waitpid: " << std::strerror(errno);
  pid_ = -1;
  input_.reset();
  return status;
}

void Child::send(int signal) const {
  if (is_running()) kill(-pid_, signal);
}

void Child::end(int signal) {
  if (input_.is_open()) {
    input_.reset();
  } else {
    send(signal);
  }
}

std::vector<std::string> Child::Stream::read(bool is_last) {
  std::vector<std::string> lines;
  std::array<char, 16 * 1024> buffer;
  // More than a pipe holds. Others want to be heard, too.
  constexpr int kMaxReads = 128;
  for (int i = 0; i < kMaxReads && fd.is_open(); ++i) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      fd.reset();
      break;
    }
    size_t begin = 0, from = rest.size();  // what was there before has no end of a line
    rest.append(buffer.data(), static_cast<size_t>(count));
    for (size_t end; (end = rest.find('\n', from)) != std::string::npos; from = begin = end + 1) {
      lines.push_back(rest.substr(begin, end - begin));
    }
    rest.erase(0, begin);
    if (rest.size() > kLongestLine) lines.push_back(std::exchange(rest, {}));
  }
  if (is_last) fd.reset();  // processes that it left behind may still write
  if (!fd.is_open() && !rest.empty()) lines.push_back(std::exchange(rest, {}));
  return lines;
}

}  // namespace banyan::app
