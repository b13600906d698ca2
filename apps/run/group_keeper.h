// GroupKeeper: a process beside the launcher. It ends the processes that ranks have started if the launcher is killed.
//
// The ranks themselves die with the launcher (child.h). Processes that they have started do not, and nobody is left to
// end them: so the keeper, which sees the launcher's end, kills the process groups of the ranks that still ran.
#pragma once

#include <sys/types.h>

#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::app {

class GroupKeeper {
 public:
  // Before threads are made. Throws Error{io}.
  GroupKeeper();
  GroupKeeper(const GroupKeeper&) = delete;
  GroupKeeper& operator=(const GroupKeeper&) = delete;

  void watch(pid_t group) const { send(group); }
  // Its first process was reaped: its number may mean another group soon.
  void forget(pid_t group) const { send(-group); }

 private:
  void send(pid_t what) const;

  run::FileDescriptor socket_;
  run::Child keeper_;  // killed before it can see the socket's end: then it leaves all groups alone
};

}  // namespace banyan::app
