#include "banyan/run/host/regions.h"

#include <fcntl.h>
#include <unistd.h>

#include "banyan/run/system/processes.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(RegionPool, FindsWhereABufferLies) {
  RegionPool pool;
  std::byte* const first = pool.allocate(10'000);
  std::byte* const second = pool.allocate(100);
  const RegionPlace place = pool.find(first + 100, 200);
  EXPECT_NE(place.region, 0u);
  EXPECT_EQ(place.offset, 100u);
  EXPECT_NE(pool.find(second, 100).region, place.region);
  EXPECT_EQ(pool.find(first, 3 * 4096).region, place.region) << "regions end with a page";
  EXPECT_EQ(pool.find(first, 3 * 4096 + 1).region, 0u);
  int elsewhere = 0;
  EXPECT_EQ(pool.find(&elsewhere, sizeof elsewhere).region, 0u);
  EXPECT_TRUE(pool.free(first));
  EXPECT_EQ(pool.find(first + 100, 200).region, 0u);
  EXPECT_FALSE(pool.free(first));
  EXPECT_FALSE(pool.free(&elsewhere));
}

TEST(RegionPool, NeverGivesTheSameIdTwice) {
  RegionPool pool;
  RegionId last = 0;
  for (int i = 0; i < 10'000; ++i) {
    std::byte* const data = pool.allocate(1);
    const RegionId id = pool.find(data, 1).region;
    EXPECT_GT(id, last);
    last = id;
    EXPECT_TRUE(pool.free(data));
  }
}

TEST(RegionPool, LosesNothingToAForkedProcessThatFrees) {
  RegionPool pool;
  std::byte* const data = pool.allocate(100);
  const RegionPlace place = pool.find(data, 100);
  const auto words =
      run_processes(1, seconds(20), [&](uint32_t) { return std::string(pool.free(data) ? "freed" : "unknown"); });
  EXPECT_THAT(words, ::testing::ElementsAre("freed"));
  PeerRegions peer(getpid(), pool.directory_fd());
  EXPECT_NO_THROW(peer.at(place.region, place.offset, 100));
}

TEST(RegionPool, IsEachForkedProcesssOwn) {
  RegionPool pool;
  std::byte* const data = pool.allocate(100);
  data[0] = std::byte{5};
  const RegionPlace place = pool.find(data, 100);
  const auto words = run_processes(3, seconds(20), [&](uint32_t rank) -> std::string {
    const auto mine = static_cast<std::byte>(rank + 10);
    std::byte* const own = pool.allocate(100);
    own[0] = mine;
    pool.announce(7, static_cast<int>(rank));
    const RegionPlace own_place = pool.find(own, 100);
    PeerRegions peer(getpid(), pool.directory_fd());
    if (*peer.at(own_place.region, own_place.offset, 1) != mine) return "its own region is another's";
    if (*peer.at(place.region, place.offset, 1) != std::byte{5}) return "its parent's region is not there";
    if (peer.find(7) != static_cast<int>(rank)) return "what it announced is another's";
    return "region " + std::to_string(own_place.region);
  });
  std::byte* const next = pool.allocate(100);
  EXPECT_THAT(words, ::testing::Each("region " + std::to_string(pool.find(next, 100).region)));
  EXPECT_EQ(PeerRegions(getpid(), pool.directory_fd()).find(7), std::nullopt);
}

// Also what a daemon has seen to that nobody maps it for writing any more.
TEST(PeerRegions, ReadTheMemoryOfAnotherProcess) {
  RegionPool pool;
  std::byte* const data = pool.allocate(5000);
  data[4321] = std::byte{7};
  const RegionPlace place = pool.find(data, 5000);
  ASSERT_EQ(fcntl(pool.file_of(place.region)->fd.get(), F_ADD_SEALS, F_SEAL_FUTURE_WRITE | F_SEAL_SEAL), 0);
  const pid_t owner = getpid();
  const int directory = pool.directory_fd();
  const std::vector<std::string> said = run_processes(1, seconds(20), [&](uint32_t) -> std::string {
    PeerRegions peer(owner, directory);
    if (*peer.at(place.region, place.offset + 4321, 1) != std::byte{7}) return "wrong";
    data[1] = std::byte{8};  // a forked process has the regions of its parent
    return *peer.at(place.region, place.offset + 1, 4999) == std::byte{8} ? "right" : "another";
  });
  EXPECT_EQ(said.front(), "right");
  EXPECT_EQ(data[1], std::byte{8});
}

TEST(PeerRegions, RefuseWhatTheOwnerDoesNotHave) {
  RegionPool pool;
  std::byte* const data = pool.allocate(4096);
  const RegionPlace place = pool.find(data, 1);
  PeerRegions peer(getpid(), pool.directory_fd());
  const auto refusal = [&](RegionId region, uint64_t offset, size_t bytes) -> std::string {
    return testing::error_of([&] { peer.at(region, offset, bytes); });
  };
  EXPECT_EQ(refusal(place.region, 0, 4096), "no error");
  EXPECT_THAT(refusal(place.region, 1, 4096), HasSubstr("shorter"));
  EXPECT_THAT(refusal(place.region, UINT64_MAX, 2), HasSubstr("shorter"));
  EXPECT_THAT(refusal(place.region + 1, 0, 1), HasSubstr("not there"));
  EXPECT_THAT(refusal(0, 0, 1), HasSubstr("not there"));
  pool.free(data);
  std::byte* const other = pool.allocate(4096);
  EXPECT_EQ(refusal(pool.find(other, 1).region, 0, 1), "no error");
  EXPECT_THAT(refusal(place.region, 0, 1), HasSubstr("not there"));
}

}  // namespace
}  // namespace banyan::run
