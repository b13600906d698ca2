// Messages with tags, and from any rank, between processes, by all that carries them.
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "banyan/run/communicator/communicator.h"
#include "banyan/run/system/processes.h"
#include "banyan/run/transport/ucx/test_ucx.h"
#include "banyan/run/transport/ucx/transport.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Messages need none.
class NoPlans : public PlanSource {
 public:
  Answer plan(const Question&) override { throw Error(ErrorCode::unsupported, "there are no plans here"); }
  std::vector<LinkBytes> bytes_on_links(const Call&) override { return {}; }
  std::optional<Way> way(uint32_t, const PlanLane&) const override { return std::nullopt; }
  std::vector<Way> ways_between(uint32_t, uint32_t) const override { return {}; }
  bool knows_ways() const override { return false; }
  std::string cable_name(uint32_t) const override { return {}; }
  std::shared_ptr<PlanSource> revised(const FabricUpdate&) const override { return nullptr; }
};

struct By {
  const char* name;
  Communicator::Transports transports;
  uint32_t hosts = 1;  // that the ranks are spread over, as they believe
  bool checksums = false;
  Encryption encryption = Encryption::automatic;
};

class Messages : public ::testing::TestWithParam<By>, protected testing::TemporaryFolder {
 protected:
  // The rank that is to be killed, if any, does that itself.
  std::vector<std::string> run_ranks(uint32_t size, const std::function<std::string(Communicator&)>& body,
                                     uint32_t killed = kNoRank) {
    const std::string url = "file://" + folder_ + "/meeting" + std::to_string(++meetings_);
    return run_processes(size, seconds(100), [&](uint32_t rank) -> std::string {
      if (GetParam().transports == Communicator::Transports::ucx) {
        ucx::set_up("tcp,self");
        if (const std::string why = ucx::why_unavailable(); !why.empty()) return kNoUcx;
      }
      if (rank == killed) {  // in a process that nobody but its peers misses
        const pid_t process = fork();
        int status = 0;
        if (process != 0) return waitpid(process, &status, 0) == process && WIFSIGNALED(status) ? "right" : "alive";
      }
      setenv("BANYAN_HOST_ID", ("host" + std::to_string(rank % GetParam().hosts)).c_str(), 1);
      if (GetParam().encryption != Encryption::automatic) {
        setenv("BANYAN_SECRET", "000102030405060708090a0b0c0d0e0f", 1);
      }
      RegionPool pool;
      Communicator comm = Communicator::join(pool, {.url = url, .rank = rank, .size = size, .name = {}},
                                             {.timeout = seconds(60),
                                              .join_timeout = seconds(60),
                                              .transports = GetParam().transports,
                                              .checksums = GetParam().checksums,
                                              .encryption = GetParam().encryption,
                                              .plans = [](const RankLayout&) { return std::make_shared<NoPlans>(); }});
      return body(comm);
    });
  }
  static void expect_right(const std::vector<std::string>& reports) {
    if (reports.front() == kNoUcx) GTEST_SKIP() << kNoUcx;
    EXPECT_THAT(reports, Each("right"));
  }

  static constexpr const char* kNoUcx = "there is no UCX on this machine";

 private:
  int meetings_ = 0;
};
INSTANTIATE_TEST_SUITE_P(
    By, Messages,
    ::testing::Values(By{"SharedMemory", Communicator::Transports::shared_memory},
                      By{"Tcp", Communicator::Transports::tcp},
                      By{"CheckedTcp", Communicator::Transports::tcp, 1, true},
                      By{"AuthenticatedTcp", Communicator::Transports::tcp, 1, false, Encryption::authenticated},
                      By{"EncryptedTcp", Communicator::Transports::tcp, 1, false, Encryption::encrypted},
                      By{"TwoHosts", Communicator::Transports::automatic, 2},
                      By{"TwoHostsEncrypted", Communicator::Transports::automatic, 2, false, Encryption::encrypted},
                      By{"Ucx", Communicator::Transports::ucx}),
    [](const auto& test) { return std::string(test.param.name); });

// Words that tell who sent them, to whom, with which tag, as the how manieth.
std::vector<uint64_t> words(uint64_t from, uint64_t to, uint64_t tag, uint64_t number, size_t count) {
  std::vector<uint64_t> all(count);
  std::iota(all.begin(), all.end(), from << 56 | to << 48 | tag << 40 | number << 32);
  return all;
}

Request send(Communicator& comm, const std::vector<uint64_t>& text, uint32_t to, uint32_t tag) {
  return comm.start({.kind = OperationKind::send,
                     .type = element::DataType::uint64,
                     .other = to,
                     .send = std::as_bytes(std::span(text)).data(),
                     .count = text.size(),
                     .tag = tag});
}

