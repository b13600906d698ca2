#include "banyan/run/transport/ucx/transport.h"
#include "banyan/testing/test.h"

namespace banyan::run::ucx {
namespace {

TEST(UcxTransport, SaysHowToGetOne) {
  EXPECT_THAT(testing::error_of([&] { make_transport(nullptr, {.ranks = 2}); }, ErrorCode::unsupported),
              ::testing::HasSubstr("libucx-dev"));
}

}  // namespace
}  // namespace banyan::run::ucx
