// The exception of Banyan's C++ interface.
#pragma once

#include <banyan/cxx20.h>
#ifdef BANYAN_CXX20

#include <banyan/banyan.h>

#include <stdexcept>
#include <string>

namespace banyan {
inline namespace v0 {

enum class ErrorCode {
  invalid_argument = BANYAN_INVALID_ARGUMENT,  // a value that no rank could use
  invalid_usage = BANYAN_INVALID_USAGE,        // a call that is not allowed now
  mismatch = BANYAN_MISMATCH,                  // ranks called different things
  unsupported = BANYAN_UNSUPPORTED,            // understood, but beyond what is implemented
  system_error = BANYAN_SYSTEM_ERROR,          // the operating system refused
  peer_lost = BANYAN_PEER_LOST,                // a rank died or cannot be reached
  timed_out = BANYAN_TIMED_OUT,                // a deadline passed; the text names who is late
  aborted = BANYAN_ABORTED,                    // somebody asked for it to end
  internal = BANYAN_INTERNAL                   // our bug; please report the text
};

// what() says in one line who is to blame, and what mends it.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& text) : std::runtime_error(text), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

// Throws the last error of this thread unless the result is a success. For users of the C interface, too.
inline void check(banyan_result_t result) {
  if (result != BANYAN_SUCCESS) throw Error(static_cast<ErrorCode>(result), banyan_last_error(nullptr));
}

}  // namespace v0
}  // namespace banyan

#endif  // BANYAN_CXX20
