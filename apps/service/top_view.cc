#include "apps/service/top_view.h"

#include <algorithm>
#include <cmath>
#include <ctime>
#include <numeric>

#include "apps/help.h"
#include "apps/service/service_report.h"
#include "banyan/base/text.h"
#include "banyan/base/utf8.h"
#include "banyan/base/words.h"

namespace banyan::app {
namespace {

using service::ClusterView;

constexpr size_t kMostPanelRows = 1000;  // of a panel

// "12:03:04", in the time of this machine.
std::string time_of_day(double at) {
  const auto seconds = static_cast<std::time_t>(std::clamp(at, 0.0, 1e11));
  std::tm parts{};
  if (localtime_r(&seconds, &parts) == nullptr) return "";
  char text[16];
  return std::string(text, std::strftime(text, sizeof text, "%H:%M:%S", &parts));
}

std::vector<std::string> lines_of(const Table& table) {
  const std::string text = table.format(Terminal({}));
  std::vector<std::string> lines;
  for (const std::string_view each : split(text, '\n')) {
    if (!each.empty()) lines.emplace_back(each);
  }
  return lines;
}

// Of a link that is full in this part: "#####-----".
std::string bar(double full) {
  constexpr double kWidth = 20;
  const auto filled = static_cast<size_t>(std::lround(std::clamp(full, 0.0, 1.0) * kWidth));
  return std::string(filled, '#') + std::string(static_cast<size_t>(kWidth) - filled, '-');
}

std::string title_of(const TopContents& contents) {
  std::string text = "banyan service top   " + harmless(contents.daemon);
  if (!contents.view) return text;
  const ClusterView& view = *contents.view;
  text += "   " + plural(view.hosts.size(), "host") + ", " + plural(view.communicators.size(), "communicator");
  return text + "   " + time_of_day(view.at);
}

void append(std::vector<TopLine>& lines, TopLine::Style style, const std::string& text) {
  lines.push_back({.style = style, .text = text});
}

// In `most` lines, of which the last says how many findings are left out.
void show_findings(const ClusterView& view, size_t width, size_t most, std::vector<TopLine>& lines) {
  constexpr size_t kIndent = 2;
  size_t shown = 0;
  std::vector<std::string> texts;
  for (const service::FindingView& each : view.findings) {
    const std::string text = wrapped(harmless(each.kind) + ": " + harmless(each.words), kIndent, width);
    const std::vector<std::string_view> parts = split(text, '\n');
    const bool is_last = shown + 1 == view.findings.size();
    if (texts.size() + parts.size() + (is_last ? 0 : 1) > most) break;
    texts.insert(texts.end(), parts.begin(), parts.end());
    ++shown;
  }
  for (const std::string& each : texts) append(lines, TopLine::Style::bad, each);
  if (shown == view.findings.size()) return;
  const std::string left = std::to_string(view.findings.size() - shown);
  append(lines, TopLine::Style::bad, left + (shown == 0 ? "" : " more") + " wrong: see 'banyan service status'");
}

}  // namespace

std::string fitting(const std::string& wanted, size_t width) {
  const std::string text = harmless(wanted);
  std::string shown;
  size_t characters = 0, last = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if ((byte & 0xc0) != 0x80 && characters++ == width) {
      shown.resize(last);
      return width == 0 ? "" : shown + "~";
    }
    if ((byte & 0xc0) != 0x80) last = shown.size();
    shown += text[i];
  }
  return shown;
}

void TopView::press(Key key) {
  size_t& first = first_[chosen_];
  const size_t page = std::max<size_t>(1, visible_[chosen_]);
  switch (key) {
    case Key::next_panel:
      chosen_ = (chosen_ + 1) % kPanels;
      break;
    case Key::last_panel:
      chosen_ = (chosen_ + kPanels - 1) % kPanels;
      break;
    case Key::up:
      first -= std::min<size_t>(first, 1);
      break;
    case Key::down:
      ++first;
      break;
    case Key::page_up:
      first -= std::min(first, page);
      break;
    case Key::page_down:
      first += page;
      break;
    case Key::home:
      first = 0;
      break;
    case Key::end:
      first = kMostPanelRows;  // lines() knows better
      break;
  }
}

