// The rule by which a code is chosen: that of `plan --codec auto` and of `banyan_torch.compress(ddp, "auto")`. `predict
// train --compress auto`, whose candidates differ in their buckets, too, has its limits, and an order of its own
// (answer/step_compression.h).
//
// Codes that lose more than 3 % of a value by one rounding (int4, mxfp4, sign) train well only with care and are taken
// when they are asked for by name. Among the others the quickest counts; within 3 % of it, the one that loses least. It
// must be at least 3 % quicker than float32 itself, or there is no code: a smaller gain is not worth what is lost, and
// no prediction is that exact.
//
// Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

namespace banyan::predict {

constexpr double kMostLossOfAuto = 0.03, kLeastGainOfCode = 0.03;

struct CodeRule {
  double most_loss = kMostLossOfAuto;    // of a value (predict/codes/codec_cost.h)
  double least_gain = kLeastGainOfCode;  // over no code, as a share of its time
};

// One way, with what it takes in all and loses of a value.
struct TimedCode {
  double seconds = 0, loss = 0;
  bool is_coded = false;  // else it is the one without any code
};

struct RuledCode {
  size_t best = 0;                      // of the ways
  std::optional<size_t> quickest = {};  // of the codes that lose little enough; none where all lose more
};
// At least one way, of which one is without a code.
RuledCode best_by_rule(std::span<const TimedCode> ways, const CodeRule& rule = {});

}  // namespace banyan::predict
