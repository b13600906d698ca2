#include "banyan/service/session/tenant_quota.h"

#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(TokenBucket, AllowsSomeAtOnceAndThenTheirRate) {
  TokenBucket bucket(10, 3);
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(bucket.wait(seconds(1)), TokenBucket::Time(0)) << i;
    bucket.take(seconds(1), 1);
  }
  EXPECT_NEAR(std::chrono::duration<double>(bucket.wait(seconds(1))).count(), 0, 1e-5);
  bucket.take(seconds(1), 2);
  EXPECT_NEAR(std::chrono::duration<double>(bucket.wait(seconds(1))).count(), 0.2, 1e-5);
  EXPECT_EQ(bucket.wait(seconds(1) + milliseconds(201)), TokenBucket::Time(0));
}

TEST(TokenBucket, SavesNoMoreThanItsMost) {
  TokenBucket bucket(10, 3);
  bucket.take(seconds(1), 3);
  bucket.take(seconds(1000), 3);
  EXPECT_GT(bucket.wait(seconds(1000)), TokenBucket::Time(0));
}

TEST(TokenBucket, HasSomethingAfterTheWaitItNames) {
  TokenBucket bucket(7, 1);
  TokenBucket::Time now = seconds(3);
  for (int i = 1; i < 50; ++i) {
    bucket.take(now, i);
    now += bucket.wait(now);
    EXPECT_EQ(bucket.wait(now), TokenBucket::Time(0)) << i;
  }
}

std::shared_ptr<TenantAccount> account_with(Resource resource, uint64_t most) {
  TenantLimits limits;
  limits[resource] = most;
  return std::make_shared<TenantAccount>("user 1000", limits);
}

TEST(TenantAccount, GivesBackWhatIsLetGo) {
  const auto account = account_with(Resource::regions, 3);
  {
    const auto two = account->take(Resource::regions, 2);
    auto one = account->take(Resource::regions, 1);
    EXPECT_FALSE(account->has_room(Resource::regions, 1));
    const TenantAccount::Charge moved = std::move(one);
    EXPECT_EQ(account->used(Resource::regions), 3u);
  }
  EXPECT_EQ(account->used(Resource::regions), 0u);
  EXPECT_TRUE(account->has_room(Resource::regions, 3));
}

TEST(TenantAccount, NamesUserAndQuotaWhenItIsTooMuch) {
  const auto account = account_with(Resource::sessions, 3);
  const auto two = account->take(Resource::sessions, 2);
  EXPECT_THAT(testing::error_of([&] { account->take(Resource::sessions, 2); }),
              HasSubstr("quota for each user of 3 sessions; user 1000 has 2 and wants 2 more: finalize some"));
  EXPECT_EQ(account->used(Resource::sessions), 2u);
}

TEST(TenantAccount, CannotBeDeceivedByAmountsThatOverflow) {
  const auto account = account_with(Resource::region_bytes, 1000);
  const auto some = account->take(Resource::region_bytes, 1);
  EXPECT_NE(testing::error_of([&] { account->take(Resource::region_bytes, UINT64_MAX); }), "");
  EXPECT_EQ(account->used(Resource::region_bytes), 1u);
}

TEST(TenantAccount, CountsRightWhateverThreadsDo) {
  const auto account = account_with(Resource::messages, 5);
  std::atomic<uint64_t> most = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int tries = 0; tries < 10'000; ++tries) {
        if (!account->has_room(Resource::messages, 2)) continue;
        try {
          const auto two = account->take(Resource::messages, 2);
          const uint64_t used = account->used(Resource::messages);
          uint64_t seen = most;
          while (used > seen && !most.compare_exchange_weak(seen, used)) {
          }
        } catch (const Error&) {  // another thread was quicker
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(most, 5u);
  EXPECT_EQ(account->used(Resource::messages), 0u);
}

TEST(TenantAccount, TellsOperatorsOfAFewEventsAndHowManyMoreThereWere) {
  TenantLimits limits;
  limits.events_per_second = 1;
  limits.events_at_once = 2;
  TenantAccount account("user 1000", limits);
  EXPECT_EQ(account.record(seconds(1), "a"), "a");
  EXPECT_EQ(account.record(seconds(1), "b"), "b");
  for (int i = 0; i < 7; ++i) EXPECT_EQ(account.record(seconds(1), "c"), "");
  EXPECT_EQ(account.record(seconds(3), "d"), "d (7 events of user 1000 before this one were left out)");
}

TEST(TenantAccounts, AreOneForEachUserAndForgetThoseThatHaveNothing) {
  TenantAccounts accounts({});
  const auto first = accounts.of(1);
  EXPECT_EQ(accounts.of(1), first);
  EXPECT_NE(accounts.of(2), first);
  for (uint32_t user = 10; user < 1000; ++user) accounts.of(user);
  EXPECT_EQ(first->owner(), "user 1");
  EXPECT_EQ(accounts.of(1), first);
}

TEST(TenantAccounts, AreOneForAControlGroupWhateverTheNumbersOfTheUsersInIt) {
  TenantLimits limits;
  limits[Resource::sessions] = 10;
  TenantAccounts accounts(limits);
  const auto pod = accounts.of(1, "/kubepods/pod7");
  EXPECT_NE(pod, accounts.of(1)) << "what is in the group is counted apart from what the user has elsewhere";
  EXPECT_NE(pod, accounts.of(1, "/kubepods/pod8"));
  EXPECT_EQ(pod->owner(), "control group /kubepods/pod7");
  std::vector<TenantAccount::Charge> charges;
  for (uint32_t user = 0; user < 10; ++user) {
    charges.push_back(accounts.of(user, "/kubepods/pod7")->take(Resource::sessions, 1));
  }
  EXPECT_THROW(accounts.of(4711, "/kubepods/pod7")->take(Resource::sessions, 1), Error);
  EXPECT_EQ(pod->used(Resource::sessions), 10u);
}

TEST(TenantLimits, LeaveMostOfTheMachineToOthers) {
  const TenantLimits limits = TenantLimits::of_machine();
  for (const uint64_t most : limits.most) EXPECT_GT(most, 0u);
  EXPECT_LE(limits[Resource::regions], 16'384u);
  EXPECT_LE(8 * limits[Resource::kept_bytes], limits[Resource::region_bytes]);
}

}  // namespace
}  // namespace banyan::service
