#include "banyan/run/agent/agent.h"

#include <dirent.h>
#include <poll.h>
#include <sys/socket.h>

#include <future>

#include "banyan/run/agent/test_worlds.h"
#include "banyan/run/join/test_calls.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

using Clock = Agent::Clock;
using Member = ForkedWorld::Member;

constexpr std::chrono::seconds kLong = ForkedWorld::kLong;
constexpr uint64_t kGroup = 77;  // a communicator

size_t open_descriptors() {
  size_t count = 0;
  DIR* directory = opendir("/proc/self/fd");
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

// ---- Who lives

TEST(Agent, NoticesTheDeathOfTheHubAndOfItsSuccessor) {
  ForkedWorld world({"a", "b", "c", "d"}, [](Member& member) -> std::string {
    const auto agent = start_agent(member);
    member.say(1);
    if (!wait_for_state(*agent, 0, Health::dead)) return "the death of the hub was not noticed";
    member.say(2);
    if (!wait_for_state(*agent, 1, Health::dead)) return "the death of its successor was not noticed";
    const std::string others = std::string(to_string(agent->liveness().state(2))) + " and " +
                               std::string(to_string(agent->liveness().state(3)));
    member.say(3);
    member.wait_for_test(3);
    return others + "; " + agent->liveness().why(1);
  });
  ASSERT_TRUE(world.all_say(1));
  for (const uint32_t hub : {0u, 1u}) {
    const Clock::time_point struck = Clock::now();
    world.strike(hub, SIGKILL);
    for (uint32_t rank = hub + 1; rank < 4; ++rank) ASSERT_TRUE(world.board().wait_for(rank, hub + 2)) << rank;
    EXPECT_LT(Clock::now() - struck, seconds(5));
  }
  world.say(3);
  for (const uint32_t rank : {2u, 3u}) {
    const std::string report = world.report(rank);
    std::printf("rank %u: %s\n", rank, report.c_str());
    EXPECT_THAT(report, HasSubstr("alive and alive"));
    EXPECT_THAT(report, HasSubstr("process " + std::to_string(world.pid(1)) + " on node-b"));
  }
}

TEST(Agent, CallsTheStoppedSilentUntilTheyGoOn) {
  for (const uint32_t stopped : {0u, 2u}) {
    ForkedWorld world({"a", "b", "a"}, [stopped](Member& member) -> std::string {
      const auto agent = start_agent(member);
      const Agent::Expectation expectation = agent->expect();
      if (!expectation) return "an expectation looks like none";
      member.say(1);
      if (member.rank() != stopped) {
        if (!wait_for_state(*agent, stopped, Health::silent)) return "its silence was not noticed";
        member.say(2);
        if (!wait_for_state(*agent, stopped, Health::alive)) return "its return was not noticed";
        member.say(3);
      }
      member.wait_for_test(2);
      return "well";
    });
    ASSERT_TRUE(world.all_say(1));
    world.strike(stopped, SIGSTOP);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(rank == stopped || world.board().wait_for(rank, 2)) << rank;
    }
    world.strike(stopped, SIGCONT);
    for (uint32_t rank = 0; rank < 3; ++rank) {
      EXPECT_TRUE(rank == stopped || world.board().wait_for(rank, 3)) << rank;
    }
    world.say(2);
    for (uint32_t rank = 0; rank < 3; ++rank) EXPECT_EQ(world.report(rank), "well") << rank;
  }
}

