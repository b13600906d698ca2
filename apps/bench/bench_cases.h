// The cases that `banyan bench` measures: collectives, sizes, types, operations, codes and roots, from its options.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/bench/bench_measure.h"
#include "apps/syntax.h"

namespace banyan::app {

// The sizes of each collective, in bytes: a list, or steps from a first size to a last one.
class BenchSizes {
 public:
  void declare(CommandSyntax& command);
  // Throws Error{invalid_input} when the last size is below the first, or when there are more than 1000.
  std::vector<uint64_t> all() const;

 private:
  std::vector<uint64_t> list_;  // instead of steps
  uint64_t least_ = 4, most_ = 64 << 20;
  std::optional<uint64_t> step_;  // added; nothing: multiplied by the factor
  double factor_ = 4;
};

class BenchCases {
 public:
  // The collectives, their sizes, and all else that makes a case. This object must outlive the command.
  void declare_kinds(CommandSyntax& command);
  void declare(CommandSyntax& command);
  // Throws Error{invalid_input} when a named operation fits none of the types, and what BenchSizes::all() throws.
  void check();

  const std::vector<BenchKind>& kinds() const { return kinds_; }
  // For so many ranks. Pairs of type and operation that do not exist are left out, and so are codes where a call has
  // none. Throws Error{invalid_input} when a root is none of the ranks.
  std::vector<BenchCase> all(uint32_t ranks) const;

 private:
  std::vector<uint32_t> roots(uint32_t ranks) const;
  void add(BenchCase what, uint32_t ranks, std::vector<BenchCase>& all) const;

  BenchSizes size_options_;
  std::vector<uint64_t> sizes_;
  std::vector<BenchKind> kinds_ = {CollectiveKind::all_reduce};
  std::vector<element::DataType> types_ = {element::DataType::float32};
  std::vector<element::ReduceOp> ops_ = {element::ReduceOp::sum};
  bool are_all_ops_ = false;  // asked for by one word, so that not all need a type
  std::vector<std::optional<codec::Codec>> codecs_ = {std::nullopt};
  std::string roots_ = "0";  // a list, or all: read when the number of ranks is known
};

// A number of at least `least`; whoever asks says of which option.
double parse_bench_real(const std::string& text, double least);

}  // namespace banyan::app
