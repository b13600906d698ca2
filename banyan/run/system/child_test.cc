#include "banyan/run/system/child.h"

#include <poll.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <stdexcept>
#include <thread>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

[[noreturn]] void sleep_for_ever() {
  for (;;) pause();
}

std::string read_all(int fd) {
  std::string text;
  for (char byte; read(fd, &byte, 1) == 1;) text += byte;
  return text;
}

// What a shell prints that is given this script.
std::string printed_by(const std::string& script, Program program = {}) {
  Pipe pipe = Pipe::make();
  program.words = {"sh", "-c", script};
  program.output = pipe.writing.get();
  Child child(program);
  pipe.writing.reset();
  const std::string text = read_all(pipe.reading.get());
  EXPECT_EQ(child.reap(), 0);
  return text;
}

TEST(Child, ExitsWithWhatItsFunctionReturns) {
  Child child([] { return 7; });
  EXPECT_EQ(WEXITSTATUS(child.reap()), 7);
  EXPECT_FALSE(child.is_there());
  EXPECT_TRUE(child.has_ended());
  child.send(SIGKILL);  // to nobody
}

TEST(Child, AbortsWhenItsFunctionThrows) {
  Child child([]() -> int { throw std::logic_error("a bug"); });
  EXPECT_EQ(WTERMSIG(child.reap()), SIGABRT);
}

TEST(Child, HasAStatusThatIsAskedForMoreThanOnce) {
  Child child([]() -> int { sleep_for_ever(); });
  EXPECT_EQ(child.status(), std::nullopt);
  EXPECT_FALSE(child.has_ended());
  child.send(SIGTERM);
  while (!child.has_ended()) std::this_thread::yield();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(format_status(child.status().value()), "was ended by signal 15 (Terminated)");
  EXPECT_EQ(WTERMSIG(child.reap()), SIGTERM);
  EXPECT_EQ(format_status(Child([] { return 3; }).reap()), "ended with status 3");
}

TEST(Child, DoesNotEndWellIfTheKernelHasReapedIt) {
  Child ignoring([] {
    signal(SIGCHLD, SIG_IGN);
    Child failing([] { return 7; });
    const Error error = testing::thrown_by([&] { failing.reap(); });
    const bool is_told = std::string(error.what()).find("SIGCHLD is ignored") != std::string::npos;
    return error.code() == ErrorCode::io && is_told && !failing.is_there() ? 3 : 4;
  });
  EXPECT_EQ(ignoring.reap(), W_EXITCODE(3, 0));
}

TEST(Child, IsKilledAndReapedWithItsObject) {
  Pipe pipe = Pipe::make();
  {
    Child child([&]() -> int { sleep_for_ever(); });
    const Child moved = std::move(child);
    EXPECT_GT(moved.id(), 0);
    pipe.writing.reset();
  }
  EXPECT_EQ(read_all(pipe.reading.get()), "") << "which returns when nobody can write";
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(Child, DiesWithTheThreadThatHasMadeIt) {
  Child child;
  Pipe pipe = Pipe::make();
  std::thread([&] {
    child = Child([&]() -> int {
      if (write(pipe.writing.get(), "x", 1) != 1) return 1;
      sleep_for_ever();
    });
    char byte;
    EXPECT_EQ(read(pipe.reading.get(), &byte, 1), 1);
  }).join();
  EXPECT_EQ(WTERMSIG(child.reap()), SIGKILL);
}

TEST(Child, IsAProgramWithVariables) {
  setenv("BANYAN_CHILD_A", "ours", 1);
  setenv("BANYAN_CHILD_B", "ours", 1);
  setenv("BANYAN_CHILD_C", "ours", 1);
  EXPECT_EQ(printed_by("echo $BANYAN_CHILD_A, $BANYAN_CHILD_B, $BANYAN_CHILD_C",
                       {.words = {}, .variables = {{"BANYAN_CHILD_A", "new"}}, .unset = {"BANYAN_CHILD_B"}}),
            "new, , ours\n");
}

TEST(Child, ReadsAndWritesWhatItWasGiven) {
  EXPECT_EQ(printed_by("cat; echo end", {.words = {}, .input = Program::kNothing}), "end\n");
  EXPECT_EQ(printed_by("echo lost >&2; echo kept", {.words = {}, .errors = Program::kNothing}), "kept\n");
}

// A descriptor may be at its place before: this process was started without an input.
TEST(Child, ReadsWhatStandsAtItsPlaceAlready) {
  Child without_input([] {
    close(STDIN_FILENO);
    const FileDescriptor input(memfd_create("input", MFD_CLOEXEC));
    if (input.get() != STDIN_FILENO || write(input.get(), "text\n", 5) != 5) return 10;
    if (lseek(input.get(), 0, SEEK_SET) != 0) return 11;
    return printed_by("cat", {.words = {}, .input = input.get()}) == "text\n" ? 3 : 4;
  });
  EXPECT_EQ(without_input.reap(), W_EXITCODE(3, 0));
}

TEST(Child, TakesItsGroupAlong) {
  Pipe pipe = Pipe::make();
  {
    const Child shell(
        {.words = {"sh", "-c", "sleep 1000 & echo begun; wait"}, .output = pipe.writing.get(), .has_own_group = true});
    pipe.writing.reset();
    char byte;
    EXPECT_EQ(read(pipe.reading.get(), &byte, 1), 1);
    EXPECT_EQ(getpgid(shell.id()), shell.id());
  }
  EXPECT_EQ(read_all(pipe.reading.get()), "egun\n") << "which returns when nobody of the group can write";
}

TEST(Child, HasASignalMask) {
  sigset_t mask;
  sigemptyset(&mask);
  sigaddset(&mask, SIGTERM);
  EXPECT_EQ(printed_by("kill -TERM $$; echo lives", {.words = {}, .signal_mask = mask}), "lives\n");
}

TEST(Child, SaysWhyItCannotBecomeAProgram) {
  const Error missing = testing::thrown_by([] { Child({.words = {"no-such-program"}}); });
  EXPECT_EQ(missing.code(), ErrorCode::not_found);
  EXPECT_THAT(missing.what(), HasSubstr("cannot start 'no-such-program': No such file or directory"));
  const Error refused = testing::thrown_by([] {
    Child({.words = {"true"}, .prepare = [] {
             errno = EPERM;
             return false;
           }});
  });
  EXPECT_EQ(refused.code(), ErrorCode::io);
  EXPECT_THAT(refused.what(), HasSubstr("cannot start 'true': Operation not permitted"));
  EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a child was left behind";
}

TEST(ReportingChild, GivesBackMoreThanAPipeHolds) {
  ReportingChild child([] { return std::string(1'000'000, 'x'); });
  EXPECT_EQ(child.read_all(), std::string(1'000'000, 'x'));
  EXPECT_LT(child.fd(), 0);
  EXPECT_EQ(child.process().reap(), 0);
}

TEST(ReportingChild, GivesBackWhatCameBeforeItWasKilled) {
  ReportingChild child([]() -> std::string {
    raise(SIGKILL);
    return "never";
  });
  pollfd polled{.fd = child.fd(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&polled, 1, -1), 1);
  EXPECT_EQ(child.read_all(), "");
  EXPECT_EQ(WTERMSIG(child.process().reap()), SIGKILL);
}

}  // namespace
}  // namespace banyan::run
