// The Error that a body throws, for tests of what is refused.
#pragma once

#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "banyan/base/error.h"

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
