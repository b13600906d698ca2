#include "banyan/service/client/service_executors.h"

#include <unistd.h>

#include "banyan/run/communicator/communicator.h"
#include "banyan/service/client/test_fake_daemon.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using run::Communicator;
using Extras = std::map<std::string, std::string>;
using ServiceState = FakeDaemon::State;

// Processes that have met, all in this one; each on a host of its own if it is to be.
class MetProcesses : public ::testing::Test {
 protected:
  struct Card {
    std::string host;
    Extras extras;
  };
  void meet(const std::vector<Card>& cards, run::Seals seals = {}) {
    std::vector<run::Listener> listeners;
    std::vector<run::Process> processes;
    run::World world;
    for (const Card& card : cards) {
      listeners.push_back(run::Listener::on("127.0.0.1"));
      world.members.push_back({.host_name = card.host,
                               .host_id = card.host,
                               .pid = getpid(),
                               .start_time = 0,
                               .addresses = {"127.0.0.1"},
                               .port = listeners.back().port()});
      processes.push_back({.member = world.members.back(), .cores = {}, .extras = card.extras});
    }
    const run::Deadline deadline = run::Deadline::after(std::chrono::seconds(60));
    for (uint32_t rank = 0; rank < cards.size(); ++rank) {
      world.rank = rank;
      auto agent = std::make_unique<run::Agent>(std::move(listeners[rank]), run::Secret(), world, run::Agent::Options(),
                                                deadline);
      jobs_.push_back(std::make_shared<run::JoinedProcesses>(pool_, processes, std::move(agent), seals));
    }
  }
  // As rank 1 of process 0 and the last process.
  run::ExecutorFactory::Made make_for_last(Communicator::Options options) {
    ServiceExecutors executors(link_, jobs_.back(), std::move(options));
    const auto last = static_cast<uint32_t>(jobs_.size() - 1);
    return executors.make({.id = 42,
                           .name = "pair",
                           .members = {0, last},
                           .rank = 1,
                           .send_failure = [](const Error&) {},
                           .send_text = [](const std::string&) {}});
  }

  FakeDaemon daemon_;
  run::RegionPool pool_;
  const std::shared_ptr<ServiceLink> link_ =
      std::make_shared<ServiceLink>(daemon_.url(), pool_, run::Deadline::after(std::chrono::seconds(60)));
  const Extras own_{{ServiceExecutors::kExtra, ServiceExecutors::extra_of(*link_)}};
  const Extras other_{{ServiceExecutors::kExtra, "a host 000102030405060708090a0b0c0d0e0f"}};
  std::vector<std::shared_ptr<run::JoinedProcesses>> jobs_;
};

TEST_F(MetProcesses, TellOfTheirDaemon) {
  EXPECT_EQ(own_.at(ServiceExecutors::kExtra), "node7 0102ab00000000000000000000000000");
  EXPECT_NE(ServiceExecutors::extra_of(*link_), own_.at(ServiceExecutors::kExtra)) << "of another job";
}

TEST_F(MetProcesses, ExchangeDirectlyWhereAllAreOnOneHost) {
  meet({{.host = "a", .extras = {}}});
  ServiceExecutors executors(link_, jobs_[0], {});
  const auto made =
      executors.make({.id = 42, .name = "alone", .members = {0}, .rank = 0, .send_failure = {}, .send_text = {}});
  EXPECT_EQ(made.means, "shared memory");
  EXPECT_TRUE(made.is_on_one_host);
}

