// Predicts the time of a training step with its gradients in codes, from measured steps without any.
//
// A measured step says when each bucket was there, for how long its allreduce was under way, and when the next step
// began. From this a model of bucket_walk.h is fitted: an allreduce takes `latency` seconds and so many for a byte on
// the wire. A code sends fewer bytes (its bytes law) and takes seconds of a core for each byte of float32. The backward
// pass is late by these seconds, as on a machine whose cores all compute: with a core to spare a code gains more than
// this says. All else in a step, such as the forward pass and the optimizer, stays as it was measured: so the model's
// time without a code is the measured one, and only differences are predicted.
//
// If ranks stand in boxes of equal size, a code may be used between boxes alone: a bucket is summed in the box, each
// rank averages its share of it between boxes, and the shares are gathered in the box. The time of these calls is
// measured apart, since no step without a code has them. In the box they take links of their own, so that a bucket may
// be in the box while another is between boxes.
//
// Candidates are no code, each code for all buckets, the same between boxes, and the best of them only for those
// buckets where it gains (option_choice.h), since what is hidden behind the backward pass need not lose anything. The
// rule of code_rule.h chooses among them; codes for some buckets only where that is clearly quicker than for all.
//
// Pure. Seconds and bytes of float32. O(codes * buckets log buckets), and what choose_options() takes.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "banyan/predict/codes/code_rule.h"

namespace banyan::predict {

// In the order in which the buckets were there. Medians of several steps, agreed on by all ranks: of a bucket's time
// under way that of the rank which came last, since the others wait for it.
struct MeasuredStep {
  struct Bucket {
    double bytes = 0;
    double begin = 0;    // since the first bucket of the step
    double seconds = 0;  // for which its allreduce was under way, and none of an earlier bucket
  };
  std::vector<Bucket> buckets;  // at least one
  double period = 0;            // from one step to the next
  double latency = 0;           // of an allreduce of nearly no bytes

  // A call of a level: so many seconds, and so many for a byte.
  struct Level {
    double latency = 0, per_byte = 0;
  };
  struct Boxes {
    uint32_t ranks = 0;  // of each box
    Level inside;        // of a sum in a box of a bucket's bytes, and of its gathering
    Level across;        // of an average between boxes of a share's bytes, by all shares at once
  };
  std::optional<Boxes> boxes = {};
};

struct CodeLaw {
  std::string name;
  double share = 1;               // bytes on the wire for one of float32
  double work = 0;                // seconds of the rank for a byte of float32
  double work_between_boxes = 0;  // the same for a byte of its share
  double loss = 0;                // of a value
};

struct StepCandidate {
  std::string name;                  // "none", "int8", "int8 between boxes", "int8 where it gains"
  std::vector<uint32_t> codes = {};  // by bucket: 0 for none, else 1 + the code's number
  bool is_between_boxes = false;     // the codes are
  double seconds = 0, loss = 0;      // of a step; of a value
};

struct StepChoice {
  std::vector<StepCandidate> candidates;  // the first without a code
  size_t best = 0;

  const StepCandidate& chosen() const { return candidates[best]; }
};

StepChoice choose_codes(const MeasuredStep& step, std::span<const CodeLaw> codes, const CodeRule& rule = {});

// Seconds on the wire for a byte, fitted to the step; 0 where all was latency.
double seconds_per_byte(const MeasuredStep& step);

}  // namespace banyan::predict
