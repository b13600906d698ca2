#include "banyan/service/protocol/rings.h"

#include <poll.h>
#include <sys/mman.h>

#include "banyan/base/check.h"
#include "banyan/base/hash.h"
#include "banyan/run/system/event.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

constexpr uint32_t kSubmissions = SessionPage::kSubmissions, kCompletions = SessionPage::kCompletions;

// Every field that has room for it depends on the position.
Submission submission_at(uint64_t position) {
  Submission submission;
  submission.count = mix(1, position);
  submission.send.offset = mix(2, position);
  submission.counts.offset = mix(3, position);
  submission.tag = static_cast<uint32_t>(mix(4, position));
  std::fill(std::begin(submission.zeros), std::end(submission.zeros), static_cast<uint8_t>(mix(5, position)));
  return submission;
}

bool is_at(const Submission& submission, uint64_t position) {
  Submission expected = submission_at(position);
  expected.sequence = position;
  return std::memcmp(&submission, &expected, sizeof expected) == 0;
}

struct TestSession {
  SessionPage page{};
  ClientRings client{page};
  DaemonRings daemon{page};

  void submit() {
    ASSERT_TRUE(client.has_room());
    client.submit({});
  }
  void complete(uint64_t sequence) {
    ASSERT_TRUE(daemon.has_room());
    daemon.complete({.sequence = sequence});
  }
  // A call from beginning to end.
  void call() {
    submit();
    complete(daemon.take()->sequence);
    ASSERT_TRUE(client.take());
  }
};

TEST(Rings, BeginEmptyInZeroedMemory) {
  TestSession session;
  EXPECT_FALSE(session.daemon.take());
  EXPECT_FALSE(session.client.take());
  EXPECT_FALSE(session.client.has_completion());
  EXPECT_FALSE(session.client.is_awaited());
}

TEST(Rings, GiveSubmissionsSequencesFromOneOn) {
  TestSession session;
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) {
    ASSERT_TRUE(session.client.has_room());
    EXPECT_EQ(session.client.submit(submission_at(sequence)), sequence);
  }
  for (uint64_t sequence = 1; sequence <= 3; ++sequence) EXPECT_TRUE(is_at(*session.daemon.take(), sequence));
}

TEST(Rings, HaveRoomForAsManySubmissionsAsTheDaemonHasNotTaken) {
  TestSession session;
  for (uint32_t i = 0; i < kSubmissions; ++i) session.submit();
  EXPECT_FALSE(session.client.has_room());
  session.daemon.take();
  session.submit();
  EXPECT_FALSE(session.client.has_room());
}

TEST(Rings, HaveRoomForAsManyCompletionsAsTheClientHasNotTaken) {
  TestSession session;
  for (uint32_t i = 0; i < kCompletions + 1; ++i) {
    session.submit();
    session.daemon.take();
  }
  for (uint32_t i = 0; i < kCompletions; ++i) session.complete(i + 1);
  EXPECT_FALSE(session.daemon.has_room());
  EXPECT_EQ(session.client.take()->sequence, 1u);
  EXPECT_TRUE(session.daemon.has_room());
}

TEST(Rings, SayThatTheDaemonWaitsForRoomOnce) {
  TestSession session;
  for (uint32_t i = 0; i < kCompletions; ++i) {
    session.submit();
    session.daemon.take();
    session.complete(i + 1);
  }
  EXPECT_FALSE(session.client.is_awaited());
  EXPECT_FALSE(session.daemon.has_room());
  session.client.take();
  EXPECT_TRUE(session.client.is_awaited());
  EXPECT_FALSE(session.client.is_awaited());
}

TEST(Rings, RefuseToWriteWithoutRoom) {
  TestSession session;
  for (uint32_t i = 0; i < kSubmissions; ++i) session.submit();
  EXPECT_DEATH(session.client.submit({}), "CHECK");
  EXPECT_DEATH(session.daemon.complete({.sequence = 1}), "CHECK") << "nothing was taken";
}

// ---- The other side writes what it likes ----

// After five calls and two submissions more, of which the daemon has taken none.
struct Lie {
  std::atomic<uint64_t> SessionPage::*word;
  std::vector<uint64_t> positions;
  void (*look)(TestSession& session);
  std::string before, behind;  // of the position in the refusal
};

