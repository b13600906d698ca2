#include "banyan/base/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "banyan/base/error.h"
#include "banyan/base/file_size_signal.h"

namespace banyan {
namespace {

class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) ::close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

Error system_error(const std::string& path, const char* verb) {
  const int code = errno;
  return Error(code == ENOENT ? ErrorCode::not_found : ErrorCode::io,
               std::string("cannot ") + verb + ": " + std::strerror(code), path);
}

}  // namespace

std::string read_file(const std::string& path, uint64_t limit) {
  // Opening a pipe that nobody has opened to write must not hold us.
  Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (file.get() < 0) throw system_error(path, "read it");
  struct stat info {};
  if (::fstat(file.get(), &info) != 0) throw system_error(path, "read it");
  const bool is_pipe = S_ISFIFO(info.st_mode), is_device = S_ISCHR(info.st_mode);
  ::fcntl(file.get(), F_SETFL, ::fcntl(file.get(), F_GETFL) & ~O_NONBLOCK);
  // A device such as /dev/zero never ends; nobody types a megabyte.
  constexpr uint64_t kDeviceLimit = 1 << 20;
  std::string contents;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t got = ::read(file.get(), buffer, sizeof buffer);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw system_error(path, "read it");
    if (got == 0 && is_pipe && contents.empty()) {
      throw Error(ErrorCode::io, "cannot read it: it is a pipe that nobody writes to", path);
    }
    if (got == 0) return contents;
    if (is_device && contents.size() > kDeviceLimit) {
      throw Error(ErrorCode::invalid_input, "is a device that gives bytes without end; name a file", path);
    }
    if (contents.size() + static_cast<size_t>(got) > limit) {
      throw Error(ErrorCode::invalid_input, "is larger than the limit of " + std::to_string(limit) + " bytes", path);
    }
    contents.append(buffer, static_cast<size_t>(got));
  }
}

namespace {

enum class Wait { for_disk, none };

void put_in_place(const std::string& path, std::string_view contents, Wait wait) {
  const FileSizeSignalHeld held;
  // A device or a pipe has no place to rename over: write straight to it. What was opened is looked at, and not what
  // the name led to before: a file that somebody puts there meanwhile is never written over.
  const Descriptor there(::open(path.c_str(), O_WRONLY | O_CLOEXEC));
  struct stat info {};
  const bool in_place = there.get() >= 0 && ::fstat(there.get(), &info) == 0 && !S_ISREG(info.st_mode);
  const std::string target = in_place ? path : path + ".tmp." + std::to_string(::getpid());
  const auto fail = [&](const char* verb) {
    Error error = system_error(path, verb);
    if (!in_place) ::unlink(target.c_str());
    throw error;
  };
  const Descriptor made(in_place ? -1 : ::open(target.c_str(), O_WRONLY | O_CLOEXEC | O_CREAT | O_EXCL, 0644));
  if (!in_place && made.get() < 0) throw system_error(path, "write it");
  while (!contents.empty()) {
    const ssize_t put = ::write(in_place ? there.get() : made.get(), contents.data(), contents.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) fail("write it");
    contents.remove_prefix(static_cast<size_t>(put));
  }
  if (!in_place && wait == Wait::for_disk && ::fsync(made.get()) != 0) fail("sync it");
  if (!in_place && ::rename(target.c_str(), path.c_str()) != 0) fail("put it in place");
}

}  // namespace

void write_file(const std::string& path, std::string_view contents) { put_in_place(path, contents, Wait::for_disk); }

void write_file_unsynced(const std::string& path, std::string_view contents) {
  put_in_place(path, contents, Wait::none);
}

}  // namespace banyan
