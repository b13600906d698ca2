#include "banyan/run/system/shared_memory.h"

#include <cstdio>

#include "banyan/run/system/available_memory.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

// Linux would rather kill processes than refuse it.
TEST(SharedMemory, MoreThanThereIsIsRefusedBeforeItIsTaken) {
  for (const size_t bytes : {available_memory() + 4096, size_t{1} << 50, SIZE_MAX / 2 - 4095}) {
    EXPECT_THAT(testing::error_of([&] { SharedMemory::with_pages(bytes); }, ErrorCode::io),
                ::testing::HasSubstr("are available"))
        << bytes;
  }
}

// What is said to be available is less than what was asked for, once that is taken off which others keep.
TEST(SharedMemory, TheNumbersOfARefusalAgree) {
  const size_t asked = available_memory() - 4096;
  try {
    SharedMemory::with_pages(asked);
    FAIL() << asked;
  } catch (const Error& error) {
    const std::string text = error.what();
    unsigned long long size = 0, available = 0, left = 0;
    const int count =
        std::sscanf(text.c_str(),
                    "cannot share %llu bytes of memory between processes: %llu bytes are available on this "
                    "machine, or in its container or control group, and %llu of them are left to others",
                    &size, &available, &left);
    ASSERT_EQ(count, 3) << text;
    EXPECT_EQ(size, asked);
    EXPECT_GT(size, available - left) << text;
  }
}

}  // namespace
}  // namespace banyan::run
