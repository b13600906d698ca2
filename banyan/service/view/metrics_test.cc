#include "banyan/service/view/metrics.h"

#include <cstdio>

#include "banyan/service/view/findings.h"
#include "banyan/service/view/test_random_view.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

HostView small_view() {
  HostView view{.at = 1000, .host = "id", .name = "node1", .node = "gpu3", .version = "0.2.0", .up_seconds = 7.5};
  view.steward = "node1";
  view.rules_version = 4;
  view.clients = 2;
  view.memory_bytes = 4096;
  view.core_seconds = 1.25;
  view.refused = {{"session", 3}};
  view.replans = 1;
  view.events_dropped = 6;
  CommunicatorView job{.id = "7f", .name = "job", .tenant = "1000/t", .weight = 4};
  job.ranks = {{.rank = 0, .calls_over = 10, .messages_over = 1, .payload_bytes = 1 << 20, .sent_tcp_bytes = 1050000},
               {.rank = 5, .calls_over = 9, .payload_bytes = 1 << 20, .idle_seconds = 2}};
  job.ranks[0].stalled_seconds = 0.5;
  job.ranks[0].core_seconds = 0.75;
  job.ranks[1].sent_shared_memory_bytes = 64;
  job.ranks[1].reroutes = 1;
  job.ranks[1].error = "peer lost";
  view.communicators = {job};
  view.links = {{.name = "leaf0->spine1", .capacity = 1e9, .bytes_by_tenant = {{"1000/t", 12345678901234}}}};
  return view;
}

TEST(ServiceMetrics, AreThisText) {
  MetricsMemory memory;
  std::istringstream lines(metrics_of(small_view(), memory));
  std::string text = "\n";
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with("# HELP ")) text += line + "\n";
  }
  EXPECT_EQ(text, R"(
# TYPE banyan_service_info gauge
banyan_service_info{host="node1",version="0.2.0",node="gpu3"} 1
# TYPE banyan_service_up_seconds gauge
banyan_service_up_seconds{host="node1"} 7.5
# TYPE banyan_service_is_steward gauge
banyan_service_is_steward{host="node1"} 1
# TYPE banyan_service_is_draining gauge
banyan_service_is_draining{host="node1"} 0
# TYPE banyan_service_rules_version gauge
banyan_service_rules_version{host="node1"} 4
# TYPE banyan_service_rules_refused gauge
banyan_service_rules_refused{host="node1"} 0
# TYPE banyan_service_clients gauge
banyan_service_clients{host="node1"} 2
# TYPE banyan_service_memory_bytes gauge
banyan_service_memory_bytes{host="node1"} 4096
# TYPE banyan_service_lost_hosts gauge
banyan_service_lost_hosts{host="node1"} 0
# TYPE banyan_service_core_seconds_total counter
banyan_service_core_seconds_total{host="node1"} 1.25
# TYPE banyan_refused_total counter
banyan_refused_total{host="node1",reason="session"} 3
# TYPE banyan_replans_total counter
banyan_replans_total{host="node1"} 1
# TYPE banyan_events_dropped_total counter
banyan_events_dropped_total{host="node1"} 6
# TYPE banyan_service_calls_total counter
banyan_service_calls_total{host="node1",tenant="1000/t",communicator="job"} 19
# TYPE banyan_service_messages_total counter
banyan_service_messages_total{host="node1",tenant="1000/t",communicator="job"} 1
# TYPE banyan_service_payload_bytes_total counter
banyan_service_payload_bytes_total{host="node1",tenant="1000/t",communicator="job"} 2097152
# TYPE banyan_service_sent_bytes_total counter
banyan_service_sent_bytes_total{host="node1",tenant="1000/t",communicator="job",transport="tcp"} 1050000
banyan_service_sent_bytes_total{host="node1",tenant="1000/t",communicator="job",transport="shared_memory"} 64
# TYPE banyan_service_reroutes_total counter
banyan_service_reroutes_total{host="node1",tenant="1000/t",communicator="job"} 1
# TYPE banyan_tenant_core_seconds_total counter
banyan_tenant_core_seconds_total{host="node1",tenant="1000/t"} 0.75
# TYPE banyan_service_communicators gauge
banyan_service_communicators{host="node1",tenant="1000/t",communicator="job"} 1
# TYPE banyan_service_failed_ranks gauge
banyan_service_failed_ranks{host="node1",tenant="1000/t",communicator="job"} 1
# TYPE banyan_rank_stalled_seconds gauge
banyan_rank_stalled_seconds{host="node1",tenant="1000/t",communicator="job"} 0.5
# TYPE banyan_rank_idle_seconds gauge
banyan_rank_idle_seconds{host="node1",tenant="1000/t",communicator="job"} 2
# TYPE banyan_tenant_weight gauge
banyan_tenant_weight{host="node1",tenant="1000/t"} 4
# TYPE banyan_link_bytes_total counter
banyan_link_bytes_total{host="node1",link="leaf0->spine1",tenant="1000/t"} 12345678901234
# TYPE banyan_link_capacity_bytes_per_second gauge
banyan_link_capacity_bytes_per_second{host="node1",link="leaf0->spine1"} 1000000000
)");
}

