#include "banyan/run/metrics/page.h"

#include <prometheus/text_serializer.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

std::string text_of(const std::map<std::string, Statistics>& statistics, const std::string& job = "") {
  std::map<std::string, PeerLabels> labels;
  std::ostringstream out;
  prometheus::TextSerializer().Serialize(
      out, metrics_of(statistics, {.place = {.rank = 3, .size = 8, .rank_on_host = 1}, .job = job, .not_proved = 7},
                      labels));
  return out.str();
}

TEST(MetricsPage, ShowsEveryFamilyInTheFormatOfPrometheus) {
  CallCounters counters(4);
  counters.begin(OperationKind::all_reduce, 4096);
  counters.time(OperationKind::all_reduce, 3'000'000);
  counters.begin(OperationKind::all_to_all_v, 80);
  counters.wait_for(2, 1'500'000'000);
  Statistics world{.calls = counters.read(), .sent = {.tcp = 5000, .shared_memory = 70}, .reroutes = 2};
  world.lost_peers = 1;
  world.failures[ErrorCode::peer_lost] = 1;
  const std::string text = text_of({{"world", world}});
  for (const char* line :
       {"# TYPE banyan_calls_total counter",
        "# TYPE banyan_call_seconds histogram",
        "banyan_build_info{rank=\"3\",version=\"",
        "banyan_job_ranks{rank=\"3\"} 8",
        "banyan_communicators{rank=\"3\",communicator=\"world\"} 1",
        "banyan_refused_total{rank=\"3\",reason=\"secret\"} 7",
        "banyan_calls_total{rank=\"3\",communicator=\"world\",kind=\"all_reduce\"} 1",
        "banyan_payload_bytes_total{rank=\"3\",communicator=\"world\",kind=\"all_reduce\"} 4096",
        "banyan_payload_bytes_total{rank=\"3\",communicator=\"world\",kind=\"all_to_all_v\"} 80",
        "banyan_call_seconds_count{rank=\"3\",communicator=\"world\",kind=\"all_reduce\"} 1",
        "banyan_call_seconds_sum{rank=\"3\",communicator=\"world\",kind=\"all_reduce\"} 0.003",
        "banyan_call_seconds_bucket{rank=\"3\",communicator=\"world\",kind=\"all_reduce\",le=\"0.001953125\"} 0",
        "banyan_call_seconds_bucket{rank=\"3\",communicator=\"world\",kind=\"all_reduce\",le=\"0.00390625\"} 1",
        "banyan_call_seconds_bucket{rank=\"3\",communicator=\"world\",kind=\"all_reduce\",le=\"+Inf\"} 1",
        "banyan_waiting_seconds_total{rank=\"3\",communicator=\"world\",peer=\"2\"} 1.5",
        "banyan_sent_bytes_total{rank=\"3\",communicator=\"world\",transport=\"tcp\"} 5000",
        "banyan_sent_bytes_total{rank=\"3\",communicator=\"world\",transport=\"shared_memory\"} 70",
        "banyan_reroutes_total{rank=\"3\",communicator=\"world\"} 2",
        "banyan_lost_peers_total{rank=\"3\",communicator=\"world\"} 1",
        "banyan_failures_total{rank=\"3\",communicator=\"world\",error=\"peer_lost\"} 1"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(text, AllOf(Not(HasSubstr("barrier")), Not(HasSubstr("ucx")), Not(HasSubstr("peer=\"1\""))));
}

TEST(MetricsPage, BearsTheJobOfTheSchedulerAndNamesOfAnyForm) {
  const std::string text = text_of({{"a \"b\"\n\\", Statistics()}}, "4711");
  EXPECT_THAT(text, HasSubstr("{rank=\"3\",job_id=\"4711\",communicator=\"a \\\"b\\\"\\n\\\\\"}"));
}

// Of ranks that wait at random for a thousand others.
TEST(PeerLabels, AreBoundedAndNeverFall) {
  std::random_device device;
  const unsigned seed = device();
  SCOPED_TRACE(::testing::Message() << "seed " << seed);
  std::mt19937 random(seed);
  PeerLabels labels;
  std::vector<uint64_t> waited(1000, 0);
  std::map<std::string, uint64_t> before;
  for (int reading = 0; reading < 50; ++reading) {
    for (int i = 0; i < 20; ++i) waited[random() % waited.size()] += random() % 1000;
    std::map<std::string, uint64_t> now;
    uint64_t sum = 0;
    for (const auto& [peer, nanoseconds] : labels.next(waited)) {
      EXPECT_TRUE(now.emplace(peer, nanoseconds).second) << peer;
      sum += nanoseconds;
    }
    EXPECT_LE(now.size(), PeerLabels::kMost + 1);
    for (const auto& [peer, nanoseconds] : before) EXPECT_GE(now[peer], nanoseconds) << peer;
    EXPECT_EQ(sum, std::accumulate(waited.begin(), waited.end(), uint64_t{0}));
    before = std::move(now);
  }
}

TEST(PeerLabels, ShowEveryPeerOfASmallCommunicatorByItself) {
  PeerLabels labels;
  const auto first = labels.next({0, 5, 0});
  ASSERT_EQ(first.size(), 1u);
  EXPECT_EQ(first[0].peer, "1");
  const auto second = labels.next({7, 6, 0});
  ASSERT_EQ(second.size(), 2u);
  EXPECT_EQ(second[0].nanoseconds, 7u);
  EXPECT_EQ(second[1].nanoseconds, 6u);
}

}  // namespace
}  // namespace banyan::run
