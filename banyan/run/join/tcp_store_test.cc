// A StoreServer and its visitors, over the loopback.
#include "banyan/run/join/tcp_store.h"

#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <csignal>
#include <future>

#include "banyan/run/join/endpoint_record.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/join/handshake.h"
#include "banyan/run/join/network.h"
#include "banyan/run/join/store_server.h"
#include "banyan/run/join/test_calls.h"
#include "banyan/run/join/test_resets.h"
#include "banyan/run/system/child.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

const Deadline kSoon = Deadline::after(std::chrono::minutes(2));
const Secret kSecret = Secret::parse("00112233445566778899aabbccddeeff", "test");

class StoreServerTest : public ::testing::Test {
 protected:
  void start(StoreServer::Options options = {.job = "j"}, const Secret& secret = kSecret) {
    server_ = std::make_unique<StoreServer>(Listener::on("127.0.0.1"), secret, std::move(options));
  }
  TcpStore::Host host() const {
    const uint16_t port = server_->port();
    return {.place = tcp_url("127.0.0.1", port), .name = "127.0.0.1", .port = port};
  }
  std::unique_ptr<TcpStore> visit(const std::string& job = "j", const Secret& secret = kSecret,
                                  const Deadline& deadline = kSoon) const {
    return std::make_unique<TcpStore>(host(), secret, job, deadline);
  }
  FileDescriptor call() const { return run::call(server_->port()); }
  static bool is_hung_up(const FileDescriptor& socket) {
    char byte;
    return recv(socket.get(), &byte, 1, 0) <= 0;  // waits
  }

  std::unique_ptr<StoreServer> server_;
};

TEST_F(StoreServerTest, CarriesTheLargestValue) {
  start();
  std::string value(Store::kMaxValue, '\0');
  for (size_t i = 0; i < value.size(); i += 4093) value[i] = static_cast<char>(i / 4093);
  const auto a = visit();
  EXPECT_EQ(a->own_address(), "127.0.0.1");
  a->set("large", value, kSoon);
  EXPECT_TRUE(visit()->get("large", kSoon) == value);
}

TEST_F(StoreServerTest, GivesUpAtTheDeadlineAndGoesOn) {
  start();
  const auto store = visit();
  const Error late = testing::thrown_by([&] { store->get("never", Deadline::after(milliseconds(20))); });
  EXPECT_EQ(late.code(), ErrorCode::timed_out);
  EXPECT_THAT(late.what(), HasSubstr("within 20 ms"));
  visit()->set("never", "after all", kSoon);
  EXPECT_EQ(store->add("n", 1, kSoon), 1);  // not the answer to what was given up
  EXPECT_EQ(store->get("never", kSoon), "after all");
}

TEST_F(StoreServerTest, TellsVisitorsThatItIsGone) {
  start();
  const auto store = visit();
  server_.reset();
  EXPECT_EQ(testing::thrown_by([&] { store->get("k", kSoon); }).code(), ErrorCode::peer_lost);
}

TEST_F(StoreServerTest, SaysWhenItIsFull) {
  start({.job = "j", .max_memory = 1000});
  const auto store = visit();
  EXPECT_THAT(testing::thrown_by([&] { store->set("k", std::string(2000, 'x'), kSoon); }).what(),
              HasSubstr("store is full"));
  store->set("k", "small", kSoon);
  EXPECT_EQ(store->get("k", kSoon), "small");
}

TEST_F(StoreServerTest, RefusesAnotherSecretAtOnce) {
  start();
  const Error error = testing::thrown_by([&] { visit("j", Secret::random()); });
  EXPECT_EQ(error.code(), ErrorCode::mismatch);
  EXPECT_THAT(error.what(), HasSubstr("another secret than this process"));
  visit();  // which also waits until the other has been dealt with
  EXPECT_THAT(server_->refusals().last.back(), HasSubstr("does not know the secret"));
}

