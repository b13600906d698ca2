// What tenants are told of the links between their hosts, over the socket where they attach, while they call.

#include "banyan/base/json_reader.h"
#include "banyan/compose/planner.h"
#include "banyan/fabric/links.h"
#include "banyan/service/client/attachment.h"
#include "banyan/service/daemon/test_services.h"
#include "banyan/service/operate/hint_service.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;
using run::OperationKind;

class TenantHints : public Services {
 protected:
  // As the program of a rank on host 0 asks.
  std::string hints(run::RegionPool& pool) const {
    const run::Deadline deadline = run::Deadline::after(seconds(20));
    return Attachment::to("unix:" + folder_ + "/daemon0", pool, deadline)->hints(deadline);
  }
};

// "h0->sw h0->h1", with the capacity where nothing is sent; the rest is in the words.
std::string links_in(const std::string& hints, double& own, double& free) {
  const JsonDocument document(hints, {.name = "hints", .depth = 8});
  std::string links;
  for (const JsonNode link : document.root().at("links").items()) {
    links += link.at("name").text() + " " + link.at("from")[0].text() + ">" + link.at("to")[0].text() + " ";
    if (link.at("cotenants").whole() != 0) return "there is nobody else";
    if (link.at("name").text() != "h0->sw") continue;
    own = link.at("own").number(0, 1e12);
    free = link.at("free").number(0, 1e12);
  }
  return links;
}

