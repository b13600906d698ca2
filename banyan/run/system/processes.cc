#include "banyan/run/system/processes.h"

#include <poll.h>
#include <signal.h>
#include <sys/wait.h>

#include <algorithm>
#include <exception>
#include <new>
#include <optional>

#include "banyan/base/check.h"
#include "banyan/run/system/child.h"
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

// One rank.
class Process {
 public:
  Process(uint32_t rank, const std::function<std::string(uint32_t)>& body)
      : rank_(rank), child_([&] { return report_of(rank, body); }) {}

  int fd() const { return child_.fd(); }
  bool has_ended() const { return ending_.has_value(); }
  // Reads on; to be called when the pipe has something to say.
  void receive() {
    if (child_.read_some()) return;
    // It has exited, or does right now. If SIGCHLD is ignored, its report alone tells how.
    ending_ = child_.process().wait_for_end().value_or(0);
  }

  // What it returned; nothing when it has not ended, or not well.
  std::optional<std::string> result() const {
    if (!ending_ || *ending_ != 0 || child_.text().empty() || child_.text()[0] != kReturned) return {};
    return child_.text().substr(1);
  }
  // What went wrong, when it has ended and not well.
  std::optional<Error> failure() const;

 private:
  uint32_t rank_;
  ReportingChild child_;
  std::optional<int> ending_;  // as waitpid(2) gives it
};

std::optional<Error> Process::failure() const {
  if (!ending_ || result()) return {};
  const std::string& report = child_.text();
  if (WIFSIGNALED(*ending_)) {
    return Error(ErrorCode::peer_lost,
                 name_of(rank_) + " " + format_status(*ending_) +
                     (WTERMSIG(*ending_) == SIGKILL ? "; if nobody killed it, memory may be short" : ""));
  }
  if (report.size() >= 2 && report[0] == kThrew) {
    return Error(static_cast<ErrorCode>(report[1]), report.substr(2)).within(name_of(rank_));
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
      if (!receive_until(deadline)) {
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

  // Receives what processes report; false when it is too late.
  bool receive_until(Clock::time_point deadline) {
    std::vector<pollfd> polled;
    for (const Process& process : processes_) polled.push_back({.fd = process.fd(), .events = POLLIN, .revents = 0});
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) return false;
    const int rc = poll(polled.data(), polled.size(), static_cast<int>(std::min<int64_t>(left, INT32_MAX)));
    if (rc < 0 && errno != EINTR) throw system_error("cannot wait for processes");
    if (rc <= 0) return true;
    for (size_t i = 0; i < polled.size(); ++i) {
      if (polled[i].revents != 0) processes_[i].receive();
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
