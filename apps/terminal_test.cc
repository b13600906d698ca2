#include "apps/terminal.h"

#include "banyan/testing/test.h"

namespace banyan::app {
namespace {

const Terminal kTerminal({.colour = true, .progress = true});

constexpr Progress::Pace kAtOnce{.first = std::chrono::milliseconds(0), .each = std::chrono::milliseconds(1)};

// The text that `work` writes to standard error.
template <typename Work>
std::string shown_by(Work work) {
  ::testing::internal::CaptureStderr();
  work();
  return ::testing::internal::GetCapturedStderr();
}

TEST(Terminal, StylesOnlyWhereThereIsColour) {
  EXPECT_EQ(kTerminal.styled(Terminal::Style::good, "yes"), "\033[32myes\033[0m");
  EXPECT_EQ(Terminal({}).styled(Terminal::Style::good, "yes"), "yes");
}

TEST(Progress, SaysWhatTakesSoLongAndWipesItsLine) {
  const std::string shown = shown_by([] {
    Progress progress(kTerminal, "packing trees", kAtOnce);
    progress.fraction(0.345);
    while (!progress.has_shown()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_THAT(shown, HasSubstr("\r\033[Kbanyan: packing trees 34 % (0 s)"));
  EXPECT_THAT(shown, EndsWith("\r\033[K"));
}

TEST(Progress, ForgetsTheFractionOfAnEarlierPhase) {
  const std::string shown = shown_by([] {
    Progress progress(kTerminal, "packing trees", kAtOnce);
    progress.fraction(1);
    progress.say("verifying");
    while (!progress.has_shown()) std::this_thread::yield();
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  });
  EXPECT_THAT(shown, HasSubstr("banyan: verifying (0 s)"));
}

TEST(Progress, KeepsSilentWhenTheWorkIsShort) {
  EXPECT_THAT(shown_by([] { Progress progress(kTerminal, "reading"); }), IsEmpty());
}

TEST(Progress, KeepsSilentWithoutATerminal) {
  const auto work = [] {
    Progress progress(Terminal({}), "reading", kAtOnce);
    progress.fraction(0.5);
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  };
  EXPECT_THAT(shown_by(work), IsEmpty());
}

TEST(ProgressDeathTest, IsOneLineAtATime) {
  EXPECT_DEATH(
      {
        Progress first(kTerminal, "reading");
        Progress second(kTerminal, "packing");
      },
      "two progress lines at once");
}

}  // namespace
}  // namespace banyan::app