std::array<TopView::Panel, TopView::kPanels> TopView::panels(const TopContents& contents) {
  std::array<Panel, kPanels> panels;
  const auto fill = [](Panel& panel, const Table& table) {
    panel.rows = lines_of(table);
    panel.head = std::move(panel.rows.front());
    panel.rows.erase(panel.rows.begin());
  };
  const ClusterView& view = *contents.view;
  const ServiceRates rates = contents.rates.value_or(rates_between(view, view));
  fill(panels[0], tenants_table(rates));
  fill(panels[1], communicators_table(view, contents.rates ? &*contents.rates : nullptr, kMostPanelRows));
  fill(panels[2], links_table(rates, kMostPanelRows));
  panels[2].head = std::string(22, ' ') + panels[2].head;
  for (size_t i = 0; i < panels[2].rows.size(); ++i) {
    panels[2].rows[i] = bar(rates.links[i].full()) + "  " + panels[2].rows[i];
  }
  panels[3].head = "time      host";
  const size_t events = std::min(kMostPanelRows, view.events.size());
  for (size_t i = 0; i < events; ++i) {
    const service::EventView& each = view.events[view.events.size() - 1 - i];
    panels[3].rows.push_back(time_of_day(each.at) + "  " + harmless(each.host) + "  " + harmless(each.words));
  }
  panels[0].title = plural(rates.tenants.size(), "tenant");
  panels[1].title = plural(view.communicators.size(), "communicator");
  panels[2].title = plural(view.links.size(), "link");
  panels[3].title = plural(view.events.size(), "event");
  return panels;
}

// Rows of each panel, when there are so many lines for titles, heads and rows; empty: not even one row for each.
std::vector<size_t> TopView::share_out(const std::array<Panel, kPanels>& panels, size_t lines) {
  constexpr size_t kBesides = 2;  // title and head
  std::vector<size_t> rows;
  for (const Panel& each : panels) rows.push_back(std::max<size_t>(1, each.rows.size()));
  if (lines < kPanels * (kBesides + 1)) return {};
  const size_t room = lines - kPanels * kBesides;
  while (std::accumulate(rows.begin(), rows.end(), size_t{0}) > room) --*std::max_element(rows.begin(), rows.end());
  return rows;
}

void TopView::show(const Panel& panel, size_t number, size_t rows, std::vector<TopLine>& lines) {
  size_t& first = first_[number];
  first = std::min(first, panel.rows.size() - std::min(rows, panel.rows.size()));
  visible_[number] = rows;
  const size_t end = std::min(first + rows, panel.rows.size());
  std::string title = (number == chosen_ ? "> " : "  ") + panel.title;
  if (end - first < panel.rows.size()) {
    title += " (" + std::to_string(first + 1) + " to " + std::to_string(end) + ")";
  }
  append(lines, number == chosen_ ? TopLine::Style::chosen : TopLine::Style::heading, title);
  append(lines, TopLine::Style::dim, "  " + panel.head);
  for (size_t i = first; i < end; ++i) append(lines, TopLine::Style::plain, "  " + panel.rows[i]);
}

std::vector<TopLine> TopView::lines(const TopContents& contents, size_t width, size_t height) {
  std::vector<TopLine> lines;
  append(lines, TopLine::Style::title, title_of(contents));
  if (!contents.trouble.empty()) append(lines, TopLine::Style::bad, contents.trouble);
  if (contents.view) {
    show_findings(*contents.view, width, std::max<size_t>(1, height / 4), lines);
    if (lines.size() == 1) append(lines, TopLine::Style::plain, "nothing is wrong");
    constexpr size_t kBesides = 2;  // title and head of a panel
    const size_t left = height > lines.size() + 1 ? height - lines.size() - 1 : 0;
    const std::array<Panel, kPanels> all = panels(contents);
    const std::vector<size_t> rows = share_out(all, left);
    for (size_t i = 0; i < rows.size(); ++i) show(all[i], i, rows[i], lines);
    if (rows.empty()) show(all[chosen_], chosen_, left > kBesides ? left - kBesides : 0, lines);
  } else if (contents.trouble.empty()) {
    append(lines, TopLine::Style::plain, "asking the daemon");
  }
  const size_t room = height > 0 ? height - 1 : 0;
  if (lines.size() > room) lines.resize(room);
  while (lines.size() < room) append(lines, TopLine::Style::plain, "");
  append(lines, TopLine::Style::dim, "q quit   left, right: panel   up, down: rows");
  if (lines.size() > height) lines.resize(height);
  for (TopLine& each : lines) each.text = fitting(each.text, width);
  return lines;
}

}  // namespace banyan::app
