// Cards in etcd, against a server that answers what the test wants; etcd_server_test.cc asks etcd itself.
#include "banyan/service/cluster/etcd_directory.h"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <charconv>
#include <mutex>
#include <nlohmann/json.hpp>

#include "banyan/base/check.h"
#include "banyan/base/text.h"
#include "banyan/run/join/free_port.h"
#include "banyan/run/join/listener.h"
#include "banyan/service/cluster/test_etcd.h"
#include "banyan/service/cluster/test_fake_etcd.h"
#include "banyan/service/protocol/capability.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

using std::chrono::steady_clock;
using ::testing::Pair;

// ---- Texts ----

TEST(Base64, IsThatOfTheStandard) {
  const std::pair<std::string, std::string> table[] = {
      {"", ""},
      {"f", "Zg=="},
      {"fo", "Zm8="},
      {"foo", "Zm9v"},
      {"foob", "Zm9vYg=="},
      {"fooba", "Zm9vYmE="},
      {"foobar", "Zm9vYmFy"},
      {std::string("\0", 1), "AA=="},
      {"\xff\xff\xff", "////"},
      {"\xfb\xef\xbe", "++++"},
      {std::string("\x00\x10\x83", 3), "ABCD"},
  };
  for (const auto& [bytes, text] : table) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes) << text;
  }
}

TEST(Base64, BringsEveryByteBack) {
  std::string bytes;
  for (int byte = 0; byte < 256; ++byte) bytes += static_cast<char>(byte);
  for (; bytes.size() > 253; bytes.pop_back()) EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
}

TEST(Base64, RefusesWhatIsNone) {
  for (const std::string text : {"A", "AA", "AAA", "=", "====", "A===", "AB=C", "AA==AA==", "AAAA\n", "AA A",
                                 "AB==", "AAB=", "AA-_", "\xff\xff\xff\xff"}) {
    EXPECT_EQ(testing::thrown_by([&] { from_base64(text); }).code(), ErrorCode::invalid_input) << text;
  }
}

TEST(EtcdPlace, IsReadFromItsUrl) {
  const EtcdPlace one = EtcdPlace::parse("etcd://node1:2379/banyan");
  EXPECT_THAT(one.endpoints, ElementsAre("http://node1:2379"));
  EXPECT_EQ(one.prefix, "/banyan");
  const EtcdPlace three = EtcdPlace::parse("etcds://10.0.0.1:1,node-2.cluster_a.org:65535,[fe80::1]:80/a/b c//");
  EXPECT_THAT(three.endpoints,
              ElementsAre("https://10.0.0.1:1", "https://node-2.cluster_a.org:65535", "https://[fe80::1]:80"));
  EXPECT_EQ(three.prefix, "/a/b c");
}

TEST(EtcdPlace, NamesKeysByHostsInHexadecimal) {
  const EtcdPlace place = EtcdPlace::parse("etcd://a:1/banyan");
  EXPECT_EQ(place.key_of("node7"), "/banyan/hosts/6e6f646537");
  EXPECT_EQ(place.key_of("../x"), "/banyan/hosts/2e2e2f78");
}

TEST(EtcdPlace, RefusesUrlsWithTheMend) {
  std::string urls =
      "etcd http://a:1/x etcd:// etcd://a:1 etcd://a:1/ etcd://a:1// etcd:///x etcd://a/x etcd://a:/x etcd://:1/x "
      "etcd://a:0/x etcd://a:65536/x etcd://a:99999999999999999999/x etcd://a:-1/x etcd://a:1,/x etcd://a:1,,b:1/x "
      "etcd://u:p@a:1/x etcd://a\n:1/x etcd://a?b:1/x etcd://[:1/x etcd://[]:1/x etcd://[::1]/x etcd://::1:5/x  ";
  for (int i = 0; i < 17; ++i) urls += (i == 0 ? "etcd://" : ",") + std::string("a:1");
  urls += "/x";
  for (const std::string_view word : split(urls, ' ')) {
    const std::string url(word);
    EXPECT_THAT(testing::error_of([&] { EtcdPlace::parse(url); }, ErrorCode::invalid_input),
                HasSubstr("write etcd://HOST:PORT[,HOST:PORT...]/PREFIX"))
        << url;
  }
}

