// Users of one machine that do not know each other, and very many programs that come and go: each is a process here,
// and where the test is run by root, of a user of its own. Each host is a name here.
#include <dirent.h>
#include <grp.h>
#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <iostream>

#include "apps/banyand/test_banyand.h"
#include "banyan/base/check.h"
#include "banyan/run/system/processes.h"
#include "banyan/service/client/service_executor.h"
#include "banyan/service/daemon/test_raw_client.h"
#include "banyan/testing/shared_among_processes.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Call;
using run::OperationKind;

constexpr uid_t kFirstUser = 60'001;
constexpr size_t kBuffers = 128 * RawClient::kPage;

// In memory that the processes of a test share.
struct Board {
  std::atomic<int> step;
  std::atomic<uint64_t> sums;
  std::atomic<int> visitors;
  uint8_t region_of_victim[sizeof(BufferName)];
  pid_t victim;
};

void become(uid_t user) {
  CHECK(setgroups(0, nullptr) == 0 && setgid(user) == 0 && setuid(user) == 0) << "user " << user;
}

class Tenants : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  Tenants() {
    std::filesystem::permissions(folder_, std::filesystem::perms(0755));
    // Other users may not go through the folders above.
    CHECK(chdir(folder_.c_str()) == 0) << folder_;
    for (const char* const host : {"a", "b"}) {
      daemons_.push_back(std::make_unique<BanyandProcess>(BanyandProcess::Options{
          .socket = folder_ + "/" + host, .world = "file://" + folder_ + "/world", .host = host}));
    }
  }
  ~Tenants() override { CHECK(chdir("/") == 0) << "/"; }
  void wait_for(int step) const {
    while (board_->step < step) std::this_thread::sleep_for(milliseconds(1));
  }

  const testing::SharedAmongProcesses<Board> board_;
  std::vector<std::unique_ptr<BanyandProcess>> daemons_;
};

// ---- Two users ----

std::string send_to_itself(RawClient& client, uint32_t session) {
  client.data()[kBuffers] = std::byte{42};
  client.submit(session, client.message(OperationKind::send, 1, 1, kBuffers));
  const auto end = std::chrono::steady_clock::now() + seconds(20);
  for (int done = 0; done < 2;) {
    if (client.rings(session).take()) ++done;
    if (std::chrono::steady_clock::now() > end) return "its call does not end";
    std::this_thread::yield();
  }
  return client.data()[kBuffers + 1] == std::byte{42} ? "right" : "wrong";
}

std::string be_victim(Board& board) {
  become(kFirstUser);
  RawClient client("a");
  CHECK(client.offer() == "" && client.open(0) == "") << "it is not served";
  client.submit(0, client.message(OperationKind::recv, 1, 1, kBuffers + 1));
  const BufferName name = client.at(0);
  std::memcpy(board.region_of_victim, &name, sizeof name);
  board.victim = getpid();
  board.step = 1;
  while (board.step < 2) std::this_thread::sleep_for(milliseconds(1));
  if (client.rings(0).has_completion()) return "its receive has got something";
  if (client.hear(milliseconds(0))) return "it has been told something";
  for (size_t i = kBuffers; i < RawClient::kPages * RawClient::kPage; ++i) {
    if (client.data()[i] != std::byte{0}) return "byte " + std::to_string(i) + " of its memory has changed";
  }
  return send_to_itself(client, 0);
}

