#include "banyan/service/client/attachment.h"

#include <unistd.h>

#include <cerrno>
#include <future>

#include "banyan/run/system/child.h"
#include "banyan/service/client/session_slots.h"
#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using std::chrono::steady_clock;
using State = FakeDaemon::State;

run::Deadline soon() { return run::Deadline::after(std::chrono::seconds(60)); }

OpenSession wish_named(const std::string& name) {
  OpenSession wish;
  wish.name = name;
  wish.members = {0};
  return wish;
}

// What the hooks of a session were told.
struct Told {
  std::promise<Error> failed;
  std::atomic<int> failures{0}, to_peers{0};

  Attachment::Hooks hooks() {
    return {.failed =
                [this](const Error& error) {
                  if (++failures == 1) failed.set_value(error);
                },
            .fail_peers = [this](const Error&) { ++to_peers; }};
  }
};

class Attachments : public ::testing::Test {
 protected:
  std::shared_ptr<Attachment> attach() { return Attachment::to(daemon_.url(), pool_, soon()); }
  // Until the daemon has carried out all that it was told so far.
  static void settle(Attachment& attachment) { attachment.allocate(1); }
  size_t offers() {
    return daemon_.look([](State& state) { return state.count<OfferRegion>(); });
  }
  // The daemon refuses wishes with these words, or no more.
  void refuse(const std::string& words, ErrorCode code = ErrorCode::unsupported) {
    daemon_.look([&](State& state) {
      state.refusal = [words, code](const ClientMessage&) { return Error(code, words); };
      if (words.empty()) state.refusal = {};
    });
  }
  bool is_withdrawn(const BufferName& name) {
    return daemon_.look([&](State& state) {
      const std::vector<WithdrawRegion> withdrawn = state.all_heard<WithdrawRegion>();
      return std::any_of(withdrawn.begin(), withdrawn.end(), [&](const WithdrawRegion& withdrawal) {
        return withdrawal.place.index == name.region && withdrawal.place.generation == name.generation;
      });
    });
  }

  FakeDaemon daemon_;
  run::RegionPool pool_;
};

// ---- Hello ----

TEST_F(Attachments, KnowTheirDaemon) {
  const auto attachment = attach();
  EXPECT_EQ(attachment->url(), daemon_.url());
  EXPECT_EQ(attachment->host(), "node7");
  EXPECT_EQ(attachment->capability(), (Capability{1, 2, 0xab}));
  const auto hellos = daemon_.look([](State& state) { return state.all_heard<Hello>(); });
  ASSERT_EQ(hellos.size(), 1u);
  EXPECT_EQ(hellos[0].version, kProtocolVersion);
  EXPECT_EQ(hellos[0].program, program_invocation_short_name);
}

TEST_F(Attachments, RefuseADaemonOfAnotherVersion) {
  daemon_.look([](State& state) { state.welcome.version = kProtocolVersion + 1; });
  EXPECT_EQ(testing::error_of([&] { attach(); }, ErrorCode::mismatch),
            "the service at " + daemon_.url() +
                " speaks version 3 of the protocol, and this process version 2: have "
                "both of one Banyan");
}

TEST_F(Attachments, SayThatNobodyListens) {
  daemon_.die();
  EXPECT_EQ(testing::error_of([&] { attach(); }, ErrorCode::not_found), "no service listens at " + daemon_.url());
  EXPECT_EQ(
      testing::error_of([&] { Attachment::to("unix:/no/such/folder/socket", pool_, soon()); }, ErrorCode::not_found),
      "no service listens at unix:/no/such/folder/socket");
}

TEST_F(Attachments, RefuseWhatIsNoUrl) {
  for (const std::string& url : {std::string(), std::string("unix:"), std::string("/run/banyan/banyand.sock"),
                                 "unix:/" + std::string(200, 'x'), std::string("tcp://node7:1")}) {
    EXPECT_THAT(testing::error_of([&] { Attachment::to(url, pool_, soon()); }, ErrorCode::invalid_input),
                HasSubstr("is no url of a service"));
  }
}

