#include "apps/command.h"

#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <map>

#include "banyan/base/file.h"

namespace banyan::app {
namespace {

constexpr std::string_view kStandardOutput = "-";

}  // namespace

void Command::take_program(std::vector<std::string> words) {
  if (words.empty()) return;
  throw invalid("'" + words.front().substr(0, 60) + "' after '--' is a program, which only 'banyan run' starts");
}

void check_output_place(const std::string& path) {
  if (path.empty() || path == kStandardOutput) return;
  const std::filesystem::path parent = std::filesystem::path(path).parent_path();
  const std::string folder = parent.empty() ? "." : parent.string();
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored)) {
    throw Error(ErrorCode::not_found, "cannot write it: folder '" + folder + "' does not exist", path);
  }
  if (std::filesystem::is_directory(path, ignored)) throw Error(ErrorCode::io, "cannot write it: it is a folder", path);
  if (!std::filesystem::exists(path, ignored) && ::access(folder.c_str(), W_OK) != 0) {
    throw Error(ErrorCode::io, "cannot write it: folder '" + folder + "': " + std::strerror(errno), path);
  }
}

void check_output_place(const std::string& path, bool json) {
  if (json && path == kStandardOutput) {
    throw invalid("--json and -o - cannot both be on standard output; give one of them a file");
  }
  check_output_place(path);
}

void write_output(const Terminal& terminal, const std::string& path, std::string_view text) {
  path == kStandardOutput ? terminal.print(text) : write_file(path, text);
}

void say_beside(const Terminal& terminal, const std::string& path, std::string_view text) {
  path == kStandardOutput ? terminal.note(text) : terminal.print(text);
}

void check_output_places(std::initializer_list<std::pair<const char*, std::string>> options) {
  std::map<std::filesystem::path, std::string> taken;
  for (const auto& [option, path] : options) {
    if (path.empty()) continue;
    check_output_place(path);
    std::error_code ignored;
    if (std::filesystem::exists(path, ignored) && !std::filesystem::is_regular_file(path, ignored)) continue;
    const auto [other, is_new] = taken.emplace(std::filesystem::weakly_canonical(path, ignored), option);
    if (!is_new) {
      throw invalid(other->second + " and " + option + " both write " + path + "; name two files");
    }
  }
}

}  // namespace banyan::app
