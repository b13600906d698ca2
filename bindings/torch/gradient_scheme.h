// GradientScheme: one way to average the gradients of a bucket over a group in fewer bytes.
//
// The work that all ways share is done around it (compression.h): DDP's hook, buckets of other types, saving and
// scaling of the residuals. A scheme begins the average of a bucket, ends it when its last call is over, and keeps by
// parameter what it needs beside residuals. A new one is a class of its own and a line in gradient_scheme.cc.
//
// The law of every scheme: over all ranks, gradients plus residuals before equal the sums that come out plus the
// residuals after. Values that are not finite come out as NaN on all ranks and leave the residuals and the scheme's
// state as they were.
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "banyan/codec/codec.h"
#include "bindings/torch/futures.h"
#include "bindings/torch/parameter_residuals.h"
#include "bindings/torch/process_group.h"

namespace banyan::pytorch {

// The option of codes that are for what goes between boxes of so many ranks (boxes.h).
inline constexpr const char* kBoxRanks = "box_ranks";

// Numbers that the user gives by name. Each is taken once; what is left is unknown.
class SchemeOptions {
 public:
  explicit SchemeOptions(std::map<std::string, double> given) : given_(std::move(given)) {}

  double take(const std::string& name, double otherwise);
  // The same of a whole number that is not negative. Throws Error{invalid_input}.
  uint64_t take_count(const std::string& name, uint64_t otherwise);
  std::optional<uint64_t> take_count(const std::string& name);  // none where it is not given
  // Throws Error{invalid_input} that names an option which nobody has taken, and the nearest that somebody asked for.
  void expect_empty(const std::string& scheme) const;

 private:
  std::map<std::string, double> given_;
  std::vector<std::string> known_;  // that were asked for
};

class GradientScheme {
 public:
  struct Context {
    c10::intrusive_ptr<ProcessGroupBanyan> group;
    std::shared_ptr<ParameterResiduals> residuals;  // of all parameters; shared with who saves and scales them
    bool keeps_residuals = true;                    // else what is lost is forgotten
  };
  // The state kept beside residuals, indexed by kind, then by the parameter's name.
  using State = std::map<std::string, std::map<std::string, at::Tensor>>;

  virtual ~GradientScheme() = default;

  // "int8", "powersgd:4": as parse and print agree on it.
  virtual std::string name() const = 0;
  virtual bool keeps_residuals() const = 0;

  // Collective: starts the average of a contiguous float32 buffer, the gradients of these parameters one after the
  // other, and returns. The future's value is `buffer`, averaged in place. Calls come in the same order on all ranks,
  // in the thread of the backward pass; a bucket whose average is under way does not come again. Whatever goes on
  // later runs in the thread that ends a call, without Python. Throws Error, c10::Error for arguments.
  virtual TensorFuture average(const at::Tensor& buffer, const std::vector<at::Tensor>& parameters) = 0;

  // The code of sparse gradients, which go by rows and not by average(); none: as they are.
  virtual std::optional<codec::Codec> codec_of_sparse() const { return {}; }

  // Between averages. Copies; set_state checks all before it changes anything, and forgets what is left out. Throws
  // Error{invalid_input} for kinds, names and shapes that are not of this scheme and model.
  virtual State state() { return {}; }
  virtual void set_state(const State& state);
  // Scales the state that is kept in gradient units; between averages.
  virtual void scale(double /*factor*/) {}
  // The scheme's own findings, for people, in lines; empty for schemes that make none.
  virtual std::string report() { return {}; }
};

// The scheme of a name such as "int8", or "none". Throws Error{invalid_input} that lists the names, or says which
// option is wrong. Collective where the scheme needs calls of its own beside the group's.
std::shared_ptr<GradientScheme> make_scheme(const std::string& name, SchemeOptions options,
                                            const GradientScheme::Context& context);

}  // namespace banyan::pytorch
