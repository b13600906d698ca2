// Looking in from outside, at agents of this process.
#include "banyan/run/agent/looks.h"

#include <net/if.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "banyan/base/check.h"
#include "banyan/run/agent/job_view.h"
#include "banyan/run/agent/test_worlds.h"
#include "banyan/run/record/test_dumps.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

Deadline soon_over() { return Deadline::after(std::chrono::seconds(20)); }

CommunicatorHooks hooks_of(uint32_t rank, uint32_t size) {
  return {.state = {}, .broadcast = {}, .liveness_changed = {}, .failed = {}, .look = [=] {
            return CommunicatorView{.record = SampleDump("world", rank, size).add_done(rank + 1, 99).get(),
                                    .lanes = {{.peer = 0, .lane = 0, .sent = 100 * rank, .received = 0}}};
          }};
}

std::string place_of(Agent& agent) { return "127.0.0.1:" + std::to_string(agent.members()[agent.rank()].port); }

std::set<std::string> doors_of_this_process() {
  std::set<std::string> names;
  std::ifstream table("/proc/self/net/unix");
  for (std::string line; std::getline(table, line);) {
    const size_t place = line.find("@" + door_prefix(getpid()));
    if (place != std::string::npos) names.insert(line.substr(place + 1));
  }
  return names;
}

TEST(Looks, ShowWhatAllRanksAreDoing) {
  LocalWorld world(3);
  std::vector<HookRegistration> hooks;
  for (uint32_t rank = 0; rank < 3; ++rank) hooks.push_back(world[rank].attach(1, hooks_of(rank, 3)));
  const JobView job = look_at(place_of(world[1]), Secret(), soon_over());
  EXPECT_EQ(job.asked, 1u);
  ASSERT_THAT(job.ranks, SizeIs(3));
  for (uint32_t rank = 0; rank < 3; ++rank) {
    ASSERT_TRUE(job.ranks[rank].view) << rank << ": " << job.ranks[rank].why;
    const ProcessView& view = *job.ranks[rank].view;
    EXPECT_EQ(view.rank, rank);
    EXPECT_EQ(view.pid, getpid());
    ASSERT_THAT(view.communicators, SizeIs(1));
    EXPECT_EQ(view.communicators[0].record.begun, rank + 1);
    EXPECT_EQ(view.communicators[0].lanes.at(0).sent, 100 * rank);
  }
}

// By the door of a process, which is in as many worlds as there are agents.
TEST(Looks, NeedNoSecretFromTheUserOfTheProcess) {
  LocalWorld world(2);
  const std::vector<JobView> jobs = look_at_process(getpid(), soon_over());
  ASSERT_THAT(jobs, SizeIs(2));
  for (uint32_t rank = 0; rank < 2; ++rank) {
    EXPECT_EQ(jobs[rank].asked, rank);
    ASSERT_THAT(jobs[rank].ranks, SizeIs(2));
    for (const JobView::Rank& each : jobs[rank].ranks) EXPECT_TRUE(each.view) << each.why;
  }
}

TEST(Looks, SayWhoIsGoneAndWhy) {
  LocalWorld world(3);
  world.end(2);  // without a word: it is dead to the others
  ASSERT_TRUE(wait_for_state(world[0], 2, Health::dead));
  ASSERT_TRUE(wait_for_state(world[1], 2, Health::dead));
  const JobView job = look_at(place_of(world[0]), Secret(), soon_over());
  EXPECT_FALSE(job.ranks.at(2).view);
  EXPECT_EQ(job.ranks[2].health, Health::dead);
  EXPECT_NE(job.ranks[2].why, "");
  ASSERT_TRUE(job.ranks[1].view);
  ASSERT_THAT(job.ranks[1].view->doubts, SizeIs(1));
  EXPECT_EQ(job.ranks[1].view->doubts[0].rank, 2u);
  EXPECT_EQ(job.ranks[1].view->doubts[0].health, Health::dead);
}

TEST(Looks, AreForNobodyWithoutTheSecret) {
  LocalWorld world(2);
  const Error error = testing::thrown_by([&] { look_at(place_of(world[0]), Secret::random(), soon_over()); });
  EXPECT_EQ(error.code(), ErrorCode::mismatch) << error.what();
}

TEST(Looks, NameWhatIsNoPlace) {
  EXPECT_THAT(testing::error_of([] { look_at("node7", Secret(), soon_over()); }), HasSubstr("write host:port"));
  EXPECT_THAT(testing::error_of([] { look_at("node7:0x1", Secret(), soon_over()); }), HasSubstr("write host:port"));
  EXPECT_THAT(testing::error_of([] { look_at_process(0x7fffffff, soon_over()); }), HasSubstr("there is no process"));
  EXPECT_THAT(testing::error_of([] { look_at_process(getpid(), soon_over()); }), HasSubstr("have joined no job"));
}

