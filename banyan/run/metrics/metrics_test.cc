// In processes of their own, since a process shows its metrics in one place for ever.
#include "banyan/run/metrics/metrics.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "banyan/base/file.h"
#include "banyan/run/communicator/statistics.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

struct Ended {
  int code = 0;
  std::string said;  // on standard error
};

// What becomes of a process that does this.
Ended process(const std::function<int()>& body, bool runs_exit_handlers = false) {
  Pipe pipe = Pipe::make();
  Child child([&] {
    alarm(60);
    dup2(pipe.writing.get(), STDERR_FILENO);
    pipe = Pipe();
    const int code = body();
    if (runs_exit_handlers) exit(code);
    return code;
  });
  pipe.writing.reset();
  Ended ended;
  char piece[4096];
  for (ssize_t got = 0; (got = read(pipe.reading.get(), piece, sizeof piece)) > 0;) {
    ended.said.append(piece, static_cast<size_t>(got));
  }
  const int status = child.reap();
  ended.code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return ended;
}

Statistics with_calls(uint64_t calls) {
  Statistics statistics;
  statistics.calls.kinds[static_cast<size_t>(OperationKind::barrier)].calls = calls;
  return statistics;
}

StatisticsBoard::Entry enter(uint64_t calls, const JobPlace& place) {
  return StatisticsBoard::of_process().enter("world", place, [calls] { return with_calls(calls); });
}

std::string get(uint16_t port, const std::string& host = "localhost") {
  const FileDescriptor socket(::socket(AF_INET, SOCK_STREAM, 0));
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) return "not there";
  const std::string request = "GET /metrics HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n";
  if (write(socket.get(), request.data(), request.size()) < 0) return "deaf";
  std::string answer;
  char piece[4096];
  for (ssize_t got = 0; (got = read(socket.get(), piece, sizeof piece)) > 0;) {
    answer.append(piece, static_cast<size_t>(got));
  }
  return answer;
}

TEST(Metrics, AreServedOnThePortOfTheRank) {
  const uint16_t port = free_port(1);
  const auto body = [port] {
    start_metrics({.target = "127.0.0.1:" + std::to_string(port)});
    if (get(static_cast<uint16_t>(port + 1)) != "not there") return 1;  // no communicator yet
    const StatisticsBoard::Entry entry = enter(42, {.rank = 5, .size = 6, .rank_on_host = 1});
    const std::string page = get(static_cast<uint16_t>(port + 1));
    fputs(page.c_str(), stderr);
    struct sigaction pipe {};
    sigaction(SIGPIPE, nullptr, &pipe);
    return pipe.sa_handler == SIG_DFL ? 7 : 2;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7);
  EXPECT_THAT(ended.said, HasSubstr("200 OK"));
  EXPECT_THAT(ended.said, HasSubstr("banyan_calls_total{rank=\"5\",communicator=\"world\",kind=\"barrier\"} 42"));
}

// The page of a stranger, whose name stands for this address, in the browser of somebody here.
TEST(Metrics, AreNotForWhoMeansAnotherHost) {
  const uint16_t port = free_port(1);
  const auto body = [port] {
    start_metrics({.target = "127.0.0.1:" + std::to_string(port), .hosts = "node7.cluster, .lab"});
    const StatisticsBoard::Entry entry = enter(42, {.rank = 0, .size = 1, .rank_on_host = 0});
    for (const char* const known : {"localhost", "127.0.0.1:9400", "[::1]", "node7.cluster:9400", "a.lab"}) {
      if (!get(port, known).starts_with("HTTP/1.1 200")) return 1;
    }
    const std::string refused = get(port, "evil.example:9400");
    fputs(refused.c_str(), stderr);
    return refused.find("banyan_") == std::string::npos ? 7 : 2;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7) << ended.said;
  EXPECT_THAT(ended.said, HasSubstr("HTTP/1.1 421 "));
  EXPECT_THAT(ended.said,
              HasSubstr("this host is not known to be called 'evil.example'; ask by its address, or name it "
                        "in BANYAN_METRICS_HOSTS: evil.example"));
}

