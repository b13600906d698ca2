// AutoScheme: gradients in the code that auto_choice.h finds, or in none: "auto".
//
// Each bucket goes as the first of its parameters does. Where a code is given up, what it has lost until then goes
// along with the next gradients, so that nothing is lost. What was chosen is part of the state: who goes on from a
// saved state measures nothing and sends what was sent before, since other codes would give other losses. Rank 0
// prints what was predicted and measured to standard error when it is decided.
//
// Options: steps (8), measured of each kind; most_loss (0.03) of a value, and least_gain (0.03), of the rule
// (predict/compress/code_rule.h); quiet (0), 1 prints nothing.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "bindings/torch/auto_choice.h"
#include "bindings/torch/coded_scheme.h"
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
  // Once it is decided, "codes" of the parameters.
  State state() override;
  void set_state(const State& state) override;
  std::string report() override { return choice_.report(); }

 private:
  using Code = uint8_t;  // 0 for none, else 1 + the ValueCode

  // Before the first bucket of a step, in the thread of the backward pass.
  void begin_step();
  void print_once_decided();
  CodedScheme& scheme_of(Code code);
  // Without a code, and with what is kept: nothing is kept afterwards, but where the result is not finite.
  TensorFuture average_with_residual(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters);

  const Settings settings_;
  const Context context_;
  AutoChoice choice_;
  std::map<Code, std::shared_ptr<CodedScheme>> schemes_;
  std::vector<Code> codes_;                   // by parameter
  std::vector<std::vector<size_t>> buckets_;  // of the step under way: their parameters
  std::set<size_t> seen_;                     // all of these
  bool may_keep_ = false;                     // something of buckets that go without a code
  bool is_told_ = false;
};

}  // namespace banyan::pytorch
