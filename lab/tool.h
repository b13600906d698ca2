// The programs of the system that the lab uses: ip and tc of iproute2.
#pragma once

#include <string>
#include <vector>

namespace banyan::lab {

// Runs a program from PATH until it ends, with `input` as its standard input, and returns its standard output. Throws
// Error{not_found} when there is no such program, with the package that has it, and Error{io} with its first line of
// errors when it fails.
std::string run_tool(const std::vector<std::string>& words, const std::string& input = "");

}  // namespace banyan::lab
