#include <gtest/gtest.h>

#include <optional>

#include "banyan/base/error.h"
#include "banyan/run/host/regions.h"
#include "banyan/testing/orders/explorer.h"

namespace banyan::testing::orders {
namespace {

using run::PeerRegions;
using run::RegionPool;

// The entries of the first region and of the one after the last that there can be are the same.
struct Regions {
  RegionPool pool;
  std::byte* first = pool.allocate(1);
  PeerRegions peer{0, pool.directory_fd()};
};

// A region is looked up that has been freed, so that its entry is of another one.
void an_entry_is_of_another_region(Trial& trial) {
  auto& regions = *new Regions;
  regions.pool.skip_to(RegionPool::kMaxRegions + 1);
  std::byte* const memory = regions.first;
  trial.thread("owner", [&regions, memory] {
    regions.pool.free(memory);
    regions.pool.allocate(4097);
  });
  trial.thread("peer", [&regions, &trial, memory] {
    try {
      trial.expect(regions.peer.at(1, 0, 1) == memory, "it is another region");
    } catch (const Error&) {  // it has been freed
    }
  });
}

// One that a peer has heard of is there.
void a_region_is_told_of(Trial& trial) {
  struct Told {
    Regions regions;
    std::atomic<run::RegionId> id{0};
  };
  auto& told = *new Told;
  trial.thread("owner", [&told] {
    std::byte* const memory = told.regions.pool.allocate(1);
    told.id.store(told.regions.pool.find(memory, 1).region, std::memory_order_release);
  });
  trial.thread("peer", [&told, &trial] {
    trial.await([&] { return told.id.load(std::memory_order_acquire) != 0; });
    trial.expect(told.regions.peer.at(told.id.load(std::memory_order_relaxed), 0, 1) != nullptr, "it is not there");
  });
}

// A descriptor is announced, and another one after it.
void something_else_is_announced(Trial& trial) {
  auto& regions = *new Regions;
  regions.pool.announce(1, 11);
  trial.thread("owner", [&regions] {
    regions.pool.withdraw(1);
    regions.pool.announce(2, 12);
  });
  trial.thread("peer", [&regions, &trial] {
    const std::optional<int> first = regions.peer.find(1), second = regions.peer.find(2);
    trial.expect(!first || *first == 11, "it is another descriptor");
    trial.expect(!second || *second == 12, "it is another descriptor");
  });
}

TEST(RegionsOrders, AllCount) {
  EXPECT_EQ(every_order_counts({"regions.cc"},
                               {an_entry_is_of_another_region, a_region_is_told_of, something_else_is_announced}),
            "");
}

}  // namespace
}  // namespace banyan::testing::orders
