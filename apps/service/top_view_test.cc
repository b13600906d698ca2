#include "apps/service/top_view.h"

#include "apps/service/test_service_view.h"
#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

using ::testing::Field;

TopContents contents() {
  return {.daemon = "unix:operator.sock",
          .view = service_view(11),
          .rates = rates_between(service_view(10), service_view(11))};
}

std::vector<std::string> texts(const std::vector<TopLine>& lines) {
  std::vector<std::string> texts;
  for (const TopLine& each : lines) texts.push_back(each.text);
  return texts;
}

// Of a panel with this word in its title: its rows.
std::vector<std::string> rows_below(const std::vector<TopLine>& lines, const std::string& title) {
  const auto is_title = [](const TopLine& line) {
    return line.style == TopLine::Style::heading || line.style == TopLine::Style::chosen;
  };
  auto at = std::find_if(lines.begin(), lines.end(), [&](const TopLine& line) {
    return is_title(line) && line.text.find(title) != std::string::npos;
  });
  std::vector<std::string> rows;
  if (at == lines.end()) return rows;
  for (at += 2; at != lines.end() && at->style == TopLine::Style::plain && !at->text.empty(); ++at)
    rows.push_back(at->text);
  return rows;
}

TEST(TopView, ShowsAllPanelsWhereThereIsRoom) {
  TopView view;
  const std::vector<TopLine> lines = view.lines(contents(), 120, 40);
  EXPECT_THAT(lines, SizeIs(40));
  EXPECT_THAT(lines[0].text, StartsWith("banyan service top   unix:operator.sock   2 hosts, 2 communicators   "));
  EXPECT_EQ(lines[1].text, "nothing is wrong");
  EXPECT_THAT(rows_below(lines, "2 tenants"),
              ElementsAre(StartsWith("  gpt"), AllOf(StartsWith("  vgg"), HasSubstr("75.0 %"))));
  EXPECT_THAT(rows_below(lines, "2 communicators"), ElementsAre(StartsWith("  serve"), StartsWith("  job17")));
  EXPECT_THAT(rows_below(lines, "2 links"),
              ElementsAre(AllOf(StartsWith("  ###############-----  sw->a"), HasSubstr("75 %")),
                          StartsWith("  ##########----------  a->sw")));
  EXPECT_THAT(rows_below(lines, "1 event"), ElementsAre(HasSubstr("a  process 4711 of user 1000 has attached")));
  EXPECT_THAT(lines.back().text, StartsWith("q quit"));
}

TEST(TopView, FitsIntoEverySize) {
  TopContents shown = contents();
  for (int i = 0; i < 30; ++i)
    shown.view->findings.push_back({.kind = "stalled", .communicator = "", .words = "it is"});
  shown.view->communicators.resize(500);
  for (const bool is_troubled : {false, true}) {
    shown.trouble = is_troubled ? "nobody answers" : "";
    for (size_t height = 0; height < 60; ++height) {
      for (const size_t width : {0, 1, 20, 79, 200}) {
        TopView view;
        for (int panel = 0; panel < 5; ++panel) {
          const std::vector<TopLine> lines = view.lines(shown, width, height);
          EXPECT_THAT(lines, SizeIs(height));
          for (const TopLine& line : lines) EXPECT_LE(line.text.size(), width);
          view.press(TopView::Key::next_panel);
          view.press(TopView::Key::end);
        }
      }
    }
  }
}

TEST(TopView, GivesTheLongestPanelFewerRows) {
  TopContents shown = contents();
  shown.view->communicators.resize(100);
  TopView view;
  const std::vector<TopLine> lines = view.lines(shown, 120, 30);
  EXPECT_THAT(rows_below(lines, "tenants"), SizeIs(2));
  EXPECT_THAT(rows_below(lines, "links"), SizeIs(2));
  EXPECT_THAT(rows_below(lines, "100 communicators (1 to "), SizeIs(30 - 2 - 1 - 4 * 2 - 5));
}

