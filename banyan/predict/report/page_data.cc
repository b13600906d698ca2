#include "banyan/predict/report/page_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <tuple>

#include "banyan/base/text.h"
#include "banyan/picture/drawing.h"
#include "banyan/predict/report/json_writer.h"
#include "banyan/predict/report/link_names.h"
#include "banyan/predict/report/page_events.h"
#include "banyan/predict/report/page_series.h"
#include "banyan/predict/report/page_spans.h"
#include "banyan/predict/report/prediction_json_keys.h"
#include "banyan/predict/report/summary.h"
#include "banyan/predict/report/uncovered.h"

namespace banyan::predict::report {
namespace {

constexpr size_t kLeastSteps = 24;  // a coarser series shows nothing
constexpr size_t kMostSteps = 600;
constexpr size_t kLinkSeries = 64;   // rows of links in the timeline
constexpr size_t kChangedRows = 32;  // of these for links that change
constexpr size_t kUncoveredRows = 8;
constexpr size_t kMostStates = 100;  // times of one link or line
// Where the time of a rank went, in the order in which the page names them.
constexpr std::array kParts = {&PredictedRank::compute, &PredictedRank::exposed, &PredictedRank::waiting,
                               &PredictedRank::host, &PredictedRank::bubble};

double rounded(double value) { return std::round(value * 10) / 10; }

class PageWriter {
 public:
  PageWriter(const ReportInput& input, const ReportLimits& limits)
      : input_(input),
        prediction_(input.prediction),
        limits_(limits),
        names_(input.fabric ? &*input.fabric : nullptr) {}

  std::string write() && {
    json_.open('{').field("banyan", "page/1").field("title", prediction_.title);
    json_.field("complete", prediction_.complete).field("time_ps", prediction_.time);
    json_.field("sentence", in_words(input_));
    const TimeShares shares = time_shares(prediction_);
    json_.list("shares", std::array{shares.compute, shares.exposed, shares.waiting, shares.host, shares.bubble});
    json_.field("window_error", prediction_.window.of_all);
    write_facts();
    if (input_.fabric) prepare_drawing();
    prepare_series();
    if (!events_.note().empty()) notes_.push_back(events_.note());
    write_events();
    write_jobs();
    write_ranks();
    write_spans();
    write_links();
    write_drawing();
    write_points();
    json_.line().list("notes", notes_).close();
    return std::move(text_);
  }

 private:
  void write_facts();
  void prepare_drawing();
  void prepare_series();
  std::vector<LinkStanding> link_rows() const;
  void write_events();
  void write_states(const char* key, std::span<const LinkState> states, bool with_bandwidth);
  void write_jobs();
  void write_ranks();
  void write_spans();
  void write_links();
  void write_drawing();
  void write_unit(const picture::Unit& unit);
  void write_direction(const std::vector<LinkId>& links);
  void write_points();
  double load_of(LinkId link) const { return index(link) < standings_.size() ? standings_[index(link)].load : 0; }

