#include "banyan/run/system/thread.h"

#include <pthread.h>
#include <signal.h>

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

}  // namespace banyan::run
