// Manual pages from the syntax of commands: one page for each command and one for the program, in the language of
// man(7), which groff and mandoc read.
#pragma once

#include <string>
#include <vector>

#include "apps/syntax.h"

namespace banyan::app {

struct ManualPage {
  std::string file;  // "banyan-lab-up.1"
  std::string text;
};

// `date` is that of the pages, "2026-11-22", or empty.
std::vector<ManualPage> manual_pages(const CommandSyntax& program, const std::string& version, const std::string& date);

}  // namespace banyan::app
