// Whatever fabric a reader accepts must survive being written as JSON and read again. For fuzzers; aborts if not.
#pragma once

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/fabric/json.h"

namespace banyan::testing {

inline void check_round_trip(const Fabric& fabric) {
  const std::string text = format_fabric_json(fabric);
  try {
    const Fabric again = fabric::parse_fabric_json(text, "written");
    CHECK_EQ(again.fingerprint(), fabric.fingerprint());
    CHECK_EQ(again.symmetries().size(), fabric.symmetries().size());
    CHECK_EQ(format_fabric_json(again), text);
  } catch (const Error& error) {
    CHECK(false) << "what was written is refused: " << error.what();
  }
}

}  // namespace banyan::testing