Request receive(Communicator& comm, std::vector<uint64_t>& memory, uint32_t from, uint32_t tag) {
  return comm.start({.kind = OperationKind::recv,
                     .type = element::DataType::uint64,
                     .other = from,
                     .recv = std::as_writable_bytes(std::span(memory)).data(),
                     .count = memory.size(),
                     .tag = tag});
}

// Once it is there.
uint32_t sender_of(const Request& request) {
  Request same = request;
  return same.wait_for(seconds(60)) ? same.peer() : kNoRank;
}

TEST_P(Messages, FromAnyComeFromWhoeverNeverSpokeBefore) {
  constexpr uint32_t kRanks = 3, kEach = 3;
  for (uint32_t receiver = 0; receiver < kRanks; ++receiver) {
    for (const size_t count : {1u, 100'000u}) {
      SCOPED_TRACE(std::to_string(count) + " words to rank " + std::to_string(receiver));
      expect_right(run_ranks(kRanks, [&](Communicator& comm) -> std::string {
        if (comm.rank() != receiver) {
          for (uint64_t number = 0; number < kEach; ++number) {
            send(comm, words(comm.rank(), receiver, 5, number, count), receiver, 5).wait();
          }
          comm.barrier();
          return "right";
        }
        std::map<uint32_t, uint64_t> numbers;
        for (uint32_t i = 0; i < kEach * (kRanks - 1); ++i) {
          std::vector<uint64_t> memory(count);
          const uint32_t peer = sender_of(receive(comm, memory, kAnyRank, 5));
          if (memory != words(peer, receiver, 5, numbers[peer]++, count)) return "wrong";
        }
        comm.barrier();
        return numbers.size() == kRanks - 1 ? "right" : "not from all";
      }));
      if (IsSkipped()) return;
    }
  }
}

TEST_P(Messages, OfAllSizesCrossEachOtherAndAreTakenByTagInAnyOrder) {
  constexpr uint32_t kRanks = 3;
  constexpr size_t kSizes[] = {0, 1, 13, 100, 5'000, 200'000};
  expect_right(run_ranks(kRanks, [&](Communicator& comm) -> std::string {
    const uint32_t own = comm.rank();
    std::vector<Request> requests;
    std::vector<std::vector<uint64_t>> texts, memories;
    for (uint32_t tag = 0; tag < std::size(kSizes); ++tag) {
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        if (peer == own) continue;
        for (uint64_t number = 0; number < 2; ++number) {
          texts.push_back(words(own, peer, tag, number, kSizes[tag]));
          requests.push_back(send(comm, texts.back(), peer, tag));
        }
      }
    }
    for (size_t tag = std::size(kSizes); tag-- > 0;) {
      for (uint32_t peer = 0; peer < kRanks; ++peer) {
        if (peer == own) continue;
        std::vector<uint64_t> first(kSizes[tag]), second(kSizes[tag]);
        const Request one = receive(comm, first, peer, static_cast<uint32_t>(tag));
        const Request two = receive(comm, second, peer, static_cast<uint32_t>(tag));
        if (sender_of(two) != peer || sender_of(one) != peer) return "from somebody else";
        if (first != words(peer, own, tag, 0, kSizes[tag])) return "wrong";
        if (second != words(peer, own, tag, 1, kSizes[tag])) return "overtaken";
      }
    }
    for (Request& request : requests) request.wait();
    comm.barrier();
    return "right";
  }));
}

TEST_P(Messages, ThatNobodyReceivesYetHoldUpNothingElse) {
  constexpr size_t kWords = 400'000;
  expect_right(run_ranks(2, [&](Communicator& comm) -> std::string {
    const uint32_t own = comm.rank(), peer = 1 - own;
    const std::vector<uint64_t> large = words(own, peer, 1, 0, kWords), little = words(own, peer, 2, 0, 3);
    const Request sent = send(comm, large, peer, 1);
    comm.barrier();
    const Request also_sent = send(comm, little, peer, 2);
    std::vector<uint64_t> first(3), second(kWords);
    if (sender_of(receive(comm, first, kAnyRank, 2)) != peer || first != words(peer, own, 2, 0, 3)) return "wrong";
    comm.barrier();
    if (sender_of(receive(comm, second, peer, 1)) != peer || second != words(peer, own, 1, 0, kWords)) return "wrong";
    if (sender_of(sent) != peer || sender_of(also_sent) != peer) return "sent elsewhere";
    comm.barrier();
    return "right";
  }));
}

