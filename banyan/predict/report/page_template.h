// page/dist/report.html as it is compiled in: page_template.cc is written by cmake/embed_page.cmake at build time.
#pragma once

#include <string_view>

namespace banyan::predict::report {

std::string_view page_template();

}  // namespace banyan::predict::report
