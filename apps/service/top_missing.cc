// In place of top_screen.cc in a build without ncurses.
#include "apps/service/top_screen.h"
#include "banyan/base/error.h"

namespace banyan::app {

void expect_terminal() {
  throw Error(ErrorCode::unsupported,
              "this Banyan was built without ncurses, by which 'top' draws; build it where that is installed (Debian: "
              "libncurses-dev), or take 'banyan service status'");
}

TopEnd show_top(const OperatorDoor&, service::ClusterView, std::chrono::milliseconds) {
  expect_terminal();
  return TopEnd::quit;
}

}  // namespace banyan::app
