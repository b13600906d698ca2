#include "banyan/run/metrics/metrics.h"
#include "banyan/testing/test.h"

namespace banyan::run {
namespace {

TEST(MetricsMissing, SaysThatTheLibraryIsMissingAndGoesOn) {
  ::testing::internal::CaptureStderr();
  start_metrics({.target = "9400"});
  EXPECT_THAT(::testing::internal::GetCapturedStderr(), ::testing::HasSubstr("built without prometheus-cpp"));
}

TEST(MetricsMissing, IsSilentWhenNobodyAsks) {
  ::testing::internal::CaptureStderr();
  start_metrics({.target = ""});
  EXPECT_EQ(::testing::internal::GetCapturedStderr(), "");
}

}  // namespace
}  // namespace banyan::run
