#include "banyan/service/protocol/region_table.h"

#include "banyan/service/protocol/test_memory.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

std::string error_of_region(const run::FileDescriptor& fd, uint64_t bytes) {
  return testing::error_of([&] { Region(fd, bytes); }, ErrorCode::invalid_input);
}

TEST(Region, IsTheMemoryOfTheClient) {
  const run::FileDescriptor fd = memory_of(8192);
  ASSERT_EQ(pwrite(fd.get(), "from the client", 15, 4090), 15);
  const Region region(fd, 8192);
  EXPECT_EQ(std::memcmp(region.data() + 4090, "from the client", 15), 0);
  std::memcpy(region.data() + 8185, "answer", 6);
  char seen[6];
  ASSERT_EQ(pread(fd.get(), seen, 6, 8185), 6);
  EXPECT_EQ(std::string(seen, 6), "answer");
  EXPECT_EQ(region.size(), 8192u);
}

TEST(Region, MayEndBeforeItsLastPageDoes) {
  const Region region(memory_of(8192), 4100);
  EXPECT_EQ(region.size(), 4100u);
  EXPECT_THAT(error_of_region(memory_of(8192), 4096), HasSubstr("it is 8192 bytes long, and has to be offered whole"));
}

TEST(Region, MustBeSealedAgainstBeingMadeShorter) {
  EXPECT_THAT(error_of_region(memory_of(4096, 0), 4096), HasSubstr("not sealed against being made shorter"));
  EXPECT_THAT(error_of_region(memory_of(4096, F_SEAL_GROW), 4096), HasSubstr("not sealed against being made shorter"));
}

TEST(Region, CanBeSealedFurther) {
  for (const int final : {F_SEAL_SEAL, F_SEAL_FUTURE_WRITE}) {
    EXPECT_THAT(error_of_region(memory_of(4096, kGoodSeals | final), 4096), HasSubstr("can have no more seals"));
  }
  const run::FileDescriptor fd = memory_of(4096);
  { const Region region(fd, 4096); }
  EXPECT_THAT(error_of_region(fd, 4096), HasSubstr("as what was offered to a daemon before"));
}

TEST(Region, MustBeSealedAgainstBeingMadeLonger) {
  EXPECT_THAT(error_of_region(memory_of(4096, F_SEAL_SHRINK), 4096), HasSubstr("not sealed against being made longer"));
}

TEST(Region, IsNoFile) {
  const std::string path = ::testing::TempDir() + "/region_table_test." + std::to_string(getpid());
  std::ofstream(path) << std::string(4096, 'x');
  const run::FileDescriptor fd(open(path.c_str(), O_RDWR | O_CLOEXEC));
  unlink(path.c_str());
  ASSERT_TRUE(fd.is_open());
  // A file of a temporary file system has seals, but not these.
  EXPECT_THAT(error_of_region(fd, 4096), ::testing::AnyOf(HasSubstr("no memory of memfd_create"), HasSubstr("sealed")));
}

TEST(Region, IsNoDevice) {
  const run::FileDescriptor zeros(open("/dev/zero", O_RDWR | O_CLOEXEC));
  EXPECT_THAT(error_of_region(zeros, 4096), HasSubstr("no memory of memfd_create"));
}

TEST(Region, HasNoHugePages) {
  const run::FileDescriptor fd(memfd_create("huge", MFD_CLOEXEC | MFD_ALLOW_SEALING | MFD_HUGETLB));
  constexpr uint64_t kBytes = 2 << 20;
  if (!fd.is_open() || ftruncate(fd.get(), kBytes) != 0) GTEST_SKIP() << "this kernel has no huge pages";
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kGoodSeals), 0);
  EXPECT_THAT(error_of_region(fd, kBytes), HasSubstr("does not consist of ordinary pages"));
}

TEST(Region, IsAsLongAsItIsSaidToBe) {
  const run::FileDescriptor fd = memory_of(4096);
  EXPECT_THAT(error_of_region(fd, 4097), HasSubstr("only 4096 bytes long"));
  EXPECT_THAT(error_of_region(fd, UINT64_MAX), HasSubstr("only 4096 bytes long"));
}

TEST(Region, IsNotEmpty) { EXPECT_THAT(error_of_region(memory_of(4096), 0), HasSubstr("nothing to map")); }

