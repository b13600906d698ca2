#include "banyan/run/system/poller.h"

#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/test_event_source.h"
#include "banyan/run/system/waiter.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = WaitSet::Clock;

TEST(Poller, TellsOfEachSourceToWhichAnythingHappensOnceAndOfNoOther) {
  FakeSource quiet(2), first(3), second(1);
  Poller poller;
  std::vector<std::string> told;
  EXPECT_TRUE(poller.watch(quiet, [&] { told.emplace_back("quiet"); }));
  EXPECT_TRUE(poller.watch(first, [&] { told.emplace_back("first"); }));
  EXPECT_TRUE(poller.watch(second, [&] { told.emplace_back("second"); }));
  poller.look();
  EXPECT_THAT(told, IsEmpty());
  first.ring(2);
  poller.look();
  EXPECT_THAT(told, ElementsAre("first"));
  EXPECT_THAT(first.rung, ElementsAre(2));
  first.ring(1);  // nobody watches it now
  second.ring();
  poller.look();
  EXPECT_THAT(told, ElementsAre("first", "second"));
  poller.look();
  EXPECT_EQ(told.size(), 2u);
  EXPECT_TRUE(poller.watch(first, [&] { told.emplace_back("again"); }));
  poller.look();
  EXPECT_THAT(told, ElementsAre("first", "second", "again"));
  EXPECT_THAT(first.rung, ElementsAre(2, 1));
}

TEST(Poller, DoesNotWatchASourceThatHasWork) {
  FakeSource busy;
  busy.has_work = true;
  Poller poller;
  EXPECT_FALSE(poller.watch(busy, [] { FAIL(); }));
  EXPECT_TRUE(poller.is_idle());
  busy.ring();
  poller.look();
  EXPECT_THAT(busy.rung, IsEmpty());
}

TEST(Poller, GoesOnWatchingASourceWhoseNewsAreNone) {
  FakeSource source;
  source.ignores_rings = true;
  Poller poller;
  size_t told = 0;
  EXPECT_TRUE(poller.watch(source, [&] { ++told; }));
  for (size_t i = 1; i <= 3; ++i) {
    source.ring();
    poller.look();
    EXPECT_EQ(source.prepared, i + 1);
  }
  EXPECT_EQ(told, 0u);
  source.ignores_rings = false;
  source.ring();
  poller.look();
  EXPECT_EQ(told, 1u);
}

TEST(Poller, SaysNothingOfAForgottenSource) {
  Poller poller;
  auto gone = std::make_unique<FakeSource>();
  FakeSource stays;
  const int number = gone->events[0].get();
  EXPECT_TRUE(poller.watch(*gone, [] { FAIL(); }));
  gone->ring();
  poller.forget(*gone);
  poller.forget(*gone);
  gone.reset();
  poller.look();
  // The number of its descriptor is used anew, by another source.
  FakeSource next;
  ASSERT_EQ(next.events[0].get(), number);
  size_t told = 0;
  EXPECT_TRUE(poller.watch(next, [&] { ++told; }));
  poller.look();
  EXPECT_EQ(told, 0u);
  next.ring();
  poller.look();
  EXPECT_EQ(told, 1u);
}

