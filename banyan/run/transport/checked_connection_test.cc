#include "banyan/run/transport/checked_connection.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>

#include "banyan/run/system/processes.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/tcp_connection.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// A connection between two processes' ends whose bytes the test may damage on their way: `from` is read, and what is to
// arrive is written to `to`.
struct Wire {
  Wire() {
    int first[2], second[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, first), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, second), 0);
    sender = std::make_unique<CheckedConnection>(1, std::make_unique<TcpConnection>(1, FileDescriptor(first[0])));
    receiver = std::make_unique<CheckedConnection>(0, std::make_unique<TcpConnection>(0, FileDescriptor(second[0])));
    from = FileDescriptor(first[1]);
    to = FileDescriptor(second[1]);
  }

  std::vector<std::byte> take() {
    std::vector<std::byte> bytes(1 << 20);
    const ssize_t count = recv(from.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return bytes;
  }
  void bring(const std::vector<std::byte>& bytes) {
    EXPECT_EQ(send(to.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<CheckedConnection> sender, receiver;
  FileDescriptor from, to;
};

std::string error_of(Connection& connection) {
  try {
    return connection.peek().empty() ? "nothing" : "bytes";
  } catch (const Error& error) {
    return error.what();
  }
}

TEST(CheckedConnection, CarriesMuchBetweenProcesses) {
  MeetingPoint place(2);
  const auto body = [&](uint32_t rank) {
    LaneTransport transport(place.connector(rank), {.rank = rank, .ranks = 2, .checksums = true});
    std::string result = exchange(transport, 1 - rank, 20'000'000, rank);
    while (transport.has_unsent(1 - rank)) transport.wait(std::chrono::milliseconds(10));
    return result;
  };
  EXPECT_THAT(run_processes(2, seconds(60), body), Each("0 wrong"));
}

// Rank 0 never reads, and closes its socket while bytes wait there for room at rank 1.
TEST(CheckedConnection, BringsWhatWasSentBeforeTheSocketWasClosed) {
  constexpr size_t kAll = 400'000;
  constexpr int kRoom = 1 << 20;
  MeetingPoint place(2);
  const auto body = [&](uint32_t rank) -> std::string {
    FileDescriptor socket = std::move(place.connect(rank)[1 - rank]);
    fcntl(socket.get(), F_SETFL, O_NONBLOCK);
    setsockopt(socket.get(), SOL_SOCKET, SO_SNDBUF, &kRoom, sizeof kRoom);
    CheckedConnection connection(1 - rank, std::make_unique<TcpConnection>(1 - rank, std::move(socket)));
    std::this_thread::sleep_for(std::chrono::milliseconds(rank == 0 ? 20 : 100));
    if (rank == 0) {
      const auto bytes = bytes_from(0, kAll);
      for (size_t sent = 0; sent < kAll;) sent += connection.write({}, std::span(bytes).subspan(sent));
      return connection.has_unsent() ? "the socket has no room" : "sent";
    }
    size_t came = 0, wrong = 0;
    while (came < kAll) {
      const std::span<const std::byte> seen = connection.peek();
      wrong += count_wrong(came, seen);
      came += seen.size();
      connection.consume(seen.size());
    }
    return std::to_string(wrong) + " wrong";
  };
  EXPECT_THAT(run_processes(2, seconds(60), body), ::testing::ElementsAre("sent", "0 wrong"));
}

TEST(CheckedConnection, KeepsWhatTheSocketDoesNotTake) {
  Wire wire;
  const auto bytes = bytes_from(0, 4'000'000);
  size_t taken = 0;
  for (size_t count; (count = wire.sender->write({}, std::span(bytes).subspan(taken))) > 0;) taken += count;
  EXPECT_LT(taken, bytes.size());
  EXPECT_TRUE(wire.sender->has_unsent());
  EXPECT_EQ(wire.sender->before_sleep(), POLLOUT);
  size_t came = 0;
  while (came < taken) {
    const auto passed = wire.take();
    wire.sender->after_sleep();
    for (size_t at = 0; at < passed.size(); at += 50'000) {
      const size_t size = std::min<size_t>(50'000, passed.size() - at);
      wire.bring({passed.begin() + static_cast<ptrdiff_t>(at), passed.begin() + static_cast<ptrdiff_t>(at + size)});
      for (std::span<const std::byte> seen; !(seen = wire.receiver->peek()).empty();
           wire.receiver->consume(seen.size())) {
        ASSERT_EQ(count_wrong(came, seen), 0u);
        came += seen.size();
      }
    }
  }
  EXPECT_EQ(came, taken);
  EXPECT_FALSE(wire.sender->has_unsent());
}

TEST(CheckedConnection, FindsEveryDamagedByte) {
  constexpr uint64_t kSeed = 11;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    Wire wire;
    const auto bytes = bytes_from(random(), 1 + random() % 300);
    wire.sender->write(std::span(bytes).first(1), std::span(bytes).subspan(1));
    auto passed = wire.take();
    constexpr size_t kGreeting = 8;
    const size_t at = kGreeting + random() % (passed.size() - kGreeting);
    passed[at] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    wire.bring(passed);
    const std::string error = error_of(*wire.receiver);
    // A larger size waits for bytes that do not come, or for those of the next frame.
    if (at < kGreeting + 4 && error == "nothing") continue;
    EXPECT_THAT(error, HasSubstr("bytes from rank 0 were damaged")) << "round " << round << ", byte " << at;
  }
}

TEST(CheckedConnection, FindsFramesThatAreLostOrDoubled) {
  for (const bool is_doubled : {false, true}) {
    Wire wire;
    const auto bytes = bytes_from(0, 10);
    wire.bring(wire.take());
    std::vector<std::vector<std::byte>> frames;
    for (int i = 0; i < 3; ++i) {
      wire.sender->write({}, bytes);
      frames.push_back(wire.take());
    }
    wire.bring(frames[0]);
    wire.receiver->consume(wire.receiver->peek().size());
    wire.bring(is_doubled ? frames[0] : frames[2]);
    EXPECT_THAT(error_of(*wire.receiver), HasSubstr("frame 2")) << is_doubled;
  }
}

TEST(CheckedConnection, RefusesAPeerThatDoesNotCheck) {
  Wire wire;
  wire.bring(bytes_from(0, 100));
  EXPECT_THAT(error_of(*wire.receiver), HasSubstr("BANYAN_CHECKSUMS alike on all ranks"));
}

}  // namespace
}  // namespace banyan::run
