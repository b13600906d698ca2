// RankProcess: the program of a rank, in a process group of its own. It dies with us.
#pragma once

#include <signal.h>
#include <sys/types.h>

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::app {

class RankProcess {
 public:
  struct Start {
    std::vector<std::string> words;                              // the program, looked for in PATH, and its arguments
    std::vector<std::pair<std::string, std::string>> variables;  // set besides our own
    std::vector<std::string> unset{};                            // of our own
    std::optional<std::string> input{};  // what it reads first; its end comes with that of this object, or end()
    std::string network_namespace{};     // that it runs in, as `ip netns` names it; empty: ours
    bool reads_our_input = false;        // else, and without `input`, it reads nothing
    bool collects_output = false;        // its output and errors come to output_lines() and error_lines()
    sigset_t signal_mask{};
  };

  // Throws Error{not_found} when there is no such program, Error{io}.
  explicit RankProcess(const Start& start);

  bool is_running() const { return child_.is_there(); }  // or not reaped yet
  bool has_ended() const { return child_.has_ended(); }
  // Its process group, while it is running.
  pid_t group() const { return child_.id(); }
  // As waitpid(2) gives it. After has_ended().
  int reap();

  // To its group. Nothing happens when it is not running.
  void send(int signal) const { child_.send(signal); }
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

  run::FileDescriptor input_;
  Stream output_, errors_;
  run::Child child_;
};

}  // namespace banyan::app
