// HostPrograms: a program beside the ranks of each host, such as a daemon, for as long as this object lives.
//
// Each is a shell with a process group of its own, in the network of its host. It reads nothing, and what it prints
// goes to our standard error. The shells die with the thread that made this object. For one thread.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "banyan/run/system/child.h"
#include "lab/lab.h"

namespace banyan::lab {

class HostPrograms {
 public:
  // The time that all must have run before they count as started.
  static constexpr std::chrono::milliseconds kSettled{300};
  // Between SIGTERM and SIGKILL.
  static constexpr std::chrono::seconds kGrace{2};

  // Starts `command` once at each host that has ranks, with Lab::host_variables and the secret, and returns when all
  // have run for kSettled, or have ended with status 0. Throws Error{io} naming the host where it ended otherwise; then
  // none runs any more.
  HostPrograms(const Lab& lab, const std::string& command);
  ~HostPrograms();
  HostPrograms(const HostPrograms&) = delete;
  HostPrograms& operator=(const HostPrograms&) = delete;

  // A line for each that has ended by itself with another status than 0.
  std::vector<std::string> failures() const;

 private:
  struct Program {
    std::string host;
    run::Child shell;
  };
  void start(const Lab& lab, NodeId host, const std::string& command);
  void end();

  std::vector<Program> programs_;
};

}  // namespace banyan::lab
