#include "lab/tool.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>

#include "banyan/base/error.h"
#include "banyan/run/system/child.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/system_error.h"

namespace banyan::lab {
namespace {

// A file without a name: unlike a pipe, it is never full.
run::FileDescriptor make_buffer(const std::string& contents) {
  run::FileDescriptor buffer(memfd_create("banyan-lab", MFD_CLOEXEC));
  if (!buffer.is_open()) throw run::system_error("cannot make a file in memory");
  if (write(buffer.get(), contents.data(), contents.size()) != static_cast<ssize_t>(contents.size()) ||
      lseek(buffer.get(), 0, SEEK_SET) != 0) {
    throw run::system_error("cannot write to a file in memory");
  }
  return buffer;
}

std::string contents_of(const run::FileDescriptor& buffer) {
  std::string text(static_cast<size_t>(std::max<off_t>(lseek(buffer.get(), 0, SEEK_END), 0)), '\0');
  const ssize_t count = pread(buffer.get(), text.data(), text.size(), 0);
  if (count < 0) throw run::system_error("cannot read a file in memory");
  text.resize(static_cast<size_t>(count));
  return text;
}

}  // namespace

std::string run_tool(const std::vector<std::string>& words, const std::string& input) {
  const run::FileDescriptor in = make_buffer(input), out = make_buffer(""), errors = make_buffer("");
  try {
    run::Child tool({.words = words, .input = in.get(), .output = out.get(), .errors = errors.get()});
    if (tool.reap() == 0) return contents_of(out);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::not_found) throw;
    throw Error(ErrorCode::not_found,
                "there is no program '" + words[0] + "' in PATH; it is part of iproute2 (apt install iproute2)");
  }
  std::string said = contents_of(errors);
  said.resize(std::min(said.find('\n'), said.size()));
  std::string command;
  for (const std::string& word : words) command += (command.empty() ? "" : " ") + word;
  throw Error(ErrorCode::io, "'" + command + "' failed" + (said.empty() ? "" : ": " + said));
}

}  // namespace banyan::lab
