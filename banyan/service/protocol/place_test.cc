#include "banyan/service/protocol/place.h"

#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

class Places : public ::testing::Test {
 protected:
  Places() {
    if (const char* const before = std::getenv("XDG_RUNTIME_DIR")) before_ = before;
  }
  ~Places() override {
    if (before_) setenv("XDG_RUNTIME_DIR", before_->c_str(), 1);
    if (!before_) unsetenv("XDG_RUNTIME_DIR");
  }

 private:
  std::optional<std::string> before_;
};

TEST_F(Places, OfAUserAreInHisFolder) {
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  EXPECT_EQ(socket_of_user(), "/run/user/7/banyand.sock");
  unsetenv("XDG_RUNTIME_DIR");
  EXPECT_EQ(socket_of_user(), "/tmp/banyan-service-" + std::to_string(getuid()) + "/banyand.sock");
}

TEST_F(Places, OfOperatorsAreBesideThoseOfTenants) {
  EXPECT_EQ(operator_socket_beside("/run/banyan/banyand.sock"), "/run/banyan/operator.sock");
  EXPECT_EQ(operator_socket_beside("banyand.sock"), "operator.sock");
  EXPECT_EQ(operator_socket_beside("/tmp/a.sock"), "/tmp/a-operator.sock");
  EXPECT_EQ(operator_socket_beside("b"), "b-operator.sock");
}

TEST_F(Places, OfAUserAreNotLookedForWhereOthersMayWrite) {
  if (access(socket_of_host().c_str(), F_OK) == 0) GTEST_SKIP() << "this host has a daemon";
  const testing::TemporaryFolder temporary;
  const std::string& folder = temporary.path();
  setenv("XDG_RUNTIME_DIR", folder.c_str(), 1);
  EXPECT_EQ(found_socket(), folder + "/banyand.sock");
  EXPECT_NO_THROW(make_folder_of(found_socket()));
  ASSERT_EQ(chmod(folder.c_str(), 0777), 0);
  EXPECT_THROW(found_socket(), Error);
  EXPECT_THROW(found_operator_socket(), Error);
  EXPECT_THROW(make_folder_of(socket_of_user()), Error);
  EXPECT_THROW(make_folder_of(folder + "/other.sock"), Error) << "whoever puts another socket there is the daemon";
  ASSERT_EQ(chmod(folder.c_str(), 01777), 0);
  EXPECT_THROW(found_socket(), Error);
  EXPECT_NO_THROW(make_folder_of(folder + "/other.sock"));
}

TEST_F(Places, OfOperatorsAreThoseOfTheHostWhereItHasADaemon) {
  setenv("XDG_RUNTIME_DIR", "/run/user/7", 1);
  const bool has_daemon = access("/run/banyan/operator.sock", F_OK) == 0;
  EXPECT_EQ(found_operator_socket(), has_daemon ? "/run/banyan/operator.sock" : "/run/user/7/operator.sock");
}

}  // namespace
}  // namespace banyan::service