TEST_F(TenantHints, SayWhichLinksTheHostsShareAndWhatIsFree) {
  daemons_.planner.fabric = "h0 <-> sw 1GB/s; h1 <-> sw 1GB/s";
  const auto reports = run_ranks(2, 2, [&](Communicator& comm, run::RegionPool&) -> std::string {
    std::atomic<bool> is_over{false};
    std::string trouble = "nothing of its own is seen";
    std::thread asks;
    if (comm.rank() == 0) {
      asks = std::thread([&] {
        run::RegionPool own_pool;
        const auto begin = std::chrono::steady_clock::now();
        double own = 0, free = 0;
        while (own == 0 && std::chrono::steady_clock::now() - begin < seconds(10)) {
          const std::string links = links_in(hints(own_pool), own, free);
          trouble =
              links == "h0->sw host0>host1 sw->h0 host1>host0 h1->sw host1>host0 sw->h1 host0>host1 " ? "" : links;
          if (!trouble.empty()) break;
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        if (trouble.empty() && own == 0) trouble = "nothing of its own is seen";
        if (trouble.empty() && free >= 1e9) trouble = "all is free though it sends";
        is_over = true;
      });
    }
    std::vector<int64_t> input(100'000), output(input.size());
    while (output.back() == 0) {
      input.back() = is_over ? 1 : 0;
      comm.run(call_of<int64_t>(OperationKind::all_reduce, input, output, input.size()));
    }
    if (asks.joinable()) asks.join();
    return comm.rank() == 0 ? trouble : std::string();
  });
  EXPECT_THAT(reports, Each(""));
}

TEST_F(TenantHints, OfAUserWithoutCommunicatorsNameNoHosts) {
  daemons_.planner.fabric = "h0 <-> sw 1GB/s; h1 <-> sw 1GB/s";
  Daemon::Options options = daemons_;
  options.socket = folder_ + "/daemon0";
  options.host = "here";
  options.world = "file://" + folder_ + "/world";
  options.node = "h0";
  Daemon daemon(std::move(options));
  std::thread thread([&] { daemon.run(); });
  run::RegionPool pool;
  EXPECT_EQ(hints(pool), R"({"hosts":[],"links":[]})");
  daemon.stop();
  thread.join();
}

// One reactor, and no other host. The background is done by hand.
class HintServiceTest : public ::testing::Test {
 protected:
  HintService make_service(const std::string& fabric) {
    const auto files = compose::read_files({.fabric = fabric});
    return HintService(
        {.reactor = reactor_,
         .look =
             [this](const OperatorApi::Seen& seen) {
               ++looks_;
               seen({}, {});
             },
         .files = files,
         .capacities = fabric_of(*files) ? fabric::link_bandwidths(*fabric_of(*files)) : std::vector<double>()});
  }
  void ask(HintService& service, uint32_t user, uint64_t opened = 0) {
    service.ask(
        {.account = 7, .user = user, .opened = opened},
        [this] {
          ++gathered_;
          return HintService::Asker{
              .hosts = {}, .tenants = {}, .background = [this](auto task) { background_.push_back(std::move(task)); }};
        },
        [this](const HintService::Answer& answer) {
          ++answered_;
          said_ = answer.refusal ? answer.refusal->message() : answer.hints;
          code_ = answer.refusal ? std::optional(answer.refusal->code()) : std::nullopt;
        });
  }
  // Answers come to the reactor, before what is posted afterwards.
  void do_background() {
    for (const auto& task : std::exchange(background_, {})) task();
  }
  void run() {
    reactor_.run([](const Error& error) { FAIL() << error.what(); });
  }

  run::Reactor reactor_;
  std::vector<std::function<void()>> background_;
  int looks_ = 0, gathered_ = 0, answered_ = 0;
  std::string said_;
  std::optional<ErrorCode> code_;  // of a refusal
};

TEST_F(HintServiceTest, LooksAtNothingWhereNoNetworkIsKnown) {
  HintService service({.reactor = reactor_, .look = {}, .files = {}, .capacities = {}});
  for (int i = 0; i < 100; ++i) ask(service, 1000);
  EXPECT_EQ(answered_, 100);
  EXPECT_EQ(gathered_, 0);
  EXPECT_EQ(said_, "the service does not know the network; its operator has to give --fabric");
  EXPECT_EQ(code_, ErrorCode::unsupported);
}

TEST_F(HintServiceTest, MakesOneAnswerForAllOfAUserThatAskAtOnce) {
  HintService service = make_service("h0 <-> sw 1GB/s; h1 <-> sw 1GB/s");
  for (int i = 0; i < 100; ++i) ask(service, 1000);
  ask(service, 1001);
  EXPECT_EQ(gathered_, 2);
  EXPECT_EQ(background_.size(), 2u);
  EXPECT_EQ(answered_, 0);
  do_background();
  reactor_.mailbox()->post([&] {
    EXPECT_EQ(answered_, 101);
    EXPECT_EQ(said_, R"({"hosts":[],"links":[]})");
    ask(service, 1000, 1);
    EXPECT_EQ(gathered_, 3) << "a session was opened";
    do_background();
    reactor_.after(2 * HintService::kFresh, [&] {
      ask(service, 1000, 1);
      EXPECT_EQ(gathered_, 4) << "what it was told is old";
      do_background();
      reactor_.stop();
    });
  });
  run();
  EXPECT_EQ(answered_, 103);
}

TEST_F(HintServiceTest, HasAFewQuestionsOfAnAccountUnderWayHoweverManySessionsItOpens) {
  HintService service = make_service("h0 <-> sw 1GB/s; h1 <-> sw 1GB/s");
  for (uint32_t number = 0; number < HintService::kMostUnanswered; ++number) ask(service, 1000 + number % 3, number);
  EXPECT_EQ(answered_, 0);
  ask(service, 1000, 99);
  EXPECT_EQ(said_, "too many ask for hints; ask again later");
  ask(service, 1000, 0);
  EXPECT_EQ(background_.size(), HintService::kMostUnanswered);
  EXPECT_EQ(answered_, 1) << "who asks what is asked already waits for that";
}

TEST_F(HintServiceTest, RefusesWhatIsTooMuchForOneUserAlone) {
  HintService service = make_service("h0 <-> sw 1GB/s; h1 <-> sw 1GB/s");
  for (size_t i = 0; i <= HintService::kMostWaiting; ++i) ask(service, 1000);
  EXPECT_EQ(answered_, 1);
  EXPECT_EQ(said_, "too many ask for hints; ask again later");
  ask(service, 1001);
  EXPECT_EQ(answered_, 1);
  do_background();
  reactor_.stop();
  run();
  EXPECT_EQ(answered_, static_cast<int>(HintService::kMostWaiting) + 2);
}

}  // namespace
}  // namespace banyan::service
