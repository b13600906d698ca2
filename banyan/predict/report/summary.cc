#include "banyan/predict/report/summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <tuple>

#include "banyan/base/words.h"
#include "banyan/predict/report/link_names.h"

namespace banyan::predict {
namespace {

using report::LinkNames;

double part(Picoseconds of, Picoseconds whole) {
  return whole.count() > 0 ? static_cast<double>(of.count()) / static_cast<double>(whole.count()) : 0;
}

bool comes_first(const LinkStanding& a, const LinkStanding& b) {
  return std::tuple(-a.full, -a.load, a.link) < std::tuple(-b.full, -b.load, b.link);
}

std::string about_ranks(const Prediction& prediction) {
  const TimeShares shares = time_shares(prediction);
  struct Part {
    double share;
    std::string words;
  };
  const std::array parts = {Part{shares.compute, " computing"},
                            Part{shares.exposed, " moving data that no computation hides"},
                            Part{shares.waiting, " waiting for other ranks"},
                            Part{shares.host, " held up by their host"}, Part{shares.bubble, " with nothing to do"}};
  std::string text;
  for (const Part& one : parts) {
    if (one.share < 0.0005) continue;
    text += (text.empty() ? "" : ", ") + rough_percent(one.share) + one.words;
  }
  return text.empty() ? "" : "Ranks spend " + text + ".";
}

std::string about_links(const ReportInput& input) {
  const std::vector<LinkStanding> all = link_standings(input);
  const auto first = std::ranges::min_element(all, comes_first);
  if (first == all.end() || (first->full == 0 && first->load == 0)) return "";
  const std::string name = LinkNames(input.fabric ? &*input.fabric : nullptr).name(first->link);
  if (first->full < 0.0005) {
    if (first->load < 0.0005) return "";
    return "No link holds anything up; the busiest, " + name + ", carries " + rough_percent(first->load) +
           " of what it could.";
  }
  const size_t alike = tight_links(all);
  std::string text = "The tightest link, " + name;
  if (alike > 1) text += " (" + std::to_string(alike - 1) + " more like it),";
  return text + (alike > 1 ? "" : ",") + " is a bottleneck for " + rough_percent(first->full) + " of the time.";
}

std::string about_gains(const std::vector<WhatIf>& what_if) {
  const auto best = std::ranges::max_element(what_if, {}, &WhatIf::gain);
  if (best == what_if.end()) return "";
  if (best->gain < 0.0005) return "Doubling no resource alone would help.";
  return "Doubling " + best->resource + " would save " + rough_percent(best->gain) + ".";
}

// "ring is fastest up to 64 KiB, forest from 128 KiB".
std::string about_points(const std::vector<PredictedPoint>& points) {
  std::map<Bytes, const PredictedPoint*> best;
  for (const PredictedPoint& point : points) {
    const auto [entry, is_new] = best.try_emplace(point.total, &point);
    if (!is_new && point.time < entry->second->time) entry->second = &point;
  }
  if (best.empty()) return "";
  std::string text;
  size_t changes = 0;
  const PredictedPoint* before = nullptr;
  for (const auto& [total, point] : best) {
    if (before != nullptr && point->plan == before->plan) continue;
    if (before == nullptr) {
      text = point->plan + " is fastest from " + total.to_string();
    } else if (++changes <= 4) {
      text += ", " + point->plan + " from " + total.to_string();
    }
    before = point;
  }
  if (changes > 4) text += ", and so on";
  const PredictedPoint& last = *best.rbegin()->second;
  const bool compared =
      std::ranges::any_of(points, [&](const PredictedPoint& point) { return point.plan != points.front().plan; });
  return (compared ? "Of the plans compared, " + text + "; " : "By " + last.plan + ", ") + last.total.to_string() +
         " take " + format_seconds(last.time) + " (algbw " + format_rate(last.algbw) + ", busbw " +
         format_rate(last.busbw) + ").";
}

// The first job that a failed link has ended, and how many more.
std::string about_failures(const Prediction& prediction) {
  const auto has_failed = [](const PredictedJob& job) { return job.failed_at.has_value(); };
  const auto first = std::ranges::find_if(prediction.jobs, has_failed);
  if (first == prediction.jobs.end()) return "";
  const auto more = std::count_if(std::next(first), prediction.jobs.end(), has_failed);
  return "A failed link ended " + first->name + " after " + format_seconds(*first->failed_at) +
         (more > 0 ? ", and " + std::to_string(more) + " more" : "") + ".";
}

}  // namespace

TimeShares time_shares(const Prediction& prediction) {
  TimeShares shares;
  if (prediction.ranks.empty()) return shares;
  for (const PredictedRank& rank : prediction.ranks) {
    shares.compute += part(rank.compute, prediction.time);
    shares.exposed += part(rank.exposed, prediction.time);
    shares.waiting += part(rank.waiting, prediction.time);
    shares.host += part(rank.host, prediction.time);
    shares.bubble += part(rank.bubble, prediction.time);
  }
  for (double* share : {&shares.compute, &shares.exposed, &shares.waiting, &shares.host, &shares.bubble}) {
    *share /= static_cast<double>(prediction.ranks.size());
  }
  return shares;
}

std::vector<LinkStanding> link_standings(const ReportInput& input) {
  std::vector<LinkStanding> standings;
  const Prediction& prediction = input.prediction;
  if (prediction.time.count() <= 0) return standings;
  const double seconds = static_cast<double>(prediction.time.count()) * 1e-12;
  for (uint32_t link = 0; link < prediction.links.size(); ++link) {
    LinkStanding standing{.link = link, .full = part(prediction.links[link].full, prediction.time)};
    if (input.fabric) {
      const auto bandwidth = static_cast<double>(input.fabric->links()[link].bandwidth.bytes_per_second());
      standing.load = prediction.links[link].bytes / (bandwidth * seconds);
    }
    standing.full = std::clamp(standing.full, 0.0, 1.0);
    standing.load = std::clamp(standing.load, 0.0, 1.0);
    standings.push_back(standing);
  }
  return standings;
}

std::vector<LinkStanding> busiest_links(const ReportInput& input, size_t most) {
  std::vector<LinkStanding> all = link_standings(input);
  std::erase_if(
      all, [&](const LinkStanding& link) { return input.prediction.links[link.link].bytes <= 0 && link.full == 0; });
  const size_t kept = std::min(most, all.size());
  std::partial_sort(all.begin(), all.begin() + static_cast<ptrdiff_t>(kept), all.end(), comes_first);
  all.resize(kept);
  return all;
}

std::vector<AlikeLinks> busiest_kinds(const ReportInput& input, size_t most) {
  std::vector<AlikeLinks> kinds;
  std::map<std::tuple<uint64_t, int64_t, int64_t>, size_t> place_of;  // tenths of a per cent, which are what is shown
  for (const LinkStanding& link : busiest_links(input, SIZE_MAX)) {
    const uint64_t bandwidth = input.fabric ? input.fabric->links()[link.link].bandwidth.bytes_per_second() : 0;
    const auto [place, is_new] =
        place_of.try_emplace({bandwidth, std::llround(1e3 * link.full), std::llround(1e3 * link.load)}, kinds.size());
    if (is_new) kinds.push_back({.first = link});
    ++kinds[place->second].count;
  }
  if (kinds.size() > most) kinds.resize(most);
  return kinds;
}

size_t tight_links(const std::vector<LinkStanding>& standings) {
  double longest = 0;
  for (const LinkStanding& link : standings) longest = std::max(longest, link.full);
  if (longest == 0) return 0;
  return static_cast<size_t>(
      std::ranges::count_if(standings, [&](const LinkStanding& link) { return link.full >= 0.99 * longest; }));
}

std::string in_words(const ReportInput& input) {
  const Prediction& prediction = input.prediction;
  std::vector<std::string> sentences;
  if (prediction.time.count() > 0) {
    sentences.push_back(prediction.complete ? "It takes " + format_seconds(prediction.time) + "."
                                            : "Stopped early: this is what happens in the first " +
                                                  format_seconds(prediction.time) + ".");
    sentences.push_back(about_failures(prediction));
    sentences.push_back(about_ranks(prediction));
    sentences.push_back(about_links(input));
  }
  sentences.push_back(about_gains(input.what_if));
  sentences.push_back(about_points(input.points));
  std::string text;
  for (const std::string& sentence : sentences) {
    if (!sentence.empty()) text += (text.empty() ? "" : " ") + sentence;
  }
  return text.empty() ? "Nothing was simulated." : text;
}

}  // namespace banyan::predict