// What etcd would say to whoever publishes.
std::string agree(const std::string& path) {
  if (path == "/v3/lease/grant") return answer_of(R"({"header":{},"ID":"42","TTL":"1"})");
  if (path == "/v3/lease/keepalive") return answer_of(R"({"result":{"header":{},"ID":"42","TTL":"1"}})");
  return answer_of(R"({"header":{}})");
}

EtcdDirectory::Options in_haste() { return {.ttl = seconds(1), .patience = seconds(20)}; }

TEST(EtcdDirectory, RefusesWrongAnswersToAQuestion) {
  std::vector<std::string> answers = {
      "hello\r\n\r\n",
      "HTTP/1.1 200 OK\r\n\r\n",
      "HTTP/1.1 9999\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{",
      std::string(4, '\0'),
      answer_of(R"({"error":"etcdserver: no leader","code":14})", "503 Service Unavailable"),
      answer_of("", "302 Found\r\nLocation: file:///etc/passwd"),
      answer_of("{\"header\":\"\n\xff\"}"),
      answer_of(std::string(100'000, '[')),
      answer_of(std::string(2 << 20, ' '))};
  const std::string bodies = R"(<html>
{}
[]
null
{"header":{}
{"header":{},"kvs":{}}
{"header":{},"kvs":[[]]}
{"header":{},"kvs":[{"value":5}]}
{"header":{},"kvs":[{"value":"A"}]}
)";
  for (const std::string_view body : split(bodies, '\n')) answers.push_back(answer_of(std::string(body)));
  for (const std::string& answer : answers) {
    const FakeServer server([&](const std::string&) { return answer; });
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    EXPECT_THAT(testing::error_of([&] { directory.find("a"); }, ErrorCode::io),
                AllOf(HasSubstr("http://" + server.place() + " ("), HasSubstr("start etcd there"), HasSubstr("--world"),
                      Not(HasSubstr("has not answered"))))
        << answer.substr(0, 200);
  }
}

TEST(EtcdDirectory, LimitsTheLengthOfAnswers) {
  const FakeServer server([](const std::string&) { return answer_of(std::string(5 << 20, ' ')); });
  EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
  EXPECT_THAT(testing::error_of([&] { directory.find("a"); }), HasSubstr("longer than 4 MiB"));
  EtcdDirectory another(EtcdPlace::parse(server.url()), in_haste());
  EXPECT_THAT(testing::error_of([&] { another.cards(); }), HasSubstr("longer than 4 MiB"));
}

// A server with these values, by key, which says what etcd would to a question for a range.
class FakeRange {
 public:
  explicit FakeRange(std::map<std::string, std::string> values) : values_(std::move(values)) {
    server_.emplace([this](const std::string&) { return answer(server_->body("/v3/kv/range")); });
  }
  EtcdDirectory directory() const { return {EtcdPlace::parse(server_->url()), in_haste()}; }
  std::ptrdiff_t questions() const { return server_->count("/v3/kv/range"); }

 private:
  std::string answer(const std::string& question) const {
    const auto asked = nlohmann::json::parse(question.substr(question.find('{')));
    const std::string end = from_base64(asked["range_end"].get<std::string>());
    nlohmann::json said = {{"header", nlohmann::json::object()}, {"kvs", nlohmann::json::array()}};
    for (auto each = values_.lower_bound(from_base64(asked["key"].get<std::string>()));
         each != values_.end() && each->first < end; ++each) {
      if (said["kvs"].size() == asked["limit"].get<size_t>()) {
        said["more"] = true;
        break;
      }
      said["kvs"].push_back({{"key", to_base64(each->first)}});
      if (!asked.value("keys_only", false)) said["kvs"].back()["value"] = to_base64(each->second);
    }
    return answer_of(said.dump());
  }

  const std::map<std::string, std::string> values_;
  std::optional<FakeServer> server_;
};

std::string key_of(int host) { return "/banyan/hosts/" + in_hexadecimal(std::to_string(host)); }

TEST(EtcdDirectory, AsksForCardsPageByPage) {
  constexpr int kHosts = 6000;
  std::map<std::string, std::string> values;
  for (int host = 0; host < kHosts; ++host) values[key_of(host)] = signed_card(card_of(std::to_string(host)), {});
  const FakeRange fake(values);
  EXPECT_EQ(fake.directory().cards().cards.size(), static_cast<size_t>(kHosts));
  EXPECT_EQ(fake.questions(), kHosts / 500);
}

// Who may write to etcd can make values long.
TEST(EtcdDirectory, AsksForLessWhereCardsAreLongAndLeavesOutWhatIsTooLong) {
  std::map<std::string, std::string> values;
  for (int host = 0; host < 600; ++host) {
    HostCard card = card_of(std::to_string(host));
    card.name = std::string(15'000, 'x');
    values[key_of(host)] = signed_card(card, {});
  }
  values[key_of(17)] = std::string(4 << 20, 'x');
  values[key_of(18)] = "";
  const FakeRange fake(values);
  const HostCards read = fake.directory().cards();
  EXPECT_EQ(read.cards.size(), 598u);
  EXPECT_THAT(read.unread,
              ElementsAre(Pair("17", HasSubstr("longer than any card")), Pair("18", HasSubstr("cut short"))));
}

TEST(EtcdDirectory, RefusesRangesThatWereNotAskedFor) {
  const std::string key = to_base64("/banyan/hosts/61"), before = to_base64("/banyan/hosts/60");
  const std::string bodies = R"({"header":{},"more":true}
{"header":{},"kvs":[],"more":true}
{"header":{},"kvs":[{"key":")" +
                             to_base64("/banyan/hosts0") + R"("}]}
{"header":{},"kvs":[{"key":")" +
                             to_base64("/a") + R"("}]}
{"header":{},"kvs":[{"key":")" +
                             key + R"("},{"key":")" + before + R"("}]}
{"header":{},"kvs":[{"key":")" +
                             key + R"("},{"key":")" + key + R"("}]}
{"header":{},"kvs":[{"key":")" +
                             key + R"("}],"more":true})";
  for (const std::string_view body : split(bodies, '\n')) {
    const FakeServer server([&](const std::string&) { return answer_of(std::string(body)); });
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    EXPECT_THAT(testing::error_of([&] { directory.cards(); }, ErrorCode::io),
                HasSubstr("no etcd does what it is asked for"))
        << body;
  }
}

TEST(EtcdDirectory, RefusesACardThatIsNone) {
  for (const std::string& card : {std::string(), std::string("hello"), signed_card(card_of("a"), {}) + "x",
                                  card_of("a").encode(), card_of("a").encode().substr(9)}) {
    const FakeServer server([&](const std::string&) {
      return answer_of(R"({"header":{},"kvs":[{"value":")" + to_base64(card) + R"("}]})");
    });
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    EXPECT_THAT(testing::error_of([&] { directory.find("a"); }, ErrorCode::invalid_input),
                HasSubstr("the card of host 'a'"));
  }
}

TEST(EtcdDirectory, RefusesWrongAnswersToACard) {
  for (const std::string grant : {R"({"ID":42})", R"({"ID":""})", R"({"ID":"0"})", R"({"ID":"-1"})", R"({"ID":"4 2"})",
                                  R"({"ID":"99999999999999999999"})", R"({"header":{}})", "[]", ""}) {
    const FakeServer server(
        [&](const std::string& path) { return path == "/v3/lease/grant" ? answer_of(grant) : agree(path); });
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    EXPECT_THAT(testing::error_of([&] { directory.publish(card_of("a")); }, ErrorCode::io),
                Not(HasSubstr("has not answered")));
    EXPECT_THAT(server.paths(), ElementsAre("/v3/lease/grant")) << grant;
  }
}

TEST(EtcdDirectory, BindsACardToALeaseAndGivesItBack) {
  const FakeServer server(agree);
  {
    EtcdDirectory directory(EtcdPlace::parse(server.url()), {});
    directory.publish(card_of("a"));
    EXPECT_THAT(server.body("/v3/kv/put"),
                AllOf(HasSubstr(R"("key":")" + to_base64("/banyan/hosts/61") + "\""),
                      HasSubstr(R"("value":")" + to_base64(signed_card(card_of("a"), {})) + "\""),
                      HasSubstr(R"("lease":"42")")));
  }
  EXPECT_THAT(server.paths(), ElementsAre("/v3/lease/grant", "/v3/kv/put", "/v3/lease/revoke"));
}

TEST(EtcdDirectory, KeepsItsLeaseAlive) {
  const FakeServer server(agree);
  EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
  directory.publish(card_of("a"));
  EXPECT_TRUE(comes_true([&] { return server.count("/v3/lease/keepalive") >= 3; }));
  EXPECT_EQ(server.count("/v3/lease/grant"), 1);
}

TEST(EtcdDirectory, PublishesAnewWhenItsLeaseIsLost) {
  for (const std::string lost : {R"({"result":{"header":{},"ID":"42"}})", R"({"result":{"header":{},"TTL":"0"}})",
                                 R"({"result":{"header":{},"TTL":"-1"}})"}) {
    const FakeServer server(
        [&](const std::string& path) { return path == "/v3/lease/keepalive" ? answer_of(lost) : agree(path); });
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    directory.publish(card_of("a"));
    EXPECT_TRUE(comes_true([&] { return server.count("/v3/kv/put") >= 2; })) << lost;
    EXPECT_GE(server.count("/v3/lease/grant"), 2);
  }
}

TEST(EtcdDirectory, SaysOnceThatALeaseIsInDangerAndGoesOn) {
  const std::string answers[] = {"hello", "", R"({"error":{"message":"x"}})", R"({"result":{"header":{},"TTL":1}})"};
  size_t asked = 0;
  const FakeServer server([&](const std::string& path) {
    return path == "/v3/lease/keepalive" ? answer_of(answers[asked++ % std::size(answers)]) : agree(path);
  });
  ::testing::internal::CaptureStderr();
  {
    EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
    directory.publish(card_of("a"));
    EXPECT_TRUE(comes_true([&] { return server.count("/v3/lease/keepalive") >= 5; }));
  }
  const std::string log = ::testing::internal::GetCapturedStderr();
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1) << log;
  EXPECT_THAT(log, AllOf(HasSubstr("warning"), HasSubstr("http://" + server.place())));
}

