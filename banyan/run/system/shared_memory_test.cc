#include "banyan/run/system/shared_memory.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "banyan/base/error.h"
#include "banyan/run/system/available_memory.h"

namespace banyan::run {
namespace {

// Linux would rather kill processes than refuse it.
TEST(SharedMemory, MoreThanThereIsIsRefusedBeforeItIsTaken) {
  for (const size_t bytes : {available_memory() + 4096, size_t{1} << 50, SIZE_MAX / 2 - 4095}) {
    try {
      SharedMemory::with_pages(bytes);
      FAIL() << bytes;
    } catch (const Error& error) {
      EXPECT_EQ(error.code(), ErrorCode::io);
      EXPECT_THAT(error.what(), ::testing::HasSubstr("are available"));
    }
  }
}

}  // namespace
}  // namespace banyan::run