TEST(Agent, TellsLeavingFromDying) {
  for (int round = 0; round < 5; ++round) {
    for (uint32_t last = 0; last < 5; ++last) {
      // All but one leave at once, hubs and their successors among them.
      ForkedWorld world({"a", "a", "b", "b", "c"}, [last](Member& member) -> std::string {
        auto agent = start_agent(member);
        member.say(1);
        member.wait_for_test(2);
        if (member.rank() != last) {
          const Clock::time_point deadline = soon();
          agent->leave(deadline);
          return Clock::now() < deadline ? "well" : "nobody let it go";
        }
        for (uint32_t rank = 0; rank < 5; ++rank) {
          if (rank == last || wait_for_state(*agent, rank, Health::left)) continue;
          return std::string("rank ") + std::to_string(rank) + ": " +
                 std::string(to_string(agent->liveness().state(rank))) + ", " + agent->liveness().why(rank);
        }
        agent->leave(soon());
        return "well";
      });
      ASSERT_TRUE(world.all_say(1));
      world.say(2);
      for (uint32_t rank = 0; rank < 5; ++rank)
        EXPECT_EQ(world.report(rank), "well") << "rank " << rank << " of " << last;
    }
  }
}

TEST(Agent, DoesNotBelieveAProcessThatOnlyHasTheNumber) {
  ForkedWorld world({"a", "a", "a"}, [](Member& member) -> std::string {
    if (member.rank() == 2) {  // lives, but is not who it was
      member.wait_for_test(2);
      return "";
    }
    member.world.members[2].start_time -= 1;
    const auto agent = start_agent(member);
    const bool is_dead = wait_for_state(*agent, 2, Health::dead);
    member.say(1);
    member.wait_for_test(2);
    return is_dead ? "dead" : "alive";
  });
  for (const uint32_t rank : {0u, 1u}) EXPECT_TRUE(world.board().wait_for(rank, 1));
  world.say(2);
  EXPECT_EQ(world.report(0), "dead");
  EXPECT_EQ(world.report(1), "dead");
}

TEST(Agent, TellsItsHooksOfEachChange) {
  LocalWorld world(3);
  std::promise<void> changed;
  const HookRegistration hooks =
      world[2].attach(kGroup, {.state = {}, .broadcast = {}, .liveness_changed = [&, is_told = false]() mutable {
                                 if (!std::exchange(is_told, true)) changed.set_value();
                               }});
  world.end(1);
  ASSERT_EQ(changed.get_future().wait_for(kLong), std::future_status::ready);
  EXPECT_EQ(world[2].liveness().state(1), Health::dead);
}

TEST(Agent, NoticesADeathWhenAForkedChildLivesOn) {
  ForkedWorld world({"a", "b"}, [](Member& member) -> std::string {
    const auto agent = start_agent(member);
    if (member.rank() == 1 && fork() == 0) {
      member.say(1);
      member.wait_for_test(9);
      _exit(0);
    }
    if (member.rank() == 1) {
      member.wait_for_test(9);
      return "";
    }
    member.say(1);
    const bool is_dead = wait_for_state(*agent, 1, Health::dead);
    return is_dead ? agent->liveness().why(1) : "it was not noticed";
  });
  ASSERT_TRUE(world.all_say(1));
  world.strike(1, SIGKILL);
  EXPECT_THAT(world.report(0), HasSubstr("it has closed its connection"));
  world.say(9);
}

// ---- StateQueries

CommunicatorHooks state_of(const std::string& text) {
  return {.state = [text] { return text; }, .broadcast = {}, .liveness_changed = {}};
}

TEST(Agent, SaysWhoDoesNotAnswer) {
  ForkedWorld world({"a", "b", "a", "b"}, [](Member& member) -> std::string {
    const auto agent = start_agent(member);
    const HookRegistration hooks = agent->attach(kGroup, state_of("I am " + std::to_string(member.rank())));
    member.say(1);
    member.wait_for_test(2);
    if (member.rank() != 1) {
      member.wait_for_test(3);
      return "";
    }
    if (!wait_for_state(*agent, 2, Health::dead)) return "the death was not noticed";
    const auto reports = agent->ask_states(kGroup, Clock::now() + milliseconds(500));
    EXPECT_EQ(reports[2].health, Health::dead);
    EXPECT_THAT(reports[2].text, HasSubstr("has ended"));
    EXPECT_EQ(reports[3].health, Health::silent);
    return ::testing::Test::HasFailure() ? "not so" : reports[0].text;
  });
  ASSERT_TRUE(world.all_say(1));
  world.strike(3, SIGSTOP);
  world.strike(2, SIGKILL);
  world.say(2);
  EXPECT_EQ(world.report(1), "I am 0");
}

