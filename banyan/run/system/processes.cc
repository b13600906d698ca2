#include "banyan/run/system/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <exception>
#include <new>
#include <optional>
#include <string_view>

#include "banyan/base/check.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using Clock = std::chrono::steady_clock;

// How long the report of a rank that lost a peer waits for what became of that peer.
constexpr std::chrono::milliseconds kGrace{500};

// A report is what a process writes before it exits: kReturned and what the body returned, or kThrew, the error's code
// and its message. Without a whole one it has died.
constexpr char kReturned = 'r', kThrew = 'e';

std::string name_of(uint32_t rank) { return "rank " + std::to_string(rank); }

bool write_all(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(fd, text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

std::string report_of(uint32_t rank, const std::function<std::string(uint32_t)>& body) {
  const auto threw = [](const Error& error) {
    return std::string{kThrew, static_cast<char>(error.code())} + error.message();
  };
  try {
    return kReturned + body(rank);
  } catch (const Error& error) {
    return threw(error);
  } catch (const std::bad_alloc&) {
    return threw(Error(ErrorCode::io, "there is not enough memory"));
  } catch (const std::exception& bug) {
    CHECK(false) << name_of(rank) << " threw " << bug.what();
    return "";
  }
}

// One forked process, as its parent sees it. Ends it when it goes.
class Process {
 public:
  Process(uint32_t rank, const std::function<std::string(uint32_t)>& body);
  Process(Process&& other) noexcept = default;
  Process& operator=(Process&&) = delete;
  ~Process() {
    if (!pipe_.is_open()) return;  // reaped, or moved from
    kill(pid_, SIGKILL);
    reap();
  }

  int fd() const { return pipe_.get(); }
  bool has_ended() const { return ending_.has_value(); }
  // Reads on; to be called when the pipe has something to say.
  void listen();

  // What it returned; nothing when it has not ended, or not well.
  std::optional<std::string> result() const {
    if (!ending_ || *ending_ != 0 || report_.empty() || report_[0] != kReturned) return {};
    return report_.substr(1);
  }
  // What went wrong, when it has ended and not well.
  std::optional<Error> failure() const;

 private:
  [[noreturn]] static void live(uint32_t rank, pid_t parent, int pipe,
                                const std::function<std::string(uint32_t)>& body) noexcept;
  void reap();

  uint32_t rank_;
  pid_t pid_ = -1;
  FileDescriptor pipe_;  // open until the process is reaped
  std::string report_;
  std::optional<int> ending_;  // as waitpid(2) tells it
};

Process::Process(uint32_t rank, const std::function<std::string(uint32_t)>& body) : rank_(rank) {
  std::array<int, 2> ends;
  if (pipe2(ends.data(), O_CLOEXEC) != 0) throw system_error("cannot make a pipe");
  pipe_ = FileDescriptor(ends[0]);
  FileDescriptor writing(ends[1]);
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ < 0) {
    const int error = errno;
    pipe_.reset();
    throw system_error("cannot start a process for " + name_of(rank), error);
  }
  if (pid_ == 0) live(rank, parent, writing.get(), body);
}

void Process::live(uint32_t rank, pid_t parent, int pipe, const std::function<std::string(uint32_t)>& body) noexcept {
  // Then look whether the parent died before: nobody would tell us any more.
  if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent) _exit(1);
  // noexcept: nothing may unwind into the frames of the parent. A report that nobody reads is no success.
  _exit(write_all(pipe, report_of(rank, body)) ? 0 : 1);
}

void Process::listen() {
  std::array<char, 4096> buffer;
  const ssize_t count = read(pipe_.get(), buffer.data(), buffer.size());
  if (count < 0) {
    if (errno == EINTR) return;
    throw system_error("cannot hear from " + name_of(rank_));
  }
  if (count > 0) {
    report_.append(buffer.data(), static_cast<size_t>(count));
  } else {
    reap();  // only this process can write to the pipe, so it has exited, or does right now
  }
}

