// AutoScheme: gradients in the code that auto_choice.h finds, or in none: "auto".
//
// Each bucket goes as the first of its parameters does. The losses of a code that is given up go along with the next
// gradients, so that nothing is lost. The choice is part of the state: training that goes on from a saved state
// measures nothing and keeps its codes, since others would give other losses. Rank 0 prints what was predicted and
// measured to standard error when it is decided.
//
// Options: steps (8), measured at once; trials (3) of codes, at most; measurements (3) of each that is close, at most;
// box_ranks, by default as the hosts show, 0 for none; most_loss (0.03) of a value, and least_gain (0.03), of the rule
// (predict/codes/code_rule.h); quiet (0), 1 prints nothing.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bindings/torch/auto_choice.h"
#include "bindings/torch/gradient_scheme.h"

namespace banyan::pytorch {

class AutoScheme : public GradientScheme, public std::enable_shared_from_this<AutoScheme> {
 public:
  struct Settings {
    AutoChoice::Settings choice = {};
    bool is_quiet = false;
  };

  // Throws Error{invalid_input} for options.
  static std::shared_ptr<GradientScheme> parse(const std::string& name, SchemeOptions& options, const Context& context);
  AutoScheme(const Settings& settings, const Context& context);

  std::string name() const override { return "auto"; }
  bool keeps_residuals() const override { return context_.keeps_residuals; }
  TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) override;
  // Once it is decided, "codes" of the parameters, with their boxes.
  State state() override;
  void set_state(const State& state) override;
  std::string report() override { return choice_.report(); }

 private:
  // The code of a bucket: 0 for none, or else 1 + the ValueCode; and the ranks of a box if the code is for traffic
  // between boxes only.
  struct Way {
    uint8_t code = 0;
    uint32_t box_ranks = 0;
    auto operator<=>(const Way&) const = default;
  };
  // As a state has it: code + 256 box_ranks. `name`, of a parameter, is for the words of Error{invalid_input}.
  static int64_t number_of(const Way& way) { return way.code + kOfBoxes * int64_t{way.box_ranks}; }
  Way way_of(const at::Tensor& number, const std::string& name) const;
  static constexpr int64_t kOfBoxes = 256;

  // Before the first bucket of a step, in the thread of the backward pass.
  void begin_step();
  // Once, when it is decided: prints the report, and drops schemes and boxes that were tried and are not used.
  void end_once_decided();
  // Collective the first time where it is between boxes.
  GradientScheme& scheme_of(const Way& way);
  // Without a code, and with what is kept: nothing is kept afterwards, but where the result is not finite.
  TensorFuture average_with_residual(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);

  const Settings settings_;
  const Context context_;
  AutoChoice choice_;
  std::map<Way, std::shared_ptr<GradientScheme>> schemes_;
  std::vector<Way> ways_;                     // by parameter
  std::vector<std::vector<size_t>> buckets_;  // of the step under way: their parameters
  std::set<size_t> seen_;                     // all of these
  bool may_keep_ = false;                     // something of buckets that go without a code
  bool has_ended_ = false;
};

}  // namespace banyan::pytorch
