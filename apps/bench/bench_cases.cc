#include "apps/bench/bench_cases.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "apps/lists.h"
#include "apps/option_values.h"
#include "apps/report.h"
#include "banyan/base/error.h"
#include "banyan/base/option.h"
#include "banyan/base/split_list.h"
#include "banyan/base/units.h"

namespace banyan::app {
namespace {

constexpr size_t kMaxSizes = 1000;

// Takes a list with commas. `all`, where there are any, are meant by that word.
template <typename Item, typename Parse>
OptionSyntax::Setter list_of(std::vector<Item>& items, Parse parse, std::vector<Item> all = {}) {
  return [&items, parse, all](const std::string& text) {
    items.clear();
    if (text == "all" && !all.empty()) {
      items = all;
      return;
    }
    for (const std::string& piece : split_list(text, "")) items.push_back(parse(piece));
  };
}

uint64_t bytes_of(const std::string& text) { return Bytes::parse(text).count(); }

std::vector<element::DataType> all_types() {
  std::vector<element::DataType> types;
  for (size_t i = 0; i < element::kDataTypes; ++i) types.push_back(static_cast<element::DataType>(i));
  return types;
}

const std::vector<element::ReduceOp>& all_ops() {
  using element::ReduceOp;
  static const std::vector<ReduceOp> ops = {ReduceOp::sum, ReduceOp::prod, ReduceOp::min, ReduceOp::max,
                                            ReduceOp::avg, ReduceOp::band, ReduceOp::bor, ReduceOp::bxor};
  return ops;
}

element::ReduceOp parse_op(const std::string& text) {
  const element::ReduceOp op = element::parse_reduce_op(text);
  if (op != element::ReduceOp::premul_sum) return op;
  throw Error(ErrorCode::unsupported, "premul_sum has a factor for each rank, which there is no way to give");
}

bool has_codes(BenchKind kind, element::DataType type, element::ReduceOp op) {
  const bool is_summed = op == element::ReduceOp::sum || op == element::ReduceOp::avg;
  return kind != kSendRecv && type == element::DataType::float32 && is_summed;
}

void make_list(OptionSyntax& option, std::vector<std::string> values, const char* more) {
  option.values = std::move(values);
  option.values.emplace_back(more);
  option.is_list = true;
}

}  // namespace

double parse_bench_real(const std::string& text, double least) {
  char* end = nullptr;
  const double value = std::strtod(text.c_str(), &end);
  if (text.empty() || *end != '\0' || !std::isfinite(value) || value < least) {
    throw invalid("'" + text + "' is no number of at least " + format_decimals(least, 2));
  }
  return value;
}

void BenchSizes::declare(CommandSyntax& command) {
  command.group("Sizes");
  command.option("-b,--min-bytes", into(least_, bytes_of), "SIZE", "first size (default 4)");
  command.option("-e,--max-bytes", into(most_, bytes_of), "SIZE", "last size (default 64MiB)");
  const auto parse_factor = [](const std::string& text) { return parse_bench_real(text, 1); };
  command.option("-f,--step-factor", into(factor_, parse_factor), "FACTOR", "from each size to the next (default 4)");
  const auto parse_step = [](const std::string& text) {
    const uint64_t step = bytes_of(text);
    if (step > 0) return step;
    throw invalid("is zero bytes; give a size such as 1MiB");
  };
  command.option("-i,--step-bytes", into(step_, parse_step), "SIZE", "from each size to the next, added").excludes = {
      "--step-factor"};
  command.option("--sizes", list_of(list_, bytes_of), "LIST", "these sizes instead, with commas").excludes = {
      "--min-bytes", "--max-bytes", "--step-factor", "--step-bytes"};
}

std::vector<uint64_t> BenchSizes::all() const {
  if (!list_.empty()) return list_;
  if (most_ < least_) {
    throw Error(ErrorCode::invalid_input, "is below --min-bytes, " + Bytes(least_).to_string(), "--max-bytes");
  }
  std::vector<uint64_t> sizes;
  const auto next = [&](double size) {
    return step_ ? size + static_cast<double>(*step_) : std::max(size * factor_, size + 1);
  };
  for (auto size = static_cast<double>(least_); size <= static_cast<double>(most_); size = next(size)) {
    if (sizes.size() == kMaxSizes) {
      throw Error(ErrorCode::invalid_input,
                  "these are more than " + std::to_string(kMaxSizes) + " sizes; take a larger step",
                  step_ ? "--step-bytes" : "--step-factor");
    }
    sizes.push_back(static_cast<uint64_t>(size));
  }
  return sizes;
}

void BenchCases::declare_kinds(CommandSyntax& command) {
  std::vector<std::string> names;
  for (const BenchKind kind : all_bench_kinds()) names.emplace_back(bench_traits(kind).name);
  OptionSyntax& kinds =
      command.word("COLLECTIVE", list_of(kinds_, parse_bench_kind, all_bench_kinds()),
                   "allreduce, reduce, broadcast, allgather, reduce-scatter, all-to-all, gather, scatter, sendrecv, "
                   "barrier; several with commas, or all (default allreduce)");
  make_list(kinds, names, "all");
}

void BenchCases::declare(CommandSyntax& command) {
  size_options_.declare(command);
  command.group("Cases");
  OptionSyntax& types =
      command.option("-d,--type", list_of(types_, element::parse_data_type, all_types()), "LIST",
                     "int8 to int64, uint8 to uint64, float16, bfloat16, float32, float64, or all (default float32)");
  make_list(types, element_types(), "all");
  const auto take_ops = [this](const std::string& text) {
    list_of(ops_, parse_op, all_ops())(text);
    are_all_ops_ = text == "all";
  };
  OptionSyntax& ops = command.option(
      "-o,--op", take_ops, "LIST", "sum, prod, min, max, avg; of integers also band, bor, bxor; or all (default sum)");
  make_list(ops, reductions(), "all");
  const auto parse_codec = [](const std::string& text) {
    return text == "none" ? std::nullopt : std::optional(codec::parse_codec(text));
  };
  OptionSyntax& codecs =
      command.option("--codec", list_of(codecs_, parse_codec), "LIST",
                     "codes in which float32 goes between hosts, such as int8; none for none (default none)");
  make_list(codecs, codec_names(), "none");
  command.option("-r,--root", &roots_, "LIST", "root ranks of the collectives that have one, or all (default 0)");
}

void BenchCases::check() {
  sizes_ = size_options_.all();
  if (are_all_ops_) return;
  for (const element::ReduceOp op : ops_) {
    const auto has_op = [op](element::DataType type) { return is_reducible(type, op); };
    if (std::any_of(types_.begin(), types_.end(), has_op)) continue;
    parse_option("--op", [&] { expect_reducible(types_.front(), op); });
  }
}

std::vector<uint32_t> BenchCases::roots(uint32_t ranks) const {
  std::vector<uint32_t> all, roots;
  for (uint32_t rank = 0; rank < ranks; ++rank) all.push_back(rank);
  const auto parse_rank = [&](const std::string& text) {
    return static_cast<uint32_t>(parse_count(text, "", {.least = 0, .most = ranks - 1}));
  };
  parse_option("--root", [&] { list_of(roots, parse_rank, all)(roots_); });
  return roots;
}

// Of all roots and sizes.
void BenchCases::add(BenchCase what, uint32_t ranks, std::vector<BenchCase>& all) const {
  for (const uint32_t root : bench_traits(what.kind).is_rooted ? roots(ranks) : std::vector<uint32_t>{0}) {
    for (const uint64_t size : sizes_) {
      what.root = root;
      what.count = BenchCase::count_of(what.kind, what.type, size, ranks);
      all.push_back(what);
    }
  }
}

std::vector<BenchCase> BenchCases::all(uint32_t ranks) const {
  static const std::vector<element::ReduceOp> any_op = {element::ReduceOp::sum};
  std::vector<BenchCase> all;
  for (const BenchKind kind : kinds_) {
    if (kind == CollectiveKind::barrier) {
      all.push_back({.kind = kind});
      continue;
    }
    for (const element::DataType type : types_) {
      for (const element::ReduceOp op : bench_traits(kind).reduces ? ops_ : any_op) {
        if (!is_reducible(type, op)) continue;
        for (const std::optional<codec::Codec>& codec : codecs_) {
          if (codec && !has_codes(kind, type, op)) continue;
          add({.kind = kind, .type = type, .codec = codec, .op = op}, ranks, all);
        }
      }
    }
  }
  return all;
}

}  // namespace banyan::app
