#include "banyan/predict/simulation/prediction.h"

#include <array>

#include "banyan/base/check.h"

namespace banyan::predict {
namespace {

constexpr std::array<std::string_view, 7> kKinds = {"compute", "memory", "collective", "send",
                                                    "receive", "wait",   "host"};

}  // namespace

std::string_view to_string(PredictedSpan::Kind kind) {
  CHECK(static_cast<size_t>(kind) < kKinds.size()) << static_cast<int>(kind);
  return kKinds[static_cast<size_t>(kind)];
}

}  // namespace banyan::predict
