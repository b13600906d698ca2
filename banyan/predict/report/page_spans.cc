#include "banyan/predict/report/page_spans.h"

#include <algorithm>
#include <bit>
#include <map>
#include <tuple>
#include <utility>

#include "banyan/base/text.h"

namespace banyan::predict::report {
namespace {

// 0, n/2, n/4, 3n/4, n/8, ...: any beginning of it is evenly spread. Every number below `count` once.
std::vector<uint32_t> spread(uint32_t count) {
  std::vector<uint32_t> order;
  const uint32_t bits = std::bit_width(std::bit_ceil(std::max(count, 1u))) - 1;
  for (uint32_t i = 0; i < (1u << bits); ++i) {
    uint32_t reversed = 0;
    for (uint32_t bit = 0; bit < bits; ++bit) reversed |= (i >> bit & 1) << (bits - 1 - bit);
    if (reversed < count) order.push_back(reversed);
  }
  return order;
}

std::vector<bool> choose_ranks(const Prediction& prediction, size_t most) {
  const auto count = static_cast<uint32_t>(prediction.ranks.size());
  std::vector<size_t> spans_of(count);
  for (const PredictedSpan& span : prediction.spans) ++spans_of[span.rank];
  std::vector<uint32_t> order = spread(count);
  const auto idle = [&](uint32_t rank) { return prediction.ranks[rank].waiting + prediction.ranks[rank].bubble; };
  const uint32_t straggler = *std::ranges::min_element(order, {}, [&](uint32_t a) { return std::tuple(idle(a), a); });
  order.insert(order.begin() + 1, straggler);
  std::vector<bool> chosen(count);
  size_t total = 0;
  for (const uint32_t rank : order) {
    if (chosen[rank] || total + spans_of[rank] > most) continue;
    chosen[rank] = true;
    total += spans_of[rank];
  }
  return chosen;
}

}  // namespace

PageSpans choose_spans(const Prediction& prediction, size_t most) {
  PageSpans page;
  const auto& spans = prediction.spans;
  if (spans.empty()) return page;
  std::vector<bool> chosen(prediction.ranks.size(), true);
  Picoseconds least{0};  // shorter spans are left out
  if (spans.size() > most) chosen = choose_ranks(prediction, most);
  const auto has_spans = [&] {
    return std::ranges::any_of(spans, [&](const PredictedSpan& span) { return chosen[span.rank]; });
  };
  if (!has_spans()) {
    const uint32_t only = spans.front().rank;
    chosen.assign(chosen.size(), false);
    chosen[only] = true;
    std::vector<Picoseconds> lengths;
    for (const PredictedSpan& span : spans) {
      if (span.rank == only) lengths.push_back(span.end - span.begin);
    }
    // Of equally long ones at the limit none is kept, so that there are never more than `most`.
    std::nth_element(lengths.begin(), lengths.begin() + static_cast<ptrdiff_t>(most), lengths.end(), std::greater<>());
    least = lengths[most] + Picoseconds(1);
  }
  std::map<std::pair<uint32_t, uint32_t>, std::vector<uint32_t>> tracks;
  size_t kept = 0;
  for (uint32_t i = 0; i < spans.size(); ++i) {
    const PredictedSpan& span = spans[i];
    if (!chosen[span.rank] || span.end - span.begin < least) continue;
    tracks[{span.rank, span.stream}].push_back(i);
    ++kept;
  }
  for (auto& [place, list] : tracks) {
    page.tracks.push_back({.rank = place.first, .stream = place.second, .spans = std::move(list)});
  }
  if (kept == spans.size()) return page;
  const auto ranks = static_cast<size_t>(std::ranges::count(chosen, true));
  page.note = "The timeline holds " + with_thousands(kept) + " of " + with_thousands(spans.size()) + " spans: ";
  if (least.count() > 0) {
    page.note +=
        "those of at least " + banyan::to_string(least) + " of " + prediction.ranks[spans.front().rank].name + ". ";
  } else {
    page.note += "all those of " + with_thousands(ranks) + " of " + plural(chosen.size(), "rank") + ", evenly spread. ";
  }
  page.note += "A Chrome trace holds all of them.";
  return page;
}

}  // namespace banyan::predict::report
