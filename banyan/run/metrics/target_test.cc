#include "banyan/run/metrics/target.h"

#include <unistd.h>

#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

std::string error_of(const std::string& text) {
  return testing::error_of([&] { MetricsTarget::parse(text); });
}

class Target : public ::testing::Test {
 protected:
  Target() {
    for (const char* name : {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "FLUX_JOB_ID", "TORCHELASTIC_RUN_ID"}) {
      unsetenv(name);
    }
  }
};

TEST_F(Target, TakesTheRankOnItsHostToThePort) {
  const MetricsTarget target = MetricsTarget::parse("9400");
  ASSERT_TRUE(target.is_port());
  EXPECT_EQ(target.endpoint({.rank = 11, .size = 16, .rank_on_host = 3}), "127.0.0.1:9403");
  EXPECT_EQ(MetricsTarget::parse("0.0.0.0:9400").endpoint({}), "0.0.0.0:9400");
  EXPECT_EQ(MetricsTarget::parse("[::]:9400").endpoint({.rank_on_host = 1}), "[::]:9401");
  EXPECT_THAT(testing::error_of([] { MetricsTarget::parse("65535").endpoint({.rank_on_host = 1}); }),
              HasSubstr("would have port 65536"));
}

TEST_F(Target, NamesAFileOfItsOwnForEveryRank) {
  const JobPlace place{.rank = 3, .size = 4, .rank_on_host = 1};
  EXPECT_EQ(MetricsTarget::parse("/tmp/metrics.prom").file(place), "/tmp/metrics.3.prom");
  EXPECT_EQ(MetricsTarget::parse("metrics").file(place), "metrics.3");
  EXPECT_EQ(MetricsTarget::parse("/tmp/metrics.prom").file({}), "/tmp/metrics.prom") << "a rank that is alone";
  EXPECT_EQ(MetricsTarget::parse("/tmp/%r-%j.prom").file(place), "/tmp/3-nojob.prom");
  EXPECT_EQ(MetricsTarget::parse("%p%%.prom").file(place), std::to_string(getpid()) + "%.prom");
  setenv("SLURM_JOB_ID", "47/11", 1);
  EXPECT_EQ(MetricsTarget::parse("/tmp/%r-%j.prom").file(place), "/tmp/3-47_11.prom");
  EXPECT_EQ(MetricsTarget::parse("/tmp/").file(place), "/tmp/banyan-47_11-rank3.prom") << "a folder";
  unsetenv("SLURM_JOB_ID");
}

TEST_F(Target, SaysWhatIsWrongWithIt) {
  EXPECT_THAT(error_of("0"), HasSubstr("BANYAN_METRICS=0: a port is a number from 1 to 65535"));
  EXPECT_THAT(error_of("70000"), HasSubstr("from 1 to 65535"));
  for (const std::string number : {"-1", "+9400", "9400.5", "9,400", " 9400", "127.0.0.1"}) {
    EXPECT_EQ(error_of(number), "BANYAN_METRICS=" + number +
                                    ": a port is a number from 1 to 65535; for a file of this name, write ./" + number);
  }
  EXPECT_EQ(MetricsTarget::parse("./-1").file({}), "./-1");
  EXPECT_THAT(error_of("/tmp/%x.prom"), HasSubstr("'%' is to be followed by r (rank)"));
  EXPECT_THAT(error_of("/tmp/%"), HasSubstr("'%' is to be followed by"));
}

TEST_F(Target, KnowsTheJobOfTheScheduler) {
  EXPECT_EQ(scheduler_job(), "");
  setenv("TORCHELASTIC_RUN_ID", "none", 1);
  EXPECT_EQ(scheduler_job(), "");
  setenv("PBS_JOBID", "12.server", 1);
  EXPECT_EQ(scheduler_job(), "12.server");
  unsetenv("PBS_JOBID");
  unsetenv("TORCHELASTIC_RUN_ID");
}

}  // namespace
}  // namespace banyan::run