// As a launcher has, whose number is what a person knows; not as its grandchild's other relatives.
TEST(Looks, AtALauncherAreAtARankThatItHasStarted) {
  int ends[2], holds[2];
  ASSERT_EQ(pipe(ends) + pipe(holds), 0);
  const pid_t launcher = fork();
  if (launcher == 0) {
    const pid_t rank = fork();  // by a shell between, say
    if (rank == 0) {
      const LocalWorld world(2);
      char letter = 'r';
      if (write(ends[1], &letter, 1) == 1) (void)!read(holds[0], &letter, 1);
      _exit(0);
    }
    waitpid(rank, nullptr, 0);
    _exit(0);
  }
  char letter = 0;
  ASSERT_EQ(read(ends[0], &letter, 1), 1);
  const std::vector<int64_t> joined = joined_processes(launcher);
  ASSERT_EQ(joined.size(), 1u);
  EXPECT_NE(joined.front(), launcher);
  const std::vector<JobView> jobs = look_at_process(launcher, soon_over());
  EXPECT_THAT(jobs, SizeIs(2)) << "each of its agents is of a world of its own here";
  EXPECT_EQ(jobs.front().ranks.size(), 2u);
  EXPECT_EQ(joined_processes(getpid()), joined);
  ASSERT_EQ(write(holds[1], &letter, 1), 1);
  waitpid(launcher, nullptr, 0);
  EXPECT_TRUE(joined_processes(getpid()).empty());
}

// A door with as many callers before it as may wait, which another user may have and never open.
class FullDoor {
 public:
  explicit FullDoor(const std::string& name) : door_(made()) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    name.copy(address.sun_path + 1, name.size());
    const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
    const auto* const place = reinterpret_cast<const sockaddr*>(&address);
    CHECK(bind(door_.get(), place, size) == 0 && listen(door_.get(), 0) == 0) << name;
    do callers_.push_back(made());
    while (connect(callers_.back().get(), place, size) == 0);
  }

 private:
  static FileDescriptor made() {
    return FileDescriptor(socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  }

  const FileDescriptor door_;
  std::vector<FileDescriptor> callers_;
};

// Doors are seen by all of a network: nobody else who looks at jobs of this host meanwhile meets those of this test.
// False where users may not have networks of their own.
bool enter_own_network() {
  const std::string user = std::to_string(geteuid());
  if (unshare(CLONE_NEWNET) != 0) {
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0) return false;
    std::ofstream("/proc/self/uid_map") << user + " " + user + " 1";
  }
  ifreq loopback{};
  std::strcpy(loopback.ifr_name, "lo");
  loopback.ifr_flags = IFF_UP;
  const FileDescriptor socket(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return ioctl(socket.get(), SIOCSIFFLAGS, &loopback) == 0;
}

TEST(Looks, GoPastADoorThatNobodyOpens) {
  if (!enter_own_network()) GTEST_SKIP() << "no network of one's own here";
  const FullDoor full(door_prefix(1) + "0");  // of the first process
  const LocalWorld world(2);
  const std::string met = look_at_process(getpid(), soon_over()).front().met;
  EXPECT_TRUE(look_at_job_that_met(met, soon_over()));
  const Error error =
      testing::thrown_by([] { look_at_job_that_met("tcp://nowhere:1", Deadline::after(milliseconds(200))); });
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.message(), HasSubstr("process 1 on "));
  EXPECT_THAT(error.message(), HasSubstr("is called by too many others, and has not answered within 200 ms"));
}

// As another user may open one, under the number of a process that has doors of its own, and of one that has none, such
// as a launcher.
TEST(Looks, GoPastAStrangersDoorOfTheSameProcess) {
  if (!enter_own_network()) GTEST_SKIP() << "no network of one's own here";
  int ends[2], holds[2];
  ASSERT_EQ(pipe(ends) + pipe(holds), 0);
  const pid_t own = getpid(), stranger = fork();
  if (stranger == 0) {
    const FullDoor first(door_prefix(own) + "0"), last(door_prefix(own) + "9223372036854775807");
    char letter = 'r';
    if (write(ends[1], &letter, 1) == 1) (void)!read(holds[0], &letter, 1);
    _exit(0);
  }
  char letter = 0;
  ASSERT_EQ(read(ends[0], &letter, 1), 1);
  EXPECT_THAT(testing::error_of([&] { look_at_process(own, soon_over()); }), HasSubstr("have joined no job"));
  EXPECT_TRUE(joined_processes(own).empty());
  {
    const LocalWorld world(2);
    EXPECT_THAT(look_at_process(own, soon_over()), SizeIs(2));
    EXPECT_EQ(joined_processes(own), std::vector<int64_t>{own});
  }
  ASSERT_EQ(write(holds[1], &letter, 1), 1);
  waitpid(stranger, nullptr, 0);
}

// Who says nothing, reads nothing or hangs up at once costs the agent nothing.
TEST(Looks, OutliveVisitorsOfAllKinds) {
  LocalWorld world(2);
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 40; ++i) {
    for (const std::string& door : doors_of_this_process()) {
      FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
      sockaddr_un address{};
      address.sun_family = AF_UNIX;
      door.copy(address.sun_path + 1, door.size());
      const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + door.size());
      if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), size) != 0) continue;
      if (i % 2 == 0) silent.push_back(std::move(socket));
    }
  }
  EXPECT_FALSE(silent.empty());
  EXPECT_THAT(look_at_process(getpid(), soon_over()), SizeIs(2));
}

TEST(Looks, HaveDoorsThatNobodyCanForesee) {
  const LocalWorld world(2);
  const std::set<std::string> names = doors_of_this_process();
  ASSERT_THAT(names, SizeIs(2));
  for (const std::string& name : names) EXPECT_GT(name.size(), door_prefix(getpid()).size() + 6) << name;
}

}  // namespace
}  // namespace banyan::run
