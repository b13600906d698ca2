#include <new>
#include <stdexcept>
#include <system_error>
#include <type_traits>

#include "banyan/testing/test.h"

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

// So that it can be kept and passed on when there is no memory left.
static_assert(std::is_nothrow_copy_constructible_v<Error> && std::is_nothrow_copy_assignable_v<Error> &&
              std::is_nothrow_move_constructible_v<Error>);

TEST(Error, StaysReadableWhenACopyWasMovedFrom) {
  Error first(ErrorCode::io, "no");
  const Error second = std::move(first), third = second;
  EXPECT_STREQ(first.what(), "no");
  EXPECT_STREQ(third.what(), "no");
}

TEST(Error, IsMadeOfWhateverWasThrown) {
  const auto error_of = [](auto thrown) {
    try {
      throw thrown;
    } catch (...) {
      return current_error();
    }
  };
  EXPECT_EQ(error_of(Error(ErrorCode::peer_lost, "gone")).code(), ErrorCode::peer_lost);
  EXPECT_STREQ(error_of(std::bad_alloc()).what(), "there is not enough memory");
  EXPECT_EQ(error_of(std::system_error(EAGAIN, std::generic_category())).code(), ErrorCode::io);
  EXPECT_STREQ(error_of(std::runtime_error("why")).what(), "why");
  EXPECT_STREQ(error_of(7).what(), "an exception of an unknown type");
}

}  // namespace
}  // namespace banyan
