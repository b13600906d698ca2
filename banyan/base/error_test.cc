#include "banyan/base/error.h"

#include <gtest/gtest.h>

namespace banyan {
namespace {

TEST(Error, SaysWhereInFrontOfWhat) {
  const Error error(ErrorCode::invalid_input, "bandwidth is zero", "line 3");
  EXPECT_STREQ(error.what(), "line 3: bandwidth is zero");
  EXPECT_STREQ(error.within("a.json").what(), "a.json line 3: bandwidth is zero");
  EXPECT_STREQ(Error(ErrorCode::io, "no").what(), "no");
}

TEST(Error, StaysOneLineWhateverItQuotes) {
  const Error error(ErrorCode::invalid_input, "name 'a\nb\x1b[31m'", "evil\nfile");
  EXPECT_STREQ(error.what(), "evil?file: name 'a?b?[31m'");
  EXPECT_EQ(error.message(), "name 'a?b?[31m'");
}

}  // namespace
}  // namespace banyan
