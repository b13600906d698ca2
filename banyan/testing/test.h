// Nearly every test includes this: GoogleTest, matchers by their short names, and the standard headers that tests use
// most. It is precompiled (cmake/BanyanTest.cmake).
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <random>
#include <set>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "banyan/base/error.h"

namespace banyan {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using std::chrono::seconds;

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::SizeIs;
using ::testing::StartsWith;
using ::testing::UnorderedElementsAre;

}  // namespace banyan

// The Error that a body throws, for tests of refusals.
namespace banyan::testing {

// The error itself. The test fails when none is thrown.
template <typename Body>
Error thrown_by(Body&& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  ADD_FAILURE() << "no error was thrown";
  return Error(ErrorCode::io, "no error");
}

// Its text as a user sees it, which is one line; "no error" when none is thrown. With `code`, the error must have it.
template <typename Body>
std::string error_of(Body&& body, std::optional<ErrorCode> code = std::nullopt) {
  try {
    body();
  } catch (const Error& error) {
    const std::string text = error.what();
    EXPECT_EQ(text.find('\n'), std::string::npos) << text;
    if (code) {
      EXPECT_EQ(error.code(), *code) << text;
    }
    return text;
  }
  return "no error";
}

}  // namespace banyan::testing
