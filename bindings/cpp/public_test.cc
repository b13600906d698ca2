// What users get: headers that stand alone, a library that shows nothing but its own names, twins for profilers, and
// examples that are started in any way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "banyan/base/check.h"
#include "banyan/base/file.h"

namespace banyan {
namespace {

using ::testing::AllOf;
using ::testing::Each;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
namespace fs = std::filesystem;

// What it wrote to both its outputs, and "exit code N" where that is not 0.
std::string output_of(const std::string& command) {
  FILE* const pipe = popen((command + " 2>&1").c_str(), "r");
  CHECK(pipe != nullptr) << command;
  std::string text;
  char buffer[4096];
  while (const size_t count = fread(buffer, 1, sizeof buffer, pipe)) text.append(buffer, count);
  const int status = pclose(pipe);
  return status == 0 ? text : text + "exit code " + std::to_string(WEXITSTATUS(status));
}

// ---- Headers ----

struct Dialect {
  const char* header;
  const char* compiler;
  const char* options;
};
class Headers : public ::testing::TestWithParam<Dialect> {};
constexpr const char* kC = C_COMPILER " -x c -Wall -Wextra -pedantic -Werror";
constexpr const char* kCxx =
    CXX_COMPILER " -x c++ -Wall -Wextra -Wshadow -Wconversion -Wno-sign-conversion -pedantic -Werror";
INSTANTIATE_TEST_SUITE_P(
    Each, Headers,
    ::testing::Values(Dialect{"banyan.h", kC, "-std=c89"}, Dialect{"banyan.h", kC, "-std=c99"},
                      Dialect{"banyan.h", kC, "-std=c17"}, Dialect{"banyan.h", kCxx, "-std=c++11"},
                      Dialect{"profiling.h", kC, "-std=c89"}, Dialect{"profiling.h", kC, "-std=c99"},
                      Dialect{"profiling.h", kCxx, "-std=c++11"}, Dialect{"error.h", kCxx, "-std=c++20"},
                      Dialect{"buffers.h", kCxx, "-std=c++20"}, Dialect{"communicator.h", kCxx, "-std=c++20"},
                      Dialect{"options.h", kCxx, "-std=c++20"}, Dialect{"sparse.h", kCxx, "-std=c++20"}),
    [](const auto& instance) {
      std::string name = std::string(instance.param.header) + instance.param.options;
      std::erase_if(name, [](unsigned char c) { return !std::isalnum(c); });
      return name;
    });

TEST_P(Headers, CompileAloneOutsideOfTheTree) {
  const fs::path folder = fs::temp_directory_path() / "include";
  fs::remove_all(folder);
  fs::copy(BANYAN_SOURCE_DIR "/include", folder, fs::copy_options::recursive);
  const auto& [header, compiler, options] = GetParam();
  const std::string program = folder / "program";
  write_file(program, "#include <banyan/" + std::string(header) + ">\nint main(void) { return 0; }\n");
  EXPECT_EQ(output_of(std::string(compiler) + " " + options + " -fsyntax-only -I" + folder.string() + " " + program),
            "");
}

TEST(Headers, AreAllTested) {
  std::set<std::string> there;
  for (const auto& entry : fs::directory_iterator(BANYAN_SOURCE_DIR "/include/banyan")) {
    there.insert(entry.path().filename());
  }
  EXPECT_EQ(there, (std::set<std::string>{"banyan.h", "buffers.h", "communicator.h", "cxx20.h", "error.h", "options.h",
                                          "profiling.h", "sparse.h"}));
}

TEST(Headers, OfCxx20SayInOneLineThatTheyWantIt) {
  for (const std::string header : {"buffers.h", "communicator.h", "cxx20.h", "error.h", "options.h", "sparse.h"}) {
    const std::string program = fs::temp_directory_path() / "program";
    write_file(program, "#include <banyan/" + header + ">\nint main(void) { return 0; }\n");
    for (const std::string compiler :
         {CXX_COMPILER " -x c++ -std=c++17", CXX_COMPILER " -x c++ -std=c++11", C_COMPILER " -x c"}) {
      const std::string said =
          output_of(compiler + " -fsyntax-only -I" BANYAN_SOURCE_DIR "/include " + program + " 2>&1 | grep error:");
      EXPECT_THAT(said, HasSubstr("wants C++20: compile with -std=c++20")) << compiler;
      EXPECT_EQ(std::ranges::count(said, '\n'), 1) << header << ", " << compiler << ":\n" << said;
    }
  }
}

// ---- The library ----

std::set<std::string> exported() {
  std::istringstream lines(output_of(NM " --dynamic --defined-only --format=posix " LIBRARY));
  std::set<std::string> names;
  for (std::string line; std::getline(lines, line);) names.insert(line.substr(0, line.find(' ')));
  return names;
}

// The functions that a header declares: words that begin so and are followed by a parenthesis.
std::set<std::string> declared_in(const std::string& header, const std::string& prefix) {
  const std::string text = read_file(BANYAN_SOURCE_DIR "/include/banyan/" + header);
  std::set<std::string> names;
  for (std::istringstream lines(text); lines;) {
    std::string line;
    std::getline(lines, line);
    const size_t end = line.find('(');
    if (end == std::string::npos || line.starts_with(" *") || line.starts_with("/*") || line.starts_with("#")) continue;
    const size_t begin = line.rfind(' ', end) + 1;
    if (line.substr(begin).starts_with(prefix)) names.insert(line.substr(begin, end - begin));
  }
  return names;
}

TEST(Library, ShowsTheFunctionsOfItsHeadersAndNothingElse) {
  const std::set<std::string> declared = declared_in("banyan.h", "banyan_");
  EXPECT_GT(declared.size(), 40u);
  std::set<std::string> expected = {"BANYAN_0"};  // the version of all of them
  for (const std::string& name : declared) expected.insert({name + "@@BANYAN_0", "p" + name + "@@BANYAN_0"});
  EXPECT_EQ(exported(), expected);
}

TEST(Library, HasATwinOfEachFunction) {
  std::set<std::string> twins, expected;
  std::istringstream lines(read_file(BANYAN_SOURCE_DIR "/include/banyan/profiling.h"));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("BANYAN_TWIN(")) twins.insert(line);
  }
  for (const std::string& name : declared_in("banyan.h", "banyan_")) expected.insert("BANYAN_TWIN(" + name + ");");
  EXPECT_EQ(twins, expected);
}