TEST(EtcdDirectory, BringsTheFormerCardBackWhenAnotherCouldNotBePut) {
  std::atomic<bool> refuses = false;
  std::atomic<int> puts = 0;
  const FakeServer server([&](const std::string& path) {
    if (path != "/v3/kv/put") return agree(path);
    if (refuses) return answer_of("no");
    ++puts;
    return agree(path);
  });
  EtcdDirectory directory(EtcdPlace::parse(server.url()), in_haste());
  directory.publish(card_of("a", 1));
  refuses = true;
  EXPECT_EQ(testing::thrown_by([&] { directory.publish(card_of("a", 2)); }).code(), ErrorCode::io);
  refuses = false;
  ASSERT_TRUE(comes_true([&] { return puts == 2; }));
  EXPECT_THAT(server.body("/v3/kv/put"), HasSubstr(to_base64(signed_card(card_of("a", 1), {}))));
}

TEST(EtcdDirectory, GivesUpWhenNobodyAnswers) {
  const FakeServer silent([](const std::string&) { return ""; });
  const std::string dead = "127.0.0.1:" + std::to_string(run::free_port());
  EtcdDirectory directory(EtcdPlace::parse("etcd://" + silent.place() + "," + dead + "/banyan"),
                          {.patience = milliseconds(300)});
  const auto begin = steady_clock::now();
  const auto names_both =
      AllOf(HasSubstr("within 300 ms"), HasSubstr("http://" + silent.place() + " (it has not answered"),
            HasSubstr("http://" + dead + " ("), HasSubstr("start etcd there"), HasSubstr("--world"));
  EXPECT_THAT(testing::error_of([&] { directory.publish(card_of("a")); }, ErrorCode::io), names_both);
  EXPECT_THAT(testing::error_of([&] { directory.find("a"); }, ErrorCode::io), names_both);
  EXPECT_LT(steady_clock::now() - begin, seconds(10));
}

