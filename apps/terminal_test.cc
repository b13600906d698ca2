#include "apps/terminal.h"

#include <gmock/gmock.h>

#include <csignal>

namespace banyan::app {
namespace {

using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

const Terminal kTerminal({.colour = true, .progress = true});

// The standard error of `work`. The timer's signal is raised by hand: no test waits a second.
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
    Progress progress(kTerminal, "reading");
    progress.say("packing trees");
    progress.fraction(0.345);
    std::raise(SIGALRM);
  });
  EXPECT_THAT(shown, HasSubstr("banyan: packing trees 34 % (1 s)"));
  EXPECT_THAT(shown, EndsWith("\r\033[K"));
}

TEST(Progress, CountsSecondsAndForgetsTheFractionOfAnEarlierPhase) {
  const std::string shown = shown_by([] {
    Progress progress(kTerminal, "packing trees");
    progress.fraction(1);
    for (int tick = 0; tick < 5; ++tick) std::raise(SIGALRM);
    progress.say("verifying");
    std::raise(SIGALRM);
  });
  EXPECT_THAT(shown, HasSubstr("packing trees 100 % (1 s)"));
  EXPECT_THAT(shown, HasSubstr("verifying (2 s)"));
}

TEST(Progress, KeepsSilentWhenTheWorkIsShort) {
  EXPECT_THAT(shown_by([] { Progress progress(kTerminal, "reading"); }), IsEmpty());
}

TEST(Progress, KeepsSilentWithoutATerminal) {
  const auto before = std::signal(SIGALRM, SIG_IGN);
  EXPECT_THAT(shown_by([] {
                Progress progress(Terminal({}), "reading");
                progress.fraction(0.5);
                std::raise(SIGALRM);
              }),
              IsEmpty());
  std::signal(SIGALRM, before);
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
