// What the engine relies on, of streams through memory and of those by sockets.
#include <sys/socket.h>

#include "banyan/base/check.h"
#include "banyan/run/transport/lane_transport.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Threads, because the thread sanitizer knows nothing of processes.
class TwoThreads : public ::testing::TestWithParam<std::string> {
 protected:
  TwoThreads() {
    int pair[2];
    CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    for (uint32_t rank = 0; rank < 2; ++rank) {
      std::vector<FileDescriptor> sockets(2);
      sockets[1 - rank] = FileDescriptor(pair[rank]);
      const bool shares = GetParam() == "memory";
      ends_[rank] = std::make_unique<LaneTransport>(
          std::make_unique<ReadyConnector>(std::move(sockets)),
          LaneTransport::Options{.rank = rank, .ranks = 2, .shares_memory = [shares](uint32_t) { return shares; }});
    }
  }

  template <typename Body>
  void run_both(const Body& body) {
    std::thread other([&] { body(1u, *ends_[1]); });
    body(0u, *ends_[0]);
    other.join();
  }

  std::unique_ptr<LaneTransport> ends_[2];
};
INSTANTIATE_TEST_SUITE_P(By, TwoThreads, ::testing::Values("memory", "socket"),
                         [](const auto& test) { return test.param; });

TEST_P(TwoThreads, CarryBytesInOrderBothWaysAtOnce) {
  std::string reports[2];
  run_both([&](uint32_t rank, Transport& own) { reports[rank] = exchange(own, 1 - rank, 3'000'000, rank); });
  EXPECT_THAT(reports, Each("0 wrong"));
}

// The reader begins only when the writer has found the stream full; so the writer's wait must end by the reading.
TEST_P(TwoThreads, HoldBackAWriterUntilItsReaderReads) {
  run_both([](uint32_t rank, Transport& own) { exchange(own, 1 - rank, 1000, rank); });  // so the stream stands
  const std::vector<std::byte> bytes(100'000);
  uint64_t written = 0, received = 0;
  while (const size_t count = ends_[0]->write(1, bytes, {})) written += count;
  EXPECT_LT(written, uint64_t{64} << 20) << "a stream without bounds";
  const uint64_t all = written + 1;
  run_both([&](uint32_t rank, Transport& own) {
    std::vector<std::byte> into(100'000);
    while (rank == 0 && own.write(1, {}, std::span(bytes).first(1)) == 0) own.wait(seconds(30));
    while (rank == 1 && received < all) {
      const size_t count = own.read(0, into);
      received += count;
      if (count == 0) own.wait(seconds(30));
    }
  });
  EXPECT_EQ(received, all);
}

}  // namespace
}  // namespace banyan::run
