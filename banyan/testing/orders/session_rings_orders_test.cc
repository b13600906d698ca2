#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <optional>

#include "banyan/run/system/futex.h"
#include "banyan/service/protocol/rings.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {
namespace {

using service::ClientRings;
using service::Completion;
using service::DaemonRings;
using service::DoorbellPage;
using service::SessionPage;
using service::Submission;

// The descriptor that the daemon sleeps on, and how it does (daemon/worker.cc).
struct Doorbell {
  DoorbellPage page{};
  std::atomic<uint32_t> descriptor{0};

  void ring(uint32_t session) {
    if (!service::ring(page, session)) return;
    descriptor.store(1);
    run::futex_wake_all(descriptor);
  }
  template <typename Rang>
  void wait(const Rang& rang) {
    for (;;) {
      page.daemon_sleeps.store(1);
      const bool was_rung = service::answer(page, rang);
      while (!was_rung && descriptor.exchange(0) == 0) run::futex_wait(descriptor, 0, {});
      page.daemon_sleeps.store(0);
      if (was_rung || service::answer(page, rang)) return;
    }
  }
};

struct Session {
  SessionPage page{};
  Doorbell doorbell;
  ClientRings client{page};
  DaemonRings daemon{page};

  explicit Session(Trial& trial) {
    trial.name(&page.submitted, "submitted");
    trial.name(&page.taken, "taken");
    trial.name(&page.client_sleeps, "client_sleeps");
    trial.name(&page.completed, "completed");
    trial.name(&page.consumed, "consumed");
    trial.name(&page.daemon_waits, "daemon_waits");
    trial.name(&page.submissions, "submissions");
    trial.name(&page.completions, "completions");
    trial.name(&doorbell.page.daemon_sleeps, "daemon_sleeps");
    trial.name(&doorbell.page.groups, "groups");
  }

  void submit(uint64_t number) {
    client.submit({.count = number});
    doorbell.ring(7);
  }
  Completion take_completion() {
    for (;;) {
      if (const std::optional<Completion> completion = client.take()) {
        if (client.is_awaited()) doorbell.ring(7);
        return *completion;
      }
      client.sleep([] { return false; }, {});
    }
  }
  Submission take_submission() {
    for (;;) {
      if (const std::optional<Submission> submission = daemon.take()) return *submission;
      doorbell.wait([](uint32_t) {});
    }
  }
  void complete(uint64_t sequence) {
    while (!daemon.has_room()) doorbell.wait([](uint32_t) {});
    daemon.complete({.sequence = sequence, .peer = static_cast<uint32_t>(sequence) + 1});
  }
};

constexpr uint64_t kSubmissions = SessionPage::kSubmissions, kCompletions = SessionPage::kCompletions;

void a_call_passes(Trial& trial) {
  auto& session = *new Session(trial);
  trial.thread("client", [&] {
    session.client.has_room();
    session.submit(5);
    const Completion completion = session.take_completion();
    trial.expect(completion.sequence == 1 && completion.peer == 2, "another completion");
  });
  trial.thread("daemon", [&] {
    const Submission submission = session.take_submission();
    trial.expect(submission.sequence == 1 && submission.count == 5, "another submission");
    session.complete(1);
  });
}

// The ring of submissions is full: the next one takes the place of the first, once that was taken.
void there_is_room_for_submissions(Trial& trial) {
  auto& session = *new Session(trial);
  for (uint64_t i = 1; i <= kSubmissions; ++i) session.client.submit({.count = i});
  trial.thread("client", [&] {
    while (!session.client.has_room()) session.client.sleep([] { return false; }, {});
    session.submit(kSubmissions + 1);
  });
  trial.thread("daemon", [&] {
    trial.expect(session.take_submission().count == 1, "another submission");
    trial.expect(session.take_submission().count == 2, "another submission");
  });
}

// The same of completions.
void there_is_room_for_completions(Trial& trial) {
  auto& session = *new Session(trial);
  for (uint64_t i = 0; i < kCompletions; ++i) {
    session.client.has_room();
    session.client.submit({});
    session.daemon.take();
    session.daemon.has_room();
    session.daemon.complete({.sequence = i + 1});
  }
  session.client.has_room();
  session.client.submit({});
  trial.thread("client", [&] {
    trial.expect(session.take_completion().sequence == 1, "another completion");
    trial.expect(session.take_completion().sequence == 2, "another completion");
  });
  trial.thread("daemon", [&] {
    session.daemon.take();
    session.complete(kCompletions + 1);
  });
}

// Another thread of the client ends its sleep, or the daemon does.
void the_client_is_woken(Trial& trial) {
  struct Woken {
    Session session;
    std::atomic<bool> is_over{false};
  };
  auto& woken = *new Woken{.session = Session(trial)};
  woken.session.client.has_room();
  woken.session.client.submit({});
  woken.session.daemon.take();
  trial.thread("client", [&] {
    while (!woken.is_over.load()) {
      woken.session.client.take();
      woken.session.client.sleep([&] { return woken.is_over.load(); }, {});
    }
  });
  trial.thread("waker", [&] {
    woken.is_over.store(true);
    woken.session.client.wake();
  });
  trial.thread("daemon", [&] {
    woken.session.daemon.has_room();
    woken.session.daemon.complete({.sequence = 1});
  });
}

// Two threads of a client ring for sessions of one group. What they have stored before, relaxed, is there.
void sessions_ring(Trial& trial) {
  struct Rung {
    Doorbell doorbell;
    int work[2] = {0, 0};
  };
  auto& rung = *new Rung;
  trial.name(&rung.doorbell.page.daemon_sleeps, "daemon_sleeps");
  trial.name(&rung.doorbell.page.groups, "groups");
  trial.name(&rung.doorbell.page.sessions, "sessions");
  for (uint32_t session : {0u, 1u}) {
    trial.thread("client", [&rung, session] {
      rung.work[session] = 1;
      rung.doorbell.ring(session);
    });
  }
  trial.thread("daemon", [&] {
    int done = 0;
    while (done < 2) rung.doorbell.wait([&](uint32_t session) { done += rung.work[session]; });
  });
}

TEST(SessionRingsOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"rings.h", "rings.cc"},
                               {a_call_passes, there_is_room_for_submissions, there_is_room_for_completions,
                                the_client_is_woken, sessions_ring},
                               // A group is taken before its sessions: else the processor could take these first, and
                               // miss who sets one and then the group. The model carries out one after the other.
                               {{.words = "rings.h modify acquire", .why = "load buffering"}}),
            "");
}

}  // namespace
}  // namespace banyan::testing::orders
