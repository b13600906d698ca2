// TopView: the lines of the live screen of `banyan service top`, for any size of a terminal, and where its user looks.
// Pure: top_screen.h draws them.
//
// From above: a title, what is wrong, then panels of tenants, communicators, links and events. Each gets as many lines
// as it needs, and where these are too many, the longest ones get fewer. One panel is chosen; its rows can be moved.
// Only the chosen one is shown if there is no room for all.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/service/service_rates.h"
#include "banyan/service/view/host_view.h"

namespace banyan::app {

struct TopLine {
  enum class Style : uint8_t { plain, title, heading, chosen, bad, dim };
  Style style = Style::plain;
  std::string text;  // no control characters; at most `width` characters
};

// The contents of the screen.
struct TopContents {
  std::string daemon;                          // the url that is asked
  std::optional<service::ClusterView> view{};  // the last one; nothing before the first
  std::optional<ServiceRates> rates{};         // of the last two
  std::string trouble = {};                    // why the last question was not answered; empty: it was
};

class TopView {
 public:
  enum class Key : uint8_t { next_panel, last_panel, up, down, page_up, page_down, home, end };

  void press(Key key);
  // `height` lines. Rows of panels that have become shorter are moved as far as need be.
  std::vector<TopLine> lines(const TopContents& contents, size_t width, size_t height);

 private:
  static constexpr size_t kPanels = 4;

  struct Panel {
    std::string title, head;
    std::vector<std::string> rows;
  };
  static std::array<Panel, kPanels> panels(const TopContents& contents);
  static std::vector<size_t> share_out(const std::array<Panel, kPanels>& panels, size_t lines);

  void show(const Panel& panel, size_t number, size_t rows, std::vector<TopLine>& lines);

  size_t chosen_ = 0;                      // panel
  std::array<size_t, kPanels> first_{};    // row of each that stands at its top
  std::array<size_t, kPanels> visible_{};  // rows of each, when it was last shown
};

// The first `width` characters of a text in UTF-8, "~" in place of the last one where there are more. Control
// characters become "?".
std::string fitting(const std::string& text, size_t width);

}  // namespace banyan::app