TEST(Agent, AsksWithoutAHubThatIsStopped) {
  ForkedWorld world({"a", "b", "c"}, [](Member& member) -> std::string {
    const auto agent = start_agent(member);
    std::promise<std::string> dumped;
    CommunicatorHooks hooks = state_of("I am " + std::to_string(member.rank()));
    hooks.broadcast = [&](const std::string& reason) { dumped.set_value(reason); };
    const HookRegistration registration = agent->attach(kGroup, hooks);
    member.say(1);
    member.wait_for_test(2);
    std::string text;
    if (member.rank() == 1) {
      const auto reports = agent->ask_states(kGroup, Clock::now() + milliseconds(1000));
      text = std::string(to_string(reports[0].health)) + " " + reports[2].text + " ";
      agent->broadcast(kGroup, "rank 0 is late");
    }
    std::future<std::string> reason = dumped.get_future();
    if (reason.wait_for(kLong) == std::future_status::ready) text += reason.get();
    member.say(2);
    member.wait_for_test(3);
    return text;
  });
  ASSERT_TRUE(world.all_say(1));
  world.strike(0, SIGSTOP);
  world.say(2);
  for (const uint32_t rank : {1u, 2u}) EXPECT_TRUE(world.board().wait_for(rank, 2));
  world.strike(0, SIGCONT);
  EXPECT_TRUE(world.board().wait_for(0, 2)) << "what was said to the stopped is not lost";
  world.say(3);
  EXPECT_EQ(world.report(0), "rank 0 is late");
  EXPECT_EQ(world.report(1), "silent I am 2 rank 0 is late");
  EXPECT_EQ(world.report(2), "rank 0 is late");
}

TEST(Agent, HasToldWhyBeforeItsProcessEnds) {
  for (int round = 0; round < 10; ++round) {
    ForkedWorld world({"a", "a"}, [](Member& member) -> std::string {
      const auto agent = start_agent(member);
      std::promise<std::string> told;
      CommunicatorHooks hooks = state_of("");
      hooks.broadcast = [&](const std::string& reason) { told.set_value(reason); };
      const HookRegistration registration = agent->attach(kGroup, hooks);
      member.say(1);
      member.wait_for_test(2);
      if (member.rank() == 0) {
        agent->broadcast_now(kGroup, "rank 1 is late");
        _exit(0);
      }
      std::future<std::string> reason = told.get_future();
      const bool is_told = reason.wait_for(milliseconds(1000)) == std::future_status::ready;
      return is_told ? reason.get() : "nothing was told";
    });
    ASSERT_TRUE(world.all_say(1));
    world.say(2);
    ASSERT_EQ(world.report(1), "rank 1 is late") << "round " << round;
  }
}

// ---- Robustness

// Until it hangs up on us.
bool is_hung_up(const FileDescriptor& socket) {
  pollfd polled{.fd = socket.get(), .events = POLLIN, .revents = 0};
  std::array<char, 256> buffer{};
  while (poll(&polled, 1, static_cast<int>(milliseconds(kLong).count())) == 1) {
    if (recv(socket.get(), buffer.data(), buffer.size(), 0) <= 0) return true;
  }
  return false;
}

TEST(Agent, RefusesGarbageAndGoesOn) {
  LocalWorld world(2);
  const uint16_t port = world[0].members()[0].port;
  for (int i = 0; i < 20; ++i) {
    const FileDescriptor socket = call(port);
    const std::string garbage = "GET / HTTP/1.1\r\nHost: banyan\r\n\r\n";
    ASSERT_EQ(send(socket.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), static_cast<ssize_t>(garbage.size()));
    EXPECT_TRUE(is_hung_up(socket));
  }
  EXPECT_EQ(world[1].ask_states(kGroup, soon())[0].health, Health::unknown);
  const Agent::Refusals refusals = world[0].refusals();
  EXPECT_EQ(refusals.count, 20u);
  EXPECT_EQ(refusals.last.size(), 16u);
  EXPECT_FALSE(refusals.last[0].empty());
}

