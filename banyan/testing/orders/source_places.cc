#include "banyan/testing/orders/source_places.h"

#include <link.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <cstdio>
#include <map>
#include <sstream>

#include "banyan/base/check.h"

namespace banyan::testing::orders {
namespace {

// Of the program itself, which is the first of those that are loaded.
uintptr_t load_address() {
  uintptr_t address = 0;
  dl_iterate_phdr(
      [](dl_phdr_info* info, size_t, void* found) {
        *static_cast<uintptr_t*>(found) = info->dlpi_addr;
        return 1;
      },
      &address);
  return address;
}

std::string program() {
  std::array<char, PATH_MAX> path{};
  CHECK(readlink("/proc/self/exe", path.data(), path.size() - 1) > 0);
  return path.data();
}

// Of lines "path:line", the innermost function first.
std::string innermost(const std::vector<std::string>& lines) {
  for (const std::string& line : lines) {
    const bool is_helper = line.find("/c++/") != std::string::npos || line.find("/shared_word.h:") != std::string::npos;
    if (is_helper || line.starts_with("?")) continue;
    const std::string name = line.substr(line.rfind('/') + 1);
    return name.substr(0, name.find(' '));  // " (discriminator 2)"
  }
  return "?";
}

}  // namespace

std::vector<std::string> source_places(const std::vector<uintptr_t>& calls) {
  static std::map<uintptr_t, std::string> known;
  std::ostringstream command;
  command << "addr2line -a -i -e '" << program() << "'" << std::hex;
  std::vector<uintptr_t> asked;
  for (const uintptr_t call : calls) {
    if (known.contains(call) || call == 0) continue;
    asked.push_back(call);
    command << " 0x" << call - load_address() - 1;
  }
  if (!asked.empty()) {
    FILE* const pipe = popen(command.str().c_str(), "r");
    CHECK(pipe != nullptr);
    std::vector<std::vector<std::string>> lines;
    std::array<char, 4096> line{};
    while (std::fgets(line.data(), line.size(), pipe) != nullptr) {
      std::string text = line.data();
      text.pop_back();
      if (text.starts_with("0x")) {
        lines.emplace_back();
      } else if (!lines.empty()) {
        lines.back().push_back(text);
      }
    }
    CHECK(pclose(pipe) == 0 && lines.size() == asked.size()) << command.str();
    for (size_t i = 0; i < asked.size(); ++i) known[asked[i]] = innermost(lines[i]);
  }
  std::vector<std::string> places;
  for (const uintptr_t call : calls) places.push_back(call == 0 ? "the kernel" : known.at(call));
  return places;
}

}  // namespace banyan::testing::orders
