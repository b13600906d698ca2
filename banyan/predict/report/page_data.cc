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

class PageWriter {
 public:
  PageWriter(const ReportInput& input, const ReportLimits& limits)
      : input_(input),
        prediction_(input.prediction),
        limits_(limits),
        names_(input.fabric ? &*input.fabric : nullptr) {}

  std::string write() && {
    json_.open('{').key("banyan").text("page/1").key("title").text(prediction_.title);
    json_.key("complete").boolean(prediction_.complete).key("time_ps").number(prediction_.time.count());
    json_.key("sentence").text(in_words(input_));
    const TimeShares shares = time_shares(prediction_);
    json_.key("shares").open('[');
    for (const double share : {shares.compute, shares.exposed, shares.waiting, shares.host, shares.bubble})
      json_.number(share);
    json_.close();
    json_.key("window_error").number(prediction_.window.of_all);
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
    json_.line().key("notes").open('[');
    for (const std::string& note : notes_) json_.text(note);
    json_.close().close();
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
  std::sort(order.begin(), order.end());
  if (order.size() > limits_.lines) {
    notes_.push_back("The drawing shows the " + with_thousands(limits_.lines) + " busiest of " +
                     with_thousands(order.size()) + " lines between its parts.");
    order.resize(limits_.lines);
  }
  for (const auto& [heat, edge] : order) drawn_.push_back(edge);
  std::sort(drawn_.begin(), drawn_.end());
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
  json_.line().key("series").open('{').key("steps").number(series_->steps());
  json_.key("step_ps").number(series_->step_ps()).close();
}

void PageWriter::write_events() {
  static constexpr const char* kKinds[] = {"down", "bandwidth", "up"};
  json_.line().key("events").open('[');
  for (const LinkMark& mark : events_.marks()) {
    json_.line().open('{').key("time_ps").number(mark.time.count());
    json_.key("kind").text(kKinds[static_cast<size_t>(mark.kind)]);
    json_.key("bytes_per_second").number(mark.bandwidth.bytes_per_second()).key("links").number(mark.links);
    json_.key("names").open('[');
    for (const std::string& name : mark.names) json_.text(name);
    json_.close().close();
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
    json_.open('{').key("name").text(job.name).key("tenant").text(job.tenant).key("ranks").number(sums[i].ranks);
    json_.key("begin_ps").number(job.begin.count()).key("end_ps").number(job.end.count()).key("alone_ps");
    job.alone ? json_.number(job.alone->count()) : json_.null();
    json_.key("failed_at_ps");
    job.failed_at ? json_.number(job.failed_at->count()) : json_.null();
    json_.key("parts_ps").open('[');
    for (const double part : sums[i].parts)
      json_.number(std::round(part / static_cast<double>(std::max<size_t>(sums[i].ranks, 1))));
    json_.close().close();
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
    json_.line().open('{').key("rank").text(rank.name).key("stream").text(rank.streams[track.stream]);
    json_.key("job").number(rank.job).key("spans").open('[');
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
  json_.close().line().key("names").open('[');
  for (const uint32_t name : used) json_.text(prediction_.names[name]);
  json_.close().key("kinds").open('[');
  for (const PredictedSpan::Kind kind : kSpanKinds) json_.text(to_string(kind));
  json_.close();
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
  const auto changed = static_cast<size_t>(
      std::count_if(rows.begin(), rows.end(), [&](const LinkStanding& row) { return changes(row.link); }));
  size_t changed_left = std::min(changed, kChangedRows), others_left = kLinkSeries - changed_left;
  const auto busy = std::count_if(prediction_.links.begin(), prediction_.links.end(),
                                  [](const PredictedLink& link) { return link.bytes > 0; });
  json_.line().key("link_count").number(prediction_.links.size()).key("busy_links").number(busy);
  json_.key("tight_links").number(tight_links(standings_));
  json_.line().key("links").open('[');
  for (const LinkStanding& row : rows) {
    const PredictedLink& link = prediction_.links[row.link];
    json_.line().open('{').key("name").text(names_.name(row.link)).key("bytes").number(link.bytes);
    json_.key("full_ps").number(link.full.count()).key("full").number(row.full).key("load").number(row.load);
    if (input_.fabric) {
      json_.key("bytes_per_second").number(input_.fabric->links()[row.link].bandwidth.bytes_per_second());
      if (const uint32_t edge = edge_of_link_[row.link]; edge != UINT32_MAX) json_.key("line").number(edge);
    }
    size_t& left = changes(row.link) ? changed_left : others_left;
    if (left > 0 && !series_->empty() && !link.load.empty()) {
      --left;
      json_.key("series").text(series_->highest(std::array{row.link}));
    }
    write_states("states", events_.states(row.link), true);
    json_.close();
  }
  json_.close();
}

void PageWriter::write_unit(const picture::Unit& unit) {
  static constexpr const char* kKinds[] = {"rank", "tile", "switch"};
  json_.line().open('{').key("name").text(unit.name).key("kind").text(kKinds[static_cast<size_t>(unit.kind)]);
  json_.key("ranks")
      .number(unit.ranks.size())
      .key("switches")
      .number(unit.switches)
      .key("label")
      .boolean(unit.labelled);
  json_.key("at").open('[');
  for (const double value : {unit.middle.x, unit.middle.y, unit.size.width, unit.size.height})
    json_.number(std::round(value * 10) / 10);
  json_.close();
  if (drawing_->has_cells(unit)) {
    // Each rank of a tile by the hottest of its own links.
    std::string cells;
    for (const NodeId rank : unit.ranks) {
      double hottest = 0;
      for (const LinkId link : input_.fabric->out_links(rank)) hottest = std::max(hottest, load_of(link));
      for (const LinkId link : input_.fabric->in_links(rank)) hottest = std::max(hottest, load_of(link));
      cells += PageSeries::letter(hottest);
    }
    json_.key("cells").text(cells);
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
  json_.open('{')
      .key("links")
      .number(links.size())
      .key("bytes_per_second")
      .number(bandwidth)
      .key("bytes")
      .number(bytes);
  json_.key("mean").number(load / static_cast<double>(links.size())).key("load").number(load_of(hottest));
  json_.key("full").number(full).key("hottest").text(names_.name(index(hottest)));
  const bool moves = std::any_of(links.begin(), links.end(), [&](LinkId link) {
    return index(link) < prediction_.links.size() && !prediction_.links[index(link)].load.empty();
  });
  if (moves && !series_->empty()) json_.key("series").text(series_->highest(numbers));
  write_states("down", events_.down(numbers), false);
  json_.close();
}

void PageWriter::write_drawing() {
  json_.line().key("drawing");
  if (!drawing_) {
    json_.null();
    return;
  }
  json_.open('{')
      .key("width")
      .number(std::round(drawing_->size.width))
      .key("height")
      .number(std::round(drawing_->size.height));
  json_.key("ranks").number(input_.fabric->ranks().size());
  json_.key("switches").number(input_.fabric->nodes().size() - input_.fabric->ranks().size());
  json_.key("links").number(input_.fabric->links().size());
  json_.key("units").open('[');
  for (const picture::Unit& unit : drawing_->units) write_unit(unit);
  json_.close().key("panels").open('[');
  for (const picture::Panel& panel : drawing_->panels) {
    json_.open('[')
        .number(panel.corner.x)
        .number(panel.corner.y)
        .number(panel.size.width)
        .number(panel.size.height)
        .close();
  }
  json_.close().key("lines").open('[');
  for (const size_t number : drawn_) {
    const picture::Cable& edge = drawing_->cables[number];
    json_.line().open('{').key("a").number(edge.a).key("b").number(edge.b).key("curved").boolean(edge.curved);
    json_.key("path").open('[');
    for (const picture::Point& point : edge.path) {
      json_.number(std::round(point.x * 10) / 10).number(std::round(point.y * 10) / 10);
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
    json_.open('{').key("bytes").number(point.total.count()).key("plan").text(point.plan);
    json_.key("time_ps")
        .number(point.time.count())
        .key("algbw")
        .number(point.algbw)
        .key("busbw")
        .number(point.busbw)
        .close();
  }
  json_.close().line().key("what_if").open('[');
  for (const WhatIf& what : input_.what_if) {
    json_.open('{').key("resource").text(what.resource).key("time_ps").number(what.time.count());
    json_.key("gain").number(what.gain).close();
  }
  json_.close();
}

}  // namespace

std::string page_data(const ReportInput& input, const ReportLimits& limits) {
  return PageWriter(input, limits).write();
}

}  // namespace banyan::predict::report
