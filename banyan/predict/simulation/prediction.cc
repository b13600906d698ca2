#include "banyan/predict/simulation/prediction.h"

#include "banyan/base/check.h"

namespace banyan::predict {

std::string_view to_string(PredictedSpan::Kind kind) {
  switch (kind) {
    case PredictedSpan::Kind::compute:
      return "compute";
    case PredictedSpan::Kind::memory:
      return "memory";
    case PredictedSpan::Kind::collective:
      return "collective";
    case PredictedSpan::Kind::send:
      return "send";
    case PredictedSpan::Kind::receive:
      return "receive";
    case PredictedSpan::Kind::wait:
      return "wait";
    case PredictedSpan::Kind::host:
      return "host";
  }
  CHECK(false) << static_cast<int>(kind);
  return "";
}

}  // namespace banyan::predict
