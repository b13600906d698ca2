#include "banyan/predict/cost/collective_cost.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "banyan/base/check.h"
#include "banyan/base/error.h"
#include "banyan/base/json_reader.h"
#include "banyan/base/place.h"
#include "banyan/base/plain_text.h"
#include "banyan/predict/cost/operators.h"

namespace banyan::predict {
namespace {
using Json = nlohmann::ordered_json;

constexpr JsonForm kForm{.name = "file of collective costs", .format = "collective-cost/1", .depth = 16};
constexpr uint64_t kMaxFileBytes = 16 << 20;
constexpr double kLeastEfficiency = 1e-6, kMostEfficiency = 100;

CollectiveCost read_cost(JsonNode object) {
  object.with_keys({"collective", "ranks", "link", "as_measured", "source", "pieces"});
  CollectiveCost cost;
  cost.collective = object.at("collective").parsed([](const std::string& text) { return parse_collective_kind(text); });
  cost.ranks = static_cast<uint32_t>(object.at("ranks").whole(2, Job::kMaxRanks));
  cost.link = object.at("link").bandwidth();
  if (const auto as_measured = object.find("as_measured")) cost.as_measured = as_measured->boolean();
  if (const auto source = object.find("source")) cost.source = source->text();
  for (const JsonNode piece : object.at("pieces").items()) {
    piece.with_keys({"from", "alpha", "efficiency"});
    const CollectiveCostPiece read = {.from = piece.at("from").bytes().count(),
                                      .alpha = piece.at("alpha").duration(),
                                      .efficiency = piece.at("efficiency").number(kLeastEfficiency, kMostEfficiency)};
    if (!cost.pieces.empty() && read.from <= cost.pieces.back().from)
      throw piece.at("from").error("is not above that of the piece before");
    cost.pieces.push_back(read);
  }
  if (cost.pieces.empty()) throw object.at("pieces").error("is empty");
  return cost;
}

bool is_summing_or_gathering(CollectiveKind kind) {
  return kind == CollectiveKind::all_reduce || kind == CollectiveKind::all_gather ||
         kind == CollectiveKind::reduce_scatter;
}

}  // namespace

const CollectiveCostPiece& CollectiveCost::piece(uint64_t bytes) const {
  const auto after = std::ranges::upper_bound(pieces, bytes, {}, &CollectiveCostPiece::from);
  return after == pieces.begin() ? pieces.front() : *(after - 1);
}

double CollectiveCost::seconds(uint64_t bytes, double busiest, uint32_t n) const {
  const CollectiveCostPiece& at = piece(bytes);
  const double steps = n > 1 ? std::log2(n) / std::log2(ranks) : 0;
  return static_cast<double>(at.alpha.count()) * 1e-12 * steps + busiest / at.efficiency;
}

CollectiveCost make_collective_cost(const CollectiveCurve& curve, const CostFromCurve& options) {
  if (options.ranks < 2) throw invalid("a measured collective needs its number of ranks, 2 or more (--ranks)");
  CollectiveCost cost{.collective = options.collective,
                      .ranks = options.ranks,
                      .link = options.link,
                      .as_measured = options.link == Bandwidth(),
                      .pieces = {},
                      .source = options.source};
  const double share = busbw_factor(options.collective, options.ranks);
  if (share == 0) throw invalid("a barrier moves no bytes, so it has no curve over size");
  if (cost.as_measured) {
    const double beta = curve.pieces().back().beta;
    const double rate = beta > 0 ? share / beta : static_cast<double>(Bandwidth::kMaxBytesPerSecond);
    cost.link = Bandwidth::bytes_per_second(
        static_cast<uint64_t>(std::llround(std::clamp(rate, 1.0, static_cast<double>(Bandwidth::kMaxBytesPerSecond)))));
  }
  const double per_byte = share / static_cast<double>(cost.link.bytes_per_second());
  for (const CurvePiece& piece : curve.pieces()) {
    const double efficiency = piece.beta > 0 ? per_byte / piece.beta : kMostEfficiency;
    cost.pieces.push_back({.from = piece.from,
                           .alpha = to_picoseconds(piece.alpha),
                           .efficiency = std::clamp(efficiency, kLeastEfficiency, kMostEfficiency)});
  }
  return cost;
}

std::string format_collective_costs(std::span<const CollectiveCost> costs) {
  Json list = Json::array();
  for (const CollectiveCost& cost : costs) {
    Json pieces = Json::array();
    for (const CollectiveCostPiece& piece : cost.pieces) {
      pieces.push_back({{"from", std::to_string(piece.from) + " B"},
                        {"alpha", banyan::to_string(piece.alpha)},
                        {"efficiency", piece.efficiency}});
    }
    list.push_back({{"collective", to_string(cost.collective)},
                    {"ranks", cost.ranks},
                    {"link", cost.link.to_string()},
                    {"as_measured", cost.as_measured},
                    {"source", cost.source},
                    {"pieces", pieces}});
  }
  const Json root = {{"banyan", kForm.format}, {"collectives", list}};
  return root.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::vector<CollectiveCost> parse_collective_costs(std::string_view json) {
  const JsonDocument document(json, kForm);
  const JsonNode root = document.root().with_keys({"banyan", "note", "collectives"});
  std::vector<CollectiveCost> costs;
  for (const JsonNode entry : root.at("collectives").items()) costs.push_back(read_cost(entry));
  return costs;
}

std::vector<CollectiveCost> read_collective_costs(const std::string& path) {
  const std::string text = read_plain_text(path, kMaxFileBytes).text;
  return at_place(path, [&] { return parse_collective_costs(text); });
}

const CollectiveCost* nearest_cost(std::span<const CollectiveCost> costs, CollectiveKind collective, uint32_t ranks) {
  const CollectiveCost* best = nullptr;
  double best_distance = INFINITY;
  for (const CollectiveCost& cost : costs) {
    const bool stands_in = is_summing_or_gathering(cost.collective) && is_summing_or_gathering(collective);
    if (cost.collective != collective && !stands_in) continue;
    // Another collective's is taken only when there is none of this one.
    const double distance = std::abs(std::log2(static_cast<double>(std::max(ranks, 1u)) / cost.ranks)) +
                            (cost.collective == collective ? 0 : 1000);
    if (distance < best_distance) best = &cost, best_distance = distance;
  }
  return best;
}

}  // namespace banyan::predict
