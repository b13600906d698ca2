#include "banyan/run/system/available_memory.h"

#include <stdlib.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;

// A system of a few files.
class AvailableMemory : public ::testing::Test {
 protected:
  AvailableMemory() : root_(fs::temp_directory_path() / "banyan-memory-XXXXXX") {
    EXPECT_NE(mkdtemp(root_.data()), nullptr);
  }
  ~AvailableMemory() override { fs::remove_all(root_); }

  void write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }

  std::string root_;
};

TEST_F(AvailableMemory, IsThatOfTheMachineWithItsSwap) {
  write("/proc/meminfo", "MemTotal: 1000 kB\nMemFree: 5 kB\nMemAvailable: 700 kB\nSwapFree: 50 kB\n");
  EXPECT_EQ(available_memory(root_), 750u * 1024);
}

TEST_F(AvailableMemory, IsUnknownWhereNothingTells) { EXPECT_EQ(available_memory(root_), UINT64_MAX); }

TEST_F(AvailableMemory, IsWhatAGroupOfVersionTwoLeavesWithoutItsCache) {
  write("/proc/meminfo", "MemAvailable: 700 kB\n");
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "300000\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "200000\n");
  write("/sys/fs/cgroup/jobs/one/memory.stat", "anon 1\ninactive_file 50000\n");
  EXPECT_EQ(available_memory(root_), 150'000u);
}

TEST_F(AvailableMemory, IsThatOfTheTightestGroupAbove) {
  write("/proc/self/cgroup", "0::/jobs/one\n");
  write("/sys/fs/cgroup/jobs/one/memory.max", "max\n");
  write("/sys/fs/cgroup/jobs/one/memory.current", "200000\n");
  write("/sys/fs/cgroup/jobs/memory.max", "250000\n");
  write("/sys/fs/cgroup/jobs/memory.current", "240000\n");
  EXPECT_EQ(available_memory(root_), 10'000u);
}

TEST_F(AvailableMemory, KnowsVersionOneAndGroupsThatAreOverTheirLimit) {
  write("/proc/self/cgroup", "5:cpu,memory:/jobs\n1:cpuset:/\n0::/\n");
  write("/sys/fs/cgroup/memory/jobs/memory.limit_in_bytes", "1000\n");
  write("/sys/fs/cgroup/memory/jobs/memory.usage_in_bytes", "1400\n");
  EXPECT_EQ(available_memory(root_), 0u);
}

TEST_F(AvailableMemory, OfAContainerIsThatOfItsMount) {
  write("/proc/self/cgroup", "0::/somewhere/unseen\n");
  write("/sys/fs/cgroup/memory.max", "5000\n");
  write("/sys/fs/cgroup/memory.current", "1000\n");
  EXPECT_EQ(available_memory(root_), 4000u);
}

TEST(AvailableMemoryHere, IsSome) {
  EXPECT_GT(available_memory(), 0u);
  EXPECT_LT(available_memory(), UINT64_MAX);
}

TEST_F(AvailableMemory, IsAtMostWhatTheMachineHasAndGroupsAllow) {
  EXPECT_EQ(most_memory(root_), UINT64_MAX);
  write("/proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 700 kB\n");
  EXPECT_EQ(most_memory(root_), 1000u * 1024);
  write("/proc/self/cgroup", "0::/pods/one\n");
  write("/sys/fs/cgroup/pods/one/memory.max", "max\n");
  write("/sys/fs/cgroup/pods/memory.max", "300000\n");
  EXPECT_EQ(most_memory(root_), 300'000u);
  write("/sys/fs/cgroup/pods/one/memory.max", "200000\n");
  write("/sys/fs/cgroup/pods/one/memory.current", "150000\n");
  EXPECT_EQ(most_memory(root_), 200'000u) << "whatever is used of it";
}

}  // namespace
}  // namespace banyan::run