TEST(Rings, RefuseImpossiblePositionsOfTheOtherSide) {
  const std::vector<Lie> lies = {{&SessionPage::submitted,
                                  {4, 0, 5 + kSubmissions + 1, 1u << 31, UINT64_MAX, 5 + (uint64_t{1} << 63)},
                                  [](TestSession& session) { session.daemon.take(); },
                                  "its last submission is ",
                                  ", where it can be 5 to 21"},
                                 {&SessionPage::taken,
                                  {4, 6, UINT64_MAX},
                                  [](TestSession& session) { session.daemon.has_room(); },
                                  "has read completion ",
                                  ", where it can be 5 to 5"},
                                 {&SessionPage::completed,
                                  {4, 8, UINT64_MAX},
                                  [](TestSession& session) { session.client.take(); },
                                  "its last completion is ",
                                  ", where it can be 5 to 7"},
                                 {&SessionPage::consumed,
                                  {4, 8, UINT64_MAX},
                                  [](TestSession& session) { session.client.has_room(); },
                                  "has taken submission ",
                                  ""}};
  for (const Lie& lie : lies) {
    for (const uint64_t position : lie.positions) {
      TestSession session;
      for (int i = 0; i < 5; ++i) session.call();
      for (int i = 0; i < 2; ++i) session.submit();
      ASSERT_TRUE(session.daemon.has_room());  // which looks at what the client has read
      const uint64_t honest = (session.page.*lie.word).exchange(position);
      EXPECT_THAT(testing::error_of([&] { lie.look(session); }, ErrorCode::invalid_input),
                  HasSubstr(lie.before + std::to_string(position) + lie.behind));
      (session.page.*lie.word).store(honest);
      EXPECT_TRUE(session.daemon.take()) << "the ring is as it was before";
    }
  }
}

TEST(Rings, RefuseCompletionsOfNoSubmission) {
  for (const Completion& lie : std::vector<Completion>{{.sequence = 0}, {.sequence = 2}, {.sequence = 1, .zero = 1}}) {
    TestSession session;
    session.submit();
    session.daemon.take();
    session.complete(1);
    session.page.completions[0] = lie;
    EXPECT_THAT(testing::error_of([&] { session.client.take(); }, ErrorCode::invalid_input),
                HasSubstr("completes submission " + std::to_string(lie.sequence)));
  }
}

// Whether the daemon completes a call, it has decided by what the client had said before.
TEST(Rings, CompleteWhatHadRoomThoughTheClientTakesItBack) {
  TestSession session;
  session.call();
  session.submit();
  ASSERT_TRUE(session.daemon.take());
  ASSERT_TRUE(session.daemon.has_room());
  session.page.taken.store(UINT64_MAX);
  session.daemon.complete({.sequence = 2});
  EXPECT_EQ(session.page.completed.load(), 2u);
}

// A session page between pages that nobody may touch.
class GuardedPage {
 public:
  GuardedPage() {
    void* const mapping = mmap(nullptr, 3 * kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(mapping != MAP_FAILED);
    memory_ = static_cast<std::byte*>(mapping);
    CHECK(mprotect(memory_ + kPage, kPage, PROT_READ | PROT_WRITE) == 0);
  }
  ~GuardedPage() { munmap(memory_, 3 * kPage); }
  GuardedPage(const GuardedPage&) = delete;
  GuardedPage& operator=(const GuardedPage&) = delete;

  // At the beginning of the page or at its end.
  SessionPage& at_end(bool is_at_end) {
    constexpr size_t kLast = (kPage - sizeof(SessionPage)) / alignof(SessionPage) * alignof(SessionPage);
    return *new (memory_ + kPage + (is_at_end ? kLast : 0)) SessionPage{};
  }

 private:
  static constexpr size_t kPage = 4096;
  std::byte* memory_ = nullptr;
};

TEST(Rings, TouchNothingOutsideThePageWhateverIsWrittenThere) {
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937_64 random(seed);
  GuardedPage memory;
  uint64_t given = 0, refused = 0;
  for (int round = 0; round < 5000; ++round) {
    SessionPage& page = memory.at_end(round % 2 == 0);
    for (Submission& submission : page.submissions) submission.count = 77;
    ClientRings client(page);
    DaemonRings daemon(page);
    for (int step = 0; step < 20; ++step) {
      const uint64_t near = random() % 64 - 8, position = random() % 8 == 0 ? random() : near;
      std::array words = {&page.submitted, &page.taken, &page.completed, &page.consumed};
      words[random() % words.size()]->store(position);
      try {
        if (client.has_room()) client.submit({.count = 77});
        client.take();
        const std::optional<Submission> taken = daemon.take();
        if (taken) {
          ++given;
          ASSERT_EQ(taken->count, 77u);
          if (daemon.has_room()) daemon.complete({.sequence = 1});
        }
      } catch (const Error& error) {
        ++refused;
        ASSERT_EQ(error.code(), ErrorCode::invalid_input);
      }
    }
  }
  EXPECT_GT(given, 1000u);
  EXPECT_GT(refused, 1000u);
}

// ---- Two threads ----

// The daemon's way to sleep: on a descriptor, once it has said so on the page.
class DaemonSleep {
 public:
  explicit DaemonSleep(DoorbellPage& page) : page_(page) {}