TEST(Metrics, AreNotShownWhereTheNamesOfTheHostAreNone) {
  const uint16_t port = free_port(1);
  const auto body = [port] {
    start_metrics({.target = "127.0.0.1:" + std::to_string(port), .hosts = "http://node7"});
    const StatisticsBoard::Entry entry = enter(42, {.rank = 0, .size = 1, .rank_on_host = 0});
    return get(port) == "not there" ? 7 : 1;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7);
  EXPECT_THAT(ended.said, HasSubstr("there are no metrics: BANYAN_METRICS_HOSTS: 'http://node7' is no name of a host"));
}

TEST(Metrics, AreMissingWithAWarningWhereThePortIsTaken) {
  const uint16_t port = free_port();
  const Listener taken = Listener::on("127.0.0.1", port);
  const auto body = [port] {
    start_metrics({.target = "127.0.0.1:" + std::to_string(port)});
    const StatisticsBoard::Entry entry = enter(1, {});
    return 7;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7);
  EXPECT_THAT(ended.said, HasSubstr("BANYAN_METRICS: cannot listen on 127.0.0.1:" + std::to_string(port)));
}

TEST(Metrics, AreWrittenAtTheEndOfACommunicatorAndOfTheProcess) {
  const testing::TemporaryFolder folder;
  const auto destroyed = [&] {
    start_metrics({.target = folder.path() + "/destroyed.prom"});
    { const StatisticsBoard::Entry entry = enter(17, {}); }
    return 7;
  };
  EXPECT_EQ(process(destroyed).code, 7);
  EXPECT_THAT(read_file(folder.path() + "/destroyed.prom"), HasSubstr("kind=\"barrier\"} 17"));
  const auto left = [&] {
    start_metrics({.target = folder.path() + "/left.prom"});
    static uint64_t calls = 1;
    new StatisticsBoard::Entry(
        StatisticsBoard::of_process().enter("world", {.rank = 2, .size = 4}, [] { return with_calls(calls); }));
    calls = 18;
    return 7;
  };
  EXPECT_EQ(process(left, true).code, 7);
  EXPECT_THAT(read_file(folder.path() + "/left.2.prom"), HasSubstr("kind=\"barrier\"} 18"));
}

TEST(Metrics, AreMissingWithOneWarningWhereTheFileCannotBeWritten) {
  const auto body = [] {
    start_metrics({.target = "/proc/no-such-folder/metrics.prom"});
    for (int i = 0; i < 3; ++i) const StatisticsBoard::Entry entry = enter(1, {});
    return 7;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7);
  const std::string warning = "the metrics cannot be written";
  EXPECT_THAT(ended.said, HasSubstr(warning));
  EXPECT_THAT(ended.said.substr(ended.said.find(warning) + 1), Not(HasSubstr(warning)));
}

TEST(Metrics, OfAForkedProcessThatJoinsAnewAreItsOwn) {
  const testing::TemporaryFolder folder;
  const auto body = [&] {
    start_metrics({.target = folder.path() + "/%p.prom"});
    const StatisticsBoard::Entry entry = enter(1, {});
    const auto in_child = [&] {
      { const StatisticsBoard::Entry own = enter(2, {}); }
      return read_file(folder.path() + "/" + std::to_string(getpid()) + ".prom").find("} 2\n") != std::string::npos ? 7
                                                                                                                    : 1;
    };
    return process(in_child).code;
  };
  EXPECT_EQ(process(body).code, 7);
}

TEST(Metrics, ThatCannotBeShownAreAWarning) {
  const auto body = [] {
    start_metrics({.target = "70000"});
    const StatisticsBoard::Entry entry = enter(1, {});
    return 7;
  };
  const Ended ended = process(body);
  EXPECT_EQ(ended.code, 7);
  EXPECT_THAT(ended.said, HasSubstr("there are no metrics: BANYAN_METRICS=70000: a port is a number"));
}

}  // namespace
}  // namespace banyan::run
