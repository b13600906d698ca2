#include "apps/run/rank_process.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <unistd.h>

#include <array>
#include <cerrno>

#include "banyan/base/error.h"
#include "banyan/run/system/system_error.h"

namespace banyan::app {
namespace {

// A line that is longer is cut, so that a program without ends of lines does not take all memory.
constexpr size_t kLongestLine = 16 << 20;
// The size of a pipe, if the system allows it.
constexpr int kLargestInput = 1 << 20;

// In the child. Programs that look for their devices in /sys (UCX, for one) must find those of this network, so it is
// mounted anew, for this process and its children alone; control groups are seen as before. False, with errno.
bool enter_network(int network) {
  if (setns(network, CLONE_NEWNET) != 0 || unshare(CLONE_NEWNS) != 0) return false;
  if (mount("", "/", nullptr, MS_SLAVE | MS_REC, nullptr) != 0) return false;
  constexpr const char* kGroups = "/sys/fs/cgroup";
  const run::FileDescriptor groups(open_tree(AT_FDCWD, kGroups, OPEN_TREE_CLONE | OPEN_TREE_CLOEXEC | AT_RECURSIVE));
  if (mount("sysfs", "/sys", "sysfs", 0, nullptr) != 0) return false;
  return !groups.is_open() || move_mount(groups.get(), "", AT_FDCWD, kGroups, MOVE_MOUNT_F_EMPTY_PATH) == 0;
}

void write_input(const run::FileDescriptor& pipe, const std::string& text) {
  // Nobody reads yet, so it must fit.
  int holds = fcntl(pipe.get(), F_GETPIPE_SZ);
  if (holds >= 0 && text.size() > static_cast<size_t>(holds)) holds = fcntl(pipe.get(), F_SETPIPE_SZ, kLargestInput);
  if (holds < 0 || text.size() > static_cast<size_t>(holds)) {
    throw Error(ErrorCode::unsupported, "the arguments of the program are too long for another host");
  }
  const ssize_t written = write(pipe.get(), text.data(), text.size());
  if (written != static_cast<ssize_t>(text.size())) throw run::system_error("cannot write to a pipe");
}

}  // namespace

RankProcess::RankProcess(const Start& start) {
  run::Program program{.words = start.words,
                       .variables = start.variables,
                       .unset = start.unset,
                       .input = start.reads_our_input ? run::Program::kOurs : run::Program::kNothing,
                       .has_own_group = true,
                       .signal_mask = start.signal_mask};
  run::Pipe input, output, errors;
  if (start.input) {
    input = run::Pipe::make();
    write_input(input.writing, *start.input);
    program.input = input.reading.get();
  }
  if (start.collects_output) {
    output = run::Pipe::make();
    errors = run::Pipe::make();
    program.output = output.writing.get();
    program.errors = errors.writing.get();
    for (const run::FileDescriptor* fd : {&output.reading, &errors.reading}) fcntl(fd->get(), F_SETFL, O_NONBLOCK);
  }
  run::FileDescriptor network;
  if (!start.network_namespace.empty()) {
    network = run::FileDescriptor(open(("/run/netns/" + start.network_namespace).c_str(), O_RDONLY | O_CLOEXEC));
    if (!network.is_open())
      throw run::system_error("cannot open the network namespace '" + start.network_namespace + "'");
    program.prepare = [&network] { return enter_network(network.get()); };
  }
  child_ = run::Child(program);
  input_ = std::move(input.writing);
  output_.fd = std::move(output.reading);
  errors_.fd = std::move(errors.reading);
}

int RankProcess::reap() {
  const int status = child_.reap();
  input_.reset();
  return status;
}

void RankProcess::end(int signal) {
  if (input_.is_open()) {
    input_.reset();
  } else {
    send(signal);
  }
}

std::vector<std::string> RankProcess::Stream::read(bool is_last) {
  std::vector<std::string> lines;
  std::array<char, 16 * 1024> buffer;
  // More than a pipe holds. Others want to be heard, too.
  constexpr int kMaxReads = 128;
  for (int i = 0; i < kMaxReads && fd.is_open(); ++i) {
    const ssize_t count = ::read(fd.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && errno == EAGAIN) break;
    if (count <= 0) {
      fd.reset();
      break;
    }
    size_t begin = 0, from = rest.size();  // what was there before has no end of a line
    rest.append(buffer.data(), static_cast<size_t>(count));
    for (size_t end; (end = rest.find('\n', from)) != std::string::npos; from = begin = end + 1) {
      lines.push_back(rest.substr(begin, end - begin));
    }
    rest.erase(0, begin);
    if (rest.size() > kLongestLine) lines.push_back(std::exchange(rest, {}));
  }
  if (is_last) fd.reset();  // processes that it left behind may still write
  if (!fd.is_open() && !rest.empty()) lines.push_back(std::exchange(rest, {}));
  return lines;
}

}  // namespace banyan::app