TEST(Region, CanBeWrittenTo) {
  EXPECT_THAT(error_of_region(memory_of(4096, kGoodSeals | F_SEAL_WRITE), 4096), HasSubstr("cannot be written to"));
  const run::FileDescriptor writable = memory_of(4096);
  const std::string path = "/proc/self/fd/" + std::to_string(writable.get());
  const run::FileDescriptor readable(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_THAT(error_of_region(readable, 4096), HasSubstr("cannot be written to"));
}

TEST(Region, IsNoClosedDescriptor) {
  EXPECT_THAT(testing::error_of([] { Region(run::FileDescriptor(), 4096); }, ErrorCode::io),
              HasSubstr("Bad file descriptor"));
}

// The seals of an offered region hold: nobody gets them off again.
TEST(Region, CannotBeMadeShorterAfterwards) {
  const run::FileDescriptor fd = memory_of(4096);
  const Region region(fd, 4096);
  EXPECT_NE(ftruncate(fd.get(), 0), 0);
  region.data()[4095] = std::byte{1};
  EXPECT_EQ(region.data()[4095], std::byte{1});
}

TEST(RegionTable, FindsBytesThatAreAllInARegion) {
  RegionTable table({});
  const OfferedMemory first = offer_memory(table, 4096), second = offer_memory(table, 100);
  EXPECT_NE(first.place.index, second.place.index);
  EXPECT_EQ(table.find(first.at(0), 4096)->size(), 4096u);
  EXPECT_EQ(table.find(second.at(100), 0)->data(), second.data);
  EXPECT_NE(table.find(second.at(99), 1), nullptr);
  EXPECT_EQ(table.find(second.at(99), 2), nullptr);
  EXPECT_EQ(table.find(second.at(101), 0), nullptr);
}

TEST(RegionTable, IsNotDeceivedByNumbersNearTheEnd) {
  RegionTable table({});
  const OfferedMemory region = offer_memory(table, 4096);
  EXPECT_EQ(table.find(region.at(4096), UINT64_MAX), nullptr);
  EXPECT_EQ(table.find(region.at(1), UINT64_MAX), nullptr);
  EXPECT_EQ(table.find(region.at(UINT64_MAX), 1), nullptr);
  EXPECT_EQ(table.find(region.at(UINT64_MAX - 7), 16), nullptr);
}

TEST(RegionTable, KnowsNoPlacesThatWereNeverTaken) {
  RegionTable table({});
  EXPECT_EQ(table.find({.region = 0}, 0), nullptr);
  offer_memory(table, 4096);
  EXPECT_EQ(table.find({.region = 1}, 0), nullptr);
  EXPECT_EQ(table.find(BufferName(), 0), nullptr);
  EXPECT_THAT(testing::error_of([&] { table.withdraw({.index = 1}); }, ErrorCode::invalid_input),
              HasSubstr("region 1 of generation 0 is not offered"));
}

TEST(RegionTable, GivesAPlaceAnotherGeneration) {
  RegionTable table({});
  const OfferedMemory old = offer_memory(table, 4096);
  table.withdraw(old.place);
  EXPECT_EQ(table.find(old.at(0), 1), nullptr);
  const OfferedMemory next = offer_memory(table, 4096);
  EXPECT_EQ(next.place.index, old.place.index);
  EXPECT_NE(next.place.generation, old.place.generation);
  EXPECT_EQ(table.find(old.at(0), 1), nullptr);
  EXPECT_NE(table.find(next.at(0), 1), nullptr);
  EXPECT_THAT(testing::error_of([&] { table.withdraw(old.place); }, ErrorCode::invalid_input),
              HasSubstr("is not offered"));
  EXPECT_NE(table.find(next.at(0), 1), nullptr);
}

TEST(RegionTable, KeepsARegionMappedWhileACallUsesIt) {
  RegionTable table({});
  const OfferedMemory region = offer_memory(table, 4096);
  const std::shared_ptr<const Region> used = table.find(region.at(0), 4096);
  std::memset(used->data(), 7, 4096);
  table.withdraw(region.place);
  offer_memory(table, 4096);
  EXPECT_EQ(used->data()[4095], std::byte{7});
}

TEST(RegionTable, RefusesMoreRegionsThanItsQuota) {
  RegionTable table({.regions = 2});
  const OfferedMemory first = offer_memory(table, 4096);
  offer_memory(table, 4096);
  EXPECT_THAT(testing::error_of([&] { offer_memory(table, 4096); }, ErrorCode::unsupported),
              HasSubstr("it has 2 regions"));
  table.withdraw(first.place);
  EXPECT_NE(table.find(offer_memory(table, 4096).at(0), 4096), nullptr);
}

TEST(RegionTable, RefusesMoreBytesThanItsQuota) {
  RegionTable table({.bytes = 10'000});
  const OfferedMemory first = offer_memory(table, 4096);
  offer_memory(table, 5904);
  EXPECT_EQ(table.bytes(), 10'000u);
  EXPECT_THAT(testing::error_of([&] { offer_memory(table, 1); }, ErrorCode::unsupported),
              HasSubstr("has 10000 bytes in regions"));
  table.withdraw(first.place);
  EXPECT_EQ(table.bytes(), 5904u);
  EXPECT_THAT(testing::error_of(
                  [&] {
                    table.offer({memory_of(1 << 20), 1 << 20});
                  },
                  ErrorCode::unsupported),
              HasSubstr("may have 10000"));
  EXPECT_NE(table.find(offer_memory(table, 4096).at(0), 4096), nullptr);
}

// Else a client could have any amount mapped, by withdrawing what long calls use.
TEST(RegionTable, CountsWithdrawnRegionsThatAreStillUsed) {
  RegionTable table({.regions = 1, .bytes = 10'000});
  const OfferedMemory region = offer_memory(table, 4096);
  std::shared_ptr<const Region> used = table.find(region.at(0), 4096);
  table.withdraw(region.place);
  EXPECT_EQ(table.bytes(), 4096u);
  EXPECT_THAT(testing::error_of([&] { offer_memory(table, 4096); }, ErrorCode::unsupported),
              HasSubstr("it has 1 regions"));
  used.reset();
  EXPECT_EQ(table.bytes(), 0u);
  EXPECT_NE(table.find(offer_memory(table, 4096).at(0), 4096), nullptr);
}

TEST(RegionTable, IsAsItWasAfterARefusal) {
  RegionTable table({});
  const OfferedMemory region = offer_memory(table, 4096);
  EXPECT_THAT(testing::error_of(
                  [&] {
                    table.offer({memory_of(4096, 0), 4096});
                  },
                  ErrorCode::invalid_input),
              HasSubstr("sealed"));
  EXPECT_EQ(table.bytes(), 4096u);
  EXPECT_EQ(table.find(region.at(0), 4096)->data(), region.data);
  EXPECT_EQ(offer_memory(table, 4096).place.index, region.place.index + 1);
}

TEST(RegionTable, AsksForWhatARegionCostsAndHasItUnmappedElsewhere) {
  uint64_t charged = 0;
  std::vector<std::function<void()>> later;
  RegionTable table(RegionTable::Quota(),
                    {.charge = [&](uint64_t bytes) -> std::shared_ptr<void> {
                       if (bytes > 8192) throw Error(ErrorCode::unsupported, "too much");
                       charged += bytes;
                       return {&charged, [bytes](uint64_t* all) { *all -= bytes; }};
                     },
                     .later = [&](std::function<void()> task) { later.push_back(std::move(task)); }});
  const OfferedMemory offered = offer_memory(table, 8192);
  EXPECT_EQ(charged, 8192u);
  EXPECT_THROW(table.offer({memory_of(16'384), 16'384}), Error);
  EXPECT_THROW(table.offer({memory_of(4096, 0), 4096}), Error) << "it is not sealed";
  EXPECT_EQ(charged, 8192u);
  table.withdraw(offered.place);
  ASSERT_EQ(later.size(), 1u);
  EXPECT_EQ(charged, 8192u) << "it is mapped still";
  offered.data[0] = std::byte{1};
  later.front()();
  later.clear();
  EXPECT_EQ(charged, 0u);
}

TEST(Region, HasAllItsPagesAndKeepsThem) {
  constexpr size_t kBytes = 1 << 20;
  EXPECT_THAT(error_of_region(memory_of(kBytes, kGoodSeals, false), kBytes),
              HasSubstr("not all of its pages are there"));
  const run::FileDescriptor fd = memory_of(kBytes);
  void* const own = mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd.get(), 0);
  ASSERT_NE(own, MAP_FAILED);
  const Region region(fd, kBytes);
  EXPECT_EQ(fallocate(fd.get(), FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 8192, 4096), -1);
  *static_cast<std::byte*>(own) = std::byte{1};  // the mappings that are there go on
  madvise(own, kBytes, MADV_REMOVE);             // in vain
  EXPECT_EQ(region.data()[0], std::byte{1});
  region.data()[1] = std::byte{2};
  EXPECT_EQ(static_cast<std::byte*>(own)[1], std::byte{2});
  munmap(own, kBytes);
}

// As many pages behind the end as are missing before it.
TEST(Region, CountsNoPagesBehindItsEnd) {
  constexpr int64_t kBytes = 1 << 20;
  const run::FileDescriptor longer = memory_of(2 * kBytes);
  EXPECT_THAT(error_of_region(longer, kBytes), HasSubstr("has to be offered whole"));
  const run::FileDescriptor fd = memory_of(kBytes, 0, false);
  ASSERT_EQ(fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, kBytes, kBytes), 0);
  ASSERT_EQ(fcntl(fd.get(), F_ADD_SEALS, kGoodSeals), 0);
  EXPECT_THAT(error_of_region(fd, kBytes), HasSubstr("not all of its pages are there"));
  EXPECT_EQ(fallocate(fd.get(), FALLOC_FL_KEEP_SIZE, kBytes, kBytes), -1) << "others can come";
  const run::FileDescriptor small = memory_of(4096, 0);
  ASSERT_EQ(fallocate(small.get(), FALLOC_FL_KEEP_SIZE, 0, 4 * kBytes), 0);
  ASSERT_EQ(fcntl(small.get(), F_ADD_SEALS, kGoodSeals), 0);
  EXPECT_THAT(error_of_region(small, 4096), HasSubstr("pages behind its end, 4194304 bytes in all"));
}

}  // namespace
}  // namespace banyan::service
