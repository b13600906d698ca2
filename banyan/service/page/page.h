// The dashboard: a page that asks its daemon for /v1/cluster each second, and shows what is wrong, who uses links, and
// what goes on. One HTML file that loads nothing; its front end is in src/, and built and committed in dist/.
#pragma once

#include <string_view>

namespace banyan::service {

std::string_view dashboard_page();

}  // namespace banyan::service
