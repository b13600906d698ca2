// AutoChoice: whether the gradients of a training go in a code, and in which, found out while it goes on.
//
//   1. Some steps without a code are measured: when each bucket is there, how long its allreduce takes.
//   2. The time of a step with each code is predicted from that (predict/codes/measured_step.h), from the times of the
//      code's kernels on these cores, and from the time of a call of nearly no bytes. All ranks agree on these numbers
//      first, so that all find the same. The rule of predict/codes/code_rule.h chooses.
//   3. The chosen code is measured for as many steps. Others may be, too: the best of the other level, and codes that
//      were predicted to be quicker than these steps were. Codes close to the best are measured again, and so are steps
//      without a code (predict/codes/code_trials.h). From then on gradients go in the best of all that were measured,
//      or without a code.
//
// If the ranks form boxes, as the user says or the hosts show, each code may be for traffic between boxes alone
// (boxes.h). The time of that is measured together with the codes' kernels.
//
// Then nothing changes any more. Between ranks of one host nothing is ever coded, and nothing measured.
//
// Ends of buckets may come from any thread; all else from that of the backward pass.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "banyan/predict/codes/code_trials.h"
#include "banyan/predict/codes/measured_step.h"
#include "banyan/predict/codes/step_meter.h"
#include "bindings/torch/boxes.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

class AutoChoice {
 public:
  struct Codes {
    std::vector<std::optional<codec::Codec>> of_buckets;  // in the order of a step
    uint32_t box_ranks = 0;                               // where they are for what goes between boxes only
  };
  struct Settings {
    uint64_t steps = 8;                       // that are measured, of each kind; at least 1
    predict::CodeTrials::Limits trials = {};  // all at least 1
    predict::CodeRule rule = {};
    // Ranks of a box; 0: there are none. If it is not given they are those of the hosts, where each has so many ranks,
    // one after the other.
    std::optional<uint64_t> box_ranks = {};
  };
  AutoChoice(const Settings& settings, const c10::intrusive_ptr<ProcessGroupBanyan>& group);

  // Before the first bucket of a step. Collective in the step that chooses and in the step after each measurement of a
  // code. The choice takes as long as a measurement of the codes' kernels (some tenths of a second, and 200 MiB for so
  // long), a few small calls, and with boxes three exchanges of the largest bucket; a measurement takes one small call.
  // The codes that it returns hold from this step on. Throws what calls of the group throw.
  std::optional<Codes> begin_step();
  // A bucket of the step that has begun; the number that begin_bucket() returns is for end_bucket().
  size_t begin_bucket(size_t bytes);
  void end_bucket(uint64_t step, size_t bucket);
  uint64_t step() const { return step_; }

  bool is_over() const { return phase_ == Phase::over; }
  // It was decided before; `why` in words.
  void settle(const std::string& why);
  // Boxes of so many ranks; collective when these are others than before. Throws Error{invalid_input} for boxes that
  // cannot be.
  const std::shared_ptr<Boxes>& boxes_of(uint64_t box_ranks);
  // Their groups end once nobody else has them.
  void drop_boxes() { boxes_.reset(); }
  // A table of what was predicted and measured so far, in lines.
  std::string report() const;

 private:
  enum class Phase { settling, without, beginning, with, over };

  std::optional<Codes> choose();
  Codes judge();
  uint64_t agreed_box_ranks();
  void measure_codes(uint64_t box_ranks);
  void measure_boxes(uint64_t box_ranks);
  predict::MeasuredStep agreed_medians();
  double agreed_latency();
  std::vector<double> largest_of_all(const std::vector<double>& own);
  Codes codes_of(const predict::StepCandidate& candidate) const;

  const Settings settings_;
  const c10::intrusive_ptr<ProcessGroupBanyan> group_;
  uint64_t steps_in_phase_ = 0;
  std::mutex mutex_;  // protects the next three; only the thread of the backward pass changes the first two
  Phase phase_ = Phase::settling;
  uint64_t step_ = 0;
  predict::StepMeter meter_;
  std::shared_ptr<Boxes> boxes_;      // null until there are any
  std::vector<codec::Codec> codecs_;  // those of laws_
  std::vector<predict::CodeLaw> laws_;
  predict::MeasuredStep without_;
  predict::StepChoice choice_;
  std::optional<predict::CodeTrials> trials_;  // once it is predicted
  std::string why_;
};

}  // namespace banyan::pytorch
