#include "banyan/run/agent/socket_dialer.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/reactor.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Two ends of a connection over the loopback.
std::pair<FileDescriptor, FileDescriptor> connected() {
  const FileDescriptor listener(socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  EXPECT_EQ(bind(listener.get(), any, size), 0);
  EXPECT_EQ(getsockname(listener.get(), any, &size), 0);
  EXPECT_EQ(listen(listener.get(), 1), 0);
  FileDescriptor near(socket(AF_INET, SOCK_STREAM, 0));
  EXPECT_EQ(connect(near.get(), any, size), 0);
  return {std::move(near), FileDescriptor(accept(listener.get(), nullptr, nullptr))};
}

class Ending : public ::testing::Test {
 protected:
  Ending() {
    auto [near, far] = connected();
    fd_ = near.get();
    stream_ = std::make_unique<SocketStream>(reactor_, std::move(near), std::chrono::milliseconds(0));
    far_ = std::move(far);
  }

  void reset() {
    const linger at_once{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(setsockopt(far_.get(), SOL_SOCKET, SO_LINGER, &at_once, sizeof at_once), 0);
    far_.reset();
  }
  void await_end() const {
    pollfd polled{.fd = fd_, .events = POLLIN, .revents = 0};
    EXPECT_EQ(poll(&polled, 1, 10'000), 1);
  }
  ByteStream::Received receive() {
    std::array<char, 16> bytes;
    return stream_->receive(bytes);
  }

  Reactor reactor_;
  int fd_ = -1;
  std::unique_ptr<SocketStream> stream_;
  FileDescriptor far_;
};

TEST_F(Ending, OfAStreamThatThePeerClosesIsOrderly) {
  far_.reset();
  await_end();
  const ByteStream::Received received = receive();
  EXPECT_TRUE(received.is_over);
  EXPECT_TRUE(received.is_orderly);
}

TEST_F(Ending, OfAStreamThatIsResetIsNot) {
  reset();
  await_end();
  const ByteStream::Received received = receive();
  EXPECT_TRUE(received.is_over);
  EXPECT_FALSE(received.is_orderly);
}

// The kernel tells of the reset once, to whoever asks first.
TEST_F(Ending, OfAStreamThatIsResetIsNotEvenWhenSendingHasMetIt) {
  reset();
  await_end();
  EXPECT_EQ(stream_->send("lost"), 0u);
  EXPECT_EQ(stream_->send("lost"), 0u);
  const ByteStream::Received received = receive();
  EXPECT_TRUE(received.is_over);
  EXPECT_FALSE(received.is_orderly);
}

// The peer's kernel answers what comes for a process that has ended by a reset.
TEST_F(Ending, OfAStreamThatThePeerHasClosedIsOrderlyAlsoAfterwards) {
  far_.reset();
  await_end();
  EXPECT_EQ(stream_->send("lost"), 4u);
  EXPECT_EQ(stream_->send("lost"), 0u);
  const ByteStream::Received received = receive();
  EXPECT_TRUE(received.is_over);
  EXPECT_TRUE(received.is_orderly);
}

}  // namespace
}  // namespace banyan::run
