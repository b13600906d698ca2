// Child: a process of ours. It carries out a function of this program, or it is another program.
//
// A child is killed when the thread that has made it ends, and killed and reaped when its object goes.
//
// One thread for each. Children are made while no other thread has a lock that their functions may want, since a fork
// copies no other thread and keeps their locks. Other programs may be started at any time.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// Another program, and what it gets from us.
struct Program {
  static constexpr int kOurs = -1, kNothing = -2;  // in place of a descriptor; kNothing: /dev/null

  std::vector<std::string> words;  // the program, looked for in PATH if it has no slash, and its arguments
  std::vector<std::pair<std::string, std::string>> variables{};  // set besides our own
  std::vector<std::string> unset{};                              // names of our own that it does not get
  int input = kOurs, output = kOurs, errors = kOurs;             // the descriptors that it reads and writes
  bool has_own_group = false;                                    // a process group, which gets the signals, too
  std::optional<sigset_t> signal_mask{};                         // else it is ours
  // The last step before the program begins; false, with errno, when it cannot. For system calls alone, since other
  // threads may hold locks of the C library.
  std::function<bool()> prepare{};
};

class Child {
 public:
  Child() = default;  // none, as after reap()
  // Runs body() in a process that is forked from this one, and which exits with the status that it returns. An
  // exception ends the process by SIGABRT. Destructors of objects from before the call do not run there. Throws
  // Error{io} if there can be no more processes.
  explicit Child(const std::function<int()>& body);
  // Returns when the program has begun. Throws Error{not_found} if there is no such program, Error{io}.
  explicit Child(const Program& program);
  ~Child() { end(); }
  Child(Child&& other) noexcept
      : id_(std::exchange(other.id_, kNone)), has_own_group_(std::exchange(other.has_own_group_, false)) {}
  Child& operator=(Child&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(has_own_group_, other.has_own_group_);
    return *this;
  }

  // -1 if there is none. Never send a signal to that: kill(-1) reaches all processes of the machine.
  pid_t id() const { return id_; }
  // True until it was reaped.
  bool is_there() const { return id_ != kNone; }
  // Nothing while it runs; then its status, as waitpid(2) gives it. Its id means nobody else until it is reaped. A
  // process whose children are reaped by the kernel (SIGCHLD is ignored) learns that they have ended, and no more: 0.
  std::optional<int> status() const;
  bool has_ended() const { return !is_there() || status().has_value(); }
  // Waits for its end. Returns its status, and then there is none any more. Throws Error{io} if the kernel has reaped
  // it, since SIGCHLD is ignored here.
  int reap();
  // The same, for callers that know how it ended by what it has written: nothing if the kernel has reaped it.
  std::optional<int> wait_for_end();
  // To its group, if it has its own. Nothing happens to a child that was reaped.
  void send(int signal) const;
  // Kills it by SIGKILL, and reaps it.
  void end();

 private:
  static constexpr pid_t kNone = -1;

  pid_t id_ = kNone;
  bool has_own_group_ = false;
};

// A child that gives back a text.
class ReportingChild {
 public:
  // Runs body() as Child does. The status is 0 once the text was handed over.
  explicit ReportingChild(const std::function<std::string()>& body);

  // To be polled; -1 once the text has ended, which is when nobody can write to it any more.
  int fd() const { return reading_.get(); }
  // Takes what has come, and waits if there is nothing. False when the text has ended. Throws Error{io}.
  bool read_some();
  // Waits for the whole text, or for what was written until the child was killed.
  const std::string& read_all();
  // As far as it was read.
  const std::string& text() const { return text_; }
  Child& process() { return process_; }

 private:
  FileDescriptor reading_;
  Child process_;
  std::string text_;
};

// "was ended by signal 11 (Segmentation fault)", "ended with status 3".
std::string format_status(int status);

// The two ends of a pipe, which are closed in other programs. Throws Error{io}.
struct Pipe {
  FileDescriptor reading, writing;
  static Pipe make();
};

}  // namespace banyan::run