// Whoever tries secrets may try thousands a second.
TEST_F(StoreServerTest, TellsAtOnceOfWhoDoesNotProveItselfAndThenOfManyTogether) {
  std::atomic<int> counted = 0;
  std::promise<std::string> first;
  std::atomic<int> told = 0;
  start({.job = "j",
         .acceptor = {.not_proved = [&] { ++counted; },
                      .tell =
                          [&](const std::string& words) {
                            if (told++ == 0) first.set_value(words);
                          }}});
  const uint64_t before = Acceptor::not_proved_in_process();
  for (int tries = 0; tries < 20; ++tries) {
    EXPECT_THROW(visit("j", Secret::random()), Error);
  }
  std::future<std::string> words = first.get_future();
  ASSERT_EQ(words.wait_for(seconds(1)), std::future_status::ready);
  EXPECT_THAT(words.get(), AllOf(HasSubstr("1 caller has not proved to be of this job or service: "),
                                 HasSubstr("does not know the secret")));
  visit();  // which also waits until the others have been dealt with
  EXPECT_EQ(counted, 20);
  EXPECT_EQ(Acceptor::not_proved_in_process() - before, 20u);
  EXPECT_EQ(told, 1);
  call();  // who says nothing only looks whether the port is open
  visit();
  EXPECT_EQ(counted, 20);
  server_.reset();
}

TEST_F(StoreServerTest, SendsVisitorsOfAnotherJobAwayUntilTheirHostComes) {
  start();
  const Error error = testing::thrown_by([&] { visit("other", kSecret, Deadline::after(milliseconds(300))); });
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.what(), HasSubstr("rank 0 has not come to tcp://127.0.0.1:"));
  EXPECT_THAT(error.what(), HasSubstr("within 300 ms (127.0.0.1: it hosts another job)"));
}

TEST_F(StoreServerTest, OutlivesScannersAndNonsense) {
  start({.job = "j", .acceptor = {.stranger_time = milliseconds(50), .stranger_limit = 4}});
  std::vector<FileDescriptor> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(call());
  for (const std::string garbage : {"GET / HTTP/1.0\r\n\r\n", "\x16\x03\x01\x02", "banyan/7   \n", "\n", "banyan"}) {
    const FileDescriptor scanner = call();
    send(scanner.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL);
    EXPECT_TRUE(is_hung_up(scanner) || garbage == "banyan/7   \n");  // that one is told our version
  }
  const auto store = visit();
  store->set("k", "v", kSoon);
  EXPECT_EQ(store->get("k", kSoon), "v");
  for (const FileDescriptor& socket : silent) EXPECT_TRUE(is_hung_up(socket));
  EXPECT_GE(server_->refusals().count, 20u);
}

// A member of the job whose requests are nonsense loses its connection, and so does who stands between a member and the
// store and says something himself; the others do not notice.
TEST_F(StoreServerTest, HangsUpOnMembersThatSendNonsense) {
  start();
  for (const bool is_sealed : {true, false}) {
    Handshake handshake = Handshake::caller(
        call(), kSecret, {.purpose = kStorePurpose, .payload = "j", .from = "guest", .to = kStorePurpose});
    while (handshake.advance() != Handshake::State::done) ASSERT_NE(handshake.advance(), Handshake::State::refused);
    const Admitted member = handshake.take();
    std::string welcome(4 + FrameReader::kHead + 5 + kSealSize, '\0'), opened;
    EXPECT_EQ(recv(member.socket.get(), welcome.data(), welcome.size(), MSG_WAITALL),
              static_cast<ssize_t>(welcome.size()));
    StreamOpener(member.keys.receiving).open(welcome, opened);
    EXPECT_EQ(opened, frame_head(5) + std::string(5, '\0'));
    std::string nonsense;
    if (is_sealed) {
      StreamSealer(member.keys.sending).seal(frame_head(3) + "abc", nonsense);
    } else {
      nonsense = frame_head(3) + "abc" + std::string(kSealSize, 'x');
    }
    EXPECT_EQ(send(member.socket.get(), nonsense.data(), nonsense.size(), MSG_NOSIGNAL),
              static_cast<ssize_t>(nonsense.size()));
    EXPECT_TRUE(is_hung_up(member.socket));
  }
  EXPECT_EQ(visit()->add("n", 1, kSoon), 1);
}

