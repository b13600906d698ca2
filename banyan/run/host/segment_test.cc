#include "banyan/run/host/segment.h"

#include <sys/stat.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Bytes that the system has given for it.
size_t bytes_taken(const Segment& segment) {
  struct stat status {};
  EXPECT_EQ(fstat(segment.fd(), &status), 0);
  return static_cast<size_t>(status.st_blocks) * 512;
}

TEST(Segment, TakesMemoryForWhatIsWrittenOnly) {
  for (const uint32_t ranks : {1u, 3u, 8u, 64u}) {
    const Segment segment = Segment::make({.ranks = ranks, .block_bytes = size_t{128} << 10});
    size_t taken = bytes_taken(segment);
    EXPECT_LE(taken, 4096 + ranks * (4096 + (ranks * sizeof(Box) + 4095) / 4096 * 4096)) << ranks;
    const auto more = [&] { return bytes_taken(segment) - std::exchange(taken, bytes_taken(segment)); };
    const uint32_t last = ranks - 1;
    std::memset(segment.slot_to_write(last, 5, 200), 1, 200);
    EXPECT_EQ(more(), 4096u);
    segment.slot_to_write(last, 5, 4096);
    EXPECT_EQ(more(), 0u);
    std::memset(segment.results_to_write(last, 3, segment.block_bytes()), 2, segment.block_bytes());
    EXPECT_EQ(more(), segment.block_bytes());
    std::memset(segment.staging_to_write(last, 0, 10'000), 3, 10'000);
    EXPECT_EQ(more(), 3 * 4096u);
    std::memset(segment.box_memory_to_write(last, 0, 64), 4, 64);
    EXPECT_EQ(more(), 4096u);
    // Nothing lies where something else does.
    EXPECT_EQ(segment.slot(last, 5)[199], std::byte{1});
    EXPECT_EQ(segment.results(last, 3)[segment.block_bytes() - 1], std::byte{2});
    EXPECT_EQ(segment.staging(last, 0)[9'999], std::byte{3});
    EXPECT_EQ(segment.box_memory(last, 0)[63], std::byte{4});
  }
}

TEST(Segment, KnowsWhoHasCome) {
  Segment segment = Segment::make({.ranks = 3, .block_bytes = 4096});
  segment.say_here(2, true, false);
  EXPECT_TRUE(segment.is_here(2));
  EXPECT_FALSE(segment.is_here(0) || segment.is_here(1));
  EXPECT_EQ(segment.here(), 1u);
}

}  // namespace
}  // namespace banyan::run
