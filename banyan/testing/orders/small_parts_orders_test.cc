// Of the clock of a process, the error of a communicator, and what is left for the thread that drives it.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>

#include "banyan/base/error.h"
#include "banyan/run/communicator/first_error.h"
#include "banyan/run/system/awake_time.h"
#include "banyan/run/system/time_source.h"
#include "banyan/service/client/text_box.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {
namespace {

using run::AwakeTime;
using run::FirstError;
using run::TimeSource;
using service::TextBox;

// ---- AwakeTime ----

using std::chrono::milliseconds;

// Looks come one after the other, and each has a moment of its own.
class Moments final : public TimeSource {
 public:
  explicit Moments(std::array<milliseconds, 3> moments) : moments_(moments) {}
  TimePoint now() const override { return TimePoint(moments_[next_.fetch_add(1, std::memory_order_relaxed)]); }

 private:
  const std::array<milliseconds, 3> moments_;
  mutable std::atomic<uint32_t> next_{0};
};

struct Clock {
  Moments moments;
  AwakeTime time{moments};
};

// A look at second 1, and then two threads that look at these moments. What each of them may find.
void two_look(Trial& trial, std::array<milliseconds, 2> moments, std::array<milliseconds, 2> right) {
  auto& clock = *new Clock{.moments = Moments({milliseconds(1000), moments[0], moments[1]})};
  clock.time.now();
  for (int i = 0; i < 2; ++i) {
    trial.thread("a thread", [&clock, &trial, right] {
      const auto now = clock.time.now().time_since_epoch();
      trial.expect(std::find(right.begin(), right.end(), now) != right.end(), "another time");
    });
  }
}

// The process has stood still for a second, which counts as a quarter: once, whoever finds that first.
void a_gap_is_left_out(Trial& trial) {
  two_look(trial, {milliseconds(2000), milliseconds(2001)}, {milliseconds(1250), milliseconds(1251)});
}

// A thread was interrupted between its look at the real time and all else, during the gap: its time is the one before
// it, or that after it, but not the one before it without what the gap takes away.
void a_look_is_late(Trial& trial) {
  two_look(trial, {milliseconds(1005), milliseconds(2005)}, {milliseconds(1005), milliseconds(1250)});
}

TEST(AwakeTimeOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"awake_time.cc"}, {a_gap_is_left_out, a_look_is_late}), "");
}

// ---- FirstError ----

void an_error_is_waited_for(Trial& trial) {
  auto& error = *new FirstError;
  trial.thread("fails", [&error] { error.note(Error(ErrorCode::io, "a")); });
  trial.thread("waits", [&error, &trial] {
    for (;;) {
      const uint32_t seen = error.news();
      if (error.is_set()) break;
      error.wait_for_news(seen, {});
    }
    trial.expect(error.get().message() == "a", "another error");
  });
}

void other_news_are_waited_for(Trial& trial) {
  struct News {
    FirstError error;
    std::atomic<bool> is_there{false};
  };
  auto& news = *new News;
  trial.thread("tells", [&news] {
    news.is_there.store(true, std::memory_order_relaxed);
    news.error.announce_news();
  });
  trial.thread("waits", [&news] {
    for (;;) {
      const uint32_t seen = news.error.news();
      if (news.is_there.load(std::memory_order_relaxed)) break;
      news.error.wait_for_news(seen, {});
    }
  });
}

TEST(FirstErrorOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"first_error.h"}, {an_error_is_waited_for, other_news_are_waited_for}), "");
}

// ---- TextBox ----

// Something is noted again and again; what was stored before is seen, or announced still.
void nothing_that_is_noted_is_lost(Trial& trial) {
  struct Noted {
    TextBox box;
    std::atomic<int> last{0};
  };
  auto& noted = *new Noted;
  trial.thread("notes", [&noted] {
    for (int i = 1; i <= 2; ++i) {
      noted.last.store(i, std::memory_order_relaxed);
      noted.box.note();
    }
  });
  trial.thread("looks", [&noted, &trial] {
    for (int last = 0; last < 2;) {
      trial.await([&] { return noted.box.has_news(); });
      noted.box.take();
      last = noted.last.load(std::memory_order_relaxed);
    }
  });
}

void texts_are_taken(Trial& trial) {
  auto& box = *new TextBox;
  trial.thread("puts", [&box] { box.put("a"); });
  trial.thread("takes", [&box, &trial] {
    trial.await([&] { return box.has_news(); });
    trial.expect(box.take().size() == 1, "another number of texts");
  });
}

TEST(TextBoxOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"text_box.h"}, {nothing_that_is_noted_is_lost, texts_are_taken}), "");
}

}  // namespace
}  // namespace banyan::testing::orders