TEST_F(MetProcesses, HaveTheDaemonOfTheirHostDoIt) {
  meet({{.host = "x", .extras = other_}, {.host = "y", .extras = {}}, {.host = "z", .extras = own_}});
  const auto made = make_for_last({.timeout = std::chrono::milliseconds(1500),
                                   .join_timeout = std::chrono::milliseconds(60'000),
                                   .checksums = true});
  EXPECT_EQ(made.means, "service, a fake");
  EXPECT_FALSE(made.is_on_one_host);
  const OpenSession wish = daemon_.look([](ServiceState& state) { return state.session().opened; });
  EXPECT_EQ(wish.capability, (Capability{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15}));
  EXPECT_EQ(wish.communicator, 42u);
  EXPECT_EQ(wish.name, "pair");
  EXPECT_EQ(wish.rank, 1u);
  EXPECT_THAT(wish.members, ElementsAre(0u, 2u));
  EXPECT_EQ(wish.job_size, 3u);
  EXPECT_THAT(wish.hosts, ElementsAre("a host", "node7"));
  EXPECT_THAT(wish.host_of_rank, ElementsAre(0u, 1u));
  EXPECT_EQ(wish.timeout, 1500u);
  EXPECT_GT(wish.join_timeout, 0u);
  EXPECT_LE(wish.join_timeout, 60'000u);
  EXPECT_TRUE(wish.checksums);
}

TEST_F(MetProcesses, SayWhichOfThemHasNotAttached) {
  meet({{.host = "x", .extras = other_}, {.host = "y", .extras = own_}, {.host = "z", .extras = {}}});
  EXPECT_EQ(testing::error_of([&] { make_for_last({}); }, ErrorCode::mismatch),
            "rank 1 of the group (global rank 2) has not attached to a service (set BANYAN_SERVICE on all ranks)");
}

TEST_F(MetProcesses, NeedTheCapabilityOfTheFirst) {
  meet({{.host = "x", .extras = {}}, {.host = "y", .extras = own_}});
  EXPECT_EQ(testing::error_of([&] { make_for_last({}); }, ErrorCode::mismatch),
            "rank 0 of the job has not attached to a service (set BANYAN_SERVICE on all ranks)");
}

TEST_F(MetProcesses, RefuseWhatOthersSayOfTheirDaemonsThatIsNotUnderstood) {
  for (const char* const said : {"nospace", "host 00", "host 000102030405060708090a0b0c0d0e0x", ""}) {
    meet({{.host = "x", .extras = {{ServiceExecutors::kExtra, said}}}, {.host = "y", .extras = own_}});
    EXPECT_EQ(testing::error_of([&] { make_for_last({}); }, ErrorCode::mismatch),
              "rank 0 of the job says of its service what is not understood here: " + in_quotes(said));
    jobs_.clear();
  }
}

TEST_F(MetProcesses, RefuseWhatAServiceDoesNotDo) {
  meet({{.host = "x", .extras = other_}, {.host = "y", .extras = own_}});
  EXPECT_THAT(
      testing::error_of([&] { make_for_last({.transports = Communicator::Transports::ucx}); }, ErrorCode::unsupported),
      HasSubstr("does not carry calls by UCX"));
  EXPECT_THAT(testing::error_of([&] { make_for_last({.transports = Communicator::Transports::shared_memory}); },
                                ErrorCode::unsupported),
              HasSubstr("are on several hosts"));
  jobs_.clear();
  meet({{.host = "x", .extras = other_}, {.host = "y", .extras = own_}},
       {.sealing = run::Sealing::encrypted, .is_asked_for = true});
  EXPECT_THAT(testing::error_of([&] { make_for_last({}); }, ErrorCode::unsupported), HasSubstr("BANYAN_ENCRYPTION"));
}

TEST_F(MetProcesses, HaveCommunicatorsWhoseCallsTheDaemonCarriesOut) {
  meet({{.host = "x", .extras = own_}, {.host = "y", .extras = other_}});
  daemon_.look([](ServiceState& state) {
    state.perform = [](FakeDaemon::Session& session, const Submission& submission, const ValidCall& valid) {
      const run::Call& call = valid.call;
      if (call.kind == run::OperationKind::all_reduce) std::memcpy(call.recv, call.send, call.count * sizeof(double));
      session.complete(submission.sequence, is_message(call.kind) ? call.other : 0);
    };
  });
  Communicator::Options options{.name = "two"};
  options.executors = [this](const auto& job, const Communicator::Options& chosen) {
    return std::make_unique<ServiceExecutors>(link_, job, chosen);
  };
  Communicator comm(jobs_[0], 7, {0, 1}, options);
  EXPECT_FALSE(comm.is_on_one_host());
  const std::vector<double> from{1.5, 2.5, 3.5};
  std::vector<double> to(3);
  comm.all_reduce<double>(from, to);
  EXPECT_EQ(to, from);
  run::Request sent = comm.start({.kind = run::OperationKind::send,
                                  .other = 1,
                                  .send = reinterpret_cast<const std::byte*>(from.data()),
                                  .count = 3});
  const run::Request same = sent;
  sent.wait();
  EXPECT_EQ(same.peer(), 1u);
  jobs_.pop_back();  // rank 1 leaves in peace
  while (daemon_.look([](ServiceState& state) { return state.count<RankGone>() == 0; })) comm.barrier();
  EXPECT_EQ(daemon_.look([](ServiceState& state) { return state.all_heard<RankGone>()[0].rank; }), 1u);
}

}  // namespace
}  // namespace banyan::service