TEST_P(Messages, MayGoToOneself) {
  expect_right(run_ranks(2, [&](Communicator& comm) -> std::string {
    const uint32_t own = comm.rank();
    const std::vector<uint64_t> small = words(own, own, 1, 0, 3), large = words(own, own, 2, 0, 1 << 18);
    std::vector<uint64_t> first(3), second(1 << 18), third(3);
    const Request sent = send(comm, small, own, 1);
    const Request later = receive(comm, second, own, 2), sooner = receive(comm, first, own, 1);
    if (sender_of(sooner) != own || sender_of(sent) != own) return "not from itself";
    send(comm, large, own, 2).wait();
    const Request any = receive(comm, third, kAnyRank, 1);
    send(comm, small, own, 1).wait();
    if (sender_of(later) != own || sender_of(any) != own) return "not from itself";
    // From any rank means nobody once all others have left, so that neither may leave before the other has received.
    Request farewell = send(comm, small, 1 - own, 3);
    std::vector<uint64_t> heard(small.size());
    receive(comm, heard, 1 - own, 3).wait();
    farewell.wait();
    return first == small && second == large && third == small ? "right" : "wrong";
  }));
}

TEST_P(Messages, FromAnyDoWithoutARankThatHasLeft) {
  constexpr int kLooks = 1000;
  expect_right(run_ranks(3, [&](Communicator& comm) -> std::string {
    const uint32_t own = comm.rank();
    const std::vector<uint64_t> text = words(own, 0, 5, 0, 10);
    std::vector<uint64_t> first(10), second(10), start(1);
    if (own == 2) receive(comm, start, 0, 6).wait();
    if (own != 0) {
      send(comm, text, 0, 5).wait();
      if (own == 2) receive(comm, start, 0, 6).wait();
      return "right";
    }
    if (sender_of(receive(comm, first, kAnyRank, 5)) != 1) return "not from rank 1";
    const Request request = receive(comm, second, kAnyRank, 5);
    while (comm.job().agent().liveness().state(1) != Health::left) {
      if (request.is_over()) return "from nobody";
    }
    for (int look = 0; look < kLooks; ++look) {
      if (request.is_over()) return "from nobody";
    }
    send(comm, start, 2, 6).wait();
    if (sender_of(request) != 2) return "not from rank 2";
    if (first != words(1, 0, 5, 0, 10) || second != words(2, 0, 5, 0, 10)) return "wrong";
    send(comm, start, 2, 6).wait();
    return "right";
  }));
}

// A sender that ends before its message is over has sent as much as its ways hold.
TEST_P(Messages, OfARankThatLeavesAmidOneAreSaidToBeThereInPart) {
  constexpr size_t kWords = 1'500'000;
  expect_right(run_ranks(2, [&](Communicator& comm) -> std::string {
    std::vector<uint64_t> start(1), text(kWords);
    if (comm.rank() == 1) {
      receive(comm, start, 0, 1).wait();
      const Request message = send(comm, text, 0, 2);
      for (int look = 0; look < 10 && !message.is_over(); ++look) std::this_thread::sleep_for(milliseconds(1));
      return message.is_over() ? "all of it is sent" : "right";
    }
    send(comm, start, 1, 1).wait();
    while (comm.job().agent().liveness().state(1) == Health::alive) std::this_thread::sleep_for(milliseconds(1));
    try {
      receive(comm, text, 1, 2).wait();
      return "it is whole";
    } catch (const Error& error) {
      const std::string says = error.message();
      const bool is_right =
          error.code() == ErrorCode::peer_lost && says.find(" of 12,000,000 bytes had come") != std::string::npos;
      return is_right ? "right" : says;
    }
  }));
}

TEST_P(Messages, FromAnyEndsWithTheNameOfARankThatWasKilled) {
  constexpr uint32_t kRanks = 3, kKilled = 1;
  expect_right(run_ranks(
      kRanks,
      [&](Communicator& comm) -> std::string {
        std::vector<uint64_t> memory(1);
        // It dies when the others have done all before: who is still in a call of all ranks then has lost it there.
        if (comm.rank() == kKilled) {
          for (const uint32_t other : {0u, 2u}) receive(comm, memory, other, 1).wait();
          raise(SIGKILL);
        }
        try {
          send(comm, memory, kKilled, 1).wait();
          receive(comm, memory, kAnyRank, 5).wait();
          return "from whom?";
        } catch (const Error& error) {
          const bool is_right = error.code() == ErrorCode::peer_lost && error.message().starts_with("rank 1 is dead");
          return is_right ? "right" : error.what();
        }
      },
      kKilled));
}

}  // namespace
}  // namespace banyan::run
