// What the engine relies on, of both real transports, between processes.
#include "banyan/run/transport/transport.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <new>
#include <string>
#include <thread>
#include <vector>

#include "banyan/base/error.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/transport/shm_transport.h"
#include "banyan/run/transport/tcp_transport.h"
#include "banyan/run/transport/test_exchange.h"

namespace banyan::run {
namespace {

using std::chrono::seconds;
using ::testing::Each;

constexpr seconds kLong{60};

// Every rank is every other's peer.
PeerLists everybody(uint32_t ranks) {
  PeerLists peers(ranks);
  for (uint32_t rank = 0; rank < ranks; ++rank) {
    for (uint32_t peer = 0; peer < ranks; ++peer) {
      if (peer != rank) peers[rank].push_back(peer);
    }
  }
  return peers;
}

class EveryTransport : public ::testing::TestWithParam<std::string> {
 protected:
  static std::unique_ptr<Meeting> meeting(uint32_t ranks) {
    return GetParam() == "tcp" ? make_tcp_meeting(everybody(ranks))
                               : make_shm_meeting(everybody(ranks), {.ring_bytes = 4096});
  }
};
INSTANTIATE_TEST_SUITE_P(Transport, EveryTransport, ::testing::Values("shm", "tcp"),
                         [](const auto& test) { return test.param; });

TEST_P(EveryTransport, CarriesBytesInOrderBothWaysAtOnce) {
  const auto place = meeting(2);
  EXPECT_THAT(
      run_processes(2, kLong, [&](uint32_t rank) { return exchange(*place->join(rank), 1 - rank, 3'000'000, rank); }),
      Each("0 wrong"));
}

TEST_P(EveryTransport, ConnectsEveryPairOfManyRanks) {
  constexpr uint32_t kRanks = 7;
  const auto place = meeting(kRanks);
  const auto body = [&](uint32_t rank) -> std::string {
    const auto transport = place->join(rank);
    // In an order in which all pairs meet: of rounds, in each of which everybody has a
    // partner.
    for (uint32_t round = 0; round < kRanks; ++round) {
      const uint32_t peer = (round + kRanks - rank) % kRanks;
      if (peer == rank) continue;
      if (exchange(*transport, peer, 10'000, rank) != "0 wrong") return "wrong";
    }
    return "right";
  };
  EXPECT_THAT(run_processes(kRanks, kLong, body), Each("right"));
}

// The reader begins only when the writer has found the stream full; so the writer's wait must end by the reading.
TEST_P(EveryTransport, HoldsBackAWriterUntilItsReaderReads) {
  const auto place = meeting(2);
  const SharedMemory memory(sizeof(std::atomic<uint64_t>));
  auto& full_at = *new (memory.data()) std::atomic<uint64_t>(0);
  const auto write_one_too_many = [&](Transport& transport) {
    const std::vector<std::byte> bytes(100'000);
    uint64_t written = 0;
    while (const size_t count = transport.write(1, bytes, {})) written += count;
    full_at = written;
    while (transport.write(1, {}, std::span(bytes).first(1)) == 0) transport.wait(seconds(30));
    return written + 1;
  };
  const auto read_all = [&](Transport& transport) {
    while (full_at == 0) std::this_thread::yield();
    std::vector<std::byte> bytes(100'000);
    uint64_t received = 0;
    while (received < full_at + 1) {
      const size_t count = transport.read(0, bytes);
      received += count;
      if (count == 0) transport.wait(seconds(30));
    }
    return received;
  };
  const auto reports = run_processes(2, kLong, [&](uint32_t rank) {
    const auto transport = place->join(rank);
    return std::to_string(rank == 0 ? write_one_too_many(*transport) : read_all(*transport));
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_LT(std::stoull(reports[0]), uint64_t{64} << 20) << "a stream without bounds";
}

// Threads, because the thread sanitizer knows nothing of processes.
TEST(ShmTransport, IsARaceFreeRingBetweenThreadsToo) {
  const auto place = make_shm_meeting(everybody(2), {.ring_bytes = 4096});
  std::string reports[2];
  const auto run = [&](uint32_t rank) { reports[rank] = exchange(*place->join(rank), 1 - rank, 1'000'000, rank); };
  std::thread other(run, 1);
  run(0);
  other.join();
  EXPECT_THAT(reports, Each("0 wrong"));
}

TEST(ShmTransport, ShrinksItsRingsWhenThereAreMany) {
  const auto place = make_shm_meeting(everybody(5), {.ring_bytes = 1 << 20, .total_bytes = 20 * 8192 + 100});
  const std::vector<std::byte> bytes(1 << 20);
  EXPECT_EQ(place->join(3)->write(1, bytes, {}), 8192u);
}

TEST(TcpTransport, NamesAPeerThatHungUp) {
  const auto place = make_tcp_meeting(everybody(2));
  const auto run = [&](uint32_t rank) -> std::string {
    const auto transport = place->join(rank);
    if (rank == 1) return "bye";
    while (transport->peek(1).empty()) transport->wait(seconds(10));
    return "heard something";
  };
  try {
    run_processes(2, kLong, run);
    ADD_FAILURE() << "nobody was missed";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::peer_lost);
    EXPECT_STREQ(error.what(), "rank 0: the connection to rank 1 was lost");
  }
}

// Addresses at which this process listens.
std::vector<sockaddr_in> listening() {
  std::vector<sockaddr_in> addresses;
  for (int fd = 0; fd < 1024; ++fd) {
    int listens = 0;
    socklen_t size = sizeof listens;
    if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size) != 0 || listens == 0) continue;
    sockaddr_in address{};
    size = sizeof address;
    if (getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size) == 0) addresses.push_back(address);
  }
  return addresses;
}

TEST(TcpTransport, HangsUpOnStrangers) {
  const auto place = make_tcp_meeting(everybody(3));
  const std::vector<sockaddr_in> addresses = listening();
  ASSERT_EQ(addresses.size(), 3u);
  std::vector<FileDescriptor> strangers;
  for (const sockaddr_in& address : addresses) {
    EXPECT_EQ(ntohl(address.sin_addr.s_addr), INADDR_LOOPBACK) << "open to the network";
    for (const std::string& says : {std::string(), std::string("?"), std::string(20, '\0'), std::string(5000, 'x')}) {
      FileDescriptor& stranger = strangers.emplace_back(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
      ASSERT_EQ(connect(stranger.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
      ASSERT_EQ(send(stranger.get(), says.data(), says.size(), MSG_NOSIGNAL), static_cast<ssize_t>(says.size()));
    }
  }
  const auto body = [&](uint32_t rank) -> std::string {
    const auto transport = place->join(rank);
    for (uint32_t round = 0; round < 3; ++round) {
      const uint32_t peer = (round + 3 - rank) % 3;
      if (peer == rank) continue;
      if (exchange(*transport, peer, 10'000, rank) != "0 wrong") return "wrong";
    }
    return "right";
  };
  EXPECT_THAT(run_processes(3, kLong, body), Each("right"));
}

}  // namespace
}  // namespace banyan::run