TEST_F(Attachments, WaitForASilentDaemonUntilTheDeadline) {
  daemon_.look([](State& state) { state.is_silent = true; });
  const auto begin = steady_clock::now();
  EXPECT_EQ(testing::error_of([&] { Attachment::to(daemon_.url(), pool_, run::Deadline::after(milliseconds(50))); },
                              ErrorCode::timed_out),
            "the service at " + daemon_.url() + " has not answered within 50 ms");
  EXPECT_GE(steady_clock::now() - begin, milliseconds(50));
}

TEST_F(Attachments, RefuseADaemonThatDoesNotAnswerAsItShould) {
  struct Case {
    std::function<void(State&)> answer;  // of a daemon that has heard a hello; none: it dies
    ErrorCode code;
    std::string before, after;  // the url, in words
  };
  const Case cases[] = {
      {{}, ErrorCode::peer_lost, "the service at ", " has hung up"},
      {[](State& state) { send_parcel(state.client().socket.get(), "HTTP/1.1 400 Bad Request"); }, ErrorCode::mismatch,
       "what listens at ", " does not speak as a service of this version"},
      {[](State& state) { state.client().say(state.welcome); }, ErrorCode::mismatch, "the service at ",
       " cannot be woken: its welcome has no descriptor"},
  };
  for (const Case& each : cases) {
    SCOPED_TRACE(each.after);
    FakeDaemon daemon;
    daemon.look([](State& state) { state.is_silent = true; });
    auto later = std::async(std::launch::async, [&] {
      return testing::error_of([&] { Attachment::to(daemon.url(), pool_, soon()); }, each.code);
    });
    ASSERT_TRUE(daemon.wait_until([](const State& state) { return state.count<Hello>() == 1; }));
    each.answer ? daemon.look(each.answer) : daemon.die();
    EXPECT_EQ(later.get(), each.before + daemon.url() + each.after);
  }
}

TEST_F(Attachments, PassOnWhyTheDaemonWantsNobody) {
  refuse("the house is full");
  EXPECT_EQ(testing::error_of([&] { attach(); }, ErrorCode::unsupported), "the house is full");
}

// ---- Memory ----

