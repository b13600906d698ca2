#include "banyan/run/system/socket_owner.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "banyan/base/check.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

constexpr uid_t kStranger = 65'533;

bool never() { return false; }

class SocketOwners : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  SocketOwners() { CHECK(chmod(folder_.c_str(), 0755) == 0) << folder_; }

  std::string socket() const { return folder_ + "/a.sock"; }
  FileDescriptor bound() const {
    FileDescriptor bound(::socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::strncpy(address.sun_path, socket().c_str(), sizeof address.sun_path - 1);
    CHECK(bind(bound.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) << socket();
    return bound;
  }
  // Who listens is who has called listen(): here a child that is another user.
  static void listen_as(uid_t user, const FileDescriptor& socket) {
    CHECK_EQ(Child([&] { return setuid(user) == 0 && listen(socket.get(), 5) == 0 ? 0 : 1; }).reap(), 0);
  }
  // "no error" where it may be called, else why not.
  std::string refusal() const {
    return testing::error_of([&] { call_trusted(socket(), SOCK_SEQPACKET, never); }, ErrorCode::invalid_usage);
  }
};

TEST_F(SocketOwners, AreBelievedWhereTheyAreThisUser) {
  const FileDescriptor listener = bound();
  ASSERT_EQ(listen(listener.get(), 5), 0);
  const FileDescriptor caller = call_trusted(socket(), SOCK_SEQPACKET, never, 4096);
  const FileDescriptor met(accept(listener.get(), nullptr, nullptr));
  ASSERT_EQ(send(caller.get(), "hello", 5, 0), 5);
  char heard[6] = {};
  EXPECT_EQ(recv(met.get(), heard, 5, 0), 5);
  EXPECT_STREQ(heard, "hello");
}

TEST_F(SocketOwners, AreNamedWhereTheyAreStrangers) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  const FileDescriptor listener = bound();
  listen_as(kStranger, listener);
  EXPECT_THAT(refusal(),
              AllOf(HasSubstr("user 65533 listens at " + socket()), HasSubstr("neither root nor this user")));
}

TEST_F(SocketOwners, AreBelievedWhereRootAloneCanHavePutTheirSocketThere) {
  if (geteuid() != 0) GTEST_SKIP() << "needs root, to be somebody else";
  const FileDescriptor listener = bound();
  listen_as(kStranger, listener);
  ASSERT_EQ(chown(socket().c_str(), kStranger, kStranger), 0);
  EXPECT_EQ(refusal(), "no error");
  for (const mode_t mode : {0775, 0757, 01777}) {
    ASSERT_EQ(chmod(folder_.c_str(), mode), 0);
    EXPECT_THAT(refusal(), HasSubstr("user 65533 listens")) << "mode " << std::oct << mode;
  }
  ASSERT_EQ(chmod(folder_.c_str(), 0755), 0);
  ASSERT_EQ(chown(folder_.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(refusal(), HasSubstr("user 65533 listens")) << "its folder is its own, but not in /run";
}

TEST_F(SocketOwners, AreLookedForWhereNobodyListens) {
  const auto code = [&](const std::string& path) {
    try {
      call_trusted(path, SOCK_SEQPACKET, never);
    } catch (const Error& error) {
      return error.code();
    }
    return ErrorCode::aborted;
  };
  EXPECT_EQ(code(socket()), ErrorCode::not_found);
  EXPECT_EQ(code(folder_ + "/none/a.sock"), ErrorCode::not_found);
  EXPECT_EQ(code(""), ErrorCode::invalid_input);
  EXPECT_EQ(code(folder_ + "/"), ErrorCode::invalid_input);
  EXPECT_EQ(code("/" + std::string(200, 'x')), ErrorCode::invalid_input);
  const FileDescriptor listener = bound();  // and does not listen
  EXPECT_EQ(code(socket()), ErrorCode::not_found);
}

TEST_F(SocketOwners, WaitWhileTooManyCall) {
  const FileDescriptor listener = bound();
  ASSERT_EQ(listen(listener.get(), 0), 0);
  const FileDescriptor first = call_trusted(socket(), SOCK_SEQPACKET, never);
  int waits = 0;
  try {
    call_trusted(socket(), SOCK_SEQPACKET, [&] { return ++waits < 3; });
    FAIL() << "there was room";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::timed_out);
  }
  EXPECT_EQ(waits, 3);
  const FileDescriptor second = call_trusted(socket(), SOCK_SEQPACKET, [&] {
    FileDescriptor(accept(listener.get(), nullptr, nullptr));
    return true;
  });
  EXPECT_TRUE(second.is_open());
}

TEST_F(SocketOwners, HaveAFolderOfTheirOwn) {
  const std::string own = folder_ + "/own";
  const auto refusal = [&](const std::string& folder) -> std::string {
    return testing::error_of([&] { is_own_folder(folder); }, ErrorCode::invalid_usage);
  };
  EXPECT_FALSE(is_own_folder(own));
  ASSERT_EQ(mkdir(own.c_str(), 0700), 0);
  EXPECT_TRUE(is_own_folder(own));
  ASSERT_EQ(chmod(own.c_str(), 0777), 0);
  EXPECT_THAT(refusal(own), HasSubstr("can be written to by others"));
  EXPECT_TRUE(is_open_to_all(own));
  ASSERT_EQ(chmod(own.c_str(), 01777), 0);
  EXPECT_FALSE(is_open_to_all(own)) << "nobody can take away what others have there";
  std::filesystem::create_directory_symlink(own, folder_ + "/link");
  EXPECT_THAT(refusal(folder_ + "/link"), HasSubstr("is a link or no folder"));
  if (geteuid() != 0) return;
  ASSERT_EQ(chown(own.c_str(), kStranger, kStranger), 0);
  EXPECT_THAT(refusal(own), HasSubstr("belongs to user 65533"));
}

}  // namespace
}  // namespace banyan::run
