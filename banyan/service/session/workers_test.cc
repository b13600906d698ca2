#include "banyan/service/session/workers.h"

#include <unistd.h>

#include <future>

#include "banyan/run/system/shared_memory.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

// A reactor in this thread, and three workers.
class WorkersTest : public ::testing::Test {
 protected:
  static constexpr size_t kWorkers = 3;

  // Until `done` of a question has been called.
  void run() {
    reactor_.run([](const Error& error) { FAIL() << error.what(); });
  }
  // Returns when the worker has come to all that was posted before.
  static void come_round(Worker& worker) {
    std::promise<void> done;
    worker.post([&done] { done.set_value(); });
    done.get_future().wait();
  }
  std::shared_ptr<WorkerClient> client_of(Worker& worker) {
    const run::SharedMemory doorbell = run::SharedMemory::with_pages(4096);
    const run::FileDescriptor descriptor(dup(doorbell.fd()));
    return std::make_shared<WorkerClient>(worker, Region(descriptor, 4096), RegionTable::Quota());
  }

  run::Reactor reactor_;
  Workers workers_{kWorkers, true, reactor_.mailbox()};
};

TEST_F(WorkersTest, AreAskedOneAfterTheOtherOnTheirOwnThreadsAndTheReactorIsTold) {
  std::map<const Worker*, std::thread::id> own;
  for (size_t number = 0; number < kWorkers; ++number) {
    workers_[number].post([&, number] { own[&workers_[number]] = std::this_thread::get_id(); });
    come_round(workers_[number]);
  }
  std::vector<const Worker*> asked;
  bool is_done_here = false;
  workers_.ask_each(
      [&](const Worker& worker) {
        EXPECT_EQ(own.at(&worker), std::this_thread::get_id());
        asked.push_back(&worker);
      },
      [&, here = std::this_thread::get_id()] {
        is_done_here = std::this_thread::get_id() == here;
        reactor_.stop();
      });
  run();
  EXPECT_TRUE(is_done_here);
  EXPECT_EQ(asked, (std::vector<const Worker*>{&workers_[0], &workers_[1], &workers_[2]}));
}

TEST_F(WorkersTest, TellNobodyWhileOneOfThemHangs) {
  std::promise<void> release;
  workers_[1].post([held = release.get_future().share()] { held.wait(); });
  std::atomic<int> asked{0};
  bool is_done = false;
  workers_.ask_each([&](const Worker&) { ++asked; }, [&] { is_done = true; });
  reactor_.after(std::chrono::milliseconds(20), [&] { reactor_.stop(); });
  run();
  EXPECT_FALSE(is_done);
  EXPECT_EQ(asked, 1);
  come_round(workers_[2]);  // the others do their tasks
  release.set_value();
  come_round(workers_[1]);
  come_round(workers_[2]);
  EXPECT_EQ(asked, 3) << "the question goes on where it stopped";
}

// Under sanitizers above all.
TEST(WorkersThatEnd, WhileTheyAreAskedEndInOrder) {
  run::Reactor reactor;
  for (int round = 0; round < 50; ++round) {
    Workers workers(3, true, reactor.mailbox());
    for (int question = 0; question < 20; ++question) {
      workers.ask_each([](const Worker&) { std::this_thread::yield(); }, [] {});
    }
  }
}

TEST_F(WorkersTest, GetClientsWhereFewestAre) {
  std::vector<std::shared_ptr<WorkerClient>> clients;
  std::map<const Worker*, int> counts;
  for (int i = 0; i < 9; ++i) {
    Worker& least = workers_.least_of(clients);
    ++counts[&least];
    clients.push_back(client_of(least));
  }
  for (size_t number = 0; number < kWorkers; ++number) EXPECT_EQ(counts[&workers_[number]], 3) << "worker " << number;
  std::erase_if(clients, [&](const auto& client) { return &client->worker() == &workers_[2]; });
  EXPECT_EQ(&workers_.least_of(clients), &workers_[2]) << "its clients have gone";
}

TEST_F(WorkersTest, HaveTheTimeOfAllThreads) {
  const auto before = workers_.core_time();
  for (size_t number = 0; number < kWorkers; ++number) {
    workers_[number].post([] {
      const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(20);
      while (std::chrono::steady_clock::now() < end) continue;
    });
    come_round(workers_[number]);
  }
  std::chrono::nanoseconds each{0};
  for (size_t number = 0; number < kWorkers; ++number) each += workers_[number].core_time();
  EXPECT_GT(workers_.core_time() - before, std::chrono::milliseconds(1));
  EXPECT_GE(workers_.core_time(), each);
}

TEST(WorkersOfAMachine, AreOneForEightCores) {
  const auto fitting = [](std::vector<size_t> all) {
    std::set<uint32_t> numbers;
    for (const size_t cores : all) numbers.insert(Workers::fitting(cores));
    return numbers;
  };
  EXPECT_EQ(fitting({0, 1, 2, 8, 15}), std::set<uint32_t>{1});
  EXPECT_EQ(fitting({16, 23}), std::set<uint32_t>{2});
  EXPECT_EQ(fitting({128}), std::set<uint32_t>{16});
  EXPECT_EQ(fitting({512, 4096}), std::set<uint32_t>{64});
}

TEST(WorkersOfAMachine, AreNeitherNoneNorVeryMany) {
  run::Reactor reactor;
  for (const uint32_t count : {0u, 65u}) {
    try {
      const Workers workers(count, true, reactor.mailbox());
      FAIL() << count;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::invalid_input);
      EXPECT_THAT(error.what(), HasSubstr("cannot have " + std::to_string(count) + " workers; give it from 1 to 64"));
    }
  }
}

}  // namespace
}  // namespace banyan::service
