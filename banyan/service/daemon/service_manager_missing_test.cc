// What a build without libsystemd says: it is tested in builds with it, too.
#include <stdlib.h>
#include <unistd.h>

#include "banyan/service/daemon/service_manager.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class WithoutSystemd : public ::testing::Test {
 protected:
  ~WithoutSystemd() override {
    for (const char* name : {"LISTEN_FDS", "LISTEN_PID", "NOTIFY_SOCKET"}) unsetenv(name);
  }
  static void hand_over_to(pid_t process) {
    setenv("LISTEN_FDS", "1", 1);
    setenv("LISTEN_PID", std::to_string(process).c_str(), 1);
  }
};

TEST_F(WithoutSystemd, SocketsThatAreHandedOverAreRefused) {
  hand_over_to(getpid());
  EXPECT_THAT(testing::error_of([] { ServiceManager(); }, ErrorCode::unsupported),
              AllOf(HasSubstr("LISTEN_FDS"), HasSubstr("libsystemd-dev")));
}

TEST_F(WithoutSystemd, SocketsOfAnotherProcessAreIgnored) {
  hand_over_to(getppid());
  EXPECT_FALSE(ServiceManager().take_sockets().tenants.is_open());
}

TEST_F(WithoutSystemd, AWarningSaysThatNobodyIsTold) {
  setenv("NOTIFY_SOCKET", "/nowhere", 1);
  ::testing::internal::CaptureStderr();
  const ServiceManager manager;
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), AllOf(HasSubstr("warning:"), HasSubstr("Type=exec")));
  EXPECT_FALSE(manager.patience());
  manager.ready("serving");
}

}  // namespace
}  // namespace banyan::service
