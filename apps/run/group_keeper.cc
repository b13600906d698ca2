#include "apps/run/group_keeper.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <set>

#include "banyan/run/system/system_error.h"

namespace banyan::app {
namespace {

// In the keeper. Groups come as their numbers, those to forget as negative ones.
[[noreturn]] void keep(int socket) {
  prctl(PR_SET_PDEATHSIG, 0);  // it outlives the launcher
  setsid();                    // signals of the terminal are for the launcher
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  prctl(PR_SET_NAME, "banyan-keeper");
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd) close(fd);
  std::set<pid_t> groups;
  for (;;) {
    pid_t group = 0;
    const ssize_t count = recv(socket, &group, sizeof group, 0);
    if (count < 0 && errno == EINTR) continue;
    if (count != sizeof group) break;
    if (group > 0) {
      groups.insert(group);
    } else {
      groups.erase(-group);
    }
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
  _exit(0);
}

}  // namespace

GroupKeeper::GroupKeeper() {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw run::system_error("cannot make a pair of sockets");
  }
  const run::FileDescriptor reading(ends[0]);
  socket_ = run::FileDescriptor(ends[1]);
  keeper_ = run::Child([&]() -> int {
    socket_.reset();  // or it would keep itself alive
    keep(reading.get());
  });
}

// A keeper that was killed is missed by nobody but what ranks have started.
void GroupKeeper::send(pid_t what) const {
  ssize_t written;
  do {
    written = ::send(socket_.get(), &what, sizeof what, MSG_NOSIGNAL);
  } while (written < 0 && errno == EINTR);
}

}  // namespace banyan::app