TEST_F(Attachments, OfferARegionOnceAndNameBytesInIt) {
  const auto attachment = attach();
  std::byte* const memory = pool_.allocate(10'000);
  const auto first = attachment->name(memory, 10), second = attachment->name(memory + 9'000, 1'000);
  ASSERT_TRUE(first && second);
  EXPECT_EQ(offers(), 1u);
  EXPECT_EQ(first->offer, second->offer);
  EXPECT_EQ(second->name.region, first->name.region);
  EXPECT_EQ(first->name.offset, 0u);
  EXPECT_EQ(second->name.offset, 9'000u);
  std::memcpy(memory + 9'000, "hello", 6);
  EXPECT_STREQ(daemon_
                   .look([&](State& state) {
                     return std::string(reinterpret_cast<char*>(state.client().at(second->name, 1'000)));
                   })
                   .c_str(),
               "hello");
}

TEST_F(Attachments, OfferARegionOnceWhoeverAsks) {
  const auto attachment = attach();
  std::byte* const memory = pool_.allocate(1 << 20);
  std::vector<std::future<BufferName>> names;
  for (size_t i = 0; i < 8; ++i) {
    names.push_back(std::async(std::launch::async, [&, i] { return attachment->name(memory + 4096 * i, 4096)->name; }));
  }
  for (size_t i = 0; i < 8; ++i) EXPECT_EQ(names[i].get().offset, 4096 * i);
  EXPECT_EQ(offers(), 1u);
}

// Which nobody else can map for writing any more. Its calls are copied.
TEST_F(Attachments, DoNotOfferWhatADaemonOfBeforeHas) {
  std::byte* const memory = pool_.allocate(8192);
  std::optional<BufferName> first;
  {
    FakeDaemon former;
    first = Attachment::to(former.url(), pool_, soon())->name(memory, 100)->name;
  }
  EXPECT_TRUE(first);
  const auto attachment = attach();
  const size_t before = offers();
  EXPECT_FALSE(attachment->name(memory, 100));
  EXPECT_FALSE(attachment->name(memory + 4096, 100));
  settle(*attachment);
  EXPECT_EQ(offers(), before + 1) << "that of settle() alone";
  EXPECT_TRUE(attachment->name(pool_.allocate(4096), 100)) << "what is allocated anew is used where it is";
}

TEST_F(Attachments, NameNothingThatIsNotWhollyInARegion) {
  const auto attachment = attach();
  std::byte* const memory = pool_.allocate(4096);
  std::byte other{};
  EXPECT_FALSE(attachment->name(&other, 1));
  EXPECT_FALSE(attachment->name(memory + 4000, 97));
  EXPECT_TRUE(attachment->name(memory + 4000, 96));
}

TEST_F(Attachments, WithdrawWhatWasFreedOnceNobodyNeedsIt) {
  const auto attachment = attach();
  std::byte* const freed = pool_.allocate(100);
  std::byte* const kept = pool_.allocate(100);
  std::optional<Attachment::Named> named = attachment->name(freed, 100);
  attachment->name(kept, 100);
  pool_.free(freed);
  std::byte* const later = pool_.allocate(100);
  attachment->name(later, 100);
  settle(*attachment);
  EXPECT_FALSE(is_withdrawn(named->name));  // though it was freed
  const BufferName name = named->name;
  named.reset();
  settle(*attachment);
  EXPECT_TRUE(is_withdrawn(name));
  EXPECT_FALSE(is_withdrawn(attachment->name(kept, 100)->name));
}

TEST_F(Attachments, AllocateZeroedMemoryThatTheDaemonSees) {
  const auto attachment = attach();
  Attachment::Memory memory = attachment->allocate(5'000);
  EXPECT_EQ(memory.name.offset, 0u);
  EXPECT_THAT(std::vector<std::byte>(memory.data, memory.data + 5'000), Each(std::byte{0}));
  memory.data[4'999] = std::byte{7};
  EXPECT_EQ(daemon_.look([&](State& state) { return state.client().at(memory.name, 5'000)[4'999]; }), std::byte{7});
  memory = {};
  ASSERT_TRUE(daemon_.wait_until([](const State& state) { return state.count<WithdrawRegion>() == 1; }));
  EXPECT_THROW(attachment->allocate(SIZE_MAX - 5), Error);
}

TEST_F(Attachments, PassOnWhyMemoryIsRefused) {
  const auto attachment = attach();
  std::byte* const memory = pool_.allocate(100);
  refuse("it is too much");
  EXPECT_EQ(testing::error_of([&] { attachment->name(memory, 100); }, ErrorCode::unsupported), "it is too much");
  EXPECT_EQ(testing::error_of([&] { attachment->allocate(100); }, ErrorCode::unsupported), "it is too much");
  refuse("");
  EXPECT_TRUE(attachment->name(memory, 100));
}

// ---- Sessions ----

TEST_F(Attachments, OpenSessionsWithPagesOfTheirOwn) {
  const auto attachment = attach();
  const auto first = attachment->open(wish_named("first"), {}, soon());
  const auto second = attachment->open(wish_named("second"), {}, soon());
  EXPECT_EQ(first->means(), "a fake");
  EXPECT_EQ(offers(), 1u);  // their pages are in one region
  first->page().taken.store(11);
  second->page().taken.store(22);
  daemon_.look([](State& state) {
    ASSERT_EQ(state.client().sessions.size(), 2u);
    EXPECT_EQ(state.session(0).opened.name, "first");
    EXPECT_EQ(state.session(1).opened.name, "second");
    EXPECT_EQ(state.session(0).page->taken.load(), 11u);
    EXPECT_EQ(state.session(1).page->taken.load(), 22u);
    EXPECT_TRUE(state.session(0).had_zeroed_page && state.session(1).had_zeroed_page);
  });
}

TEST_F(Attachments, CloseSessionsOnceAndTellNothingOfThemAfterwards) {
  const auto attachment = attach();
  auto session = attachment->open(wish_named("short"), {}, soon());
  session->report_gone(3);
  session->close();
  session->report_gone(4);
  session->close();
  session.reset();
  settle(*attachment);
  daemon_.look([](State& state) {
    EXPECT_EQ(state.count<CloseSession>(), 1u);
    ASSERT_EQ(state.count<RankGone>(), 1u);
    EXPECT_EQ(state.all_heard<RankGone>()[0].rank, 3u);
    EXPECT_TRUE(state.client().sessions.empty());
  });
}

// The daemon writes to a page until it hears that the session ends.
TEST_F(Attachments, ZeroAPageOnlyWhenTheDaemonHasLeftIt) {
  const auto attachment = attach();
  std::set<uint32_t> numbers;
  for (int i = 0; i < 100; ++i) {
    auto session = attachment->open(wish_named(std::to_string(i)), {}, soon());
    daemon_.look([&](State& state) {
      state.is_deaf = true;
      auto& [number, open] = *state.client().sessions.begin();
      EXPECT_TRUE(open.had_zeroed_page) << "session " << i << " is number " << number;
      numbers.insert(number);
    });
    session.reset();
    auto next = std::async(std::launch::async, [&] { return attachment->open(wish_named("next"), {}, soon()); });
    daemon_.look([](State& state) {  // has not heard of the end yet
      state.client().sessions.begin()->second.page->completed.store(77);
      state.is_deaf = false;
    });
    const auto opened = next.get();
    daemon_.look([&](State& state) {
      for (const auto& [number, open] : state.client().sessions) EXPECT_TRUE(open.had_zeroed_page);
    });
  }
  EXPECT_LT(numbers.size(), 10u);  // they are used again
}

TEST_F(Attachments, PassOnWhyASessionIsRefused) {
  const auto attachment = attach();
  Told told;
  const auto first = attachment->open(wish_named("makes pages"), {}, soon());
  refuse("no daemon of host 'b' has come", ErrorCode::timed_out);  // it is not this process that has waited in vain
  EXPECT_EQ(
      testing::error_of([&] { attachment->open(wish_named("refused"), told.hooks(), soon()); }, ErrorCode::timed_out),
      "no daemon of host 'b' has come");
  refuse("");
  const auto session = attachment->open(wish_named("granted"), {}, soon());
  daemon_.look([](State& state) {
    EXPECT_EQ(state.all_heard<OpenSession>()[2].session, state.all_heard<OpenSession>()[1].session);
  });
  daemon_.die();
  EXPECT_EQ(told.failures, 0);
}

TEST_F(Attachments, CloseASessionThatWasOpenedTooLate) {
  const auto attachment = attach();
  attachment->open(wish_named("makes pages"), {}, soon());
  daemon_.look([](State& state) { state.holds_answers = true; });
  EXPECT_THAT(
      testing::error_of([&] { attachment->open(wish_named("late"), {}, run::Deadline::after(milliseconds(20))); },
                        ErrorCode::timed_out),
      HasSubstr("has not answered within 20 ms"));
  daemon_.look([](State& state) { state.say_held(); });
  ASSERT_TRUE(daemon_.wait_until([](const State& state) {
    return state.count<OpenSession>() == 2 && state.clients.begin()->second.sessions.empty();
  }));
  EXPECT_NE(attachment->open(wish_named("next"), {}, soon()), nullptr);
}

TEST_F(Attachments, HaveRoomForAsManySessionsAsThereAreNumbers) {
  uint64_t wishes = 0;
  std::vector<std::unique_ptr<std::byte[]>> memories;
  SessionSlots slots([&](size_t bytes) {
    ++wishes;
    memories.push_back(std::make_unique<std::byte[]>(bytes + SessionSlots::kPageBytes));
    const auto begin = reinterpret_cast<uintptr_t>(memories.back().get());
    const uintptr_t page = (begin + SessionSlots::kPageBytes - 1) / SessionSlots::kPageBytes * SessionSlots::kPageBytes;
    return Attachment::Memory{.data = reinterpret_cast<std::byte*>(page), .name = {}, .offer = nullptr};
  });
  std::set<uint32_t> numbers;
  std::set<SessionPage*> pages;
  for (uint32_t i = 0; i < DoorbellPage::kSessions; ++i) {
    const SessionSlots::Slot slot = slots.take(wishes);
    numbers.insert(slot.number);
    pages.insert(slot.page);
  }
  EXPECT_EQ(numbers.size(), DoorbellPage::kSessions);
  EXPECT_EQ(*numbers.rbegin(), DoorbellPage::kSessions - 1);
  EXPECT_EQ(pages.size(), DoorbellPage::kSessions);
  EXPECT_EQ(testing::error_of([&] { slots.take(wishes); }, ErrorCode::unsupported),
            "at most 4096 communicators of a process can use a service at a time");
  // One that rests: somebody has to ask something, so that the daemon is known to have heard of its end.
  slots.retire(5, wishes);
  const uint64_t before = wishes;
  EXPECT_EQ(slots.take(wishes).number, 5u);
  EXPECT_EQ(wishes, before + 1);
}

// ---- News ----

TEST_F(Attachments, TellASessionOfItsFailureOnce) {
  const auto attachment = attach();
  Told told, other;
  const auto session = attachment->open(wish_named("fails"), told.hooks(), soon());
  const auto sibling = attachment->open(wish_named("lives"), other.hooks(), soon());
  daemon_.look([](State& state) {
    for (int i = 0; i < 3; ++i) {
      state.client().say(SessionFailed{.session = 0, .error = Error(ErrorCode::io, "the disk")});
    }
    state.client().say(SessionFailed{.session = 77, .error = Error(ErrorCode::io, "nobody")});
  });
  const Error error = told.failed.get_future().get();
  EXPECT_EQ(error.code(), ErrorCode::io);
  EXPECT_STREQ(error.what(), "the disk");
  settle(*attachment);
  EXPECT_EQ(told.failures, 1);
  EXPECT_EQ(told.to_peers, 0);  // whoever calls next does that
  EXPECT_EQ(other.failures, 0);
}

TEST_F(Attachments, CallNoHookOfASessionThatIsGone) {
  const auto attachment = attach();
  Told told;
  auto session = attachment->open(wish_named("gone"), told.hooks(), soon());
  session.reset();
  daemon_.look(
      [](State& state) { state.client().say(SessionFailed{.session = 0, .error = Error(ErrorCode::io, "the disk")}); });
  settle(*attachment);
  daemon_.die();
  EXPECT_EQ(testing::error_of([&] { attachment->allocate(1); }, ErrorCode::peer_lost),
            "the service has gone (" + daemon_.url() + ")");
  EXPECT_EQ(told.failures, 0);
}

// The least of some attempts: this machine may have other things to do.
TEST(Attachment, TellsAllWithinATenthOfASecondThatTheDaemonHasGone) {
  steady_clock::duration least = steady_clock::duration::max();
  for (int attempt = 0; attempt < 20 && least > milliseconds(100); ++attempt) {
    FakeDaemon daemon;
    run::RegionPool pool;
    const auto attachment = Attachment::to(daemon.url(), pool, soon());
    Told first, second;
    const auto a = attachment->open(wish_named("a"), first.hooks(), soon());
    const auto b = attachment->open(wish_named("b"), second.hooks(), soon());
    daemon.look([](State& state) { state.holds_answers = true; });
    auto waiter = std::async(std::launch::async, [&] {
      return testing::error_of([&] { attachment->open(wish_named("c"), {}, soon()); }, ErrorCode::peer_lost);
    });
    ASSERT_TRUE(daemon.wait_until([](const State& state) { return state.count<OpenSession>() == 3; }));
    const auto begin = steady_clock::now();
    daemon.die();
    const std::string gone = "the service has gone (" + daemon.url() + ")";
    for (Told* const told : {&first, &second}) {
      const Error error = told->failed.get_future().get();
      EXPECT_EQ(error.code(), ErrorCode::peer_lost);
      EXPECT_EQ(error.what(), gone);
    }
    EXPECT_EQ(waiter.get(), gone);
    EXPECT_TRUE(attachment->has_gone());
    least = std::min(least, steady_clock::now() - begin);
    EXPECT_EQ(testing::error_of([&] { attachment->open(wish_named("d"), {}, soon()); }, ErrorCode::peer_lost), gone);
    a->report_gone(1);  // to nobody
    EXPECT_EQ(first.failures, 1);
  }
  EXPECT_LE(least, milliseconds(100));
}

TEST_F(Attachments, EndWhenTheDaemonTalksNonsense) {
  const std::vector<std::string> nonsense = {"nonsense", encode(DaemonMessage(RegionPlaced{.wish = 4711, .place = {}})),
                                             encode(DaemonMessage(Welcome()))};
  for (const std::string& said : nonsense) {
    const auto attachment = attach();
    Told told;
    const auto session = attachment->open(wish_named("told"), told.hooks(), soon());
    daemon_.look([&](State& state) { send_parcel(state.client().socket.get(), said); });
    EXPECT_EQ(told.failed.get_future().get().code(), ErrorCode::peer_lost);
    // The daemon must not go on using memory of this process.
    ASSERT_TRUE(daemon_.wait_until([](const State& state) { return state.clients.empty(); }));
  }
}

TEST_F(Attachments, SayInOrderWhatFindsNoRoomAtFirst) {
  constexpr uint32_t kWords = 5'000;
  const auto attachment = attach();
  const auto session = attachment->open(wish_named("talks"), {}, soon());
  daemon_.look([](State& state) { state.is_deaf = true; });
  for (uint32_t i = 0; i < kWords; ++i) session->report_gone(i);  // does not wait
  auto memory = std::async(std::launch::async, [&] { return attachment->allocate(100); });
  daemon_.look([](State& state) { state.is_deaf = false; });
  memory.get();
  const auto gone = daemon_.look([](State& state) { return state.all_heard<RankGone>(); });
  ASSERT_EQ(gone.size(), kWords);
  for (uint32_t i = 0; i < kWords; ++i) ASSERT_EQ(gone[i].rank, i);
}

TEST_F(Attachments, RefuseWishesThatAreLongerThanMessages) {
  const auto attachment = attach();
  EXPECT_THAT(testing::error_of([&] { attachment->open(wish_named(std::string(kMaxMessage, 'x')), {}, soon()); },
                                ErrorCode::unsupported),
              HasSubstr("is more than the service reads"));
  // And the longest ones go through.
  const auto session = attachment->open(wish_named(std::string(kMaxMessage - 500, 'x')), {}, soon());
  EXPECT_EQ(daemon_.look([](State& state) { return state.session().opened.name.size(); }), kMaxMessage - 500);
}

// ---- Fork ----

TEST_F(Attachments, BelongToTheProcessThatMadeThem) {
  auto attachment = attach();
  std::byte* const memory = pool_.allocate(100);
  std::optional<Attachment::Named> named = attachment->name(memory, 100);
  Attachment::Memory more = attachment->allocate(100);
  auto session = attachment->open(wish_named("parent's"), {}, soon());
  // The child leaves with the number of the first expectation that it finds unmet, or 0.
  run::Child child([&] {
    if (!attachment->has_gone()) return 6;
    if (!is_unsupported([&] { attachment->name(memory, 100); })) return 1;
    if (!is_unsupported([&] { attachment->allocate(100); })) return 2;
    if (!is_unsupported([&] { attachment->open(wish_named("child's"), {}, soon()); })) return 3;
    if (!is_unsupported([&] { session->ring(); })) return 4;
    if (!is_unsupported([&] { session->report_gone(1); })) return 5;
    session.reset();
    more = {};
    named.reset();
    attachment.reset();
    return 0;
  });
  EXPECT_EQ(child.reap(), 0);
  EXPECT_FALSE(attachment->has_gone());
  settle(*attachment);
  EXPECT_FALSE(is_withdrawn(named->name));
  EXPECT_FALSE(is_withdrawn(more.name));
  daemon_.look([](State& state) {
    EXPECT_EQ(state.count<CloseSession>(), 0u);
    EXPECT_EQ(state.count<RankGone>(), 0u);
    EXPECT_EQ(state.client().sessions.size(), 1u);
  });
}

}  // namespace
}  // namespace banyan::service
