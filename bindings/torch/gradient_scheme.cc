#include "bindings/torch/gradient_scheme.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/nearest.h"
#include "bindings/torch/auto_scheme.h"
#include "bindings/torch/boxed_scheme.h"
#include "bindings/torch/coded_scheme.h"
#include "bindings/torch/powersgd.h"
#include "bindings/torch/topk.h"

namespace banyan::pytorch {
namespace {

// Schemes of a family, by how their names begin. One more is one more line.
struct Parser {
  std::string_view begins_with, form;
  std::shared_ptr<GradientScheme> (*parse)(const std::string&, SchemeOptions&, const GradientScheme::Context&);
};
constexpr std::array kParsers = {
    Parser{.begins_with = "auto", .form = "auto", .parse = &AutoScheme::parse},
    Parser{.begins_with = "powersgd:", .form = "powersgd:RANK", .parse = &PowerSgd::parse},
    Parser{.begins_with = "topk", .form = "topk:PERCENT%", .parse = &TopK::parse},
};

std::shared_ptr<CodedScheme> coded(const std::string& name, const GradientScheme::Context& context) {
  try {
    return CodedScheme::parse(name, context);
  } catch (const Error& error) {
    std::string words = error.what();
    for (const Parser& parser : kParsers) words += ", " + std::string(parser.form);
    throw Error(error.code(), words + ", or none");
  }
}

std::shared_ptr<GradientScheme> coded_or_boxed(const std::string& name, SchemeOptions& options,
                                               const GradientScheme::Context& context) {
  std::shared_ptr<CodedScheme> everywhere = coded(name, context);
  if (!everywhere->codec()) return everywhere;
  const std::optional<uint64_t> box_ranks = options.take_count(kBoxRanks);
  if (!box_ranks) return everywhere;
  options.expect_empty(name);
  Boxes::expect_possible(*box_ranks, context.group->getSize());
  if (context.group->is_on_one_host()) return everywhere;  // where nothing is coded
  return std::make_shared<BoxedScheme>(*everywhere->codec(), std::make_shared<Boxes>(context.group, *box_ranks),
                                       context);
}

}  // namespace

double SchemeOptions::take(const std::string& name, double otherwise) {
  known_.push_back(name);
  const auto found = given_.find(name);
  if (found == given_.end()) return otherwise;
  const double value = found->second;
  given_.erase(found);
  return value;
}

uint64_t SchemeOptions::take_count(const std::string& name, uint64_t otherwise) {
  return take_count(name).value_or(otherwise);
}

std::optional<uint64_t> SchemeOptions::take_count(const std::string& name) {
  known_.push_back(name);
  if (!given_.contains(name)) return {};
  const double value = take(name, 0);
  if (!(value >= 0 && value <= 0x1p53 && std::floor(value) == value)) {
    throw Error(ErrorCode::invalid_input, name + " is to be a whole number of 0 or more");
  }
  return static_cast<uint64_t>(value);
}

void SchemeOptions::expect_empty(const std::string& scheme) const {
  if (given_.empty()) return;
  NearestName nearest(given_.begin()->first);
  for (const std::string& name : known_) nearest.offer(name);
  throw Error(ErrorCode::invalid_input, scheme + " has no option '" + given_.begin()->first + "'" + nearest.hint());
}

void GradientScheme::set_state(const State& state) {
  if (state.empty()) return;
  throw Error(ErrorCode::invalid_input, name() + " keeps no '" + state.begin()->first + "'");
}

std::shared_ptr<GradientScheme> make_scheme(const std::string& name, SchemeOptions options,
                                            const GradientScheme::Context& context) {
  const auto found = std::find_if(kParsers.begin(), kParsers.end(),
                                  [&](const Parser& parser) { return name.starts_with(parser.begins_with); });
  const std::shared_ptr<GradientScheme> scheme =
      found == kParsers.end() ? coded_or_boxed(name, options, context) : found->parse(name, options, context);
  options.expect_empty(scheme->name());
  return scheme;
}

}  // namespace banyan::pytorch
