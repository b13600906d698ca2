#include "banyan/picture/bars.h"

#include <pugixml.hpp>

#include "banyan/testing/test.h"

namespace banyan::picture {
namespace {

BarChart three_rows() {
  return {.title = "a < b",
          .subtitle = "s",
          .rows = {"one", "two", "three"},
          .panels = {{.title = "bytes",
                      .series = {{.label = "bytes", .values = {10, 100, 1000}, .texts = {"10 B", "100 B", "1 kB"}}}},
                     {.title = "error",
                      .series = {{.label = "once", .values = {0, 1e-6, NAN}, .texts = {"none", "1e-6", "lost"}},
                                 {.label = "often", .values = {1e-9, 1e-3, 1}, .texts = {"1e-9", "0.001", "1"}}},
                      .tick = [](double value) { return "<" + std::to_string(std::lround(std::log10(value))); }}}};
}

struct Bar {
  double x, width, height;
};

std::vector<Bar> bars_of(const std::string& svg) {
  pugi::xml_document document;
  EXPECT_TRUE(document.load_string(svg.c_str()));
  std::vector<Bar> bars;
  for (const pugi::xpath_node& node : document.select_nodes("//rect[title]")) {
    const pugi::xml_node rect = node.node();
    bars.push_back(
        {rect.attribute("x").as_double(), rect.attribute("width").as_double(), rect.attribute("height").as_double()});
  }
  return bars;
}

TEST(Bars, AreAsLongAsTheLogarithmsOfTheirValues) {
  const std::string svg = draw_bars(three_rows());
  const std::vector<Bar> bars = bars_of(svg);
  ASSERT_EQ(bars.size(), 3 + 1 + 3u) << "none for zero and what is no number";
  EXPECT_GT(bars[0].width, 1);
  EXPECT_NEAR(bars[2].width - bars[1].width, bars[1].width - bars[0].width, 0.2) << "ten times as much each";
  EXPECT_NEAR(bars[5].width - bars[4].width, 2 * (bars[6].width - bars[5].width), 0.3) << "10^-9, 10^-3, 1";
  EXPECT_EQ(bars[0].x, bars[2].x);
  EXPECT_GT(bars[3].x, bars[0].x + bars[2].width) << "the panels stand side by side";
  for (const char* text : {">a &lt; b<", ">one<", ">none<", ">lost<", ">0.001<", ">often<", "two, once: 1e-6"}) {
    EXPECT_THAT(svg, HasSubstr(text));
  }
  EXPECT_THAT(svg, HasSubstr(">&lt;-3<")) << "as the panel writes its ticks";
}

TEST(Bars, OfNothingButZerosAreTexts) {
  BarChart chart = three_rows();
  for (BarPanel& panel : chart.panels) {
    for (BarSeries& series : panel.series) series.values = {0, 0, 0};
  }
  const std::string svg = draw_bars(chart);
  EXPECT_TRUE(bars_of(svg).empty());
  EXPECT_THAT(svg, HasSubstr(">none<"));
  EXPECT_THROW(draw_bars({}), Error);
}

}  // namespace
}  // namespace banyan::picture