TEST(Agent, HangsUpOnTheOldestOfTooManyStrangers) {
  Agent::Options options = quick();
  options.stranger_limit = 4;
  LocalWorld world(2, options);
  std::vector<FileDescriptor> strangers;
  for (int i = 0; i < 6; ++i) strangers.push_back(call(world[0].members()[0].port));
  EXPECT_TRUE(is_hung_up(strangers[0]));
  EXPECT_TRUE(is_hung_up(strangers[1]));
  pollfd last{.fd = strangers[5].get(), .events = POLLIN, .revents = 0};
  EXPECT_EQ(poll(&last, 1, 0), 0);
}

TEST(Agent, HangsUpOnStrangersThatSayNothing) {
  Agent::Options options = quick();
  options.stranger_time = milliseconds(100);
  LocalWorld world(2, options);
  EXPECT_TRUE(is_hung_up(call(world[0].members()[0].port)));
  EXPECT_THAT(world[0].refusals().last, ElementsAre(HasSubstr("did not say who it is")));
}

TEST(Agent, KeepsNoDescriptors) {
  const size_t before = open_descriptors();
  for (int i = 0; i < 3; ++i) {
    LocalWorld world(4);
    const auto connector = world[0].connector(kGroup, {0, 1}, 0, milliseconds(1000));
    connector->request(1, 0, {});
    world.end(3);
    EXPECT_TRUE(wait_for_state(world[1], 3, Health::dead));
  }
  EXPECT_EQ(open_descriptors(), before);
}

TEST(Agent, IsOfNoUseToAForkedChild) {
  LocalWorld world(2);
  Child child([&] {
    try {
      world[0].ask_states(kGroup, soon());
    } catch (const Error& error) {
      world.end(0);  // returns
      return error.code() == ErrorCode::unsupported ? 0 : 2;
    }
    return 3;
  });
  EXPECT_EQ(child.reap(), 0);
  EXPECT_EQ(world[1].ask_states(kGroup, soon())[0].health, Health::unknown) << "the parent's goes on";
}

// A hub and another rank of this process, and where they listen.
struct Two {
  Two() {
    for (const Listener* listener : {&hub, &own}) {
      world.members.push_back(describe_self(listener->port(), {"127.0.0.1"}));
    }
  }
  Listener hub = Listener::on("127.0.0.1"), own = Listener::on("127.0.0.1");
  World world{.rank = 0, .members = {}};
};

TEST(Agent, GivesUpOnAHubThatDoesNotAnswer) {
  Two two;
  two.world.rank = 1;
  EXPECT_THAT(testing::error_of(
                  [&] {
                    const Agent agent(std::move(two.own), Secret(), two.world, quick(),
                                      Deadline::after(milliseconds(200)));
                  },
                  ErrorCode::timed_out),
              AllOf(HasSubstr("rank 0 (process"), HasSubstr("has not answered a call to port")));
}

TEST(Agent, SaysThatItKnowsAnotherSecret) {
  Two two;
  const Agent first(std::move(two.hub), Secret::random(), two.world, quick(), Deadline::after(kLong));
  two.world.rank = 1;
  try {
    // It is called by the hub first, which it refuses, and calls itself after a second.
    const Agent second(std::move(two.own), Secret::random(), two.world, quick(),
                       Deadline::after(std::chrono::seconds(3)));
    FAIL() << "it was let in";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("could not be joined: 127.0.0.1:"));
    EXPECT_THAT(error.what(), HasSubstr("has another secret than this process"));
  }
  EXPECT_GT(first.refusals().count, 0u);
}

}  // namespace
}  // namespace banyan::run