  const ReportInput& input_;
  const Prediction& prediction_;
  const ReportLimits& limits_;
  const LinkNames names_;
  const PageEvents events_{input_, names_, limits_.events};
  std::string text_;
  JsonWriter json_{text_};
  std::vector<std::string> notes_ = input_.notes;
  std::vector<LinkStanding> standings_ = link_standings(input_);
  std::optional<picture::Drawing> drawing_;
  std::vector<size_t> drawn_;           // edges of the drawing that the page shows, ascending
  std::vector<uint32_t> edge_of_link_;  // place in drawn_
  std::optional<PageSeries> series_;
};

void PageWriter::write_facts() {
  json_.line().key("facts").open('[');
  for (const auto& [what, text] : input_.facts) json_.open('[').text(what).text(text).close();
  json_.close().line().key("uncovered").open('[');
  for (const Uncovered& operation : uncovered_operations(prediction_, kUncoveredRows)) {
    json_.open('[').text(operation.name).number(operation.share).close();
  }
  json_.close();
}

// The busiest lines, when there are too many: by their hottest link.
void PageWriter::prepare_drawing() {
  drawing_ = picture::draw(*input_.fabric);
  std::vector<std::pair<double, size_t>> order;
  for (size_t i = 0; i < drawing_->cables.size(); ++i) {
    double hottest = 0;
    for (const auto* links : {&drawing_->cables[i].forth, &drawing_->cables[i].back}) {
      for (const LinkId link : *links) hottest = std::max(hottest, load_of(link));
    }
    order.emplace_back(-hottest, i);
  }
  std::ranges::sort(order);
  if (order.size() > limits_.lines) {
    notes_.push_back("The drawing shows the " + with_thousands(limits_.lines) + " busiest of " +
                     with_thousands(order.size()) + " lines between its parts.");
    order.resize(limits_.lines);
  }
  for (const auto& [heat, edge] : order) drawn_.push_back(edge);
  std::ranges::sort(drawn_);
  edge_of_link_.assign(input_.fabric->links().size(), UINT32_MAX);
  for (uint32_t place = 0; place < drawn_.size(); ++place) {
    const picture::Cable& edge = drawing_->cables[drawn_[place]];
    for (const auto* links : {&edge.forth, &edge.back}) {
      for (const LinkId link : *links) edge_of_link_[index(link)] = place;
    }
  }
}

void PageWriter::prepare_series() {
  const size_t count = 2 * drawn_.size() + kLinkSeries;
  const size_t steps = std::min(limits_.samples / count, kMostSteps);
  series_.emplace(prediction_, steps < kLeastSteps ? 0 : steps);
  const bool recorded = !PageSeries(prediction_, 1).empty();
  if (recorded && series_->empty()) notes_.push_back("Loads over time are left out: there are too many lines.");
  json_.line().key("series").open('{').field("steps", series_->steps());
  json_.field("step_ps", series_->step_ps()).close();
}

void PageWriter::write_events() {
  static constexpr const char* kKinds[] = {"down", "bandwidth", "up"};
  json_.line().key("events").open('[');
  for (const LinkMark& mark : events_.marks()) {
    json_.line().open('{').field("time_ps", mark.time);
    json_.field("kind", kKinds[static_cast<size_t>(mark.kind)]);
    json_.field("bytes_per_second", mark.bandwidth.bytes_per_second()).field("links", mark.links);
    json_.list("names", mark.names).close();
  }
  json_.close();
}

// Begin, end and, where it is asked for, bytes per second of each, one after the other.
void PageWriter::write_states(const char* key, std::span<const LinkState> states, bool with_bandwidth) {
  if (states.empty()) return;
  json_.key(key).open('[');
  for (const LinkState& state : states.first(std::min(states.size(), kMostStates))) {
    json_.number(state.begin.count()).number(state.end.count());
    if (with_bandwidth) json_.number(state.bandwidth.bytes_per_second());
  }
  json_.close();
}

void PageWriter::write_jobs() {
  json_.line().key("jobs").open('[');
  struct Sum {
    size_t ranks = 0;
    std::array<double, kParts.size()> parts = {};
  };
  std::vector<Sum> sums(prediction_.jobs.size());
  for (const PredictedRank& rank : prediction_.ranks) {
    if (rank.job >= sums.size()) continue;
    Sum& sum = sums[rank.job];
    ++sum.ranks;
    for (size_t i = 0; i < kParts.size(); ++i) sum.parts[i] += static_cast<double>((rank.*kParts[i]).count());
  }
  for (size_t i = 0; i < sums.size(); ++i) {
    const PredictedJob& job = prediction_.jobs[i];
    json_.open('{').field("name", job.name).field("tenant", job.tenant).field("ranks", sums[i].ranks);
    json_.field("begin_ps", job.begin).field("end_ps", job.end).field("alone_ps", job.alone);
    json_.field("failed_at_ps", job.failed_at);
    const auto ranks = static_cast<double>(std::max<size_t>(sums[i].ranks, 1));
    json_.list("parts_ps", sums[i].parts, [&](double part) { return std::round(part / ranks); }).close();
  }
  json_.close();
}

void PageWriter::write_ranks() {
  const auto& ranks = prediction_.ranks;
  const size_t rows = std::min(ranks.size(), std::max<size_t>(limits_.ranks, 1));
  if (rows < ranks.size()) {
    notes_.push_back("The breakdown has " + with_thousands(rows) + " rows for " + plural(ranks.size(), "rank") +
                     ": each is the mean of neighbours.");
  }
  json_.line().key("ranks").open('[');
  for (size_t row = 0; row < rows; ++row) {
    const size_t begin = row * ranks.size() / rows, end = (row + 1) * ranks.size() / rows;
    const auto count = static_cast<int64_t>(end - begin);
    std::string name = ranks[begin].name;
    if (count > 1) name += " – " + ranks[end - 1].name;
    const auto mean = [&](Picoseconds PredictedRank::*part) {
      Picoseconds rest{0};  // a sum of all might not fit
      int64_t sum = 0;
      for (size_t i = begin; i < end; ++i) {
        sum += (ranks[i].*part).count() / count;
        rest += Picoseconds((ranks[i].*part).count() % count);
      }
      return Picoseconds(sum + rest.count() / count);
    };
    json_.open('[').text(name).number(ranks[begin].job);
    for (const auto part : kParts) json_.number(mean(part).count());
    json_.close();
  }
  json_.close();
}

// A track's spans are four numbers each: begin after the end of the one before, duration, name, kind.
void PageWriter::write_spans() {
  const PageSpans page = choose_spans(prediction_, limits_.spans);
  if (!page.note.empty()) notes_.push_back(page.note);
  std::vector<uint32_t> shown;
  for (const PageSpans::Track& track : page.tracks) {
    if (shown.empty() || shown.back() != track.rank) shown.push_back(track.rank);
  }
  if (page.note.empty() && !shown.empty() && shown.size() < prediction_.ranks.size()) {
    notes_.push_back("Ranks that do the same at the same times are simulated once: the timeline shows " +
                     with_thousands(shown.size()) + " of " + plural(prediction_.ranks.size(), "rank") +
                     ", one of each kind.");
  }
  std::vector<uint32_t> short_name(prediction_.names.size(), UINT32_MAX);  // only names that are used
  std::vector<uint32_t> used;
  json_.line().key("tracks").open('[');
  for (const PageSpans::Track& track : page.tracks) {
    const PredictedRank& rank = prediction_.ranks[track.rank];
    json_.line().open('{').field("rank", rank.name).field("stream", rank.streams[track.stream]);
    json_.field("job", rank.job).key("spans").open('[');
    Picoseconds last{0};
    for (const uint32_t number : track.spans) {
      const PredictedSpan& span = prediction_.spans[number];
      if (short_name[span.name] == UINT32_MAX) {
        short_name[span.name] = static_cast<uint32_t>(used.size());
        used.push_back(span.name);
      }
      json_.number((span.begin - last).count()).number((span.end - span.begin).count());
      json_.number(short_name[span.name]).number(static_cast<uint32_t>(span.kind));
      last = span.end;
    }
    json_.close().close();
  }
  json_.close().line().list("names", used, [&](uint32_t name) { return prediction_.names[name]; });
  json_.list("kinds", kSpanKinds, [](PredictedSpan::Kind kind) { return to_string(kind); });
}

// The busiest, and some of those that change, whether they carried anything or not.
std::vector<LinkStanding> PageWriter::link_rows() const {
  std::vector<LinkStanding> rows = busiest_links(input_, limits_.links);
  std::vector<bool> is_there(standings_.size(), false);
  for (const LinkStanding& row : rows) is_there[row.link] = true;
  std::vector<LinkStanding> more;
  for (const uint32_t link : events_.changed_links()) {
    if (more.size() < std::min(kChangedRows, limits_.links) && link < standings_.size() && !is_there[link])
      more.push_back(standings_[link]);
  }
  rows.resize(std::min(rows.size(), limits_.links - more.size()));
  rows.insert(rows.end(), more.begin(), more.end());
  return rows;
}

void PageWriter::write_links() {
  const std::vector<LinkStanding> rows = link_rows();
  const auto changes = [&](uint32_t link) { return !events_.states(link).empty(); };
  const auto changed =
      static_cast<size_t>(std::ranges::count_if(rows, [&](const LinkStanding& row) { return changes(row.link); }));
  size_t changed_left = std::min(changed, kChangedRows), others_left = kLinkSeries - changed_left;
  const auto busy = std::ranges::count_if(prediction_.links, [](const PredictedLink& link) { return link.bytes > 0; });
  json_.line().field("link_count", prediction_.links.size()).field("busy_links", busy);
  json_.field("tight_links", tight_links(standings_));
  json_.line().key("links").open('[');
  for (const LinkStanding& row : rows) {
    const PredictedLink& link = prediction_.links[row.link];
    json_.line().open('{').field("name", names_.name(row.link)).field("bytes", link.bytes);
    json_.field("full_ps", link.full).field("full", row.full).field("load", row.load);
    if (input_.fabric) {
      json_.field("bytes_per_second", input_.fabric->links()[row.link].bandwidth.bytes_per_second());
      if (const uint32_t edge = edge_of_link_[row.link]; edge != UINT32_MAX) json_.field("line", edge);
    }
    size_t& left = changes(row.link) ? changed_left : others_left;
    if (left > 0 && !series_->empty() && !link.load.empty()) {
      --left;
      json_.field("series", series_->highest(std::array{row.link}));
    }
    write_states("states", events_.states(row.link), true);
    json_.close();
  }
  json_.close();
}

void PageWriter::write_unit(const picture::Unit& unit) {
  static constexpr const char* kKinds[] = {"rank", "tile", "switch"};
  json_.line().open('{').field("name", unit.name).field("kind", kKinds[static_cast<size_t>(unit.kind)]);
  json_.field("ranks", unit.ranks.size()).field("switches", unit.switches).field("label", unit.labelled);
  json_.list("at", std::array{unit.middle.x, unit.middle.y, unit.size.width, unit.size.height}, rounded);
  if (drawing_->has_cells(unit)) {
    // Each rank of a tile by the hottest of its own links.
    std::string cells;
    for (const NodeId rank : unit.ranks) {
      double hottest = 0;
      for (const LinkId link : input_.fabric->out_links(rank)) hottest = std::max(hottest, load_of(link));
      for (const LinkId link : input_.fabric->in_links(rank)) hottest = std::max(hottest, load_of(link));
      cells += PageSeries::letter(hottest);
    }
    json_.field("cells", cells);
  }
  json_.close();
}

// The links that one direction of a line stands for.
void PageWriter::write_direction(const std::vector<LinkId>& links) {
  if (links.empty()) {
    json_.null();
    return;
  }
  double bandwidth = 0, bytes = 0, load = 0, full = 0;
  LinkId hottest = links.front();
  std::vector<uint32_t> numbers;
  for (const LinkId link : links) {
    bandwidth += static_cast<double>(input_.fabric->link(link).bandwidth.bytes_per_second());
    numbers.push_back(index(link));
    if (index(link) >= prediction_.links.size()) continue;
    bytes += prediction_.links[index(link)].bytes;
    load += load_of(link);
    if (index(link) < standings_.size()) full = std::max(full, standings_[index(link)].full);
    if (load_of(link) > load_of(hottest)) hottest = link;
  }
  json_.open('{').field("links", links.size()).field("bytes_per_second", bandwidth).field("bytes", bytes);
  json_.field("mean", load / static_cast<double>(links.size())).field("load", load_of(hottest));
  json_.field("full", full).field("hottest", names_.name(index(hottest)));
  const bool moves = std::ranges::any_of(links, [&](LinkId link) {
    return index(link) < prediction_.links.size() && !prediction_.links[index(link)].load.empty();
  });
  if (moves && !series_->empty()) json_.field("series", series_->highest(numbers));
  write_states("down", events_.down(numbers), false);
  json_.close();
}

void PageWriter::write_drawing() {
  json_.line().key("drawing");
  if (!drawing_) {
    json_.null();
    return;
  }
  json_.open('{').field("width", std::round(drawing_->size.width)).field("height", std::round(drawing_->size.height));
  json_.field("ranks", input_.fabric->ranks().size());
  json_.field("switches", input_.fabric->nodes().size() - input_.fabric->ranks().size());
  json_.field("links", input_.fabric->links().size());
  json_.key("units").open('[');
  for (const picture::Unit& unit : drawing_->units) write_unit(unit);
  json_.close().key("panels").open('[');
  for (const picture::Panel& panel : drawing_->panels) {
    json_.open('[');
    for (const double value : {panel.corner.x, panel.corner.y, panel.size.width, panel.size.height})
      json_.number(value);
    json_.close();
  }
  json_.close().key("lines").open('[');
  for (const size_t number : drawn_) {
    const picture::Cable& edge = drawing_->cables[number];
    json_.line().open('{').field("a", edge.a).field("b", edge.b).field("curved", edge.curved);
    json_.key("path").open('[');
    for (const picture::Point& point : edge.path) {
      json_.number(rounded(point.x)).number(rounded(point.y));
    }
    json_.close().key("forth");
    write_direction(edge.forth);
    json_.key("back");
    write_direction(edge.back);
    json_.close();
  }
  json_.close().close();
}

void PageWriter::write_points() {
  json_.line().key("points").open('[');
  for (const PredictedPoint& point : input_.points) {
    json_.open('{').field("bytes", point.total).field("plan", point.plan);
    json_.field("time_ps", point.time).field("algbw", point.algbw).field("busbw", point.busbw).close();
  }
  json_.close().line().key("what_if").open('[');
  for (const WhatIf& what : input_.what_if) {
    json_.open('{').field("resource", what.resource).field("time_ps", what.time);
    json_.field("gain", what.gain).close();
  }
  json_.close();
}

}  // namespace

std::string page_data(const ReportInput& input, const ReportLimits& limits) {
  return PageWriter(input, limits).write();
}

}  // namespace banyan::predict::report
