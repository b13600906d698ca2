#include "banyan/base/error_names.h"

namespace banyan {

const char* name_of(ErrorCode code) {
  switch (code) {
    case ErrorCode::invalid_input:
      return "invalid_input";
    case ErrorCode::mismatch:
      return "mismatch";
    case ErrorCode::unsupported:
      return "unsupported";
    case ErrorCode::not_found:
      return "not_found";
    case ErrorCode::io:
      return "io";
    case ErrorCode::peer_lost:
      return "peer_lost";
    case ErrorCode::timed_out:
      return "timed_out";
    case ErrorCode::aborted:
      return "aborted";
    case ErrorCode::invalid_usage:
      return "invalid_usage";
  }
  return "unknown";
}

}  // namespace banyan
