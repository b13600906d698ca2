// The code, if any, in which float32 should travel in a collective: every code asked about is simulated with the plan
// that is quickest for its bytes.
//
// The rule of `auto` is that of predict/codes/code_rule.h.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/answer/timed_plan.h"
#include "banyan/predict/codes/codec_cost.h"

namespace banyan::answer {

// The codecs that are asked for: --codec none, int8, none,int8,int4 or auto.
struct CodecWish {
  enum class Choice { by_name, quickest, by_rule };

  std::vector<std::optional<codec::Codec>> codecs = {};  // at least one; nothing: float32 itself
  Choice choice = Choice::by_name;                       // by name: the last; the others stand beside it

  bool is_dense() const { return codecs.size() == 1 && !codecs.front(); }
};
// One name is that code with float32 beside it; several, the quickest of them. Throws Error{invalid_input} that lists
// the names.
CodecWish parse_codec_wish(std::string_view text);
// The same choice among all codecs that round to nearest, and none.
CodecWish beside_all(const CodecWish& wish);

// The speed of the ranks' cores.
struct CodecCores {
  std::optional<predict::CodecSpeed> speed = {};  // of one; nothing: as measured here
  uint32_t ranks_per_core = 1;                    // which share it, so that each has a part of its speed; at least 1
};
predict::CodecCost codec_cost(const codec::Codec& codec, const CodecCores& cores);

// Throws Error{unsupported} for an all-to-all, whose blocks are sent as they are.
void expect_codes(CollectiveKind kind);

struct CodecRow {
  std::optional<codec::Codec> codec = {};
  Bytes on_wire{0};      // of the buffer
  double loss = 0;       // of a value (codec_cost.h)
  size_t candidate = 0;  // the plan that is quickest for these bytes
  std::string planner = {};
  TimedPlan timed = {};
  std::vector<TimedCandidate> ranking = {};  // of all plans

  // The part of the time in which the busiest rank encodes and decodes, from 0 to 1.
  double core_share() const;
  // True if the core, not the links, decides the time: another share of the core changes it, a quicker link does not.
  bool is_bound_by_core() const { return core_share() >= kCoreBound; }
  static constexpr double kCoreBound = 0.8;
};

struct CodecChoice {
  std::vector<CodecRow> rows = {};  // in the order in which they were asked for
  size_t best = 0;
  std::string why = {};  // in words

  const CodecRow& chosen() const { return rows[best]; }
};

// Chooses the code for `total` bytes of float32; options.codec is not used. Throws what rank_by_simulation and
// expect_codes throw.
CodecChoice choose_codec(std::span<const plan::Candidate> candidates, Bytes total, const CodecWish& wish,
                         const CodecCores& cores, const TimingOptions& options);

// The rule alone, of rows of which all are timed.
size_t best_codec(std::span<const CodecRow> rows, CodecWish::Choice choice, std::string& why);

}  // namespace banyan::answer