TEST_F(StoreServerTest, FinishesWhenAllHaveGone) {
  start();
  auto a = visit(), b = visit();
  EXPECT_FALSE(server_->finish(Deadline::after(milliseconds(10))));
  a.reset();
  EXPECT_FALSE(server_->finish(Deadline::after(milliseconds(10))));
  std::thread leaving([&] { b.reset(); });
  EXPECT_TRUE(server_->finish(kSoon));
  leaving.join();
  const Error error = testing::thrown_by([&] { visit("j", kSecret, Deadline::after(milliseconds(10))); });
  EXPECT_THAT(error.what(), HasSubstr("Connection refused"));
}

TEST_F(StoreServerTest, CarriesOutEachRequestOnceThoughConnectionsBreak) {
  constexpr int kResets = 40;
  start();
  const auto store = visit();
  std::atomic<bool> is_over{false};
  std::thread breaker([&] {
    for (int i = 0; i < kResets; ++i) {
      std::this_thread::sleep_for(milliseconds(5 + i % 7));
      reset_connections_to(server_->port());
    }
    is_over = true;
  });
  int64_t count = 0;
  while (!is_over) EXPECT_EQ(store->add("n", 1, kSoon), ++count);
  breaker.join();
  EXPECT_EQ(visit()->add("n", 0, kSoon), count);
  EXPECT_GT(count, kResets);
}

TEST_F(StoreServerTest, WaitsAtItsEndForAVisitorWhoseConnectionBroke) {
  start();
  auto store = visit();
  store->set("k", "v", kSoon);
  reset_connections_to(server_->port());
  auto finished = std::async(std::launch::async, [&] { return server_->finish(kSoon); });
  EXPECT_EQ(finished.wait_for(milliseconds(50)), std::future_status::timeout);
  EXPECT_THROW(visit("j", kSecret, Deadline::after(milliseconds(50))), Error) << "others come too late";
  EXPECT_EQ(store->get("k", kSoon), "v");
  store.reset();
  EXPECT_TRUE(finished.get());
}

TEST_F(StoreServerTest, IsNotHeldByThoseWhoComeTooLate) {
  start();
  auto store = visit();
  auto finished = std::async(std::launch::async, [&] { return server_->finish(kSoon); });
  EXPECT_EQ(finished.wait_for(milliseconds(100)), std::future_status::timeout);  // it has begun by now
  auto late = std::async(std::launch::async,
                         [&] { EXPECT_THROW(visit("j", kSecret, Deadline::after(milliseconds(3000))), Error); });
  EXPECT_EQ(finished.wait_for(milliseconds(200)), std::future_status::timeout);
  store.reset();
  EXPECT_EQ(finished.wait_for(milliseconds(1500)), std::future_status::ready) << "somebody still calls";
}