TEST(Poller, WakesForDeadlinesToTheirMicroseconds) {
  FakeSource late, soon;
  late.deadline = Clock::now() + seconds(100);
  const auto due = Clock::now() + std::chrono::microseconds(2'500);
  soon.deadline = due;
  Poller poller;
  std::vector<std::string> told;
  EXPECT_TRUE(poller.watch(late, [&] { told.emplace_back("late"); }));
  EXPECT_TRUE(poller.watch(soon, [&] { told.emplace_back("soon"); }));
  EXPECT_TRUE(wait_for(poller, seconds(20)));
  EXPECT_GE(Clock::now(), due);
  poller.look();
  EXPECT_THAT(told, ElementsAre("soon"));
}

TEST(Poller, EndsTheSleepOfAWaiterWhenAnythingHappens) {
  std::vector<FakeSource> sources(100);
  Poller poller;
  size_t told = 0;
  for (FakeSource& source : sources) EXPECT_TRUE(poller.watch(source, [&] { ++told; }));
  EXPECT_FALSE(wait_for(poller, milliseconds(1)));
  sources[77].ring();
  EXPECT_TRUE(wait_for(poller, seconds(20)));
  poller.look();
  EXPECT_EQ(told, 1u);
  EXPECT_THAT(sources[77].rung, ElementsAre(0));
  EXPECT_FALSE(wait_for(poller, milliseconds(0)));
}

TEST(Poller, FindsMoreThanTheKernelTellsAtOnce) {
  std::vector<FakeSource> sources(500);
  Poller poller;
  size_t told = 0;
  for (FakeSource& source : sources) {
    EXPECT_TRUE(poller.watch(source, [&] { ++told; }));
    source.ring();
  }
  poller.look();
  EXPECT_EQ(told, 500u);
  EXPECT_TRUE(poller.is_idle());
}

TEST(Poller, ThrowsWhereADescriptorCannotBeWaitedFor) {
  struct Broken : EventSource {
    void prepare(WaitSet& set) override { set.watch(-1, POLLIN); }
    bool react(std::span<const pollfd> /*polled*/) override { return true; }
  } broken;
  Poller poller;
  EXPECT_THROW(poller.watch(broken, [] {}), Error);
  EXPECT_TRUE(poller.is_idle());
}

// A pair of sockets, whose reader is watched or not, as chance has it. What it should find is kept beside it.
struct Reader : EventSource {
  explicit Reader(bool is_kept) : keeps(is_kept) { open(); }
  void open() {
    own.reset();
    other.reset();
    std::array<int, 2> both{};
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    own = FileDescriptor(both[0]);
    other = FileDescriptor(both[1]);
    since = keeps ? WaitSet::draw_number() : 0;
    sent = received = 0;
  }
  void prepare(WaitSet& set) override { set.watch_kept(own.get(), POLLIN, since); }
  bool react(std::span<const pollfd> polled) override { return polled.front().revents != 0; }
  const bool keeps;
  FileDescriptor own, other;
  uint64_t since = 0;
  size_t sent = 0, received = 0;
  bool is_watched = false;
};

TEST(Poller, SleepsThoughAKeptDescriptorHasNewsForNobody) {
  Poller poller;
  Reader kept(true), other(false);
  size_t told = 0;
  const auto watch = [&](Reader& reader) { return poller.watch(reader, [&] { ++told; }); };
  ASSERT_TRUE(watch(kept));
  poller.forget(kept);
  ASSERT_EQ(write(kept.other.get(), "x", 1), 1);
  EXPECT_FALSE(wait_for(poller, milliseconds(0))) << "nobody waits for anything";
  ASSERT_TRUE(watch(other));
  EXPECT_TRUE(wait_for(poller, seconds(20)));
  poller.look();
  EXPECT_EQ(told, 0u);
  EXPECT_FALSE(wait_for(poller, milliseconds(1))) << "it has been told once";
  ASSERT_TRUE(watch(kept));
  EXPECT_TRUE(wait_for(poller, seconds(20)));
  poller.look();
  EXPECT_EQ(told, 1u) << "it is still there to be read";
}

TEST(Poller, TellsThatTheOtherEndOfAKeptDescriptorIsGone) {
  Poller poller;
  Reader kept(true);
  size_t told = 0;
  for (size_t times = 1; times <= 2; ++times) {
    ASSERT_TRUE(poller.watch(kept, [&] { ++told; }));
    kept.other.reset();
    EXPECT_TRUE(wait_for(poller, seconds(20)));
    poller.look();
    EXPECT_EQ(told, times);
  }
}

TEST(Poller, FindsAllOfVeryManyKeptDescriptorsThoughMoreHaveNewsForNobody) {
  Poller poller;
  std::vector<std::unique_ptr<Reader>> readers(400);
  size_t told = 0;
  for (size_t i = 0; i < readers.size(); ++i) {
    readers[i] = std::make_unique<Reader>(true);
    ASSERT_EQ(write(readers[i]->other.get(), "x", 1), 1);
    ASSERT_TRUE(poller.watch(*readers[i], [&] { ++told; }));
    if (i % 10 > 0) poller.forget(*readers[i]);
  }
  poller.look();
  EXPECT_EQ(told, readers.size() / 10);
}

// How many descriptors the pollers of this process have the kernel watch.
size_t watched_by_the_kernel() {
  size_t count = 0;
  for (const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code gone;
    if (std::filesystem::read_symlink(each.path(), gone) != "anon_inode:[eventpoll]") continue;
    std::ifstream about("/proc/self/fdinfo/" + each.path().filename().string());
    for (std::string line; std::getline(about, line);) count += line.starts_with("tfd:") ? 1 : 0;
  }
  return count;
}

TEST(Poller, HasAllButAFewDescriptorsWithNewsForNobodyWatchedNoLonger) {
  Poller poller;
  Reader watched(true);
  std::vector<std::unique_ptr<Reader>> readers(400);
  size_t told = 0;
  ASSERT_TRUE(poller.watch(watched, [] {}));
  for (auto& each : readers) {
    each = std::make_unique<Reader>(true);
    ASSERT_TRUE(poller.watch(*each, [&] { ++told; }));
    poller.forget(*each);
    ASSERT_EQ(write(each->other.get(), "x", 1), 1);
  }
  EXPECT_EQ(watched_by_the_kernel(), 1 + readers.size());
  poller.look();
  EXPECT_LE(watched_by_the_kernel(), 1 + Poller::kMostForNobody);
  EXPECT_EQ(told, 0u);
  for (auto& each : readers) ASSERT_TRUE(poller.watch(*each, [&] { ++told; }));
  poller.look();
  EXPECT_EQ(told, readers.size()) << "all is still there to be read";
}

TEST(Poller, MissesNothingWhateverTheOrder) {
  const unsigned seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  Poller poller;
  std::vector<std::unique_ptr<Reader>> readers(20);
  for (size_t i = 0; i < readers.size(); ++i) readers[i] = std::make_unique<Reader>(i % 2 == 0);
  for (int step = 0; step < 20'000; ++step) {
    Reader& reader = *readers[random() % readers.size()];
    switch (random() % 6) {
      case 0:
        ASSERT_EQ(write(reader.other.get(), "x", 1), 1);
        ++reader.sent;
        break;
      case 1:
        if (reader.is_watched) break;
        reader.is_watched = poller.watch(reader, [&reader] { reader.is_watched = false; });
        break;
      case 2:
        poller.forget(reader);
        reader.is_watched = false;
        break;
      case 3: {
        if (reader.is_watched) break;
        std::array<char, 4> bytes{};
        reader.received += static_cast<size_t>(std::max<ssize_t>(0, read(reader.own.get(), bytes.data(), 4)));
        break;
      }
      case 4: {  // the next ones have the same numbers
        if (reader.is_watched || random() % 4 > 0) break;
        reader.open();
        break;
      }
      default:
        if (random() % 2 == 0) wait_for(poller, milliseconds(0));
        poller.look();
        for (const auto& each : readers) ASSERT_FALSE(each->is_watched && each->sent > each->received) << step;
    }
  }
}

}  // namespace
}  // namespace banyan::run