TEST(EtcdDirectory, AsksNothingForAWhileWhereNobodyHasAnswered) {
  std::atomic<bool> is_silent = true;
  const FakeServer server([&](const std::string& path) { return is_silent ? std::string() : agree(path); });
  EtcdDirectory directory(EtcdPlace::parse(server.url()), {.patience = milliseconds(500)});
  const std::string words = testing::error_of([&] { directory.find("a"); }, ErrorCode::io);
  const auto begin = steady_clock::now();  // the pause of 2 s or more has begun
  for (int i = 0; i < 100; ++i) {
    EXPECT_EQ(testing::error_of([&] { directory.find("b"); }, ErrorCode::io), words);
    EXPECT_EQ(testing::error_of([&] { directory.cards(); }, ErrorCode::io), words);
  }
  EXPECT_LT(steady_clock::now() - begin, milliseconds(1500));
  EXPECT_EQ(server.count("/v3/kv/range"), 1);
  is_silent = false;
  EXPECT_TRUE(comes_true([&] { return testing::error_of([&] { directory.find("a"); }) == "no error"; }));
  EXPECT_GE(steady_clock::now() - begin, milliseconds(1500));
  EXPECT_EQ(server.count("/v3/kv/range"), 2);
}

TEST(EtcdDirectory, AsksFirstWhoAnsweredLast) {
  const FakeServer silent([](const std::string&) { return ""; });
  const FakeServer nonsense([](const std::string&) { return answer_of("{}"); });
  const FakeServer good(agree);
  const std::string dead = "127.0.0.1:" + std::to_string(run::free_port());
  EtcdDirectory directory(EtcdPlace::parse("etcd://" + dead + "," + nonsense.place() + "," + silent.place() + "," +
                                           good.place() + "/banyan"),
                          {.patience = seconds(4)});
  EXPECT_FALSE(directory.find("a"));
  EXPECT_FALSE(directory.find("a"));
  directory.publish(card_of("a"));
  EXPECT_EQ(silent.count("/v3/kv/range"), 1);
  EXPECT_EQ(nonsense.count("/v3/kv/range"), 1);
  EXPECT_EQ(good.count("/v3/kv/range"), 2);
  EXPECT_EQ(good.count("/v3/kv/put"), 1);
}

TEST(EtcdDirectory, EndsSoonAmidAQuestion) {
  const FakeServer server(
      [](const std::string& path) { return path == "/v3/lease/keepalive" ? std::string() : agree(path); });
  std::optional<EtcdDirectory> directory(std::in_place, EtcdPlace::parse(server.url()),
                                         EtcdDirectory::Options{.ttl = seconds(1), .patience = seconds(100)});
  directory->publish(card_of("a"));
  ASSERT_TRUE(comes_true([&] { return server.count("/v3/lease/keepalive") == 1; }));
  const auto begin = steady_clock::now();
  directory.reset();
  EXPECT_LT(steady_clock::now() - begin, seconds(30));
  EXPECT_EQ(server.count("/v3/lease/revoke"), 1);
}

}  // namespace
}  // namespace banyan::service