TEST_F(StoreServerTest, WaitsForNobodyOnceItIsToStop) {
  start();
  const auto store = visit();
  std::stop_source stop;
  auto finished = std::async(std::launch::async, [&] { return server_->finish(kSoon.unless(stop.get_token())); });
  EXPECT_EQ(finished.wait_for(milliseconds(50)), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(finished.wait_for(seconds(2)), std::future_status::ready);
  EXPECT_FALSE(finished.get());
}

TEST_F(StoreServerTest, CarriesOutTheLastWillOfAProcessThatIsKilled) {
  start();
  const Pipe pipe = Pipe::make();
  Child child([&]() -> int {
    alarm(60);
    TcpStore store(host(), kSecret, "j", kSoon);
    store.leave_will({.counter = "over", .key = "news", .value = "it has ended", .process = describe_self(1, {})},
                     kSoon);
    const char mark = '.';
    if (write(pipe.writing.get(), &mark, 1) != 1) return 1;
    for (;;) pause();
  });
  char mark = 0;
  EXPECT_EQ(read(pipe.reading.get(), &mark, 1), 1);
  const auto store = visit();
  EXPECT_EQ(store->try_get("news", kSoon), std::nullopt);
  child.send(SIGKILL);
  EXPECT_EQ(store->get("news", Deadline::after(std::chrono::seconds(20))), "it has ended");
  EXPECT_EQ(store->add("over", 1, kSoon), 2);
}

// Runs `live` in a forked process.
Child start(const std::function<void()>& live) {
  return Child([&] {
    alarm(20);
    live();
    return 0;
  });
}

// A lock of libcrypto that the server's thread has while its process is forked would be locked in the child for ever;
// it has some for long when it uses the library for the first time.
TEST(StoreServer, LetsItsProcessForkAtAnyTime) {
  for (int i = 0; i < 100; ++i) {
    Child parent = start([] {
      const StoreServer server(Listener::on("127.0.0.1"), kSecret, {.job = "j"});
      const TcpStore::Host host{.place = "here", .name = "127.0.0.1", .port = server.port()};
      std::vector<Child> visitors;
      for (int k = 0; k < 5; ++k) {
        visitors.push_back(start([&] { TcpStore(host, kSecret, "j", kSoon).set("k", "v", kSoon); }));
      }
      for (Child& visitor : visitors) {
        if (visitor.reap() != 0) _exit(1);
      }
    });
    ASSERT_EQ(parent.reap(), 0) << "round " << i;
  }
}

TEST(TcpStore, WaitsForAHostThatComesLate) {
  const uint16_t port = free_port();
  auto visitor = std::async(std::launch::async, [&] {
    TcpStore store({.place = "tcp://here", .name = "127.0.0.1", .port = port}, kSecret, "", kSoon);
    return store.get("k", kSoon);
  });
  EXPECT_EQ(visitor.wait_for(milliseconds(20)), std::future_status::timeout);
  StoreServer server(Listener::on("127.0.0.1", port), kSecret, {});
  TcpStore({.place = "tcp://here", .name = "127.0.0.1", .port = port}, kSecret, "", kSoon).set("k", "v", kSoon);
  EXPECT_EQ(visitor.get(), "v");
}

TEST(TcpStore, SaysWhoHasNotComeAndWhy) {
  const uint16_t port = free_port();
  const TcpStore::Host nobody{.place = "tcp://node0:29501", .name = "127.0.0.1", .port = port};
  EXPECT_STREQ(testing::thrown_by([&] { TcpStore(nobody, kSecret, "", Deadline::after(milliseconds(20))); }).what(),
               "rank 0 has not come to tcp://node0:29501 within 20 ms (127.0.0.1: Connection refused)");
  const TcpStore::Host unknown{.place = "tcp://x", .name = "host.invalid", .port = port};
  EXPECT_THAT(testing::thrown_by([&] { TcpStore(unknown, kSecret, "", Deadline::after(milliseconds(20))); }).what(),
              HasSubstr("the host 'host.invalid' is not known"));
}

// Something listens, and says nothing: as if it had been stopped.
TEST(TcpStore, DoesNotWaitForASilentHostBeyondTheDeadline) {
  const Listener silent = Listener::on("127.0.0.1");
  const TcpStore::Host host{.place = "tcp://x", .name = "127.0.0.1", .port = silent.port()};
  const Error error = testing::thrown_by([&] { TcpStore(host, kSecret, "", Deadline::after(milliseconds(50))); });
  EXPECT_EQ(error.code(), ErrorCode::timed_out);
  EXPECT_THAT(error.what(), HasSubstr("127.0.0.1: no answer"));
}

}  // namespace
}  // namespace banyan::run
