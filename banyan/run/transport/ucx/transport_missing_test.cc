
#include "banyan/run/transport/ucx/transport.h"
#include "banyan/testing/test.h"

namespace banyan::run::ucx {
namespace {

TEST(UcxTransport, SaysHowToGetOne) {
  try {
    make_transport(nullptr, {.ranks = 2});
    ADD_FAILURE() << "where does it come from?";
  } catch (const Error& error) {
    EXPECT_EQ(error.code(), ErrorCode::unsupported);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("libucx-dev"));
  }
}

}  // namespace
}  // namespace banyan::run::ucx
