// A refusal of the operating system, as an Error.
#pragma once

#include <cerrno>
#include <cstring>
#include <string>

#include "banyan/base/error.h"

namespace banyan::run {

// Error{io}: "cannot do this: No space left on device".
inline Error system_error(const std::string& what, int error = errno) {
  return Error(ErrorCode::io, what + ": " + std::strerror(error));
}

}  // namespace banyan::run
