// Shared by the writer and the reader of predictions.
#pragma once

#include <array>
#include <string_view>

#include "banyan/predict/simulation/prediction.h"

namespace banyan::predict::report {

constexpr std::string_view kPredictionFormat = "prediction/1";

// Indexed by their numbers in spans.kind.
constexpr std::array<PredictedSpan::Kind, 7> kSpanKinds = {PredictedSpan::Kind::compute,    PredictedSpan::Kind::memory,
                                                           PredictedSpan::Kind::collective, PredictedSpan::Kind::send,
                                                           PredictedSpan::Kind::receive,    PredictedSpan::Kind::wait,
                                                           PredictedSpan::Kind::host};

}  // namespace banyan::predict::report
