// Between processes, over what UCX has on every machine. UCX is started in the forked processes only, each with the
// variables of its test.
#include "banyan/run/transport/ucx/transport.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <new>

#include "banyan/run/system/processes.h"
#include "banyan/run/system/shared_memory.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/run/transport/ucx/control.h"
#include "banyan/run/transport/ucx/test_ucx.h"
#include "banyan/testing/test.h"

namespace banyan::run::ucx {
namespace {

using Clock = std::chrono::steady_clock;

constexpr seconds kLong{60};

class UcxTransport : public ::testing::TestWithParam<const char*> {
 protected:
  static std::unique_ptr<ChannelTransport> make(std::unique_ptr<Connector> connector, const Options& options) {
    set_up(GetParam());
    return make_transport(std::move(connector), options);
  }
};
INSTANTIATE_TEST_SUITE_P(Devices, UcxTransport, ::testing::Values("tcp,self", "posix,sysv,cma,self"),
                         [](const auto& test) { return test.index == 0 ? "Tcp" : "SharedMemory"; });

TEST_P(UcxTransport, CarriesBytesInOrderBothWaysAtOnce) {
  MeetingPoint place(2);
  const auto body = [&](uint32_t rank) {
    const auto transport = make(place.connector(rank), {.ranks = 2});
    return exchange(*transport, 1 - rank, 20'000'000, rank);
  };
  EXPECT_THAT(run_processes(2, kLong, body), Each("0 wrong"));
}

TEST_P(UcxTransport, ConnectsEveryPairOfFourRanks) {
  constexpr uint32_t kRanks = 4;
  MeetingPoint place(kRanks);
  const auto body = [&](uint32_t rank) -> std::string {
    const auto transport = make(place.connector(rank), {.ranks = kRanks});
    for (uint32_t round = 0; round < kRanks; ++round) {
      const uint32_t peer = (round + kRanks - rank) % kRanks;
      if (peer == rank) continue;
      if (exchange(*transport, peer, 500'000, rank) != "0 wrong") return "wrong";
    }
    return "right";
  };
  EXPECT_THAT(run_processes(kRanks, kLong, body), Each("right"));
}

// The bytes of the second lane are read first, and while those of the first fill their stream.
TEST_P(UcxTransport, KeepsLanesApart) {
  MeetingPoint place(2);
  const auto run = [&](uint32_t rank) -> std::string {
    const auto transport = make(place.connector(rank), {.ranks = 2, .lanes = 2});
    const uint32_t first = transport->channel(1 - rank, 0), second = transport->channel(1 - rank, 1);
    uint64_t filled = 0;
    const std::vector<std::byte> bytes = bytes_from(0, 100'000);
    if (rank == 0) {
      while (transport->write(first, bytes, {}) == 0) transport->wait(seconds(10));
      for (size_t count = 1; filled < 500'000 && count > 0;) filled += count = transport->write(first, bytes, {});
    }
    const std::string report = exchange(*transport, second, 3'000'000, rank);
    if (rank == 1 && transport->peek(first)[0] != bytes[0]) return "the first lane lost its beginning";
    return report;
  };
  EXPECT_THAT(run_processes(2, kLong, run), Each("0 wrong"));
}

TEST_P(UcxTransport, HoldsBackAWriterUntilItsReaderReads) {
  MeetingPoint place(2);
  const SharedMemory memory(sizeof(std::atomic<uint64_t>));
  auto& full_at = *new (memory.data()) std::atomic<uint64_t>(0);
  const auto write_one_too_many = [&](ChannelTransport& transport) {
    const std::vector<std::byte> bytes(100'000);
    uint64_t written = 0;
    // Until it is full because the window is, and not only because UCX has not sent the last of it yet.
    for (Clock::time_point end = Clock::now() + milliseconds(300); Clock::now() < end;) {
      const size_t count = transport.write(1, bytes, {});
      written += count;
      if (count > 0) end = Clock::now() + milliseconds(300);
      if (count == 0) transport.wait(milliseconds(10));
    }
    full_at = written;
    while (transport.write(1, {}, std::span(bytes).first(1)) == 0) transport.wait(seconds(30));
    return written + 1;
  };
  const auto read_all = [&](ChannelTransport& transport) {
    // Connected, since otherwise nothing is taken at all, but with nothing read.
    while (full_at == 0) {
      transport.peek(0);
      std::this_thread::yield();
    }
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
    const auto transport = make(place.connector(rank), {.ranks = 2});
    return std::to_string(rank == 0 ? write_one_too_many(*transport) : read_all(*transport));
  });
  EXPECT_EQ(reports[0], reports[1]);
  EXPECT_EQ(reports[0], std::to_string((1 << 20) + 1)) << "the bound that the header states";
}

// The reader is told of nothing but the bytes: that there are some, when it sleeps, and the last of them, when their
// sender is gone.
TEST_P(UcxTransport, DeliversTheLastWordsOfWhoLeaves) {
  MeetingPoint place(2);
  constexpr uint64_t kTotal = 900'000;
  const auto run = [&](uint32_t rank) -> std::string {
    const auto transport = make(place.connector(rank), {.ranks = 2});
    if (rank == 0) {
      const std::vector<std::byte> bytes = bytes_from(0, kTotal);
      for (uint64_t sent = 0; sent < kTotal;) {
        const size_t count = transport->write(1, {}, std::span(bytes).subspan(sent));
        sent += count;
        if (count == 0) transport->wait(seconds(10));
      }
      return "gone";
    }
    std::vector<std::byte> into(10'000);
    uint64_t received = 0, wrong = 0;
    const std::string error = testing::error_of([&] {
      for (;;) {
        const size_t count = transport->read(0, into);
        wrong += count_wrong(received, std::span(into).first(count));
        received += count;
        if (count == 0) transport->wait(seconds(10));
      }
    });
    return std::to_string(received) + " bytes, " + std::to_string(wrong) + " wrong, " + error;
  };
  EXPECT_THAT(run_processes(2, kLong, run)[1], StartsWith("900000 bytes, 0 wrong, the connection to rank 0 was lost"));
}

// Whoever has written and has nothing unsent may do what it likes: its peer gets it all.
TEST_P(UcxTransport, LeavesNothingUndoneWhenNothingIsUnsent) {
  MeetingPoint place(2);
  const SharedMemory memory(sizeof(std::atomic<bool>));
  auto& is_read = *new (memory.data()) std::atomic<bool>(false);
  const auto run = [&](uint32_t rank) -> std::string {
    const auto transport = make(place.connector(rank), {.ranks = 2});
    std::vector<std::byte> bytes = bytes_from(0, 700'000);
    const auto all = std::span(bytes);
    for (size_t done = 0; done < bytes.size();) {
      const size_t count =
          rank == 0 ? transport->write(1, all.subspan(done), {}) : transport->read(0, all.subspan(done));
      done += count;
      if (count == 0) transport->wait(seconds(10));
    }
    if (rank == 1) {
      is_read = true;
      return std::to_string(count_wrong(0, bytes)) + " wrong";
    }
    while (transport->has_unsent(1)) transport->wait(seconds(10));
    while (!is_read) std::this_thread::yield();
    return "0 wrong";
  };
  EXPECT_THAT(run_processes(2, kLong, run), Each("0 wrong"));
}

// The reader is there and does nothing.
TEST_P(UcxTransport, LeavesInASecondWhoeverReadsOrNot) {
  MeetingPoint place(2);
  const SharedMemory memory(sizeof(std::atomic<bool>));
  auto& is_gone = *new (memory.data()) std::atomic<bool>(false);
  const auto run = [&](uint32_t rank) -> std::string {
    auto transport = make(place.connector(rank), {.ranks = 2});
    if (exchange(*transport, 1 - rank, 10'000, rank) != "0 wrong") return "wrong";
    while (transport->has_unsent(1 - rank)) transport->wait(seconds(10));
    if (rank == 1) {
      while (!is_gone) std::this_thread::yield();
      return "gone";
    }
    const std::vector<std::byte> bytes(2 << 20);
    transport->write(1, bytes, {});
    const auto begin = Clock::now();
    transport.reset();
    is_gone = true;
    return Clock::now() - begin < seconds(1) ? "gone" : "lingered";
  };
  EXPECT_THAT(run_processes(2, kLong, run), Each("gone"));
}

// A rank in a process of its own, whose end its parent survives and reports.
std::string as_victim(const std::function<void()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) == 0) body();
    _exit(1);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFSIGNALED(status) ? "killed" : "not killed";
}

struct Murder {
  std::atomic<pid_t> victim{0};
  std::atomic<Clock::rep> at{0};
};

// One peer of the victim sleeps and the other one works; those two stay connected.
TEST_P(UcxTransport, NamesAPeerThatWasKilledWithinASecond) {
  MeetingPoint place(3);
  const SharedMemory memory(sizeof(Murder));
  auto& murder = *new (memory.data()) Murder;
  const auto greet_all = [&](uint32_t rank) {
    auto transport = make(place.connector(rank), {.ranks = 3});
    for (uint32_t round = 0; round < 3; ++round) {
      const uint32_t peer = (round + 3 - rank) % 3;
      if (peer != rank && exchange(*transport, peer, 300'000, rank) != "0 wrong") transport.reset();
    }
    return transport;
  };
  const auto run = [&](uint32_t rank) -> std::string {
    if (rank == 2) {
      return as_victim([&] {
        const auto transport = greet_all(2);
        murder.victim = getpid();
        for (;;) transport->wait(seconds(10));
      });
    }
    const auto transport = greet_all(rank);
    if (rank == 1) {
      while (murder.victim == 0) std::this_thread::yield();
      murder.at = Clock::now().time_since_epoch().count();
      kill(murder.victim, SIGKILL);
    }
    const std::string error = testing::error_of([&] {
      const std::vector<std::byte> bytes(100'000);
      while (transport->peek(2).empty()) {
        if (rank == 0 || transport->write(2, bytes, {}) == 0) transport->wait(seconds(30));
      }
    });
    const auto late = Clock::now() - Clock::time_point(Clock::duration(murder.at));
    return error + (late < seconds(1) ? " in time, " : " too late, ") + exchange(*transport, 1 - rank, 300'000, rank);
  };
  const std::vector<std::string> reports = run_processes(3, kLong, run);
  EXPECT_EQ(reports[2], "killed");
  for (const uint32_t rank : {0u, 1u}) {
    EXPECT_THAT(reports[rank], StartsWith("the connection to rank 2 was lost"));
    EXPECT_THAT(reports[rank], HasSubstr(" in time, 0 wrong"));
  }
}

TEST_P(UcxTransport, RefusesABadAddressAndGoesOnWithOthers) {
  MeetingPoint place(3);
  std::vector<std::byte> damaged =
      to_bytes(Greeting{.lanes = 1, .your_rank = 0, .ticket = 1, .address = bytes_from(0, 99)});
  damaged.back() ^= std::byte{1};
  const auto run = [&](uint32_t rank) -> std::string {
    if (rank == 2) {  // no transport, but somebody who has got through the handshake
      const std::vector<FileDescriptor> sockets = place.connect(2);
      for (const uint32_t peer : {0u, 1u}) send(sockets[peer].get(), damaged.data(), damaged.size(), MSG_NOSIGNAL);
      std::byte bytes[4096];
      while (recv(sockets[0].get(), bytes, sizeof bytes, 0) > 0) {
      }
      return "hung up on";
    }
    const auto transport = make(place.connector(rank), {.ranks = 3});
    const std::string error = testing::error_of([&] {
      while (transport->peek(2).empty()) transport->wait(seconds(30));
    });
    return error + "; " + exchange(*transport, 1 - rank, 300'000, rank);
  };
  EXPECT_THAT(run_processes(3, kLong, run),
              ElementsAre("rank 2 sends a UCX address that is damaged; 0 wrong",
                          "rank 2 sends a UCX address that is damaged; 0 wrong", "hung up on"));
}

TEST_P(UcxTransport, SaysThatAPeerDidNotAnswer) {
  const auto body = [](uint32_t) {
    const auto transport = make(std::make_unique<ReadyConnector>(std::vector<FileDescriptor>(2)), {.ranks = 2});
    return testing::error_of([&] { transport->write(1, bytes_from(0, 10), {}); });
  };
  EXPECT_THAT(run_processes(1, kLong, body), ElementsAre("rank 1 did not answer"));
}

TEST_P(UcxTransport, ListensToAPeerThatDoesNotCallForAsLongAsItTakes) {
  // Asks in vain at first.
  class LateConnector : public ReadyConnector {
   public:
    explicit LateConnector(std::vector<FileDescriptor> sockets)
        : ReadyConnector(std::vector<FileDescriptor>(sockets.size())), sockets_(std::move(sockets)) {}
    void request(uint32_t peer, uint32_t lane, const Path& path) override {
      if (++requests == 3) give(std::move(sockets_));
      ReadyConnector::request(peer, lane, path);
    }
    int requests = 0;

   private:
    std::vector<FileDescriptor> sockets_;
  };
  MeetingPoint place(2);
  const auto run = [&](uint32_t rank) -> std::string {
    if (rank == 1) return exchange(*make(place.connector(1), {.ranks = 2}), 0, 300'000, rank);
    auto connector = std::make_unique<LateConnector>(place.connect(0));
    const LateConnector& late = *connector;
    const auto transport = make(std::move(connector), {.ranks = 2});
    const bool stands_at_once = transport->listen(1);
    while (!transport->listen(1)) transport->wait(seconds(10));
    const std::string how = !stands_at_once && late.requests == 3 ? "late, " : "how? ";
    return how + exchange(*transport, 1, 300'000, rank);
  };
  EXPECT_THAT(run_processes(2, kLong, run), ElementsAre("late, 0 wrong", "0 wrong"));
}

TEST_P(UcxTransport, IsWokenByAnotherThread) {
  const auto body = [](uint32_t) -> std::string {
    const auto transport = make(std::make_unique<ReadyConnector>(std::vector<FileDescriptor>(1)), {.ranks = 1});
    std::thread other([&] { transport->wake(); });
    const auto begin = Clock::now();
    transport->wait(seconds(60));
    other.join();
    return Clock::now() - begin < seconds(30) ? "woken" : "overslept";
  };
  EXPECT_THAT(run_processes(1, kLong, body), ElementsAre("woken"));
}

TEST(UcxTransportAlone, SaysWhyUcxDoesNotStart) {
  const auto body = [](uint32_t) {
    set_up("carrier_pigeon");
    return testing::error_of(
        [] { make_transport(std::make_unique<ReadyConnector>(std::vector<FileDescriptor>(1)), {.ranks = 1}); });
  };
  EXPECT_THAT(run_processes(1, kLong, body), ElementsAre(HasSubstr("UCX_TLS")));
}

}  // namespace
}  // namespace banyan::run::ucx
