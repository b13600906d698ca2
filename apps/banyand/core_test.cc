// What is in the memory of a daemon stays there when it crashes.
#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <filesystem>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"

namespace banyan::service {
namespace {

TEST(BanyandCore, IsNeverWritten) {
  std::string folder = std::filesystem::temp_directory_path() / "banyan-test-XXXXXX";
  CHECK(mkdtemp(folder.data()) != nullptr) << folder;
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
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace banyan::service