void Process::reap() {
  int status = 0;
  pid_t reaped;
  do {
    reaped = waitpid(pid_, &status, 0);
  } while (reaped < 0 && errno == EINTR);
  // Someone who ignores SIGCHLD has its children reaped by the kernel; then the report alone has to do.
  CHECK(reaped == pid_ || errno == ECHILD) << "waitpid: " << std::strerror(errno);
  ending_ = status;
  pipe_.reset();
}

std::optional<Error> Process::failure() const {
  if (!ending_ || result()) return {};
  if (WIFSIGNALED(*ending_)) {
    const int signal = WTERMSIG(*ending_);
    return Error(ErrorCode::peer_lost, name_of(rank_) + " was ended by signal " + std::to_string(signal) + " (" +
                                           strsignal(signal) + ")" +
                                           (signal == SIGKILL ? "; if nobody killed it, memory may be short" : ""));
  }
  if (report_.size() >= 2 && report_[0] == kThrew) {
    return Error(static_cast<ErrorCode>(report_[1]), report_.substr(2)).within(name_of(rank_));
  }
  return Error(ErrorCode::peer_lost,
               name_of(rank_) + " ended without a report, with status " + std::to_string(WEXITSTATUS(*ending_)));
}

class ProcessGroup {
 public:
  ProcessGroup(uint32_t count, const std::function<std::string(uint32_t)>& body) {
    processes_.reserve(count);
    for (uint32_t rank = 0; rank < count; ++rank) processes_.emplace_back(rank, body);
  }

  std::vector<std::string> join(Clock::time_point deadline) {
    std::optional<Error> suspicion;  // of a rank that noticed another's loss
    while (running() > 0) {
      if (!listen_until(deadline)) {
        if (suspicion) throw *suspicion;
        throw Error(ErrorCode::timed_out, "the time was over before " + unfinished() + " had finished");
      }
      for (const Process& process : processes_) {
        const std::optional<Error> failure = process.failure();
        if (!failure) continue;
        if (failure->code() != ErrorCode::peer_lost || failure->where().empty()) throw *failure;
        if (!suspicion) deadline = std::min(deadline, Clock::now() + kGrace);
        suspicion = suspicion ? suspicion : failure;
      }
    }
    if (suspicion) throw *suspicion;
    std::vector<std::string> results;
    for (const Process& process : processes_) results.push_back(*process.result());
    return results;
  }

 private:
  size_t running() const {
    return static_cast<size_t>(
        std::count_if(processes_.begin(), processes_.end(), [](const Process& p) { return !p.has_ended(); }));
  }

  std::string unfinished() const {
    constexpr size_t kNamed = 8;
    std::string names;
    size_t named = 0;
    for (uint32_t rank = 0; rank < processes_.size() && named < kNamed; ++rank) {
      if (!processes_[rank].has_ended()) names += (named++ == 0 ? "rank " : ", ") + std::to_string(rank);
    }
    return names + (running() > named ? " and " + std::to_string(running() - named) + " more" : "");
  }

  // Hears what processes say; false when it is too late.
  bool listen_until(Clock::time_point deadline) {
    std::vector<pollfd> polled;
    for (const Process& process : processes_) polled.push_back({.fd = process.fd(), .events = POLLIN, .revents = 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int rc = poll(polled.data(), polled.size(), static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for processes");
    if (rc <= 0) return true;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) processes_[i].listen();
    }
    return true;
  }

  std::vector<Process> processes_;  // by rank; those that have ended have no descriptor, which poll ignores
};

}  // namespace

std::vector<std::string> run_processes(uint32_t count, std::chrono::milliseconds timeout,
                                       const std::function<std::string(uint32_t)>& body) {
  constexpr std::chrono::milliseconds kForever = std::chrono::hours(24 * 365);  // such that no sum overflows
  return ProcessGroup(count, body).join(Clock::now() + std::min(timeout, kForever));
}

}  // namespace banyan::run