TEST(TopView, MovesTheRowsOfTheChosenPanel) {
  TopContents shown = contents();
  shown.view->communicators.resize(100);
  for (size_t i = 0; i < 100; ++i) shown.view->communicators[i].name = "c" + std::to_string(i);
  TopView view;
  view.press(TopView::Key::next_panel);
  const auto first = [&] { return rows_below(view.lines(shown, 120, 30), "communicators").front(); };
  EXPECT_THAT(first(), StartsWith("  c0 "));
  view.press(TopView::Key::down);
  view.press(TopView::Key::down);
  EXPECT_THAT(first(), StartsWith("  c2 "));
  view.press(TopView::Key::up);
  EXPECT_THAT(first(), StartsWith("  c1 "));
  view.press(TopView::Key::page_down);
  EXPECT_THAT(first(), StartsWith("  c15 "));
  view.press(TopView::Key::end);
  EXPECT_THAT(first(), StartsWith("  c86 "));
  view.press(TopView::Key::down);
  EXPECT_THAT(first(), StartsWith("  c86 ")) << "there is no more";
  shown.view->communicators.resize(3);
  EXPECT_THAT(first(), StartsWith("  c0 ")) << "they have become fewer";
  view.press(TopView::Key::home);
  view.press(TopView::Key::last_panel);
  EXPECT_THAT(view.lines(shown, 120, 30),
              Contains(AllOf(Field(&TopLine::style, TopLine::Style::chosen), Field(&TopLine::text, "> 2 tenants"))));
}

TEST(TopView, ShowsTheChosenPanelAloneWhereThereIsLittleRoom) {
  TopView view;
  view.press(TopView::Key::next_panel);
  view.press(TopView::Key::next_panel);
  const std::vector<TopLine> lines = view.lines(contents(), 120, 8);
  EXPECT_THAT(rows_below(lines, "links"), SizeIs(2));
  EXPECT_THAT(texts(lines), Not(Contains(HasSubstr("tenants"))));
}

TEST(TopView, SaysWhatIsWrongFirst) {
  TopContents shown = contents();
  for (int i = 0; i < 9; ++i) {
    shown.view->findings.push_back(
        {.kind = "late rank", .communicator = "", .words = "rank " + std::to_string(i) + " is late"});
  }
  TopView view;
  std::vector<TopLine> lines = view.lines(shown, 120, 40);
  EXPECT_EQ(lines[1].text, "late rank: rank 0 is late");
  EXPECT_EQ(lines[1].style, TopLine::Style::bad);
  EXPECT_EQ(lines[9].text, "late rank: rank 8 is late");
  lines = view.lines(shown, 120, 20);
  EXPECT_EQ(lines[5].text, "5 more wrong: see 'banyan service status'");
  shown.trouble = "nobody listens at unix:operator.sock";
  EXPECT_EQ(view.lines(shown, 120, 20)[1].text, shown.trouble);
}

TEST(TopView, BreaksLongSentences) {
  TopContents shown = contents();
  shown.view->findings = {
      {.kind = "late rank", .communicator = "", .words = "rank 1 of 'job17' is late: 3 ranks wait"}};
  TopView view;
  const std::vector<TopLine> lines = view.lines(shown, 30, 40);
  EXPECT_EQ(lines[1].text, "late rank: rank 1 of 'job17'");
  EXPECT_EQ(lines[2].text, "  is late: 3 ranks wait");
  EXPECT_EQ(lines[2].style, TopLine::Style::bad);
}

TEST(TopView, WaitsForTheFirstAnswer) {
  TopView view;
  EXPECT_EQ(view.lines({.daemon = "unix:x"}, 80, 10)[1].text, "asking the daemon");
}

TEST(TopView, ObeysNoName) {
  TopContents shown = contents();
  shown.view->communicators[0].name = "\x1b[2J\nforged";
  shown.view->events[0].words = "a\tb";
  TopView view;
  for (const std::string& text : texts(view.lines(shown, 200, 40))) {
    EXPECT_TRUE(std::all_of(text.begin(), text.end(), [](char c) { return c >= 0x20 && c != 0x7f; })) << text;
  }
}

TEST(Fitting, CountsCharactersAndCutsNone) {
  EXPECT_EQ(fitting("abc", 3), "abc");
  EXPECT_EQ(fitting("abcd", 3), "ab~");
  EXPECT_EQ(fitting("\xc3\xa4\xc3\xa4\xc3\xa4", 3), "\xc3\xa4\xc3\xa4\xc3\xa4");
  EXPECT_EQ(fitting("\xc3\xa4\xc3\xa4\xc3\xa4", 2), "\xc3\xa4~");
  EXPECT_EQ(fitting("abc", 0), "");
  EXPECT_EQ(fitting("abc", 1), "~");
  EXPECT_EQ(fitting("a\tb\x7f", 9), "a?b?");
}

}  // namespace
}  // namespace banyan::app
