// The names of ErrorCode in metrics and in other languages: "invalid_input", "peer_lost".
#pragma once

#include "banyan/base/error.h"

namespace banyan {

// "unknown" of a number that is none of the codes.
const char* name_of(ErrorCode code);

}  // namespace banyan
