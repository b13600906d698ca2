// A plan from a file is carried out, on one host too.
#include <stdlib.h>

#include "banyan/base/file.h"
#include "banyan/testing/test.h"
#include "bindings/c/test_ranks.h"

namespace banyan::c {
namespace {

constexpr size_t kCount = 100'003;

std::string sum_of_positions(banyan_comm_t comm, int rank) {
  std::vector<int64_t> values(kCount);
  for (size_t i = 0; i < kCount; ++i) values[i] = static_cast<int64_t>(i) * (rank + 1);
  require(banyan_all_reduce(values.data(), values.data(), kCount, BANYAN_INT64, BANYAN_SUM, comm, nullptr));
  for (size_t i = 0; i < kCount; ++i) {
    if (values[i] != static_cast<int64_t>(i) * 6) return "wrong at " + std::to_string(i);
  }
  return "right";
}

TEST(GivenPlan, IsFollowedOnOneHostToo) {
  const MeetingPlace place;
  const std::string plan = place.folder() + "/plan.json", log = place.folder() + "/log";
  ASSERT_EQ(system((BANYAN_BINARY " plan allreduce ring:3 -o " + plan + " > /dev/null").c_str()), 0);
  setenv("BANYAN_LOG", "info", 1);
  setenv("BANYAN_LOG_FILE", log.c_str(), 1);
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.plan = plan.c_str();
  config.transport = "auto";
  EXPECT_THAT(run_ranks(3, sum_of_positions, &config), Each("right"));
  unsetenv("BANYAN_LOG");
  unsetenv("BANYAN_LOG_FILE");
  EXPECT_THAT(read_file(log, 1 << 20), HasSubstr("plans through shared memory"));
}

TEST(GivenPlan, ForOthersIsRefusedByName) {
  const MeetingPlace place;
  const std::string plan = place.folder() + "/plan.json";
  ASSERT_EQ(system((BANYAN_BINARY " plan allreduce ring:4 -o " + plan + " > /dev/null").c_str()), 0);
  banyan_config_t config = BANYAN_CONFIG_INIT;
  config.plan = plan.c_str();
  EXPECT_THAT(run_ranks(3, sum_of_positions, &config), Each(HasSubstr("plan.json")));
}

}  // namespace
}  // namespace banyan::c
