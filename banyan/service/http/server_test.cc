#include "banyan/service/http/server.h"

#include <sys/resource.h>

#include <new>
#include <stdexcept>

#include "banyan/service/http/test_server.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using std::chrono::steady_clock;

const std::string kGet = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

std::string post_of(const std::string& body) {
  return "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + body;
}

// Says what it was asked for.
void echo(const HttpRequest& request, const HttpServer::Reply& reply) {
  std::string text = request.method + " " + request.path;
  for (const auto& [name, value] : request.query) text += " " + name + "=" + value;
  reply({.status = 200, .type = "text/plain", .body = text + " " + request.body});
}

class HttpServerOfEachFamily : public ::testing::TestWithParam<Family> {};
INSTANTIATE_TEST_SUITE_P(Families, HttpServerOfEachFamily, ::testing::Values(Family::unix_socket, Family::tcp),
                         [](const auto& given) { return given.param == Family::tcp ? "Tcp" : "Unix"; });

TEST_P(HttpServerOfEachFamily, AnswersSeveralRequestsOfAConnection) {
  TestServer server(GetParam(), echo);
  Caller caller = server.call();
  for (int i = 0; i < 3; ++i) {
    caller.say("GET /a%20b/" + std::to_string(i) + "?x=1&y=%2F&z&x=2 HTTP/1.1\r\nHost: x\r\n\r\n");
    const Answer answer = caller.hear();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.body, "GET /a b/" + std::to_string(i) + " x=2 y=/ z= ");
    EXPECT_THAT(answer.head, HasSubstr("Content-Type: text/plain\r\n"));
    EXPECT_THAT(answer.head, HasSubstr("Cache-Control: no-store\r\n"));
  }
  caller.say(post_of("{}"));
  EXPECT_EQ(caller.hear().body, "POST / {}");
}

