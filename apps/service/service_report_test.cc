#include "apps/service/service_report.h"

#include <nlohmann/json.hpp>

#include "apps/service/test_service_view.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using service::ClusterView;

const Terminal kNoColours({});

TEST(ServiceReport, OfAHealthyServiceIsATableOfHostsAndOneOfCommunicators) {
  EXPECT_EQ(status_text(kNoColours, service_view(10)),
            "healthy    all hosts answer, no rank is late, and no call stands still\n"
            "\n"
            "host  node  version      up  programs  memory  descriptors  rules\n"
            "a     ha    0.2.0    60.0 s         2  64 MiB  19 of 1,024      7  shares out links\n"
            "b     hb    0.2.0    60.0 s         2  64 MiB  19 of 1,024      7\n"
            "\n"
            "communicator    id  tenant  ranks  hosts  calls  weight  limit on a link  doing\n"
            "serve         9e01  gpt         1      1    500  1 high        1.00 GB/s  in allreduce of 4 MiB, 25 %\n"
            "job17         7f3a  vgg         2      2    100       4                -  no call for 10.0 ms\n");
}

TEST(ServiceReport, BeginsWithWhatIsWrong) {
  ClusterView view = service_view(10);
  view.unreachable = {{.host = "c", .why = "timed out"}};
  view.findings = {{.kind = "late rank", .communicator = "7f3a", .words = "rank 1 of 'job17' is late\x1b[2J"},
                   {.kind = "unreachable host", .communicator = "", .words = "host c is unreachable: timed out"}};
  EXPECT_FALSE(is_well(view));
  EXPECT_THAT(status_text(kNoColours, view),
              AllOf(StartsWith("late rank  rank 1 of 'job17' is late?[2J\nunreachable host c is unreachable"),
                    Not(HasSubstr("healthy"))));
}

// No new host can come, though all that know each other go on.
TEST(ServiceReport, ADirectoryThatIsAwayIsWrong) {
  ClusterView view = service_view(10);
  EXPECT_TRUE(is_well(view));
  view.findings = {{.kind = "directory", .communicator = "", .words = "at 2 hosts (a, b), etcd does not answer"}};
  EXPECT_FALSE(is_well(view));
  EXPECT_THAT(status_text(kNoColours, view), StartsWith("directory  at 2 hosts (a, b), etcd does not answer\n"));
}

TEST(ServiceReport, SaysWhatHostsAreUpTo) {
  ClusterView view = service_view(10);
  view.hosts[1].is_draining = true;
  view.hosts[1].obeys = {"head", "ops*"};
  view.hosts[1].refused = {{"not sealed", 3}, {"foreign user", 1200}};
  view.hosts[1].node = "";
  EXPECT_THAT(status_text(kNoColours, view),
              HasSubstr("\nb     -     0.2.0    60.0 s         2  64 MiB  19 of 1,024      7  draining, obeys "
                        "head and ops*, 1,203 refused\n"));
}

TEST(ServiceReport, SaysWhyACommunicatorHasEnded) {
  ClusterView view = service_view(10);
  view.communicators[0].ranks[0].error = "peer_lost: rank 3 has ended";
  EXPECT_EQ(doing_of(view.communicators[0]), "has ended: peer_lost: rank 3 has ended");
  EXPECT_EQ(doing_of(service::CommunicatorView()), "");
}

TEST(ServiceReport, ShowsFortyCommunicatorsAndCountsTheRest) {
  ClusterView view = service_view(10);
  view.communicators.resize(42);
  EXPECT_THAT(status_text(kNoColours, view), HasSubstr("\nand 2 communicators more (see --json)\n"));
  view.communicators.clear();
  EXPECT_THAT(status_text(kNoColours, view), HasSubstr("\nno communicator is open\n"));
}

TEST(ServiceReport, GivesNoWeightToCommunicatorsOfOneHost) {
  ClusterView view = service_view(10);
  view.communicators = {direct_communicator()};
  EXPECT_THAT(
      status_text(kNoColours, view),
      HasSubstr("\nlocal         d0d0  vgg         2      1  1,000  -       on one host      in allreduce of 4 int8 "
                "sum for 20.0 ms\n"));
  EXPECT_THAT(tenants_text(kNoColours, rates_between(view, view)), HasSubstr("\nvgg     -       -     "));
}

TEST(ServiceReport, HoldsSharesAgainstWeights) {
  EXPECT_EQ(tenants_text(kNoColours, rates_between(service_view(10), service_view(12))),
            "tenant  weight  class   communicators  ranks  calls/s    payload  sent by ranks   share  by weight  "
            "idle\n"
            "gpt          1  high                1      1       50  80.0 MB/s       100 MB/s  25.0 %     20.0 %   "
            "0 %\n"
            "vgg          4  normal              1      2       10   400 MB/s       300 MB/s  75.0 %     80.0 %  "
            "25 %\n");
}

TEST(ServiceReport, PutsTheFullestLinkFirst) {
  EXPECT_EQ(links_text(kNoColours, rates_between(service_view(10), service_view(12))),
            "link   full   carries        of  by tenant\n"
            "sw->a  75 %  600 MB/s  800 MB/s  gpt 100 %\n"
            "a->sw  50 %  400 MB/s  800 MB/s  vgg 75 %, gpt 25 %\n");
}

TEST(ServiceReport, SaysWhichHostsMakeLinksSeemFuller) {
  ServiceRates rates = rates_between(service_view(10), service_view(12));
  rates.newcomers = {"b", "c"};
  EXPECT_THAT(links_text(kNoColours, rates), HasSubstr("note       b, c answered only the second time"));
  EXPECT_EQ(links_text(kNoColours, {}), "no link has carried anything that is over\n");
}

TEST(ServiceReport, ShowsHintsAndWhatIsNotKnownOfThem) {
  const Json hints = Json::parse(R"({"hosts": ["a", "b", "c"], "links": [
      {"name": "a->leaf0", "capacity": 1.2e9, "own": 3e8, "free": 9e8, "cotenants": 0, "from": ["a"], "to": ["b", "c"]},
      {"name": "leaf0->spine0", "capacity": 1.2e9, "own": null, "free": null, "cotenants": null,
       "from": ["a", "b"], "to": ["c"]}]})");
  EXPECT_EQ(hints_text(kNoColours, hints),
            "link               free         of       own  others  between hosts\n"
            "a->leaf0       900 MB/s  1.20 GB/s  300 MB/s       0  a -> b, c\n"
            "leaf0->spine0         ?  1.20 GB/s         ?       ?  a, b -> c\n");
  EXPECT_EQ(hints_text(kNoColours, Json::parse(R"({"hosts": [], "links": []})")),
            "no communicator of this user is open on this host\n");
}

TEST(ServiceReport, SaysTheSameAsJson) {
  const ServiceRates rates = rates_between(service_view(10), service_view(12));
  const Json tenants = tenants_json(rates), links = links_json(rates);
  EXPECT_EQ(tenants["seconds"], 2);
  EXPECT_EQ(tenants["tenants"][1]["tenant"], "vgg");
  EXPECT_EQ(tenants["tenants"][1]["sharer"], "vgg");
  EXPECT_EQ(tenants["tenants"][1]["class"], "normal");
  EXPECT_EQ(tenants["tenants"][1]["share"], 0.75);
  EXPECT_EQ(links["links"][0]["link"], "sw->a");
  EXPECT_EQ(links["links"][1]["bytes_per_second_by_tenant"]["vgg"], 300e6);
}

}  // namespace
}  // namespace banyan::app
