#include "banyan/job/kineto/align.h"

#include <algorithm>
#include <compare>
#include <numeric>
#include <optional>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::job::kineto {
namespace {

constexpr int64_t kMostApart = 1'000'000'000;      // ns; what is further apart is as bad
constexpr int64_t kMostCells = 300'000'000;        // of the first band, in bytes
constexpr int64_t kMostWidenedCells = 20'000'000;  // of a wider one: 0.2 s

enum class Step : int8_t { none, both, merged_alone, member_alone };

struct Cost {
  int64_t left_over = 0;
  int64_t apart = 0;  // ns
  friend auto operator<=>(const Cost&, const Cost&) = default;
};
constexpr Cost kImpossible{INT64_MAX, 0};

struct Alignment {
  Cost cost;
  std::vector<Step> steps;  // from the front
};

class Merger {
 public:
  Merger(const MessageChannel& channel, const std::vector<RankDraft>& drafts, RankClocks& clocks)
      : channel_(channel), drafts_(drafts), clocks_(clocks) {}

  std::vector<MergedCall> merge() && {
    std::vector<uint32_t> order(channel_.members.size());
    std::iota(order.begin(), order.end(), 0);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return items(a).size() > items(b).size(); });
    reference_ = order.front();
    for (uint32_t i = 0; i < items(reference_).size(); ++i) merged_.push_back(only_on(reference_, i));
    for (const uint32_t m : std::vector<uint32_t>(order.begin() + 1, order.end())) add(m);
    refuse_unlikely();
    return std::move(merged_);
  }

 private:
  const std::vector<ChannelItem>& items(uint32_t m) const { return channel_.members[m].items; }
  const RankDraft& draft(uint32_t m) const { return drafts_[channel_.members[m].draft]; }
  CallSignature signature(uint32_t m, uint32_t i) const { return signature_of(draft(m).calls[items(m)[i].call]); }

  MergedCall only_on(uint32_t m, uint32_t i) const {
    const int64_t offset = clocks_.offset(channel_.members[m].draft);
    MergedCall out{.what = signature(m, i),
                   .start = items(m)[i].start - offset,
                   .end = items(m)[i].end - offset,
                   .item_of = std::vector<uint32_t>(channel_.members.size(), kNoIndex),
                   .seen = 1};
    out.item_of[m] = i;
    return out;
  }

  // The cheapest path from (0, 0) to (n, m) that stays within a band around the diagonal. `shift` is taken off the
  // member's times.
  //
  // Dynamic programming, row by row: the best way to (i, j) comes from one of its three neighbours (both have the call,
  // only the merged sequence, only the member). Column j - i + band of a row holds it, so the neighbour above is one
  // column to the right. The steps are kept, and followed back from the end.
  Alignment within(int64_t band, uint32_t member, int64_t shift) const {
    const std::vector<ChannelItem>& own = items(member);
    const auto n = static_cast<int64_t>(merged_.size()), m = static_cast<int64_t>(own.size());
    const int64_t width = 2 * band + 1;
    std::vector<CallSignature> what;
    for (uint32_t j = 0; j < own.size(); ++j) what.push_back(signature(member, j));
    std::vector<Cost> above(static_cast<size_t>(width), kImpossible), here(above);
    std::vector<Step> steps(static_cast<size_t>((n + 1) * width), Step::none);
    for (int64_t i = 0; i <= n; ++i) {
      std::fill(here.begin(), here.end(), kImpossible);
      for (int64_t j = std::max<int64_t>(0, i - band); j <= std::min(m, i + band); ++j) {
        const auto at = static_cast<size_t>(j - i + band);
        Cost best = i == 0 && j == 0 ? Cost{} : kImpossible;
        Step step = Step::none;
        const auto offer = [&](Cost before, int64_t left_over, int64_t apart, Step how) {
          if (before == kImpossible) return;
          const Cost cost{before.left_over + left_over, before.apart + apart};
          if (cost >= best) return;
          best = cost;
          step = how;
        };
        if (i > 0 && j > 0) {
          const MergedCall& call = merged_[static_cast<size_t>(i - 1)];
          const auto mine = static_cast<size_t>(j - 1);
          if (call.what.fits(what[mine])) {
            offer(above[at], 0, std::min(std::abs(call.end - (own[mine].end - shift)), kMostApart), Step::both);
          }
        }
        if (i > 0 && j - i < band) offer(above[at + 1], 1, 0, Step::merged_alone);
        if (j > 0 && at > 0) offer(here[at - 1], 1, 0, Step::member_alone);
        here[at] = best;
        steps[static_cast<size_t>(i * width) + at] = step;
      }
      std::swap(above, here);
    }
    Alignment out{.cost = above[static_cast<size_t>(m - n + band)], .steps = {}};
    for (int64_t i = n, j = m; i > 0 || j > 0;) {
      const Step step = steps[static_cast<size_t>(i * width + (j - i + band))];
      CHECK(step != Step::none) << i << " " << j;
      out.steps.push_back(step);
      if (step != Step::member_alone) --i;
      if (step != Step::merged_alone) --j;
    }
    std::reverse(out.steps.begin(), out.steps.end());
    return out;
  }

  // The cheapest of all: a path that leaves a band has more left-overs than the band is wide, so a path within it that
  // has no more is the best there is. Else the band is doubled, as long as that is affordable.
  Alignment cheapest(uint32_t member, int64_t shift) const {
    const auto n = static_cast<int64_t>(merged_.size()), m = static_cast<int64_t>(items(member).size());
    int64_t band = std::abs(n - m) + 16;
    if (n >= kMostCells / (2 * band + 1)) {
      throw Error(ErrorCode::unsupported,
                  channel_.name + ": the traces of " + draft(member).source + " and others have " + std::to_string(m) +
                      " and " + std::to_string(n) +
                      " calls, which is too different to be aligned; give traces of the same steps");
    }
    Alignment out = within(band, member, shift);
    while (out.cost.left_over > band && n < kMostWidenedCells / (4 * band + 1)) {
      band *= 2;
      out = within(band, member, shift);
    }
    return out;
  }

  // Merges one more member. Without a common clock two shifts are tried, and the one that fits better becomes the
  // clock.
  void add(uint32_t m) {
    const uint32_t base = channel_.members[reference_].draft, own = channel_.members[m].draft;
    if (clocks_.are_common(base, own) || merged_.empty() || items(m).empty()) {
      take_in(m, cheapest(m, clocks_.offset(own)));
      return;
    }
    const int64_t at_end = items(m).back().end - merged_.back().end,
                  at_begin = items(m).front().end - merged_.front().end;
    Alignment by_end = cheapest(m, at_end), by_begin = cheapest(m, at_begin);
    const bool begins = by_begin.cost < by_end.cost;
    clocks_.join(base, own, begins ? at_begin : at_end);
    take_in(m, begins ? by_begin : by_end);
  }

  // Follows the alignment and makes the merged sequence anew. Between two calls that both have, either side may have
  // calls of its own, but not both: then the traces contradict each other, since one call stands where the other has
  // another.
  void take_in(uint32_t m, const Alignment& alignment) {
    std::vector<MergedCall> out;
    size_t i = 0;
    uint32_t j = 0;
    // Since the last call that both have: the last one that each has alone.
    std::optional<size_t> merged_alone;  // in `out`
    std::optional<uint32_t> member_alone;
    for (const Step step : alignment.steps) {
      if (step == Step::member_alone) {
        member_alone = j;
        out.push_back(only_on(m, j++));
      } else {
        out.push_back(std::move(merged_[i++]));
        if (step == Step::merged_alone) {
          merged_alone = out.size() - 1;
        } else {
          merged_alone.reset();
          member_alone.reset();
          out.back().what.widen(signature(m, j));
          out.back().item_of[m] = j++;
          ++out.back().seen;
        }
      }
      if (merged_alone && member_alone) contradict(out[*merged_alone], m, *member_alone);
    }
    merged_ = std::move(out);
  }

  static uint32_t first_with(const MergedCall& call) {
    const auto has = std::find_if(call.item_of.begin(), call.item_of.end(), [](uint32_t i) { return i != kNoIndex; });
    CHECK(has != call.item_of.end()) << "a call that nobody has";
    return static_cast<uint32_t>(has - call.item_of.begin());
  }
  std::string describe(uint32_t m, uint32_t item) const { return channel_.describe(drafts_, m, items(m)[item]); }

  [[noreturn]] void contradict(const MergedCall& call, uint32_t m, uint32_t item) const {
    const uint32_t other = first_with(call);
    throw Error(ErrorCode::mismatch, channel_.name + ": rank " + std::to_string(draft(other).rank) + " has " +
                                         describe(other, call.item_of[other]) + " where rank " +
                                         std::to_string(draft(m).rank) + " has " + describe(m, item) +
                                         "; are these traces of one run and the same steps?");
  }

  // A few lost ones are mended; a rank without most of them has another window or is of another run.
  void refuse_unlikely() const {
    const auto members = static_cast<uint32_t>(channel_.members.size());
    for (uint32_t m = 0; m < members; ++m) {
      if (items(m).size() * 2 >= merged_.size() || merged_.size() < 4) continue;
      throw Error(ErrorCode::mismatch, channel_.name + ": " + draft(m).source + " has " +
                                           std::to_string(items(m).size()) + " of " + std::to_string(merged_.size()) +
                                           " calls, too few to mend; give traces of the same steps for all ranks");
    }
    // Windows may differ at both ends.
    size_t first = 0, last = merged_.size();
    while (first < last && merged_[first].seen < members) ++first;
    while (last > first && merged_[last - 1].seen < members) --last;
    for (size_t i = first; i < last; ++i) {
      if (merged_[i].seen * 2 >= members) continue;
      const uint32_t m = first_with(merged_[i]);
      throw Error(ErrorCode::mismatch, channel_.name + ": only " + std::to_string(merged_[i].seen) + " of " +
                                           std::to_string(members) + " ranks have " +
                                           describe(m, merged_[i].item_of[m]) + "; are these traces of one run?");
    }
  }

  const MessageChannel& channel_;
  const std::vector<RankDraft>& drafts_;
  RankClocks& clocks_;
  uint32_t reference_ = 0;
  std::vector<MergedCall> merged_;
};

}  // namespace

std::vector<MergedCall> merge_members(const MessageChannel& channel, const std::vector<RankDraft>& drafts,
                                      RankClocks& clocks) {
  return Merger(channel, drafts, clocks).merge();
}

}  // namespace banyan::job::kineto
