// The tests of weak memory that models are held against, by their usual names: what C++20 allows must be found, and
// what it forbids must not.
#include "banyan/testing/orders/explorer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <set>
#include <string>
#include <thread>

#include "banyan/run/system/futex.h"
#include "banyan/run/system/memory_barrier.h"
#include "banyan/testing/orders/hooks.h"

namespace banyan::testing::orders {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;

constexpr auto rlx = std::memory_order_relaxed, acq = std::memory_order_acquire, rel = std::memory_order_release,
               acr = std::memory_order_acq_rel, sc = std::memory_order_seq_cst;

struct Words {
  std::atomic<int> x{0}, y{0}, z{0};
  int plain = 0;
  int a = 0, b = 0, c = 0, d = 0;  // results

  std::string results() const { return std::to_string(a) + std::to_string(b) + std::to_string(c) + std::to_string(d); }
};

// All results that threads can come to.
template <typename... Bodies>
std::set<std::string> results(Bodies... bodies) {
  std::set<std::string> all;
  const Outcome outcome = explore([&](Trial& trial) {
    auto& words = *new Words;
    (trial.thread("a thread", [&words, bodies] { bodies(words); }), ...);
    trial.at_end([&words, &all] {
      const uint32_t part = set_part(kNoPart);
      all.insert(words.results());
      set_part(part);
    });
  });
  EXPECT_EQ(outcome.wrong, "");
  return all;
}

TEST(Explorer, ReordersStoresAndLoadsOfDifferentWords) {
  const auto weak = results([](Words& w) { w.x.store(1, rel), w.a = w.y.load(acq); },
                            [](Words& w) { w.y.store(1, rel), w.b = w.x.load(acq); });
  EXPECT_THAT(weak, ElementsAre("0000", "0100", "1000", "1100"));
  const auto strong = results([](Words& w) { w.x.store(1, sc), w.a = w.y.load(sc); },
                              [](Words& w) { w.y.store(1, sc), w.b = w.x.load(sc); });
  EXPECT_THAT(strong, ElementsAre("0100", "1000", "1100"));
  const auto one_is_weak = results([](Words& w) { w.x.store(1, sc), w.a = w.y.load(sc); },
                                   [](Words& w) { w.y.store(1, sc), w.b = w.x.load(acq); });
  EXPECT_THAT(one_is_weak, ElementsAre("0000", "0100", "1000", "1100"));
  const auto fences = results([](Words& w) { w.x.store(1, rlx), std::atomic_thread_fence(sc), w.a = w.y.load(rlx); },
                              [](Words& w) { w.y.store(1, rlx), std::atomic_thread_fence(sc), w.b = w.x.load(rlx); });
  EXPECT_THAT(fences, ElementsAre("0100", "1000", "1100"));
  const auto fence_and_accesses = results([](Words& w) { w.x.store(1, sc), w.a = w.y.load(sc); },
                                          [](Words& w) {
                                            w.y.fetch_add(1, sc);
                                            std::atomic_thread_fence(sc);
                                            w.b = w.x.load(acq);
                                          });
  EXPECT_THAT(fence_and_accesses, ElementsAre("0100", "1000", "1100"));
}

TEST(Explorer, MakesABarrierInEveryThread) {
  const auto wait = [](Words& w) { w.y.store(1, rlx), run::barrier_everywhere(), w.b = w.x.load(rlx); };
  EXPECT_THAT(results([](Words& w) { w.x.store(1, rel), w.a = w.y.load(rlx); }, wait),
              ElementsAre("0100", "1000", "1100"));
}

TEST(Explorer, PassesMessagesByReleaseAndAcquireAlone) {
  const auto results_of = [](auto store, auto load) {
    return results([store](Words& w) { w.x.store(1, rlx), w.y.store(1, store); },
                   [load](Words& w) { w.a = w.y.load(load), w.b = w.x.load(rlx); });
  };
  EXPECT_THAT(results_of(rel, acq), ElementsAre("0000", "0100", "1100"));
  for (const auto& weak : {results_of(rlx, acq), results_of(rel, rlx)}) {
    EXPECT_THAT(weak, ElementsAre("0000", "0100", "1000", "1100"));
  }
  const auto by_fences =
      results([](Words& w) { w.x.store(1, rlx), std::atomic_thread_fence(rel), w.y.store(1, rlx); },
              [](Words& w) { w.a = w.y.load(rlx), std::atomic_thread_fence(acq), w.b = w.x.load(rlx); });
  EXPECT_THAT(by_fences, ElementsAre("0000", "0100", "1100"));
}

TEST(Explorer, GoesOnWithAReleaseThroughReadModifyWritesOnly) {
  const auto by_change =
      results([](Words& w) { w.x.store(1, rlx), w.y.store(1, rel); }, [](Words& w) { w.y.fetch_add(2, rlx); },
              [](Words& w) { w.a = w.y.load(acq), w.b = w.x.load(rlx); });
  EXPECT_THAT(by_change, Not(::testing::Contains("3000")));
  const auto by_store = results([](Words& w) { w.x.store(1, rlx), w.y.store(1, rel); },
                                [](Words& w) {
                                  if (w.y.load(rlx) == 1) w.y.store(3, rlx);
                                },
                                [](Words& w) { w.a = w.y.load(acq), w.b = w.x.load(rlx); });
  EXPECT_THAT(by_store, IsSupersetOf({"3000", "3100"}));
}

TEST(Explorer, ReadsOneWordInItsOrder) {
  const auto seen = results([](Words& w) { w.x.store(1, rlx), w.x.store(2, rlx); },
                            [](Words& w) { w.a = w.x.load(rlx), w.b = w.x.load(rlx); });
  EXPECT_THAT(seen, ElementsAre("0000", "0100", "0200", "1100", "1200", "2200"));
}

TEST(Explorer, LosesNoReadModifyWrite) {
  const auto sums = results([](Words& w) { w.x.fetch_add(1, rlx); }, [](Words& w) { w.x.fetch_add(1, rlx); },
                            [](Words& w) {
                              int expected = 1;
                              w.a = w.x.compare_exchange_strong(expected, 7, rlx) ? 9 : expected;
                            });
  EXPECT_THAT(sums, ElementsAre("0000", "2000", "9000"));
}

// Two stores of each of two words may come in any order, each word by itself.
TEST(Explorer, OrdersStoresOfDifferentWordsFreely) {
  const auto last = [](auto first, auto second) {
    return results(
        [=](Words& w) { w.x.store(1, first), w.y.store(2, second); },
        [=](Words& w) { w.y.store(1, first), w.x.store(2, second); },
        [](Words& w) { w.a = w.x.load(acq), w.b = w.x.load(acq), w.c = w.y.load(acq), w.d = w.y.load(acq); });
  };
  EXPECT_THAT(last(rlx, rlx), ::testing::Contains("2121"));
  EXPECT_THAT(last(sc, sc), Not(::testing::Contains("2121")));
}

// Two that read see two independent stores in different orders.
TEST(Explorer, LetsThreadsSeeStoresInDifferentOrders) {
  const auto seen_by = [](auto order) {
    return results([=](Words& w) { w.x.store(1, order), w.c = w.y.load(order); },
                   [=](Words& w) { w.y.store(1, order); },
                   [=](Words& w) { w.a = w.y.load(order), w.b = w.x.load(order); });
  };
  EXPECT_THAT(seen_by(rlx), ::testing::Contains("1000"));
  EXPECT_THAT(seen_by(sc), Not(::testing::Contains("1000")));
}

// ---- What is wrong ----

template <typename... Bodies>
std::string wrong(Bodies... bodies) {
  return explore([&](Trial& trial) {
           auto& words = *new Words;
           trial.name(&words.plain, "plain");
           (trial.thread("a thread", [&words, &trial, bodies] { bodies(words, trial); }), ...);
         })
      .wrong;
}

TEST(Explorer, FindsARaceThoughTheValueIsRight) {
  const auto reads = [](Words& w, Trial& trial) {
    trial.await([&] { return w.x.load(acq) == 1; });
    trial.expect(w.plain == 5, "another value");
  };
  EXPECT_EQ(wrong([](Words& w, Trial&) { w.plain = 5, w.x.store(1, rel); }, reads), "");
  EXPECT_THAT(wrong([](Words& w, Trial&) { w.plain = 5, w.x.store(1, rlx); }, reads), HasSubstr("a race on plain"));
  // The other way round: a read that is not over when the next write comes.
  const auto writes_again = [](auto order) {
    return wrong(
        [=](Words& w, Trial&) {
          w.a = w.plain;
          w.x.store(1, order);
        },
        [](Words& w, Trial& trial) {
          trial.await([&] { return w.x.load(acq) == 1; });
          w.plain = 6;
        });
  };
  EXPECT_EQ(writes_again(rel), "");
  EXPECT_THAT(writes_again(rlx), HasSubstr("a race on plain"));
}

TEST(Explorer, TakesALostWakeUpForADeadlock) {
  struct Sleeper {
    std::atomic<uint32_t> word{0}, is_there{0};
  };
  const auto with = [](auto order) {
    return explore([order](Trial& trial) {
             auto& sleeper = *new Sleeper;
             trial.thread("sleeper", [&sleeper, order] {
               const uint32_t seen = sleeper.word.load(acq);
               if (sleeper.is_there.load(rlx) == 0) run::futex_wait(sleeper.word, seen, {});
             });
             trial.thread("waker", [&sleeper, order] {
               sleeper.is_there.store(1, rlx);
               sleeper.word.fetch_add(1, order);
               run::futex_wake_all(sleeper.word);
             });
           })
        .wrong;
  };
  EXPECT_EQ(with(rel), "");
  EXPECT_THAT(with(rlx), HasSubstr("sleeper (asleep)"));
}

TEST(Explorer, TellsHowItCameToWhatIsWrong) {
  const std::string text = wrong([](Words& w, Trial&) { w.x.store(1, rlx); },
                                 [](Words& w, Trial& trial) { trial.expect(w.x.load(rlx) == 0, "it is not 0"); });
  EXPECT_THAT(text, HasSubstr("a thread: it is not 0\n"));
  EXPECT_THAT(text, HasSubstr("loads memory + "));
  EXPECT_THAT(text, HasSubstr(" relaxed at explorer_test.cc:"));
}

TEST(Explorer, EndsWhereNothingComes) {
  const std::string text = wrong([](Words& w, Trial& trial) { trial.await([&] { return w.x.load(rlx) == 1; }); });
  EXPECT_THAT(text, HasSubstr("nobody can go on: a thread"));
}

TEST(Explorer, HasMutexesKeepOthersOut) {
  struct Guarded {
    std::mutex mutex;
    int count = 0;
  };
  const Outcome outcome = explore([](Trial& trial) {
    auto& guarded = *new Guarded;
    for (int i = 0; i < 2; ++i) {
      trial.thread("a thread", [&guarded] {
        const std::lock_guard lock(guarded.mutex);
        ++guarded.count;
      });
    }
    trial.at_end([&] { trial.expect(guarded.count == 2, "a count is lost"); });
  });
  EXPECT_EQ(outcome.wrong, "");
}

// ---- Orders ----

void passes_message(Trial& trial) {
  auto& words = *new Words;
  trial.thread("sends", [&words] { words.plain = 1, words.x.store(1, rel); });
  trial.thread("receives", [&words, &trial] {
    trial.await([&] { return words.x.load(acq) == 1; });
    trial.expect(words.plain == 1, "another");
  });
}

TEST(Explorer, ListsTheOrdersThatItMeets) {
  std::vector<std::string> met;
  for (const OrderSite& site : explore(passes_message).sites) {
    met.push_back(site.words().substr(site.words().find(' ') + 1));
  }
  EXPECT_THAT(met, ElementsAre("store release", "load acquire"));
}

TEST(Explorer, FindsEachWeakenedOrder) {
  const Outcome outcome = explore(passes_message);
  for (const OrderSite& site : outcome.sites) {
    const Weakened weakened{.site = site, .order = Order::relaxed};
    EXPECT_THAT(explore(passes_message, {.weakened = &weakened}).wrong, HasSubstr("a race")) << site.words();
  }
}

}  // namespace
}  // namespace banyan::testing::orders
