// What is in the memory of a daemon stays there when it crashes.
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "apps/banyand/test_banyand.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(BanyandCore, IsNeverWritten) {
  const testing::TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(folder);  // where the kernel would put it
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &limit), 0);
  const rlimit allowed{.rlim_cur = limit.rlim_max, .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &allowed), 0);
  {
    const BanyandProcess daemon({.socket = folder + "/socket", .world = "file://" + folder + "/world", .host = "a"});
    kill(daemon.id(), SIGABRT);
    siginfo_t end{};
    ASSERT_EQ(waitid(P_PID, static_cast<id_t>(daemon.id()), &end, WEXITED | WNOWAIT), 0);
    EXPECT_EQ(end.si_status, SIGABRT);
    EXPECT_EQ(end.si_code, CLD_KILLED) << "not CLD_DUMPED";
  }
  ASSERT_EQ(setrlimit(RLIMIT_CORE, &limit), 0);
  std::filesystem::current_path(before);
}

// Its file is a pipe here, for whose writer it waits.
TEST(BanyandCore, IsForgoneBeforeTheSecretIsRead) {
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_CORE, &limit), 0);
  if (limit.rlim_max == 0) GTEST_SKIP() << "no process here may leave a core";
  const testing::TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  const std::string secret = folder + "/secret", socket = folder + "/socket";
  ASSERT_EQ(mkfifo(secret.c_str(), 0600), 0);
  run::Child daemon({.words = {BANYAND_BINARY, "--socket", socket, "--secret-file", secret}});
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  rlimit its{};
  do {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    ASSERT_EQ(prlimit(daemon.id(), RLIMIT_CORE, nullptr, &its), 0);
  } while (its.rlim_max > 0 && std::chrono::steady_clock::now() < deadline);
  EXPECT_EQ(its.rlim_max, 0u);
  daemon.end();
}

}  // namespace
}  // namespace banyan::service
