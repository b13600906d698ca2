#include "lab/host_programs.h"

#include <signal.h>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"
#include "lab/test_real_lab.h"

namespace banyan::lab {
namespace {

using Clock = std::chrono::steady_clock;
using ::testing::ContainsRegex;

class HostProgramsInALab : public RealLab {
 protected:
  void SetUp() override {
    RealLab::SetUp();
    if (IsSkipped()) return;
    folder_ = std::filesystem::temp_directory_path() / name_;
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override {
    RealLab::TearDown();
    if (!folder_.empty()) std::filesystem::remove_all(folder_);
  }

  std::string said(const std::string& file) const {
    return std::filesystem::exists(folder_ / file) ? read_file(folder_ / file) : "nothing";
  }
  // Once it says something.
  std::string waited_for(const std::string& file) const {
    for (const auto end = Clock::now() + std::chrono::seconds(20); Clock::now() < end;) {
      if (std::string text = said(file); text.ends_with('\n')) return text;
      std::this_thread::sleep_for(milliseconds(5));
    }
    return "nothing";
  }

  std::filesystem::path folder_;
};

TEST_F(HostProgramsInALab, RunOnceInTheNetworkOfEachHostUntilTheyAreEnded) {
  const Lab lab = up("a <-> sw 40Mb/s; b <-> sw 40Mb/s", {.ranks_per_host = {2, 1}});
  const NodeId a = lab.plan().fabric().at("a"), b = lab.plan().fabric().at("b"), sw = lab.plan().fabric().at("sw");
  {
    const HostPrograms programs(
        lab, "cd " + folder_.string() +
                 " && ip netns identify $$ >> $BANYAN_LAB_HOST && echo $BANYAN_HOST_ID $BANYAN_ADDRESS >> "
                 "$BANYAN_LAB_HOST && trap 'echo ended > $BANYAN_LAB_HOST.end; exit 0' TERM && touch "
                 "$BANYAN_LAB_HOST.up && while :; do sleep 0.02; done");
    while (!std::filesystem::exists(folder_ / "a.up") || !std::filesystem::exists(folder_ / "b.up")) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    const std::string space = "banyan-" + name_ + ".";
    EXPECT_EQ(said("a"), space + "a\n" + space + "a 10.0.0.1\n");
    EXPECT_EQ(said("b"), space + "b\n" + space + "b 10.0.0.3\n");
    EXPECT_FALSE(lab.processes(a).empty());
    EXPECT_THAT(lab.processes(sw), IsEmpty());
    EXPECT_THAT(programs.failures(), IsEmpty());
    EXPECT_EQ(said("a.end"), "nothing");
  }
  EXPECT_EQ(said("a.end"), "ended\n");
  EXPECT_EQ(said("b.end"), "ended\n");
  EXPECT_THAT(lab.processes(a), IsEmpty());
  EXPECT_THAT(lab.processes(b), IsEmpty());
}

TEST_F(HostProgramsInALab, AreKilledWithAllTheyStartedWhenTheyDoNotHeedTheSignal) {
  const Lab lab = up("a <-> b 40Mb/s");
  const NodeId a = lab.plan().fabric().at("a");
  Clock::time_point asked;
  {
    const HostPrograms programs(lab,
                                "trap '' TERM; sleep 1000 & echo up > " + folder_.string() + "/$BANYAN_LAB_HOST; wait");
    EXPECT_EQ(waited_for("a"), "up\n");
    EXPECT_THAT(lab.processes(a), SizeIs(2));
    asked = Clock::now();
  }
  EXPECT_GE(Clock::now() - asked, HostPrograms::kGrace);
  // The last one's end may not have been seen by its new parent yet.
  for (const auto end = asked + std::chrono::seconds(20); !lab.processes(a).empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_THAT(lab.processes(a), IsEmpty());
}

TEST_F(HostProgramsInALab, ThatFailToStartAreAnErrorThatNamesTheHost) {
  const Lab lab = up("a <-> b 40Mb/s; b <-> c 40Mb/s");
  const auto start = [&](const std::string& command) {
    return testing::error_of([&] { const HostPrograms programs(lab, command); }, ErrorCode::io);
  };
  EXPECT_THAT(start("test $BANYAN_LAB_HOST != b && sleep 1000"),
              HasSubstr("the program of host 'b' ended with status 1"));
  // All of them, so whichever is seen first.
  EXPECT_THAT(start("exec /no/such/daemon"), ContainsRegex("the program of host '[abc]' ended with status 127"));
  EXPECT_THAT(start("test $BANYAN_LAB_HOST = c && kill -9 $$; sleep 1000"),
              HasSubstr("the program of host 'c' was ended by signal 9"));
  for (const Host& host : lab.plan().hosts()) EXPECT_THAT(lab.processes(host.node), IsEmpty());
}

TEST_F(HostProgramsInALab, MayEndWellAtOnceAndAreNamedWhenTheyFailLater) {
  const Lab lab = up("a <-> b 40Mb/s");
  const HostPrograms done(lab, "true");
  EXPECT_THAT(done.failures(), IsEmpty());
  const HostPrograms programs(lab, "test $BANYAN_LAB_HOST = a || exec sleep 1000; until test -e " + folder_.string() +
                                       "/go; do sleep 0.01; done; exit 3");
  EXPECT_THAT(programs.failures(), IsEmpty());
  std::ofstream(folder_ / "go") << "go";
  for (const auto end = Clock::now() + std::chrono::seconds(20); programs.failures().empty() && Clock::now() < end;) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_THAT(programs.failures(), ::testing::ElementsAre("the program of host 'a' ended with status 3"));
}

}  // namespace
}  // namespace banyan::lab
