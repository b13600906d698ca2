#include "banyan/run/system/available_memory.h"

#include <stdlib.h>

#include "banyan/testing/temporary_folder.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;

// A system of a few files.
class AvailableMemory : public ::testing::Test, protected testing::TemporaryFolder {
 protected:
  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(folder_ + path).parent_path());
    std::ofstream(folder_ + path) << text;
  }
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithItsSwap) {
  write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: 700 kB\nSwapFree: 50 kB\n");
  EXPECT_EQ(available_memory(folder_), 750u * 1024);
}

TEST_F(AvailableMemory, IsUnknownWhereNothingTells) { EXPECT_EQ(available_memory(folder_), UINT64_MAX); }

TEST_F(AvailableMemory, IsWhatAGroupOfVersionTwoLeavesWithoutItsCache) {
  write("/proc/meminfo", "MemAvailable: 700 kB\n");
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "300000\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "200000\n");
  write("/sys/fs/cgroup/jobs/one/memory.stat", "anon 1\ninactive_file 50000\n");
  EXPECT_EQ(available_memory(folder_), 150'000u);
}

TEST_F(AvailableMemory, IsThatOfTheTightestGroupAbove) {
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "200000\n");
  write("/sys/fs/cgroup/jobs/memory.max", "250000\n");
  write("/sys/fs/cgroup/jobs/memory.current", "240000\n");
  EXPECT_EQ(available_memory(folder_), 10'000u);
}

TEST_F(AvailableMemory, KnowsVersionOneAndGroupsThatAreOverTheirLimit) {
  write("/proc/self/cgroup", "5:cpu,memory:/jobs\n1:cpuset:/\n0::/\n");
  write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "1400\n");
  EXPECT_EQ(available_memory(folder_), 0u);
}

TEST_F(AvailableMemory, OfAContainerIsThatOfItsMount) {
  write("/proc/self/cgroup", "0::/somewhere/unseen\n");
  write("/sys/fs/cgroup/memory.max", "5000\n");
  write("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory(folder_), 4000u);
}

TEST(AvailableMemoryHere, IsSome) {
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LT(available_memory(), UINT64_MAX);
}

TEST_F(AvailableMemory, IsAtMostWhatTheMachineHasAndGroupsAllow) {
  EXPECT_EQ(most_memory(folder_), UINT64_MAX);
  write("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 700 kB\n");
  EXPECT_EQ(most_memory(folder_), 1000u * 1024);
  write("/proc/self/cgroup", "0::/pods/one\n");
  write("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  write("/sys/fs/cgroup/pods/memory.max", "300000\n");
  EXPECT_EQ(most_memory(folder_), 300'000u);
  write("/sys/fs/cgroup/pods/one/memory.max", "200000\n");
  write("/sys/fs/cgroup/pods/one/memory.current", "150000\n");
  EXPECT_EQ(most_memory(folder_), 200'000u) << "whatever is used of it";
}

}  // namespace
}  // namespace banyan::run