TEST(ServiceMetrics, SayWhatIsWrongWithTheDaemonAndWhatItNeeds) {
  HostView view = small_view();
  view.lost_hosts = 2;
  view.troubles = {{.kind = kRulesTrouble, .communicator = {}, .words = "rules.json line 3: weight"}};
  MetricsMemory memory;
  const std::string text = metrics_of(view, memory);
  EXPECT_THAT(text, HasSubstr("\nbanyan_service_rules_refused{host=\"node1\"} 1\n"));
  EXPECT_THAT(text, HasSubstr("\nbanyan_service_lost_hosts{host=\"node1\"} 2\n"));
  EXPECT_THAT(text, HasSubstr("\nbanyan_service_troubles{host=\"node1\",kind=\"rules\"} 1\n"));
  EXPECT_EQ(text.find("weight\""), std::string::npos) << "words are no labels";
}

TEST(ServiceMetrics, BearNamesOfAnyForm) {
  HostView view = small_view();
  view.communicators[0].name = "a \"b\"\n\\";
  view.links[0].bytes_by_tenant = {{"t\n\"} 1\nforged 7", 1}};
  MetricsMemory memory;
  const std::string text = metrics_of(view, memory);
  EXPECT_THAT(text, HasSubstr("communicator=\"a \\\"b\\\"\\n\\\\\""));
  EXPECT_THAT(text, HasSubstr("tenant=\"t\\n\\\"} 1\\nforged 7\"} 1\n"));
  EXPECT_EQ(text.find("\nforged"), std::string::npos);
}

TEST(ServiceMetrics, HaveFamiliesOnceAndNoLabelOfRanks) {
  const unsigned seed = std::random_device{}();
  SCOPED_TRACE("seed " + std::to_string(seed));
  RandomViews views(seed);
  MetricsMemory memory;
  for (int i = 0; i < 50; ++i) {
    std::istringstream lines(metrics_of(views.host(), memory));
    std::map<std::string, int> families;
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with("# TYPE ")) ++families[line];
      EXPECT_TRUE(line.starts_with("#") || line.starts_with("banyan_")) << line;
      EXPECT_EQ(line.find("rank=\""), std::string::npos) << line;
    }
    EXPECT_GE(families.size(), 10u);
    for (const auto& [line, count] : families) EXPECT_EQ(count, 1) << line;
  }
}

TEST(ServiceMetrics, PleasePromtool) {
  if (std::system("command -v promtool >/dev/null 2>&1") != 0) GTEST_SKIP() << "this machine has no promtool";
  std::string file = ::testing::TempDir() + "/banyan-metrics-XXXXXX";
  const int descriptor = mkstemp(file.data());
  ASSERT_GE(descriptor, 0);
  close(descriptor);
  MetricsMemory memory;
  std::ofstream(file) << metrics_of(small_view(), memory);
  EXPECT_EQ(std::system(("promtool check metrics <" + file).c_str()), 0);
  std::remove(file.c_str());
}

}  // namespace
}  // namespace banyan::service
