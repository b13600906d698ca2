// What a peer that has got through the handshake, or a stranger that has found the UCX port, can do to a Transport.
#include <sys/socket.h>

#include "banyan/run/system/processes.h"
#include "banyan/run/transport/test_exchange.h"
#include "banyan/run/transport/test_sockets.h"
#include "banyan/run/transport/ucx/control.h"
#include "banyan/run/transport/ucx/test_ucx.h"
#include "banyan/run/transport/ucx/transport.h"
#include "banyan/run/transport/ucx/worker.h"
#include "banyan/testing/test.h"

namespace banyan::run::ucx {
namespace {

constexpr seconds kLong{60};

// Rank 1, as whoever wrote it wants it to be: greets well and then sends any messages.
class Impostor final : private WorkerListener {
 public:
  explicit Impostor(FileDescriptor socket) : socket_(std::move(socket)) {
    const std::vector<std::byte> hello =
        to_bytes(Greeting{.lanes = 1, .your_rank = 1, .ticket = 1, .address = worker_.address()});
    if (::send(socket_.get(), hello.data(), hello.size(), MSG_NOSIGNAL) < 0) throw system_error("cannot greet");
    std::byte bytes[4096];
    while (!control_.greeting()) {
      const ssize_t count = recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count <= 0) throw system_error("nobody greets");
      control_.take(std::span(bytes).first(static_cast<size_t>(count)));
    }
    worker_.connect(0, control_.greeting()->address);
  }

  // A good header for these bytes, which `change` makes into something else.
  void send(std::span<const std::byte> bytes, const std::function<void(Header&)>& change) {
    Parcel& parcel = worker_.take_parcel();
    parcel.header = {.ticket = control_.greeting()->ticket,
                     .position = sent_,
                     .consumed = 0,
                     .rank = control_.greeting()->your_rank,
                     .lane = 0};
    change(parcel.header);
    std::ranges::copy(bytes, parcel.bytes.begin());
    parcel.size = static_cast<uint32_t>(bytes.size());
    sent_ += bytes.size();
    worker_.send(0, parcel);
  }
  void forget(size_t count) { sent_ -= count; }

  // Until the other end hangs up.
  void stay() {
    std::byte byte;
    while (recv(socket_.get(), &byte, 1, MSG_DONTWAIT) != 0) worker_.progress();
  }

 private:
  void arrived(const Header&, std::span<const std::byte>) override {}
  void sent(uint32_t) override {}
  void failed(uint32_t, const std::string&) override {}

  FileDescriptor socket_;
  ControlReader control_{1, "rank 0"};
  uint64_t sent_ = 0;
  Worker worker_{*this};
};

// What rank 0 reads from such a peer before it has 10,000 bytes or an error.
std::vector<std::string> meet(const std::function<void(Impostor&)>& act) {
  MeetingPoint place(2);
  return run_processes(2, kLong, [&](uint32_t rank) -> std::string {
    set_up("tcp,self");
    if (rank == 1) {
      Impostor impostor(std::move(place.connect(1)[0]));
      act(impostor);
      impostor.stay();
      return "done";
    }
    const auto transport = make_transport(place.connector(0), {.ranks = 2});
    uint64_t received = 0, wrong = 0;
    try {
      while (received < 10'000) {
        const std::span<const std::byte> seen = transport->peek(1);
        wrong += count_wrong(received, seen);
        received += seen.size();
        transport->consume(1, seen.size());
        if (seen.empty()) transport->wait(seconds(10));
      }
    } catch (const Error& error) {
      return error.what();
    }
    return std::to_string(received) + " bytes, " + std::to_string(wrong) + " wrong";
  });
}

constexpr auto kAsItIs = [](Header&) {};
constexpr const char* kRefusal = "rank 1 does not keep to the rules of the UCX transport";

TEST(UcxRules, MessagesThatOvertakeEachOtherAreReadInOrder) {
  const auto body = [](Impostor& peer) {
    peer.send(bytes_from(5'000, 5'000), [](Header& header) { header.position = 5'000; });
    peer.send(bytes_from(0, 5'000), [](Header& header) { header.position = 0; });
  };
  EXPECT_THAT(meet(body), ElementsAre("10000 bytes, 0 wrong", "done"));
}

TEST(UcxRules, StrangersAreNotHeard) {
  const auto body = [](Impostor& peer) {
    const std::vector<std::byte> lies(1'000);
    for (const auto& change : std::vector<std::function<void(Header&)>>{
             [](Header& header) { header.ticket ^= 1; }, [](Header& header) { header.ticket = 0; },
             [](Header& header) { header.rank = 0; }, [](Header& header) { header.rank = 2; },
             [](Header& header) { header.rank = UINT32_MAX; }, [](Header& header) { header.lane = 1; },
             [](Header& header) { header.lane = UINT32_MAX; }}) {
      peer.send(lies, change);
      peer.forget(lies.size());
    }
    peer.send(bytes_from(0, 10'000), kAsItIs);
  };
  EXPECT_THAT(meet(body), ElementsAre("10000 bytes, 0 wrong", "done"));
}

TEST(UcxRules, BytesBeyondTheRoomEndTheConnection) {
  for (const uint64_t position : {uint64_t{1} << 20, uint64_t{1} << 63, UINT64_MAX}) {
    EXPECT_THAT(meet([&](Impostor& peer) {
                  peer.send(bytes_from(0, 100), [&](Header& header) { header.position = position; });
                }),
                ElementsAre(kRefusal, "done"));
  }
}

TEST(UcxRules, BytesThatComeTwiceEndTheConnection) {
  const auto body = [&](Impostor& peer) {
    peer.send(bytes_from(5'000, 100), [](Header& header) { header.position = 5'000; });
    peer.send(bytes_from(5'000, 100), [](Header& header) { header.position = 5'050; });
  };
  EXPECT_THAT(meet(body), ElementsAre(kRefusal, "done"));
}

TEST(UcxRules, RoomForWhatWasNeverSentEndsTheConnection) {
  EXPECT_THAT(meet([&](Impostor& peer) { peer.send({}, [](Header& header) { header.consumed = 1; }); }),
              ElementsAre(kRefusal, "done"));
}

}  // namespace
}  // namespace banyan::run::ucx