TEST_P(HttpServerOfEachFamily, AnswersLateAndOutOfOrder) {
  std::vector<std::pair<std::string, HttpServer::Reply>> waiting;  // on the server's thread
  TestServer server(GetParam(), [&](const HttpRequest& request, HttpServer::Reply reply) {
    waiting.emplace_back(request.path, std::move(reply));
    if (waiting.size() < 40) return;
    while (!waiting.empty()) {
      waiting.back().second({.status = 200, .type = "text/plain", .body = waiting.back().first});
      waiting.pop_back();
    }
  });
  std::vector<Caller> callers;
  for (int i = 0; i < 40; ++i) {
    callers.push_back(server.call());
    callers.back().say("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  for (size_t i = 0; i < callers.size(); ++i) EXPECT_EQ(callers[i].hear().body, "/" + std::to_string(i));
}

TEST_P(HttpServerOfEachFamily, TakesTheLargestBodyAndSendsALargeOne) {
  constexpr size_t kMost = size_t{1} << 20;
  TestServer server(GetParam(), [](const HttpRequest& request, const HttpServer::Reply& reply) {
    reply({.status = 200, .type = "text/plain", .body = request.body + request.body + request.body});
  });
  std::string body(kMost, ' ');
  for (size_t i = 0; i < body.size(); ++i) body[i] = static_cast<char>('a' + i * 7 % 23);
  Caller caller = server.call();
  ASSERT_TRUE(caller.say(post_of(body)));
  EXPECT_EQ(caller.hear().body, body + body + body);
  caller.say(kGet);
  EXPECT_EQ(caller.hear().status, 200);
}

TEST_P(HttpServerOfEachFamily, EndsWhileRequestsWait) {
  std::vector<HttpServer::Reply> waiting;
  TestServer server(GetParam(),
                    [&](const HttpRequest&, HttpServer::Reply reply) { waiting.push_back(std::move(reply)); });
  Caller first = server.call(), second = server.call(), half = server.call();
  first.say(kGet);
  second.say(kGet);
  half.say("GET / HT");
  while (true) {
    size_t count = 0;
    server.on_thread([&] { count = waiting.size(); });
    if (count == 2) break;
  }
  server.end();
  for (Caller* caller : {&first, &second}) {
    const Answer answer = caller->hear();
    EXPECT_EQ(answer.status, 503);
    EXPECT_EQ(answer.body, "{\"error\":\"the daemon ends\"}\n");
  }
  EXPECT_TRUE(half.is_hung_up_on());
  server.on_thread([&] {
    for (const HttpServer::Reply& reply : waiting) reply({});  // too late, which harms nobody
    waiting.clear();
  });
}

TEST(HttpServer, SendsTheSameBodyToManyWithoutCopies) {
  const auto body = std::make_shared<const std::string>(1 << 20, 'x');
  {
    TestServer server(Family::unix_socket, [&](const HttpRequest&, const HttpServer::Reply& reply) {
      reply({.type = "text/plain", .body = {}, .shared_body = body});
    });
    for (int i = 0; i < 3; ++i) {
      Caller caller = server.call();
      caller.say(kGet);
      EXPECT_EQ(caller.hear().body, *body);
    }
  }
  EXPECT_EQ(body.use_count(), 1) << "it is let go of";
}

TEST(HttpServer, AnswersHeadAsGetWithoutTheBody) {
  TestServer server(Family::tcp, echo);
  Caller caller = server.call();
  caller.say("HEAD /some/path HTTP/1.1\r\nHost: x\r\n\r\n");
  const Answer answer = caller.hear(/*is_head=*/true);
  EXPECT_EQ(answer.status, 200);
  EXPECT_THAT(answer.head, HasSubstr("Content-Length: " + std::to_string(std::strlen("GET /some/path "))));
  caller.say(kGet);  // what a body would have spoilt
  EXPECT_EQ(caller.hear().body, "GET / ");
}

TEST(HttpServer, MakesOfWhatAHandlerThrowsAStatus) {
  TestServer server(Family::tcp, [](const HttpRequest& request, const HttpServer::Reply&) {
    if (request.path == "/bad_alloc") throw std::bad_alloc();
    if (request.path == "/other") throw std::runtime_error("other");
    for (int code = 0; code <= static_cast<int>(ErrorCode::invalid_usage); ++code) {
      if (request.path == "/" + std::to_string(code)) throw Error(static_cast<ErrorCode>(code), "say \"please\"");
    }
    throw 7;
  });
  const auto status_of = [&](const std::string& path) {
    return server.ask("GET /" + path + " HTTP/1.1\r\nHost: x\r\n\r\n").status;
  };
  for (int code = 0; code <= static_cast<int>(ErrorCode::invalid_usage); ++code) {
    const auto known = static_cast<ErrorCode>(code);
    const int expected = known == ErrorCode::invalid_input   ? 400
                         : known == ErrorCode::not_found     ? 404
                         : known == ErrorCode::invalid_usage ? 403
                                                             : 500;
    EXPECT_EQ(status_of(std::to_string(code)), expected) << code;
  }
  EXPECT_EQ(server.ask("GET /0 HTTP/1.1\r\nHost: x\r\n\r\n").body, "{\"error\":\"say \\\"please\\\"\"}\n");
  EXPECT_EQ(status_of("bad_alloc"), 500);
  EXPECT_EQ(status_of("other"), 500);
  EXPECT_EQ(status_of("seven"), 500);
  EXPECT_THAT(server.failures(), IsEmpty());
}

TEST(HttpServer, TellsItsReactorWhatIsThrownAfterTheAnswer) {
  TestServer server(Family::tcp, [](const HttpRequest&, const HttpServer::Reply& reply) {
    reply({.status = 200, .type = "text/plain", .body = "first"});
    reply({.status = 200, .type = "text/plain", .body = "second"});
    throw Error(ErrorCode::io, "too late");
  });
  EXPECT_EQ(server.ask(kGet).body, "first");
  EXPECT_THAT(server.failures(), ElementsAre("after its answer, a request to '/': too late"));
}

TEST(HttpServer, AnswersWhereAHandlerForgetsTo) {
  TestServer server(Family::tcp, [](const HttpRequest&, const HttpServer::Reply&) {});
  const Answer answer = server.ask(kGet);
  EXPECT_EQ(answer.status, 500);
  EXPECT_THAT(answer.body, HasSubstr("nobody has answered"));
  std::optional<HttpServer::Reply> kept;
  TestServer other(Family::tcp, [&](const HttpRequest&, HttpServer::Reply reply) { kept = std::move(reply); });
  Caller caller = other.call();
  caller.say(kGet);
  for (bool is_there = false; !is_there;) other.on_thread([&] { is_there = kept.has_value(); });
  other.on_thread([&] { kept.reset(); });
  EXPECT_EQ(caller.hear().status, 500);
}

TEST(HttpServer, OutlivesCallersThatGoBeforeTheirAnswer) {
  std::vector<HttpServer::Reply> waiting;
  TestServer server(Family::unix_socket, [&](const HttpRequest& request, HttpServer::Reply reply) {
    if (request.path == "/late") {
      waiting.push_back(std::move(reply));
    } else {
      reply({});
    }
  });
  std::vector<Caller> callers;
  for (int i = 0; i < 10; ++i) {
    callers.push_back(server.call());
    callers.back().say("GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
  }
  for (bool is_there = false; !is_there;) server.on_thread([&] { is_there = waiting.size() == 10; });
  callers.clear();
  server.on_thread([&] {
    for (const HttpServer::Reply& reply : waiting)
      reply({.status = 200, .type = "a/b", .body = std::string(1 << 22, 'x')});
  });
  EXPECT_EQ(server.ask(kGet).status, 200);
}

TEST(HttpServer, RefusesABodyThatIsTooLong) {
  bool was_asked = false;
  TestServer server(Family::tcp,
                    [&](const HttpRequest&, const HttpServer::Reply& reply) {
                      was_asked = true;
                      reply({});
                    },
                    {.most_body = 1000});
  // One byte too long, and longer than any number.
  EXPECT_EQ(server.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n").status, 413);
  EXPECT_THAT(server.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 1001\r\n\r\n").body, HasSubstr("1000 bytes"));
  EXPECT_EQ(server.ask("POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 18446744073709551615\r\n\r\n").status, 413);
  // One that says nothing of its size.
  const std::string chunked = "POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
  const std::string chunk = "258\r\n" + std::string(600, 'x') + "\r\n";
  EXPECT_EQ(server.ask(chunked + chunk + chunk + "0\r\n\r\n").status, 413);
  Caller endless = server.call();
  endless.say(chunked);
  bool is_heard = true;
  for (int i = 0; i < 100'000 && is_heard; ++i) is_heard = endless.say(chunk);
  EXPECT_FALSE(is_heard);
  EXPECT_FALSE(was_asked);
  EXPECT_EQ(server.ask(chunked + chunk + "0\r\n\r\n").status, 200);
  EXPECT_TRUE(was_asked);
}

TEST(HttpServer, RefusesGarbageAndGoesOn) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  std::mt19937 random(seed);
  TestServer server(Family::unix_socket, echo);
  for (int i = 0; i < 200; ++i) {
    Caller caller = server.call();
    std::string garbage = i % 2 == 0 ? "" : kGet.substr(0, random() % kGet.size());
    for (size_t left = random() % 3000; left > 0; --left) garbage += static_cast<char>(random());
    caller.say(garbage);
    if (i % 3 == 0) caller.say("\r\n\r\n");
  }
  for (const std::string line :
       {"GET\r\n\r\n", "GET / HTTP/9.9\r\n\r\n", "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n",
        "GET / HTTP/1.1\r\nContent-Length: x\r\n\r\n"}) {
    Caller caller = server.call();
    caller.say(line);
    const Answer answer = caller.hear();
    EXPECT_TRUE(answer.status == 0 || answer.status >= 400) << line << ": " << answer.status;
  }
  // Longer than a head may be.
  Caller endless = server.call();
  endless.say("GET / HTTP/1.1\r\n");
  bool is_heard = true;
  for (int i = 0; i < 100'000 && is_heard; ++i) is_heard = endless.say("X-Y: " + std::string(1000, 'z') + "\r\n");
  EXPECT_FALSE(is_heard);
  EXPECT_EQ(server.ask(kGet).body, "GET / ");
  EXPECT_THAT(server.failures(), IsEmpty());
}

TEST(HttpServer, HangsUpOnCallersThatDripOrSayNothing) {
  TestServer server(Family::tcp, echo, {.timeout = milliseconds(300)});
  Caller silent = server.call(), dripping = server.call();
  const auto begin = steady_clock::now();
  // A byte now and then is progress, but no request.
  bool is_heard = true;
  while (is_heard && steady_clock::now() - begin < seconds(20)) {
    is_heard = dripping.say("G") && !dripping.is_hung_up_on(milliseconds(20));
  }
  EXPECT_FALSE(is_heard);
  EXPECT_TRUE(silent.is_hung_up_on());
  EXPECT_GE(steady_clock::now() - begin, milliseconds(250));
  // One between requests, too.
  Caller idle = server.call();
  idle.say(kGet);
  EXPECT_EQ(idle.hear().status, 200);
  EXPECT_TRUE(idle.is_hung_up_on());
}

TEST(HttpServer, HangsUpOnACallerThatTakesNoAnswer) {
  TestServer server(Family::unix_socket,
                    [](const HttpRequest&, const HttpServer::Reply& reply) {
                      reply({.status = 200, .type = "text/plain", .body = std::string(size_t{4} << 20, 'x')});
                    },
                    {.most_connections = 1, .timeout = milliseconds(1500), .answer_hurry = milliseconds(1500)});
  Caller deaf = server.call();
  deaf.say(kGet);
  // There is one place only, which it gives up.
  Caller next = server.call();
  next.say(kGet);
  EXPECT_EQ(next.hear().body.size(), size_t{4} << 20);
  EXPECT_EQ(deaf.hear().status, 0);
}

TEST(HttpServer, AThinkingHandlerIsNotHurried) {
  std::optional<HttpServer::Reply> kept;
  TestServer server(Family::tcp, [&](const HttpRequest&, HttpServer::Reply reply) { kept = std::move(reply); },
                    {.most_connections = 1, .timeout = milliseconds(50), .hurry = milliseconds(50)});
  Caller caller = server.call();
  caller.say(kGet);
  for (bool is_there = false; !is_there;) server.on_thread([&] { is_there = kept.has_value(); });
  EXPECT_FALSE(caller.is_hung_up_on(milliseconds(400)));
  server.on_thread([&] { (*kept)({.status = 200, .type = "text/plain", .body = "at last"}); });
  EXPECT_EQ(caller.hear().body, "at last");
}

TEST(HttpServer, SlowCallersKeepOutNobodyForLong) {
  TestServer server(Family::tcp, echo, {.most_connections = 4, .timeout = seconds(600), .hurry = milliseconds(100)});
  std::vector<Caller> slow;
  for (int i = 0; i < 12; ++i) {
    slow.push_back(server.call());
    slow.back().say("GET / HTTP/1.1\r\n");
  }
  EXPECT_EQ(server.ask(kGet).body, "GET / ");
}

// With the times that daemons have.
TEST(HttpServer, HundredsOfHalfRequestsDelayAnAnswerByLessThanThreeSeconds) {
  TestServer server(Family::unix_socket, echo);
  std::vector<Caller> half;
  const auto begin = std::chrono::steady_clock::now();
  for (int i = 0; i < 600; ++i) {
    half.push_back(server.call());
    half.back().say("GET / HTTP/1.1\r\n");
  }
  EXPECT_EQ(server.ask(kGet).body, "GET / ");
  EXPECT_LT(std::chrono::steady_clock::now() - begin, seconds(3)) << "with the time in which these call";
}

TEST(HttpServer, AFewSlowCallersAreLeftAlone) {
  TestServer server(Family::tcp, echo, {.most_connections = 4, .timeout = seconds(600), .hurry = milliseconds(1)});
  Caller slow = server.call();
  slow.say("GET / HTTP/1.1\r\n");
  for (int i = 0; i < 20; ++i) EXPECT_EQ(server.ask(kGet).status, 200);
  EXPECT_FALSE(slow.is_hung_up_on(milliseconds(50)));
  slow.say("Host: x\r\n\r\n");
  EXPECT_EQ(slow.hear().status, 200);
}

TEST(HttpServer, SendsCallersToOthersOnceItLetsNobodyIn) {
  std::optional<HttpServer::Reply> kept;
  TestServer server(Family::tcp,
                    [&](const HttpRequest& request, HttpServer::Reply reply) {
                      if (request.path == "/late") {
                        kept = std::move(reply);
                      } else {
                        echo(request, reply);
                      }
                    },
                    {.most_connections = 8, .timeout = seconds(600), .hurry = milliseconds(100)});
  Caller asking = server.call(), idle = server.call(), waiting = server.call();
  for (Caller* const each : {&asking, &idle}) {
    each->say(kGet);
    EXPECT_EQ(each->hear().status, 200);
  }
  waiting.say("GET /late HTTP/1.1\r\nHost: x\r\n\r\n");
  for (bool is_there = false; !is_there;) server.on_thread([&] { is_there = kept.has_value(); });
  server.let_in(false);
  asking.say(kGet);
  const Answer last = asking.hear();
  EXPECT_EQ(last.status, 200);
  EXPECT_NE(last.head.find("Connection: close"), std::string::npos) << last.head;
  EXPECT_TRUE(asking.is_hung_up_on());
  EXPECT_TRUE(idle.is_hung_up_on());
  EXPECT_FALSE(waiting.is_hung_up_on(milliseconds(300)));
  server.on_thread([&] { (*kept)({.status = 200, .type = "text/plain", .body = "at last"}); });
  EXPECT_EQ(waiting.hear().body, "at last");
  EXPECT_TRUE(waiting.is_hung_up_on());
  server.let_in(true);
  EXPECT_EQ(server.ask(kGet).status, 200);
  server.close_doors();
  EXPECT_FALSE(server.is_reachable()) << "whoever comes next can listen there";
}

TEST(HttpServer, ServesSeveralSocketsEachByItsHandler) {
  run::Reactor reactor;
  const testing::TemporaryFolder folder;
  HttpServer both(reactor);
  for (const std::string name : {"a", "b"}) {
    both.serve(listener_at(folder.path() + "/" + name),
               [name](const HttpRequest&, const HttpServer::Reply& reply) { reply({.body = name}); });
  }
  std::thread thread([&] { reactor.run([](const Error& error) { ADD_FAILURE() << error.what(); }); });
  for (const std::string name : {"a", "b"}) {
    Caller caller(AF_UNIX);
    caller.reach(address_of(folder.path() + "/" + name));
    caller.say(kGet);
    EXPECT_EQ(caller.hear().body, name);
  }
  reactor.stop();
  thread.join();
}

// Descriptors up to the limit of this process, for as long as it lives.
class NoDescriptorsLeft {
 public:
  NoDescriptorsLeft() {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    const int next = dup(0);
    close(next);
    few.rlim_cur = static_cast<rlim_t>(next);
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~NoDescriptorsLeft() { setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST(HttpServer, WaitsForDescriptorsWithoutSpinning) {
  TestServer server(Family::tcp, echo);
  Caller caller(AF_INET);
  // The sanitizer of undefined behaviour wants descriptors of its own when it sees a timer for the first time.
  server.on_thread([&] { server.reactor().after(milliseconds(0), [] {}); });
  {
    const NoDescriptorsLeft none;
    server.reach(caller);  // the kernel answers
    caller.say(kGet);
    while (server.failures().size() < 2) std::this_thread::sleep_for(milliseconds(10));
    const auto begin = steady_clock::now();
    const size_t before = server.failures().size();
    EXPECT_FALSE(caller.is_hung_up_on(milliseconds(500)));
    const auto rounds = (steady_clock::now() - begin) / milliseconds(100);
    EXPECT_LE(server.failures().size() - before, static_cast<size_t>(rounds) + 1);
  }
  EXPECT_EQ(caller.hear().status, 200);
  EXPECT_THAT(server.failures().front(), HasSubstr("an HTTP call was not answered: Too many open files"));
}

TEST(HttpError, IsJsonWhateverTheWords) {
  const HttpResponse response = http_error(404, "no \"such\" thing\n\xff");
  EXPECT_EQ(response.status, 404);
  EXPECT_EQ(response.type, "application/json");
  EXPECT_EQ(response.body, "{\"error\":\"no \\\"such\\\" thing\\u000a\xef\xbf\xbd\"}\n");
}

}  // namespace
}  // namespace banyan::service