// Returns what it has been able to do.
std::string be_attacker(Board& board) {
  become(kFirstUser + 1);
  while (board.step < 1) std::this_thread::sleep_for(milliseconds(1));
  BufferName of_victim;
  std::memcpy(&of_victim, board.region_of_victim, sizeof of_victim);
  std::string done;
  {
    RawClient client("a");
    OpenSession wish = client.wish_for(0);
    wish.page = of_victim;
    client.say(wish);
    if (client.answer().find("not in memory that was offered") == std::string::npos) done += "had a page there; ";
  }
  RawClient client("a");
  CHECK(client.offer() == "") << "it is not served";
  // The victim's numbers, and its name of memory; but the region is this client's own.
  CHECK(client.open(0) == "") << "it is not served";
  client.submit(0, client.message(OperationKind::recv, 1, 1, kBuffers + 1));
  if (send_to_itself(client, 0) != "right") done += "could not call itself; ";
  Submission beyond = client.message(OperationKind::recv, 1, 1, kBuffers);
  beyond.recv.region = of_victim.region + 1;
  client.submit(0, beyond);
  if (client.answer().find("refuses a call") == std::string::npos) done += "named memory of others; ";
  for (auto& word : client.doorbell().sessions) word.store(UINT64_MAX);
  client.doorbell().groups.store(UINT64_MAX);
  client.submit(0, beyond);
  // A capability that is nearly right gets it into no communicator of others.
  std::mt19937_64 random(1);
  for (uint32_t session = 1; session < 50; ++session) {
    OpenSession guess = client.wish_for(session);
    for (uint8_t& byte : guess.capability) byte = static_cast<uint8_t>(random());
    guess.communicator = 0;
    client.say(guess);
    CHECK(client.answer() == "") << "it is not served";
    client.submit(session, client.message(OperationKind::send, 1, 1, kBuffers));
  }
  DIR* const descriptors = opendir(("/proc/" + std::to_string(board.victim) + "/fd").c_str());
  if (descriptors != nullptr) {
    closedir(descriptors);
    done += "saw the descriptors of the victim; ";
  }
  std::this_thread::sleep_for(milliseconds(50));
  board.step = 2;
  return done;
}

TEST_F(Tenants, OfTwoUsersCannotUseEachOthersSessionsMemoryOrDoorbells) {
  if (geteuid() != 0) GTEST_SKIP() << "only root can become other users";
  const std::vector<std::string> reports = run::run_processes(
      2, seconds(60), [&](uint32_t number) { return number == 0 ? be_victim(*board_) : be_attacker(*board_); });
  EXPECT_EQ(reports[0], "right");
  EXPECT_EQ(reports[1], "");
}

// ---- Very many ----

class Patient : public run::Watch {
 public:
  void waiting_for(uint32_t rank) override {
    if (deadline_.has_passed()) throw Error(ErrorCode::timed_out, "rank " + std::to_string(rank) + " does not come");
  }

 private:
  const run::Deadline deadline_ = run::Deadline::after(seconds(60));
};

// A job of two ranks, of which this process is both.
class Job {
 public:
  explicit Job(const std::string& tenant) {
    for (const char* const socket : {"unix:a", "unix:b"}) {
      ends_.push_back(Attachment::to(socket, pools_[ends_.size()], run::Deadline::after(seconds(60))));
    }
    for (uint32_t rank = 0; rank < 2; ++rank) {
      OpenSession wish;
      wish.capability = ends_[0]->capability();
      wish.name = "visit";
      wish.tenant = tenant;
      wish.rank = rank;
      wish.members = {0, 1};
      wish.job_size = 2;
      wish.hosts = {ends_[0]->host(), ends_[1]->host()};
      wish.host_of_rank = {0, 1};
      wish.timeout = wish.join_timeout = 60'000;
      ranks_.push_back(std::make_unique<ServiceExecutor>(
          ends_[rank], std::move(wish), ServiceExecutor::Options{.rank = rank, .size = 2, .is_oversubscribed = true},
          run::Deadline::after(seconds(60))));
    }
  }
  // Whether it was right.
  bool sum(size_t count) {
    std::vector<int32_t> values[2], sums[2];
    for (uint32_t rank = 0; rank < 2; ++rank) {
      values[rank].resize(count);
      sums[rank].resize(count);
      for (size_t i = 0; i < count; ++i) values[rank][i] = static_cast<int32_t>(rank * 1'000'003 + i * 7);
      const Call call{.kind = OperationKind::all_reduce,
                      .type = element::DataType::int32,
                      .send = reinterpret_cast<const std::byte*>(values[rank].data()),
                      .recv = reinterpret_cast<std::byte*>(sums[rank].data()),
                      .count = count};
      ranks_[rank]->start(call, numbers_of(call));
    }
    for (auto& rank : ranks_) {
      Patient watch;
      rank->finish(watch);
    }
    for (size_t i = 0; i < count; ++i) {
      const int32_t expected = values[0][i] + values[1][i];
      if (sums[0][i] != expected || sums[1][i] != expected) return false;
    }
    return true;
  }

