// Errors that say where: a file, a line, an option.
#pragma once

#include <string>

#include "banyan/base/error.h"

namespace banyan {

// Runs `step` and puts the place in front of the Error that it may throw.
template <typename Step>
auto at_place(const std::string& place, Step step) {
  try {
    return step();
  } catch (const Error& error) {
    throw error.within(place);
  }
}

}  // namespace banyan
