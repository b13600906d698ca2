#include "apps/service/service_rates.h"

#include "apps/service/test_service_view.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using service::ClusterView;
using ::testing::Pair;

TEST(ServiceRates, AreDifferencesDividedByTheTimeBetween) {
  const ServiceRates rates = rates_between(service_view(10), service_view(12));
  EXPECT_EQ(rates.seconds, 2);
  ASSERT_EQ(rates.tenants.size(), 2u);
  const ServiceRates::Tenant &gpt = rates.tenants[0], &vgg = rates.tenants[1];
  EXPECT_EQ(gpt.name, "gpt");
  EXPECT_EQ(vgg.name, "vgg");
  EXPECT_DOUBLE_EQ(vgg.calls_per_second, 10) << "of the communicator, not of each rank";
  EXPECT_DOUBLE_EQ(gpt.calls_per_second, 50);
  EXPECT_DOUBLE_EQ(vgg.sent_per_second, 300e6);
  EXPECT_DOUBLE_EQ(vgg.payload_per_second, 400e6);
  EXPECT_DOUBLE_EQ(vgg.share, 0.75);
  EXPECT_DOUBLE_EQ(vgg.due, 0.8);
  EXPECT_DOUBLE_EQ(gpt.due, 0.2);
  EXPECT_EQ(gpt.share_class, service::ShareClass::high);
  EXPECT_EQ(vgg.ranks, 2u);
  EXPECT_DOUBLE_EQ(rates.communicators.at("7f3a").calls_per_second, 10);
  EXPECT_THAT(rates.newcomers, IsEmpty());
}

TEST(ServiceRates, PutTheFullestLinkFirstAndTheLargestTenantInIt) {
  const ServiceRates rates = rates_between(service_view(10), service_view(11));
  ASSERT_EQ(rates.links.size(), 2u);
  EXPECT_EQ(rates.links[0].name, "sw->a");
  EXPECT_DOUBLE_EQ(rates.links[0].full(), 0.75);
  EXPECT_DOUBLE_EQ(rates.links[1].full(), 0.5);
  EXPECT_THAT(rates.links[1].by_tenant, ElementsAre(Pair("vgg", 300e6), Pair("gpt", 100e6)));
}

TEST(ServiceRates, LeaveOutTenantsThatSentNothingFromTheWeights) {
  ClusterView second = service_view(11);
  for (service::RankView& each : second.communicators[0].ranks) each.sent_tcp_bytes = 1000e6;
  const ServiceRates rates = rates_between(service_view(10), second);
  EXPECT_EQ(rates.tenants[0].share, 0);
  EXPECT_EQ(rates.tenants[0].due, 0);
  EXPECT_EQ(rates.tenants[1].share, 1);
  EXPECT_EQ(rates.tenants[1].due, 1);
}

TEST(ServiceRates, DivideTheWeightOfASharerAmongItsTenants) {
  ClusterView first = service_view(10), second = service_view(11);
  for (ClusterView* view : {&first, &second}) {
    service::CommunicatorView more = view->communicators[0];
    more.id = "again";
    more.tenant = "gpt's twin";
    view->communicators.push_back(more);
  }
  const ServiceRates rates = rates_between(first, second);
  ASSERT_EQ(rates.tenants.size(), 3u);
  EXPECT_DOUBLE_EQ(rates.tenants[0].due, 0.1);
  EXPECT_DOUBLE_EQ(rates.tenants[1].due, 0.1);
  EXPECT_DOUBLE_EQ(rates.tenants[2].due, 0.8);
}

TEST(ServiceRates, TakeNoTermsFromCommunicatorsOfOneHost) {
  ClusterView first = service_view(10), second = service_view(11);
  for (ClusterView* view : {&first, &second}) {
    view->communicators.insert(view->communicators.begin(), direct_communicator());
    view->communicators.push_back(direct_communicator());
    view->communicators.back().id = "d1d1";
  }
  const ServiceRates rates = rates_between(first, second);
  ASSERT_EQ(rates.tenants.size(), 2u);
  EXPECT_EQ(rates.tenants[1].communicators, 3u);
  EXPECT_EQ(rates.tenants[1].ranks, 6u);
  EXPECT_EQ(rates.tenants[1].weight, 4);
  EXPECT_EQ(rates.tenants[1].sharer, "vgg");
  EXPECT_DOUBLE_EQ(rates.tenants[1].due, 0.8);
}

TEST(ServiceRates, CountACommunicatorThatWasOpenedBetweenThem) {
  ClusterView first = service_view(10);
  first.communicators.pop_back();
  const ServiceRates rates = rates_between(first, service_view(11));
  EXPECT_DOUBLE_EQ(rates.tenants[1].calls_per_second, 110);
}

// Its ranks have done so much since who knows when.
TEST(ServiceRates, CountNothingOfHostsThatAnsweredOnlyTheSecondTime) {
  ClusterView first = service_view(10);
  first.hosts.pop_back();
  first.communicators[1].ranks.pop_back();
  const ServiceRates rates = rates_between(first, service_view(11));
  EXPECT_DOUBLE_EQ(rates.tenants[1].sent_per_second, 150e6);
  EXPECT_THAT(rates.newcomers, ElementsAre("b"));
}

TEST(ServiceRates, CountNothingWhereADaemonHasBegunAnew) {
  const ClusterView first = service_view(10);
  ClusterView second = service_view(0.5);
  second.at = first.at + 1;
  const ServiceRates rates = rates_between(first, second);
  EXPECT_EQ(rates.tenants[0].sent_per_second, 0);
  EXPECT_EQ(rates.links[0].per_second, 0);
}

TEST(ServiceRates, AreNoneWhereTheClockStandsStill) {
  const ServiceRates rates = rates_between(service_view(10), service_view(10));
  EXPECT_EQ(rates.seconds, 0);
  EXPECT_EQ(rates.tenants[0].calls_per_second, 0);
  ClusterView earlier = service_view(20);
  earlier.at = 5;
  EXPECT_EQ(rates_between(service_view(10), earlier).seconds, 0);
}

TEST(ServiceRates, OfNothingAreEmpty) {
  const ServiceRates rates = rates_between({}, {});
  EXPECT_THAT(rates.tenants, IsEmpty());
  EXPECT_THAT(rates.links, IsEmpty());
}

}  // namespace
}  // namespace banyan::app