TEST(Profiler, SeesTheCallsOfProgramsInCAndInCxx) {
  const std::string preload = "BANYAN_ALONE=1 LD_PRELOAD=" PROFILER " ";
  EXPECT_THAT(output_of(preload + C_EXAMPLE), AllOf(HasSubstr("profiler: all_reduce of 4000000 bytes\n"),
                                                    HasSubstr("1 ranks agree"), Not(HasSubstr("exit code"))));
  EXPECT_THAT(output_of(preload + CXX_EXAMPLE),
              AllOf(HasSubstr("profiler: all_reduce of 400000 bytes\n"), HasSubstr("1 ranks agree on 8 layers"),
                    Not(HasSubstr("exit code"))));
}

// ---- Programs in C++ ----

TEST(Programs, InCxxListenToTheEnvironment) {
  const std::string tcp = output_of("BANYAN_TRANSPORT=tcp BANYAN_LOG=debug " BANYAN_BINARY " run -n 2 -- " CXX_EXAMPLE);
  EXPECT_THAT(tcp, AllOf(HasSubstr("communicator 'training': rank 1 of 2, TCP"), HasSubstr("allreduce of"),
                         HasSubstr("2 ranks agree on 8 layers"), Not(HasSubstr("exit code"))));
  EXPECT_THAT(output_of("BANYAN_FABRIC=ring:3 BANYAN_TRANSPORT=tcp " BANYAN_BINARY " run -n 2 -- " CXX_EXAMPLE),
              HasSubstr("ring:3: this fabric has 3 ranks"));
  EXPECT_THAT(output_of("BANYAN_TIMEOUT=never " BANYAN_BINARY " run -n 2 -- " CXX_EXAMPLE),
              HasSubstr("BANYAN_TIMEOUT=never"));
}

TEST(Programs, AreWarnedAboutWhatTheyProbablyDidNotMean) {
  EXPECT_THAT(output_of("BANYAN_TRANSPRT=tcp " CXX_EXAMPLE),
              AllOf(HasSubstr("BANYAN_TRANSPRT is no variable of Banyan (did you mean 'BANYAN_TRANSPORT'?)"),
                    HasSubstr("no launcher found: this process is alone"), HasSubstr("BANYAN_ALONE=1")));
  EXPECT_EQ(output_of("BANYAN_ALONE=1 " CXX_EXAMPLE), "1 ranks agree on 8 layers\n");
  EXPECT_THAT(output_of("BANYAN_TRANSPRT=tcp RANK=1 WORLD_SIZE=2 BANYAN_RENDEZVOUS=file:///nowhere/there "
                        "BANYAN_JOIN_TIMEOUT=0.05 " CXX_EXAMPLE),
              HasSubstr(" rank 1 warning: BANYAN_TRANSPRT is no variable of Banyan"))
      << "who has not joined yet has a rank";
}

// Each would be alone, and end as if all were well.
TEST(Programs, EndWhereTheyWereStartedAsOneOfManyAndDoNotKnowWhich) {
  EXPECT_THAT(output_of("WORLD_SIZE=2 " CXX_EXAMPLE),
              AllOf(HasSubstr("WORLD_SIZE=2 is set, but RANK is not"), HasSubstr("exit code")));
  EXPECT_EQ(output_of("WORLD_SIZE=2 BANYAN_ALONE=1 " CXX_EXAMPLE), "1 ranks agree on 8 layers\n");
}

}  // namespace
}  // namespace banyan