  // What a client does that has written something.
  void ring(uint32_t session) {
    if (service::ring(page_, session)) event_.set();
  }
  // Sleeps until somebody has rung; false when nobody does for ten seconds: a wake-up was lost.
  template <typename Rang>
  bool answer_next(const Rang& rang) {
    if (answer(page_, rang)) return true;
    page_.daemon_sleeps.store(1);
    bool was_rung = answer(page_, rang);
    bool is_late = false;
    if (!was_rung) {
      pollfd waits{.fd = event_.fd(), .events = POLLIN, .revents = 0};
      is_late = poll(&waits, 1, 10'000) != 1;
      ++sleeps_;
    }
    page_.daemon_sleeps.store(0);
    event_.clear();
    return !is_late;
  }
  uint64_t sleeps() const { return sleeps_; }

 private:
  DoorbellPage& page_;
  run::Event event_;
  uint64_t sleeps_ = 0;
};

// Now and then a side is slow, so that the other one finds nothing, or no room, and sleeps.
class Pace {
 public:
  explicit Pace(uint64_t seed) : random_(seed) {}
  void pass() {
    if (random_() % 64 == 0) std::this_thread::yield();
    if (random_() % 256 == 0) {
      for (uint64_t i = random_() % 20'000; i > 0; --i) std::atomic_signal_fence(std::memory_order_seq_cst);
    }
  }
  uint64_t number() { return random_(); }

 private:
  std::mt19937_64 random_;
};

// What ends a sleep may happen when the client has looked for the last time, and does not sleep yet.
TEST(Rings, EndASleepThatHasNotBegun) {
  const auto falls_asleep = [](TestSession& session, const std::function<void()>& last_moment) {
    const auto begin = std::chrono::steady_clock::now();
    const auto try_again = [&] {
      last_moment();
      return false;
    };
    session.client.sleep(try_again, std::chrono::seconds(10));
    return std::chrono::steady_clock::now() - begin > std::chrono::seconds(9);
  };
  TestSession session;
  session.submit();
  session.daemon.take();
  EXPECT_FALSE(falls_asleep(session, [&] { session.complete(1); })) << "though a call is done";
  session.client.take();
  EXPECT_FALSE(falls_asleep(session, [&] { session.client.wake(); })) << "though it was woken";
  while (session.client.has_room()) session.submit();
  EXPECT_FALSE(falls_asleep(session, [&] { session.daemon.take(); })) << "though there is room";
}

TEST(Rings, DoNotSleepWhereThereIsSomethingAlready) {
  TestSession session;
  bool was_asked = false;
  const auto sleep = [&] {
    session.client.sleep(
        [&] {
          was_asked = true;
          return true;
        },
        std::chrono::seconds(10));
    return std::exchange(was_asked, false);
  };
  EXPECT_TRUE(sleep());
  while (session.client.has_room()) session.submit();
  session.daemon.take();
  EXPECT_FALSE(sleep()) << "there is room";
  session.complete(1);
  EXPECT_FALSE(sleep()) << "there is a completion";
}

TEST(Rings, EndASleepOfTheClientFromAnotherThread) {
  TestSession session;
  for (int round = 0; round < 1000; ++round) {
    std::atomic<bool> is_over{false};
    std::thread waker([&] {
      is_over = true;
      session.client.wake();
    });
    const auto begin = std::chrono::steady_clock::now();
    while (!is_over) session.client.sleep([&] { return is_over.load(); }, std::chrono::seconds(10));
    const auto slept = std::chrono::steady_clock::now() - begin;
    waker.join();
    ASSERT_LT(slept, std::chrono::seconds(9));
  }
}

// ---- The doorbell ----

TEST(Doorbell, IsAnsweredOnceForEachSessionThatRang) {
  DoorbellPage page{};
  for (const uint32_t session : {0u, 4095u, 64u, 63u, 64u, 1000u}) EXPECT_FALSE(ring(page, session));
  std::vector<uint32_t> rang;
  EXPECT_TRUE(answer(page, [&](uint32_t session) { rang.push_back(session); }));
  EXPECT_THAT(rang, ::testing::ElementsAre(0, 63, 64, 1000, 4095));
  EXPECT_FALSE(answer(page, [](uint32_t session) { ADD_FAILURE() << session; }));
}

TEST(Doorbell, TellsWhoRingsWhetherTheDaemonSleeps) {
  DoorbellPage page{};
  page.daemon_sleeps.store(1);
  EXPECT_TRUE(ring(page, 5));
  page.daemon_sleeps.store(0);
  EXPECT_FALSE(ring(page, 5));
}

TEST(Doorbell, IsAnsweredOnceForEachSessionWhenAllOfItIsOnes) {
  DoorbellPage page{};
  page.groups.store(UINT64_MAX);
  for (auto& word : page.sessions) word.store(UINT64_MAX);
  std::vector<int> times(DoorbellPage::kSessions);
  EXPECT_TRUE(answer(page, [&](uint32_t session) {
    ++times.at(session);
    // Written again while it is read.
    page.groups.store(UINT64_MAX);
    page.sessions[session / 64].store(UINT64_MAX);
  }));
  EXPECT_THAT(times, ::testing::Each(1));
}

// A client that rings for all of its sessions all the time has each of them answered, and a bounded number at once.
TEST(Doorbell, IsAnsweredABoundedNumberAtOnceAndInTurn) {
  constexpr size_t kMost = 100;
  DoorbellPage page{};
  std::vector<int> times(DoorbellPage::kSessions);
  uint64_t groups = 0;
  EXPECT_EQ(answer(page, groups, kMost, [](uint32_t session) { ADD_FAILURE() << session; }), 0u);
  for (int looks = 0; looks < 32; ++looks) {
    page.groups.store(UINT64_MAX);
    for (auto& word : page.sessions) word.store(UINT64_MAX);
    EXPECT_EQ(answer(page, groups, kMost, [&](uint32_t session) { ++times.at(session); }), 2u * 65) << looks;
  }
  EXPECT_THAT(times, ::testing::Each(1));
  EXPECT_EQ(groups, 0u);
  // All is rung once more; a group without a session costs something, too.
  for (auto& word : page.sessions) word.store(0);
  page.sessions[63].store(1);
  EXPECT_EQ(answer(page, groups, 63, [](uint32_t session) { ADD_FAILURE() << session; }), 63u);
  std::vector<uint32_t> rang;
  EXPECT_EQ(answer(page, groups, 63, [&](uint32_t session) { rang.push_back(session); }), 2u);
  EXPECT_THAT(rang, ::testing::ElementsAre(63 * 64));
}

// The daemon may look at any moment: also when half of a ring is written.
TEST(Doorbell, LosesNoRingWhileTheDaemonLooks) {
  DoorbellPage page{};
  std::atomic<uint64_t> rung{0}, answered{0};
  std::atomic<bool> is_over{false};
  std::thread daemon([&] {
    while (!is_over) answer(page, [&](uint32_t) { answered = rung.load(); });
  });
  const auto begin = std::chrono::steady_clock::now();
  const auto passed = [&] { return std::chrono::steady_clock::now() - begin; };
  while (passed() < std::chrono::milliseconds(300) && answered == rung) {
    ++rung;
    ring(page, 100);
    while (answered != rung && passed() < std::chrono::seconds(10)) std::this_thread::yield();
  }
  is_over = true;
  daemon.join();
  EXPECT_EQ(answered, rung);
  EXPECT_GT(rung, 0u);
}

TEST(Doorbell, LosesNoRingOfManyThreads) {
  constexpr uint32_t kThreads = 3;
  constexpr uint64_t kRings = 20'000;
  const uint64_t seed = std::random_device()();
  SCOPED_TRACE("seed " + std::to_string(seed));
  DoorbellPage page{};
  DaemonSleep sleep(page);
  std::vector<std::atomic<uint64_t>> work(DoorbellPage::kSessions);
  std::vector<std::thread> threads;
  for (uint32_t thread = 0; thread < kThreads; ++thread) {
    threads.emplace_back([&, thread] {
      Pace pace(seed + thread);
      for (uint64_t i = 0; i < kRings; ++i) {
        const auto session = static_cast<uint32_t>(pace.number() % DoorbellPage::kSessions);
        work[session].fetch_add(1, std::memory_order_relaxed);
        sleep.ring(session);
        pace.pass();
      }
    });
  }
  uint64_t done = 0;
  bool was_rung = true;
  while (was_rung && done < kThreads * kRings) {
    was_rung = sleep.answer_next([&](uint32_t session) { done += work[session].exchange(0); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(done, kThreads * kRings);
}

}  // namespace
}  // namespace banyan::service
