#include "banyan/run/system/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

constexpr int kCannotBegin = 127;

// Texts as programs take them.
class Words {
 public:
  explicit Words(std::vector<std::string> texts) : texts_(std::move(texts)) {
    for (std::string& text : texts_) pointers_.push_back(text.data());
    pointers_.push_back(nullptr);
  }
  Words(const Words&) = delete;
  Words& operator=(const Words&) = delete;
  char* const* pointers() const { return pointers_.data(); }

 private:
  std::vector<std::string> texts_;
  std::vector<char*> pointers_;
};

// Made before the fork, since other threads may hold the lock of our own variables then.
Words environment_of(const Program& program) {
  std::vector<std::string> entries;
  for (const auto& [name, value] : program.variables) entries.push_back(name + "=" + value);
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string_view text = *entry;
    const std::string_view name = text.substr(0, text.find('='));
    const bool is_replaced = std::any_of(program.variables.begin(), program.variables.end(),
                                         [&](const auto& variable) { return variable.first == name; });
    const bool is_unset = std::find(program.unset.begin(), program.unset.end(), name) != program.unset.end();
    if (!is_replaced && !is_unset) entries.emplace_back(text);
  }
  return Words(std::move(entries));
}

// In the child. An errno where it cannot become the program.
int become(const Program& program, const Words& words, const Words& environment, int nothing) {
  if (program.has_own_group) setpgid(0, 0);
  int place = STDIN_FILENO;
  for (const int given : {program.input, program.output, program.errors}) {
    const int fd = given == Program::kNothing ? nothing : given;
    // dup2() to the same number would leave it to be closed as the program begins.
    if (fd >= 0 && (fd == place ? fcntl(fd, F_SETFD, 0) : dup2(fd, place)) < 0) return errno;
    ++place;
  }
  if (program.prepare && !program.prepare()) return errno;
  signal(SIGPIPE, SIG_DFL);
  if (program.signal_mask) sigprocmask(SIG_SETMASK, &*program.signal_mask, nullptr);
  execvpe(words.pointers()[0], words.pointers(), environment.pointers());
  return errno;
}

// Nobody unwinds into the frames of the parent.
[[noreturn]] void live(pid_t parent, const std::function<int()>& body) noexcept {
  // Then look whether the parent died before: nobody would tell us any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(kCannotBegin);
  _exit(body());
}

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

}  // namespace

Pipe Pipe::make() {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("cannot make a pipe");
  return {.reading = FileDescriptor(ends[0]), .writing = FileDescriptor(ends[1])};
}

Child::Child(const std::function<int()>& body) {
  const pid_t parent = getpid();
  id_ = fork();
  if (id_ < 0) throw system_error("cannot start a process");
  if (id_ == 0) live(parent, body);
}

Child::Child(const Program& program) {
  CHECK(!program.words.empty());
  const Words words(program.words), environment = environment_of(program);
  const FileDescriptor nothing(open("/dev/null", O_RDWR | O_CLOEXEC));
  if (!nothing.is_open()) throw system_error("cannot open /dev/null");
  Pipe pipe = Pipe::make();  // an errno comes when there is no program
  *this = Child([&] {
    const int error = become(program, words, environment, nothing.get());
    write_all(pipe.writing.get(), {reinterpret_cast<const char*>(&error), sizeof error});
    return kCannotBegin;
  });
  has_own_group_ = program.has_own_group;
  // Whoever comes first; fails when it has become the program already, which did it, too.
  if (has_own_group_) setpgid(id_, id_);
  pipe.writing.reset();
  int error = 0;
  ssize_t count;
  do {
    count = read(pipe.reading.get(), &error, sizeof error);
  } while (count < 0 && errno == EINTR);
  if (count == 0) return;  // it is the program now, which closed its end
  end();
  throw Error(error == ENOENT ? ErrorCode::not_found : ErrorCode::io,
              "cannot start '" + program.words[0] + "': " + std::strerror(error));
}

std::optional<int> Child::status() const {
  CHECK(is_there()) << "it was reaped";
  siginfo_t info{};
  if (waitid(P_PID, static_cast<id_t>(id_), &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
    CHECK_EQ(errno, ECHILD) << "waitid: " << std::strerror(errno);
    return 0;
  }
  if (info.si_pid != id_) return std::nullopt;
  if (info.si_code == CLD_EXITED) return W_EXITCODE(info.si_status, 0);
  return info.si_status | (info.si_code == CLD_DUMPED ? WCOREFLAG : 0);
}

int Child::reap() {
  if (const std::optional<int> status = wait_for_end()) return *status;
  throw Error(ErrorCode::io,
              "nobody knows how a process ended, since SIGCHLD is ignored: start this program with its default");
}

std::optional<int> Child::wait_for_end() {
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(id_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  CHECK(reaped == id_ || errno == ECHILD) << "waitpid: " << std::strerror(errno);
  id_ = kNone;
  return reaped < 0 ? std::nullopt : std::optional(status);
}

void Child::send(int signal) const {
  if (is_there()) kill(has_own_group_ ? -id_ : id_, signal);
}

void Child::end() {
  if (!is_there()) return;
  send(SIGKILL);
  wait_for_end();
}

ReportingChild::ReportingChild(const std::function<std::string()>& body) {
  Pipe pipe = Pipe::make();
  process_ = Child([&] { return write_all(pipe.writing.get(), body()) ? 0 : 1; });
  reading_ = std::move(pipe.reading);
}

bool ReportingChild::read_some() {
  if (!reading_.is_open()) return false;
  std::array<char, 4096> buffer;
  const ssize_t count = read(reading_.get(), buffer.data(), buffer.size());
  if (count < 0 && errno == EINTR) return true;
  if (count < 0) throw system_error("cannot read what a process reports");
  if (count == 0) reading_.reset();
  text_.append(buffer.data(), static_cast<size_t>(count));
  return reading_.is_open();
}

const std::string& ReportingChild::read_all() {
  while (read_some()) continue;
  return text_;
}

std::string format_status(int status) {
  if (!WIFSIGNALED(status)) return "ended with status " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  return "was ended by signal " + std::to_string(signal) + " (" + strsignal(signal) + ")";
}

}  // namespace banyan::run
