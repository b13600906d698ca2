#include "banyan/service/page/page.h"

#include "banyan/base/file.h"
#include "banyan/testing/test.h"

namespace banyan::service {
namespace {

TEST(Dashboard, IsTheCommittedPage) {
  EXPECT_EQ(dashboard_page(), read_file(BANYAN_SOURCE_DIR "/banyan/service/page/dist/dashboard.html"));
}

TEST(Dashboard, RunsItsOwnScriptOnlyAndAsksItsOwnDaemonOnly) {
  const std::string page(dashboard_page());
  EXPECT_THAT(page, HasSubstr("default-src 'none'; script-src 'sha256-"));
  EXPECT_THAT(page, HasSubstr("connect-src 'self'"));
  EXPECT_THAT(page, Not(HasSubstr("SCRIPT_HASH")));
  EXPECT_THAT(page, Not(HasSubstr("<script src")));
}

}  // namespace
}  // namespace banyan::service