 private:
  run::RegionPool pools_[2];
  std::vector<std::shared_ptr<Attachment>> ends_;
  std::vector<std::unique_ptr<ServiceExecutor>> ranks_;
};

struct Footprint {
  size_t descriptors = 0, mapped = 0, kilobytes = 0;
};
Footprint footprint_of(pid_t process) {
  const std::string folder = "/proc/" + std::to_string(process);
  Footprint print;
  const std::filesystem::directory_iterator open(folder + "/fd");
  print.descriptors = static_cast<size_t>(std::distance(begin(open), end(open)));
  std::ifstream maps(folder + "/maps");
  for (std::string line; std::getline(maps, line);) ++print.mapped;
  std::ifstream status(folder + "/status");
  for (std::string word; status >> word;) {
    if (word == "VmRSS:") status >> print.kilobytes;
  }
  return print;
}

class ManyTenants : public Tenants {
 protected:
  static constexpr uint32_t kProcesses = 10;

  std::string visit(uint32_t process, uint32_t visits, uint64_t seed) {
    if (geteuid() == 0) become(kFirstUser + 1 + process);
    wait_for(1);
    std::mt19937_64 random(seed + process);
    for (uint32_t number = 0; number < visits; ++number) {
      Job job("tenant " + std::to_string(process * visits + number));
      for (uint64_t calls = random() % 20; calls > 0; --calls) {
        if (!job.sum(1 + random() % 20'000)) return "a sum is wrong";
      }
    }
    ++board_->visitors;
    return "right";
  }
  // Goes on while the others come and go.
  std::string stay() {
    if (geteuid() == 0) become(kFirstUser);
    Job job("stays");
    while (board_->visitors < static_cast<int>(kProcesses)) {
      if (!job.sum(1000)) return "a sum is wrong";
      if (++board_->sums == 10) board_->step = 1;
    }
    return "right";
  }
  void go_through(uint32_t visits, seconds at_most) {
    const uint64_t seed = seed_of_test();
    std::vector<Footprint> before;
    const auto all_of_it = [&] {
      board_->step = 0;
      board_->sums = 0;
      board_->visitors = 0;
      EXPECT_THAT(run::run_processes(
                      kProcesses + 1, at_most,
                      [&](uint32_t number) { return number < kProcesses ? visit(number, visits, seed) : stay(); }),
                  Each("right"));
    };
    all_of_it();  // after which the daemons have all that they keep for themselves
    for (const auto& daemon : daemons_) before.push_back(footprint_of(daemon->id()));
    all_of_it();
    for (size_t i = 0; i < daemons_.size(); ++i) {
      ASSERT_FALSE(daemons_[i]->has_ended());
      Footprint after;
      const auto end = std::chrono::steady_clock::now() + seconds(20);
      do {
        std::this_thread::sleep_for(milliseconds(5));
        after = footprint_of(daemons_[i]->id());
      } while (after.descriptors > before[i].descriptors && std::chrono::steady_clock::now() < end);
      EXPECT_LE(after.descriptors, before[i].descriptors) << "daemon " << i;
      EXPECT_LE(after.mapped, before[i].mapped + 20) << "daemon " << i;
      EXPECT_LE(after.kilobytes, before[i].kilobytes + 16'384) << "daemon " << i;
    }
    std::cout << kProcesses * visits << " tenants; " << board_->sums << " sums of the one that stayed" << std::endl;
  }
};

TEST_F(ManyTenants, AHundredAttachCallAndLeaveWhileOthersRun) { go_through(10, seconds(300)); }

}  // namespace
}  // namespace banyan::service
