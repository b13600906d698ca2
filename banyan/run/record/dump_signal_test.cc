#include "banyan/run/record/dump_signal.h"

#include <sys/wait.h>
#include <unistd.h>

#include <future>

#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// In a process of its own, since a process answers one signal for ever.
int exit_code_of(const std::function<int()>& body) {
  const int status = Child([&] {
                       alarm(20);
                       return body();
                     }).reap();
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

// 7 when all who listen have been called.
int listen_to(int signal) {
  start_dump_signal(signal);
  std::promise<void> first, second;
  const DumpRegistration one = on_dump_signal([&] { first.set_value(); });
  const DumpRegistration two = on_dump_signal([&] { second.set_value(); });
  kill(getpid(), signal);
  first.get_future().wait();
  second.get_future().wait();
  return 7;
}

TEST(DumpSignal, CallsAllWhoListenOnAThreadOfItsOwn) {
  EXPECT_EQ(exit_code_of([] { return listen_to(SIGUSR1); }), 7);
  EXPECT_EQ(exit_code_of([] { return listen_to(SIGUSR2); }), 7);
}

TEST(DumpSignal, IsAnsweredByForkedProcessesThatStartItAnew) {
  const auto in_child = [] { return listen_to(SIGUSR1); };
  const auto body = [&] { return listen_to(SIGUSR1) == 7 ? exit_code_of(in_child) : 1; };
  EXPECT_EQ(exit_code_of(body), 7);
}

volatile sig_atomic_t handled = 0;

TEST(DumpSignal, LeavesAHandlerOfTheProgramAlone) {
  const auto body = [] {
    signal(SIGUSR1, [](int) { handled = 1; });
    start_dump_signal(SIGUSR1);
    kill(getpid(), SIGUSR1);
    return handled == 1 ? 7 : 1;
  };
  EXPECT_EQ(exit_code_of(body), 7);
}

TEST(DumpSignal, DoesNothingAfterTheEndOfARegistration) {
  const auto body = [] {
    start_dump_signal(SIGUSR1);
    bool was_called = false;
    {
      const DumpRegistration gone = on_dump_signal([&] { was_called = true; });
    }
    std::promise<void> done;
    const DumpRegistration stays = on_dump_signal([&] { done.set_value(); });
    kill(getpid(), SIGUSR1);
    done.get_future().wait();
    return was_called ? 1 : 7;
  };
  EXPECT_EQ(exit_code_of(body), 7);
}

TEST(DumpSignal, IsNamedByTheEnvironment) {
  unsetenv("BANYAN_DUMP_SIGNAL");
  EXPECT_EQ(dump_signal_from_environment(), SIGUSR1);
  setenv("BANYAN_DUMP_SIGNAL", "SIGUSR2", 1);
  EXPECT_EQ(dump_signal_from_environment(), SIGUSR2);
  setenv("BANYAN_DUMP_SIGNAL", "none", 1);
  EXPECT_EQ(dump_signal_from_environment(), std::nullopt);
  setenv("BANYAN_DUMP_SIGNAL", "HUP", 1);
  EXPECT_THROW(dump_signal_from_environment(), Error);
  unsetenv("BANYAN_DUMP_SIGNAL");
}

}  // namespace
}  // namespace banyan::run
