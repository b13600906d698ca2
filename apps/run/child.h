// Child: a process that runs another program for us, in a process group of its own. It dies with us.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::app {

class Child {
 public:
  struct Start {
    std::vector<std::string> words;                              // the program, looked for in PATH, and its arguments
    std::vector<std::pair<std::string, std::string>> variables;  // set besides our own
    std::vector<std::string> unset{};                            // of our own
    std::optional<std::string> input{};  // what it reads first; its end comes with that of this object, or end()
    std::string network_namespace{};     // that it runs in, as `ip netns` names it; empty: ours
    bool reads_our_input = false;        // else, and without `input`, it reads nothing
    bool is_heard = false;               // its output and errors come to output_lines() and error_lines()
    sigset_t signal_mask{};
  };

  // Throws Error{not_found} when there is no such program, Error{io}.
  explicit Child(Start start);
  // Kills and reaps it, unless it was reaped.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  bool is_running() const { return pid_ > 0; }  // or not reaped yet
  bool has_ended() const;
  // Its process group, while it is running.
  pid_t group() const { return pid_; }
  // As waitpid(2) tells it. After has_ended().
  int reap();

  // To its group. Nothing happens when it is not running.
  void send(int signal) const;
  // Ends its input; where it has none from us (any more), sends the signal.
  void end(int signal);

  // -1 when there is nothing more to come.
  int output_fd() const { return output_.fd.get(); }
  int error_fd() const { return errors_.fd.get(); }
  // Those that have come, without their ends. Never blocks. Once has_ended(), also what has no end, and then no more.
  std::vector<std::string> output_lines() { return output_.read(has_ended()); }
  std::vector<std::string> error_lines() { return errors_.read(has_ended()); }

 private:
  struct Stream {
    run::FileDescriptor fd;
    std::string rest;
    std::vector<std::string> read(bool is_last);
  };

  pid_t pid_ = -1;
  run::FileDescriptor input_;
  Stream output_, errors_;
};

}  // namespace banyan::app
