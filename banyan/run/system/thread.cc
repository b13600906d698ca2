#include "banyan/run/system/thread.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <system_error>
#include <utility>

#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;

 private:
  sigset_t before_;
};

}  // namespace

std::thread start_thread(const char* name, std::function<void()> body) {
  const SignalsBlocked signals;
  try {
    return std::thread([name, body = std::move(body)] {
      pthread_setname_np(pthread_self(), name);
      body();
    });
  } catch (const std::system_error& error) {
    throw system_error(std::string("cannot start the thread '") + name +
                           "' (the limit is that of 'ulimit -u', or of the container or control group)",
                       error.code().value());
  }
}

bool ask_for_time_slice(std::chrono::microseconds slice) {
  // struct sched_attr of the kernel, in the size of Linux 5.3.
  struct Attributes {
    uint32_t size = sizeof(Attributes), policy = 0;
    uint64_t flags = 0;
    int32_t nice = 0;
    uint32_t priority = 0;
    uint64_t runtime = 0, deadline = 0, period = 0;
    uint32_t least_use = 0, most_use = 0;
  } attributes;
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof attributes, 0) != 0) return false;
  attributes.runtime = static_cast<uint64_t>(std::chrono::nanoseconds(slice).count());
  return syscall(SYS_sched_setattr, 0, &attributes, 0) == 0;
}

}  // namespace banyan::run
