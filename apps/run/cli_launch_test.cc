// `banyan run -n 4 -- PROGRAM`: real processes of small shell programs, here and by way of an ssh that only pretends.
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/test_banyan_process.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using ::testing::MatchesRegex;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> sorted(std::vector<std::string> lines) {
  std::sort(lines.begin(), lines.end());
  return lines;
}

Outcome launch(std::vector<std::string> options, const std::string& script) {
  options.insert(options.begin(), "run");
  options.insert(options.end(), {"--", "sh", "-c", script});
  return run_banyan(options);
}

// True as soon as there is such a file.
bool appears(const std::string& path) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (access(path.c_str(), F_OK) != 0) {
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

bool ends(pid_t pid) {
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
  while (kill(pid, 0) == 0) {
    std::ifstream stat("/proc/" + std::to_string(pid) + "/stat");
    std::string text;
    if (!std::getline(stat, text)) continue;                  // it has just gone
    if (text.find(") Z ") != std::string::npos) return true;  // nobody reaps it here, but it has ended
    if (std::chrono::steady_clock::now() > deadline) return false;
    std::this_thread::yield();
  }
  return true;
}

TEST(Launch, TellsEachRankWhoItIs) {
  const Outcome outcome =
      launch({"-n", "3"}, "echo $RANK $WORLD_SIZE $LOCAL_RANK $LOCAL_WORLD_SIZE $MASTER_ADDR ${#BANYAN_SECRET}");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(lines_of(outcome.out),
              UnorderedElementsAre("0 3 0 3 127.0.0.1 32", "1 3 1 3 127.0.0.1 32", "2 3 2 3 127.0.0.1 32"));
  EXPECT_THAT(outcome.err, IsEmpty());
}

TEST(Launch, GivesAllTheSamePortAndSecretAndAnotherJobOthers) {
  const auto told = [] { return lines_of(launch({"-n", "4"}, "echo $MASTER_PORT $BANYAN_SECRET").out); };
  const auto first = told(), second = told();
  ASSERT_EQ(first.size(), 4u);
  EXPECT_EQ(std::count(first.begin(), first.end(), first[0]), 4);
  EXPECT_THAT(first[0], MatchesRegex("[23][0-9]{4} [0-9a-f]{32}"));
  EXPECT_NE(first[0].substr(6), second.at(0).substr(6));
}

TEST(Launch, KeepsASecretThatIsThere) {
  const std::string given = "000102030405060708090a0b0c0d0e0f";
  setenv("BANYAN_SECRET", given.c_str(), 1);
  EXPECT_EQ(launch({"-n", "1"}, "echo $BANYAN_SECRET").out, given + "\n");
  unsetenv("BANYAN_SECRET");
}

// Words that look like our options, or like words of a shell, arrive as they are.
TEST(Launch, LeavesArgumentsAlone) {
  const Outcome outcome =
      run_banyan({"run", "-n", "1", "--", "printf", "<%s>", "--help", "-n", "a b", "$HOME", "--", "*"});
  EXPECT_EQ(outcome.out, "<--help><-n><a b><$HOME><--><*>") << outcome.err;
}

TEST(Launch, PutsTheRankInFrontOfEachLine) {
  const Outcome outcome = launch({"-n", "2", "--prefix"}, "echo one; printf two; echo err >&2");
  EXPECT_EQ(outcome.exit_code, 0);
  EXPECT_THAT(lines_of(outcome.out), UnorderedElementsAre("[0] one", "[0] two", "[1] one", "[1] two"));
  EXPECT_THAT(lines_of(outcome.err), UnorderedElementsAre("[0] err", "[1] err"));
}

TEST(Launch, CarriesMuchOutput) {
  const Outcome outcome = launch({"-n", "2", "--prefix"}, "seq 1 50000");
  EXPECT_EQ(std::count(outcome.out.begin(), outcome.out.end(), '\n'), 100'000);
  EXPECT_THAT(outcome.out, AllOf(HasSubstr("\n[0] 50000\n"), HasSubstr("\n[1] 50000\n")));
}

// Each line stays whole, beside those of the other rank.
TEST(Launch, PutsOneRankInFrontOfALongLine) {
  const Outcome outcome = launch({"-n", "2", "--prefix"},
                                 "echo before; head -c $((3000000 + RANK)) /dev/zero | tr '\\0' x; echo; echo after");
  std::map<std::string, size_t> lines;  // by prefix and first letters
  for (const std::string& line : lines_of(outcome.out)) lines[line.substr(0, 6)] = line.size();
  EXPECT_EQ(
      lines,
      (std::map<std::string, size_t>{
          {"[0] be", 10}, {"[0] xx", 3'000'004}, {"[0] af", 9}, {"[1] be", 10}, {"[1] xx", 3'000'005}, {"[1] af", 9}}));
  EXPECT_EQ(lines_of(outcome.out).size(), 6u);
}

TEST(Launch, NamesTheFirstThatFailedAndEndsTheOthers) {
  const Outcome outcome = launch({"-n", "4"}, "test $RANK = 2 && exit 7; exec sleep 1000");
  EXPECT_EQ(outcome.exit_code, 7);
  EXPECT_EQ(outcome.err, "banyan: rank 2 ended with status 7; the 3 that still ran are ended\n");
  const Outcome killed = launch({"-n", "2"}, "test $RANK = 0 && kill -SEGV $$; exec sleep 1000");
  EXPECT_EQ(killed.exit_code, 128 + SIGSEGV);
  EXPECT_EQ(killed.err, "banyan: rank 0 was ended by signal 11 (Segmentation fault); the 1 that still ran is ended\n");
}

TEST(Launch, LetsTheOthersFinishWhenAskedTo) {
  const TemporaryFolder folder;
  const std::string failed = folder.path("failed");
  ASSERT_EQ(mkfifo(failed.c_str(), 0600), 0);
  // Rank 1 goes on only after rank 0 has closed its end, by ending.
  const Outcome outcome = launch({"-n", "2", "--keep-going"}, "if test $RANK = 0; then exec 3>" + failed +
                                                                  "; exit 5; fi; cat " + failed + "; echo done");
  EXPECT_EQ(outcome.exit_code, 5);
  EXPECT_EQ(outcome.out, "done\n");
  EXPECT_EQ(outcome.err, "banyan: rank 0 ended with status 5\n");
}

// SIGTERM first, so that it can tidy up; SIGKILL for those that will not hear.
TEST(Launch, KillsThoseThatDoNotListen) {
  const TemporaryFolder folder;
  const std::string ready = folder.path("ready");
  for (const char* rank : {"0", "1"}) ASSERT_EQ(mkfifo((ready + rank).c_str(), 0600), 0);
  const std::string live = "echo > " + ready + "$RANK; while :; do sleep 0.1; done;; ";
  const auto began = std::chrono::steady_clock::now();
  const Outcome outcome =
      launch({"-n", "3"}, "case $RANK in 0) trap '' TERM; " + live + "1) trap 'echo tidy; exit 0' TERM; " + live +
                              "2) read x < " + ready + "0; read x < " + ready + "1; exit 1;; esac");
  EXPECT_EQ(outcome.exit_code, 1);
  EXPECT_THAT(lines_of(outcome.out), ::testing::Contains("tidy"));
  const auto took = std::chrono::steady_clock::now() - began;
  EXPECT_GE(took, std::chrono::seconds(5));
  EXPECT_LT(took, std::chrono::seconds(20));
}

TEST(Launch, SaysWhenThereIsNoSuchProgram) {
  const Outcome outcome = run_banyan({"run", "-n", "2", "--", "/no/such/program"});
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_EQ(outcome.err, "banyan: cannot start '/no/such/program': No such file or directory\n");
}

TEST(Launch, RefusesOptionsThatBelongElsewhere) {
  expect_refused({"run", "-n", "2", "--bytes", "4", "--", "true"}, "--bytes: is for a collective");
  expect_refused({"run", "allreduce", "-n", "2", "--", "true"}, "'allreduce' is one word too many");
  expect_refused({"run", "-np", "4", "--", "true"}, "-n: 'p' is not a whole number");
  for (const std::vector<std::string>& words : {{"run", "-n", "2", "./program"},
                                                {"run", "python3", "train.py"},
                                                {"run", "-n", "2", "python3", "-c", "0"},
                                                std::vector<std::string>{"lab", "run", "true"}}) {
    expect_refused(words, "a program and its options go after '--'");
  }
  expect_refused({"run", "allreduce", "--prefix"}, "--prefix: is for a program");
  expect_refused({"run", "-n", "2", "--"}, "no program after '--'");
  expect_refused({"run", "--", "true"}, "Give -n, or --hosts");
  expect_refused({"run"}, "COLLECTIVE is required, or a program");
  expect_refused({"run", "-n", "0", "--", "true"}, "-n");
  expect_refused({"plan", "allgather", "ring:4", "--", "true"}, "only 'banyan run' starts");
}

class LaunchedInBackground : public ::testing::Test {
 protected:
  void start(const std::vector<std::string>& arguments) {
    run::Program program{.words = {BANYAN_BINARY, "run"}};
    program.words.insert(program.words.end(), arguments.begin(), arguments.end());
    launcher_ = run::Child(program);
  }
  int wait() {
    const int status = launcher_.reap();
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  }
  pid_t pid_in(const std::string& name) const { return std::stoi(folder_.read(name)); }

  // Writes its process id into a file named for its rank, at once and whole.
  std::string announce() const {
    const std::string file = folder_.path("rank");
    return "echo $$ > " + file + "$RANK.new; mv " + file + "$RANK.new " + file + "$RANK; ";
  }

  TemporaryFolder folder_;
  run::Child launcher_;
};

TEST_F(LaunchedInBackground, PassesSignalsOn) {
  start({"-n", "2", "--", "sh", "-c",
         "trap 'echo usr1 > " + folder_.path("got") + "$RANK' USR1; trap 'exit 3' TERM; " + announce() +
             "while :; do sleep 0.05; done"});
  for (const char* rank : {"rank0", "rank1"}) ASSERT_TRUE(appears(folder_.path(rank)));
  launcher_.send(SIGUSR1);
  for (const char* got : {"got0", "got1"}) EXPECT_TRUE(appears(folder_.path(got)));
  launcher_.send(SIGTERM);
  EXPECT_EQ(wait(), 128 + SIGTERM);
}

TEST_F(LaunchedInBackground, TakesTheRanksAlongWhenItIsKilled) {
  start({"-n", "2", "--", "sh", "-c", announce() + "exec sleep 1000"});
  for (const char* rank : {"rank0", "rank1"}) ASSERT_TRUE(appears(folder_.path(rank)));
  launcher_.send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(ends(pid_in("rank0")));
  EXPECT_TRUE(ends(pid_in("rank1")));
}

// What a rank has started in the background.
TEST_F(LaunchedInBackground, TakesWhatRanksHaveStartedAlongWhenItIsKilled) {
  start({"-n", "2", "--", "sh", "-c", "sh -c '" + announce() + "exec sleep 1000' & while :; do sleep 0.05; done"});
  for (const char* rank : {"rank0", "rank1"}) ASSERT_TRUE(appears(folder_.path(rank)));
  launcher_.send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(ends(pid_in("rank0")));
  EXPECT_TRUE(ends(pid_in("rank1")));
}

// A program `ssh` in front of all others that writes down how it was called, and runs the command here.
TEST(Launch, LogsSharedMemoryOnlyWhereAHostHasSeveralRanks) {
  const auto log_with = [](const std::string& host) {
    return launch({"-n", "3"}, "exec env BANYAN_LOG=info BANYAN_HOST_ID=" + host +
                                   " $(readlink /proc/$PPID/exe) bench allreduce --sizes 4 --iterations 1")
        .err;
  };
  const std::string alone = log_with("$RANK"), together = log_with("$((RANK / 2))");
  EXPECT_THAT(alone, AllOf(HasSubstr("rank 0 of 3, TCP\n"), Not(HasSubstr("shared memory"))));
  EXPECT_THAT(together,
              AllOf(HasSubstr("rank 0 of 3, TCP, and shared memory on a host\n"),
                    HasSubstr("rank 1 of 3, TCP, and shared memory on a host\n"), HasSubstr("rank 2 of 3, TCP\n")));
}

class LaunchBySsh : public LaunchedInBackground {
 protected:
  LaunchBySsh() {
    const std::string ssh = folder_.write("ssh",
                                          "#!/bin/sh\n"
                                          "echo \"$@\" >> " +
                                              folder_.path("calls") +
                                              "\n"
                                              "test \"$1 $2 $3\" = '-o BatchMode=yes --' || exit 255\n"
                                              "test $4 = down && { echo 'ssh: connect to host down' >&2; exit 255; }\n"
                                              "HOST=$4 exec sh -c \"$5\"\n");
    chmod(ssh.c_str(), 0700);
    path_ = getenv("PATH");
    setenv("PATH", (folder_.path("") + ":" + path_).c_str(), 1);
  }
  ~LaunchBySsh() override { setenv("PATH", path_.c_str(), 1); }

  std::string path_;
};

TEST_F(LaunchBySsh, StartsRanksOnTheirHosts) {
  setenv("BANYAN_LOG", "it's info", 1);
  const Outcome outcome =
      launch({"--hosts", "a,me@b:2"},
             "echo $HOST $RANK $WORLD_SIZE $LOCAL_RANK $MASTER_ADDR ${#BANYAN_SECRET} \"$BANYAN_LOG\"");
  unsetenv("BANYAN_LOG");
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(sorted(lines_of(outcome.out)),
              ElementsAre("a 0 3 0 a 32 it's info", "me@b 1 3 0 a 32 it's info", "me@b 2 3 1 a 32 it's info"));
}

TEST_F(LaunchBySsh, KeepsTheSecretOutOfCommandLines) {
  const std::string hidden = "000102030405060708090a0b0c0d0e0f";
  setenv("BANYAN_SECRET", hidden.c_str(), 1);
  const Outcome outcome = launch({"--hosts", "a"}, "echo $BANYAN_SECRET; tr '\\0' ' ' < /proc/$PPID/cmdline");
  unsetenv("BANYAN_SECRET");
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(outcome.out.find(hidden), 0u);
  EXPECT_EQ(outcome.out.find(hidden, 1), std::string::npos) << outcome.out;
  EXPECT_THAT(folder_.read("calls"), Not(HasSubstr(hidden)));
}

TEST_F(LaunchBySsh, NamesTheHostThatFailed) {
  const Outcome failed = launch({"--hosts", "a,b"}, "test $RANK = 1 && exit 7; exec sleep 1000");
  EXPECT_EQ(failed.exit_code, 7);
  EXPECT_THAT(failed.err, HasSubstr("banyan: rank 1 on b ended with status 7; the 1 that still ran is ended\n"));
  const Outcome down = launch({"--hosts", "a,down"}, "exec sleep 1000");
  EXPECT_EQ(down.exit_code, 255);
  EXPECT_THAT(down.err, HasSubstr("rank 1 on down ended with status 255, or ssh could not connect"));
}

// The program on the far side ends with the connection, as nobody could end it otherwise.
TEST_F(LaunchBySsh, TakesTheRanksAlongWhenItIsKilled) {
  start({"--hosts", "a,b", "--", "sh", "-c", announce() + "exec sleep 1000"});
  for (const char* rank : {"rank0", "rank1"}) ASSERT_TRUE(appears(folder_.path(rank)));
  launcher_.send(SIGKILL);
  EXPECT_EQ(wait(), 128 + SIGKILL);
  EXPECT_TRUE(ends(pid_in("rank0")));
  EXPECT_TRUE(ends(pid_in("rank1")));
}

}  // namespace
}  // namespace banyan::app
