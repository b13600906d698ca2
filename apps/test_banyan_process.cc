#include "apps/test_banyan_process.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <poll.h>
#include <pty.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "banyan/base/check.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"

namespace banyan::app {
namespace {

int exit_code_of(int status) { return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status); }

// Reads both until both end. A terminal ends with EIO when its last user closes it.
void read_all(std::array<int, 2> descriptors, std::array<std::string*, 2> texts) {
  while (descriptors[0] >= 0 || descriptors[1] >= 0) {
    std::array<pollfd, 2> waiting{{{descriptors[0], POLLIN, 0}, {descriptors[1], POLLIN, 0}}};
    if (::poll(waiting.data(), waiting.size(), -1) < 0) continue;
    for (size_t i = 0; i < 2; ++i) {
      if (descriptors[i] < 0 || waiting[i].revents == 0) continue;
      char buffer[1 << 14];
      const ssize_t got = ::read(descriptors[i], buffer, sizeof buffer);
      if (got > 0) {
        texts[i]->append(buffer, static_cast<size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        ::close(descriptors[i]);
        descriptors[i] = -1;
      }
    }
  }
}

// `out` becomes the child's standard output; when it is below zero, a pipe that is read back.
Outcome run_with_output(int out, const std::vector<std::string>& arguments) {
  run::Pipe output, errors = run::Pipe::make();
  if (out < 0) output = run::Pipe::make();
  run::Program banyan{.words = {BANYAN_BINARY},
                      .unset = {"NO_COLOR"},
                      .output = out < 0 ? output.writing.get() : out,
                      .errors = errors.writing.get()};
  banyan.words.insert(banyan.words.end(), arguments.begin(), arguments.end());
  run::Child child(banyan);
  output.writing.reset();
  errors.writing.reset();
  Outcome outcome;
  read_all({output.reading.release(), errors.reading.release()}, {&outcome.out, &outcome.err});
  outcome.exit_code = exit_code_of(child.reap());
  return outcome;
}

}  // namespace

std::vector<std::string> words_of(const std::string& line) {
  const std::vector<std::string_view> words = split_words(line);
  return {words.begin(), words.end()};
}

Outcome run_banyan(const std::vector<std::string>& arguments) { return run_with_output(-1, arguments); }

nlohmann::json json_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_banyan(arguments);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_THAT(outcome.err, ::testing::IsEmpty());
  return nlohmann::json::parse(outcome.out);
}

std::string refusal_of(const std::vector<std::string>& arguments) {
  const Outcome outcome = run_banyan(arguments);
  EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
  EXPECT_THAT(outcome.out, ::testing::IsEmpty());
  EXPECT_THAT(outcome.err, ::testing::StartsWith("banyan: "));
  EXPECT_EQ(outcome.err.find('\n') + 1, outcome.err.size()) << "one line, not: " << outcome.err;
  return outcome.err;
}

void expect_refused(const std::vector<std::string>& arguments, const std::string& reason) {
  EXPECT_THAT(refusal_of(arguments), ::testing::HasSubstr(reason)) << ::testing::PrintToString(arguments);
}

Outcome run_banyan_into(const std::string& file, const std::vector<std::string>& arguments) {
  const run::FileDescriptor out(::open(file.c_str(), O_WRONLY | O_CLOEXEC));
  CHECK(out.is_open()) << file;
  return run_with_output(out.get(), arguments);
}

Outcome run_banyan_into_closed_pipe(const std::vector<std::string>& arguments) {
  run::Pipe pipe = run::Pipe::make();
  pipe.reading.reset();
  return run_with_output(pipe.writing.get(), arguments);
}

namespace {

// In the child: becomes banyan, or ends with 127.
[[noreturn]] void become_banyan(const std::vector<std::string>& arguments) {
  ::signal(SIGPIPE, SIG_DFL);
  std::vector<char*> words{const_cast<char*>("banyan")};
  for (const std::string& argument : arguments) words.push_back(const_cast<char*>(argument.c_str()));
  words.push_back(nullptr);
  ::execv(BANYAN_BINARY, words.data());
  ::_exit(127);
}

int wait_for(pid_t child) {
  int status = 0;
  while (::waitpid(child, &status, 0) < 0) CHECK_EQ(errno, EINTR);
  return exit_code_of(status);
}

struct OnTerminal {
  pid_t child = -1;
  int terminal = -1;
};

OnTerminal start_on_terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  OnTerminal started;
  started.child = ::forkpty(&started.terminal, nullptr, nullptr, nullptr);
  CHECK(started.child >= 0);
  if (started.child > 0) return started;
  ::unsetenv("NO_COLOR");
  ::setenv("TERM", "xterm", 1);
  for (const std::string& setting : environment) {
    const size_t equals = setting.find('=');
    ::setenv(setting.substr(0, equals).c_str(), setting.substr(equals + 1).c_str(), 1);
  }
  become_banyan(arguments);
}

}  // namespace

Outcome run_banyan_on_terminal(const std::vector<std::string>& arguments, const std::vector<std::string>& environment) {
  const OnTerminal started = start_on_terminal(arguments, environment);
  Outcome outcome;
  read_all({started.terminal, -1}, {&outcome.out, &outcome.err});
  outcome.exit_code = wait_for(started.child);
  return outcome;
}

namespace {

// Appends what the terminal shows until `text` stands there after `seen`, which becomes its end. False when it never
// does.
bool read_until(int terminal, const std::string& text, std::string& shown, size_t& seen) {
  constexpr int kPatience = 30'000;  // ms
  size_t found = 0;
  while ((found = shown.find(text, seen)) == std::string::npos) {
    pollfd waiting{.fd = terminal, .events = POLLIN, .revents = 0};
    if (::poll(&waiting, 1, kPatience) <= 0) return false;
    char buffer[1 << 14];
    const ssize_t got = ::read(terminal, buffer, sizeof buffer);
    if (got <= 0) return false;
    shown.append(buffer, static_cast<size_t>(got));
  }
  seen = found + text.size();
  return true;
}

}  // namespace

Outcome run_banyan_with_typist(const std::vector<std::string>& arguments, const std::vector<TypedLine>& lines) {
  const OnTerminal started = start_on_terminal(arguments, {});
  Outcome outcome;
  size_t seen = 0;
  for (const TypedLine& line : lines) {
    if (!read_until(started.terminal, line.when, outcome.out, seen)) {
      ADD_FAILURE() << "the terminal has not shown '" << line.when << "': " << outcome.out.substr(seen);
      ::kill(started.child, SIGKILL);
      break;
    }
    CHECK_EQ(::write(started.terminal, line.keys.data(), line.keys.size()), static_cast<ssize_t>(line.keys.size()));
  }
  read_all({started.terminal, -1}, {&outcome.out, &outcome.err});
  outcome.exit_code = wait_for(started.child);
  return outcome;
}

std::string TemporaryFolder::write(const std::string& name, const std::string& contents) const {
  std::ofstream file(path(name), std::ios::binary);
  file << contents;
  CHECK(file.good()) << path(name);
  return path(name);
}

std::string TemporaryFolder::read(const std::string& name) const { return read_file(path(name)); }

std::vector<std::string> TemporaryFolder::names() const {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(folder_))
    names.push_back(entry.path().filename().string());
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace banyan::app
