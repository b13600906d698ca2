// Runs the built `banyan` as a user would, for tests of what only the whole program can promise: exit codes, what goes
// to which stream, files left behind. Tests only.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "banyan/testing/temporary_folder.h"

namespace banyan::app {

struct Outcome {
  int exit_code = -1;  // 128 + the signal where one ended it
  std::string out, err;
};

// Between blanks.
std::vector<std::string> words_of(const std::string& line);

// Standard output and error are pipes or files, never a terminal; NO_COLOR is not set.
Outcome run_banyan(const std::vector<std::string>& arguments);

// Its standard output, read as JSON. Fails the test if it ends with another code than 0, or writes to standard error.
nlohmann::json json_of(const std::vector<std::string>& arguments);

// The one line that it says. Fails the test unless it ends with 2 and prints nothing.
std::string refusal_of(const std::vector<std::string>& arguments);
// Fails the test unless it is refused so, and the line says `reason`.
void expect_refused(const std::vector<std::string>& arguments, const std::string& reason);

// Standard output goes to an existing file, such as /dev/full.
Outcome run_banyan_into(const std::string& file, const std::vector<std::string>& arguments);

// Standard output is a pipe whose reader is gone.
Outcome run_banyan_into_closed_pipe(const std::vector<std::string>& arguments);

// Standard output and error are one terminal; all it shows comes back as `out`.
Outcome run_banyan_on_terminal(const std::vector<std::string>& arguments,
                               const std::vector<std::string>& environment = {});

// The same with somebody before it: once the terminal has shown the first text of a line, the second is typed.
struct TypedLine {
  std::string when, keys;
};
Outcome run_banyan_with_typist(const std::vector<std::string>& arguments, const std::vector<TypedLine>& lines);

// An empty folder that goes away with the object, and its files by name.
class TemporaryFolder : public testing::TemporaryFolder {
 public:
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string write(const std::string& name, const std::string& contents) const;  // returns its path
  std::string read(const std::string& name) const;                                // throws when there is none
  std::vector<std::string> names() const;                                         // sorted
};

}  // namespace banyan::app
