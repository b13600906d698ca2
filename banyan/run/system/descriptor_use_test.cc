#include "banyan/run/system/descriptor_use.h"

#include <fcntl.h>
#include <sys/resource.h>

#include "banyan/run/system/file_descriptor.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(DescriptorUse, CountsWhatIsOpen) {
  const uint64_t before = descriptor_use().used;
  ASSERT_GE(before, 3u);
  std::vector<FileDescriptor> opened;
  for (int i = 0; i < 20; ++i) opened.emplace_back(open("/dev/null", O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(descriptor_use().used, before + 20);
  opened.clear();
  EXPECT_EQ(descriptor_use().used, before);
}

TEST(DescriptorUse, KnowsHowManyMayBe) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit fewer = before;
  fewer.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &fewer), 0);
  EXPECT_EQ(descriptor_use().allowed, 200u);
  EXPECT_EQ(allowed_descriptors(), 200u);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

TEST(DescriptorUse, RaisesTheSoftLimitToTheHardOneWhereItMust) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit fewer = before;
  fewer.rlim_cur = 200;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &fewer), 0);
  const uint64_t used = descriptor_use().used;
  EXPECT_EQ(make_room_for_descriptors(100), 200 - used);
  EXPECT_EQ(allowed_descriptors(), 200u) << "there was room";
  EXPECT_EQ(make_room_for_descriptors(300), before.rlim_max - used);
  EXPECT_EQ(allowed_descriptors(), before.rlim_max);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
}

}  // namespace
}  // namespace banyan::run
