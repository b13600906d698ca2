#include "banyan/run/transport/sealed_connection.h"

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

const std::string kThere(kSessionKeySize, 't'), kBack(kSessionKeySize, 'b');
constexpr size_t kHead = 4;

// A sender and a receiver, and whoever stands between them: `from` is read, and what is to arrive is written to `to`.
struct TappedWire {
  explicit TappedWire(Sealing sealing, Sealing of_receiver, uint64_t frames_per_key = kFramesPerKey) {
    int first[2], second[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, first), 0);
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, second), 0);
    sender =
        std::make_unique<SealedConnection>(1, std::make_unique<TcpConnection>(1, FileDescriptor(first[0])),
                                           SessionKeys{.sending = kThere, .receiving = kBack}, sealing, frames_per_key);
    receiver = std::make_unique<SealedConnection>(0, std::make_unique<TcpConnection>(0, FileDescriptor(second[0])),
                                                  SessionKeys{.sending = kBack, .receiving = kThere}, of_receiver,
                                                  frames_per_key);
    from = FileDescriptor(first[1]);
    to = FileDescriptor(second[1]);
  }
  explicit TappedWire(Sealing sealing) : TappedWire(sealing, sealing) {}

  std::vector<std::byte> take() const {
    std::vector<std::byte> bytes(1 << 20);
    const ssize_t count = recv(from.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return bytes;
  }
  void bring(const std::vector<std::byte>& bytes) const {
    EXPECT_EQ(send(to.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  }

  std::unique_ptr<SealedConnection> sender, receiver;
  FileDescriptor from, to;
};

std::string fault_of(Connection& connection) {
  try {
    return connection.peek().empty() ? "nothing" : "bytes";
  } catch (const Error& error) {
    return error.what();
  }
}

class SealedConnectionTest : public ::testing::TestWithParam<Sealing> {};
INSTANTIATE_TEST_SUITE_P(Ways, SealedConnectionTest, ::testing::Values(Sealing::authenticated, Sealing::encrypted),
                         [](const auto& tested) {
                           return std::string(tested.param == Sealing::encrypted ? "encrypted" : "authenticated");
                         });

// Two ranks, as a handshake would have left them.
class KeyedConnector final : public Connector {
 public:
  KeyedConnector(std::unique_ptr<Connector> plain, bool is_first) : plain_(std::move(plain)), is_first_(is_first) {}
  void request(uint32_t peer, uint32_t lane, const Path& path) override { plain_->request(peer, lane, path); }
  std::vector<Answer> take() override {
    std::vector<Answer> answers = plain_->take();
    for (Answer& answer : answers) {
      answer.keys = {.sending = is_first_ ? kThere : kBack, .receiving = is_first_ ? kBack : kThere};
    }
    return answers;
  }
  int event_fd() const override { return plain_->event_fd(); }

 private:
  const std::unique_ptr<Connector> plain_;
  const bool is_first_;
};

TEST_P(SealedConnectionTest, CarriesMuchBetweenProcesses) {
  MeetingPoint place(2);
  const auto body = [&](uint32_t rank) {
    auto connector = std::make_unique<KeyedConnector>(place.connector(rank), rank == 0);
    LaneTransport transport(std::move(connector), {.rank = rank, .ranks = 2, .sealing = GetParam()});
    std::string result = exchange(transport, 1 - rank, 20'000'000, rank);
    while (transport.has_unsent(1 - rank)) transport.wait(std::chrono::milliseconds(10));
    return result;
  };
  EXPECT_THAT(run_processes(2, seconds(60), body), Each("0 wrong"));
}

// By both ways of reading, through keys that change after every third frame.
TEST_P(SealedConnectionTest, KeepsWhatTheSocketDoesNotTake) {
  TappedWire wire(GetParam(), GetParam(), 3);
  const auto bytes = bytes_from(0, 4'000'000);
  size_t taken = 0;
  for (size_t count;
       (count = wire.sender->write(std::span(bytes).subspan(taken, 1), std::span(bytes).subspan(taken + 1))) > 0;)
    taken += count;
  EXPECT_LT(taken, bytes.size());
  EXPECT_TRUE(wire.sender->has_unsent());
  EXPECT_EQ(wire.sender->before_sleep(), POLLOUT);
  size_t came = 0;
  std::vector<std::byte> into(50'000);
  for (int round = 0; came < taken; ++round) {
    const auto passed = wire.take();
    wire.sender->after_sleep();
    for (size_t at = 0; at < passed.size(); at += 50'000) {
      const size_t size = std::min<size_t>(50'000, passed.size() - at);
      wire.bring({passed.begin() + static_cast<ptrdiff_t>(at), passed.begin() + static_cast<ptrdiff_t>(at + size)});
      if (round % 2 == 0) {
        for (std::span<const std::byte> seen; !(seen = wire.receiver->peek()).empty();) {
          seen = seen.first(std::min<size_t>(seen.size(), 20'000));
          ASSERT_EQ(count_wrong(came, seen), 0u);
          came += seen.size();
          wire.receiver->consume(seen.size());
        }
      } else {
        const size_t most = at % 100'000 == 0 ? 50'000 : 7'000;
        for (size_t count; (count = wire.receiver->read(std::span(into).first(most))) > 0; came += count) {
          ASSERT_EQ(count_wrong(came, std::span(into).first(count)), 0u);
        }
      }
    }
  }
  EXPECT_EQ(came, taken);
  EXPECT_FALSE(wire.sender->has_unsent());
}

TEST_P(SealedConnectionTest, ShowsWhatItCarriesOnlyWhenItIsNotEncrypted) {
  TappedWire wire(GetParam());
  const auto bytes = bytes_from(7, 1000);
  wire.sender->write(std::span(bytes).first(100), std::span(bytes).subspan(100));
  const auto passed = wire.take();
  ASSERT_EQ(passed.size(), kHead + bytes.size() + kSealSize);
  const bool is_readable = std::equal(bytes.begin(), bytes.end(), passed.begin() + kHead);
  EXPECT_EQ(is_readable, GetParam() == Sealing::authenticated);
}

TEST_P(SealedConnectionTest, FindsEveryChangedByte) {
  constexpr uint64_t kSeed = 12;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  std::mt19937_64 random(kSeed);
  for (int round = 0; round < 300; ++round) {
    TappedWire wire(GetParam());
    const auto bytes = bytes_from(random(), 1 + random() % 300);
    wire.sender->write(std::span(bytes).first(1), std::span(bytes).subspan(1));
    auto passed = wire.take();
    const size_t at = random() % passed.size();
    passed[at] ^= std::byte{static_cast<unsigned char>(1u << random() % 8)};
    wire.bring(passed);
    const std::string error = fault_of(*wire.receiver);
    // A larger size waits for bytes that do not come, or for those of the next frame.
    if (at < kHead && error == "nothing") continue;
    EXPECT_THAT(error, HasSubstr("changed on their way")) << "round " << round << ", byte " << at;
  }
}

TEST_P(SealedConnectionTest, FindsFramesThatAreLostDoubledOrSentBack) {
  for (const int trick : {0, 1, 2}) {
    TappedWire wire(GetParam());
    const auto bytes = bytes_from(0, 10);
    std::vector<std::vector<std::byte>> frames;
    for (int i = 0; i < 3; ++i) {
      wire.sender->write({}, bytes);
      frames.push_back(wire.take());
    }
    wire.receiver->write({}, bytes);  // which the one between sends back
    std::vector<std::byte> own(100);
    own.resize(static_cast<size_t>(recv(wire.to.get(), own.data(), own.size(), 0)));
    wire.bring(frames[0]);
    wire.receiver->consume(wire.receiver->peek().size());
    wire.bring(trick == 0 ? frames[2] : trick == 1 ? frames[0] : own);
    EXPECT_THAT(fault_of(*wire.receiver), HasSubstr("bytes from rank 0 were changed")) << trick;
  }
}

TEST_P(SealedConnectionTest, RefusesAPeerThatSealsInAnotherWayOrNotAtAll) {
  TappedWire mixed(GetParam(), GetParam() == Sealing::encrypted ? Sealing::authenticated : Sealing::encrypted);
  mixed.sender->write({}, bytes_from(0, 10));
  mixed.bring(mixed.take());
  EXPECT_THAT(fault_of(*mixed.receiver), HasSubstr("were changed on their way"));
  TappedWire plain(GetParam());
  plain.bring(bytes_from(0, 100));
  EXPECT_THAT(fault_of(*plain.receiver), HasSubstr("rank 0 sends bytes that are not sealed"));
}

}  // namespace
}  // namespace banyan::run
