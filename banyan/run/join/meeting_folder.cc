#include "banyan/run/join/meeting_folder.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <memory>

#include "banyan/base/error.h"
#include "banyan/base/file_size_signal.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

// Of the folder that is open, whatever its name leads to by now.
void check_owner(const FileDescriptor& folder, const std::string& path, const std::string& whom) {
  struct stat status {};
  if (fstat(folder.get(), &status) != 0) throw system_error("cannot look at " + path);
  if (status.st_uid != geteuid() && status.st_uid != 0) {
    throw Error(ErrorCode::invalid_input, path + " belongs to another user (" + std::to_string(status.st_uid) +
                                              "), who could pretend to be " + whom + "; name one of this user or root");
  }
  if ((status.st_mode & S_IWOTH) != 0) {
    throw Error(ErrorCode::invalid_input, "every user may write to " + path + " and pretend to be " + whom +
                                              "; take that right away (chmod o-w), or name a folder in it");
  }
}

Error cannot_write(const std::string& name) {
  const int why = errno;
  Error error = system_error("cannot write " + name, why);
  return why == ENOENT ? Error(ErrorCode::not_found, error.message()) : error;
}

}  // namespace

FileDescriptor open_meeting_folder(const std::string& path, const std::string& whom) {
  FileDescriptor folder = open_folder(AT_FDCWD, path);
  if (folder.is_open()) {
    check_owner(folder, path, whom);
    return folder;
  }
  const int error = errno;
  if (error == ENOENT || error == ESTALE) return folder;
  struct stat status {};
  const bool is_link = lstat(path.c_str(), &status) == 0 && S_ISLNK(status.st_mode);
  if (is_link) {
    throw Error(ErrorCode::invalid_input,
                path + " is a symbolic link, which others may have put there; name the folder itself");
  }
  if (error == ENOTDIR) {
    throw Error(ErrorCode::invalid_input, path + " is a file; name a folder, which is made if it is not there");
  }
  throw system_error("cannot open " + path, error);
}

// The folder itself, and nothing that a link of this name leads to.
FileDescriptor open_folder(int parent, const std::string& name) {
  return FileDescriptor(openat(parent, name.c_str(), O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

FileDescriptor open_file(const FileDescriptor& folder, const std::string& name, int flags, mode_t mode) {
  return FileDescriptor(openat(folder.get(), name.c_str(), flags | O_CLOEXEC | O_NOFOLLOW, mode));
}

std::vector<std::string> names_in(const FileDescriptor& folder) {
  FileDescriptor own = open_folder(folder.get(), ".");  // with a position of its own
  struct Close {
    void operator()(DIR* listing) const { closedir(listing); }
  };
  const std::unique_ptr<DIR, Close> listing(own.is_open() ? fdopendir(own.get()) : nullptr);
  if (!listing) throw system_error("cannot list the folder of the meeting");
  own.release();  // the listing's now
  std::vector<std::string> names;
  for (errno = 0; const dirent* entry = readdir(listing.get());) {
    const std::string name = entry->d_name;
    if (name != "." && name != "..") names.push_back(name);
  }
  if (errno != 0) throw system_error("cannot list the folder of the meeting");
  return names;
}

std::string read_all(const FileDescriptor& file, const std::string& name, size_t most) {
  std::string text;
  std::array<char, 16 * 1024> buffer;
  while (true) {
    const ssize_t count = read(file.get(), buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) throw system_error("cannot read " + name);
    if (count == 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
    if (text.size() > most) throw Error(ErrorCode::invalid_input, name + " is too long");
  }
}

void write_all(const FileDescriptor& file, std::string_view text, const std::string& name) {
  const FileSizeSignalHeld held;
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw system_error("cannot write " + name);
    text.remove_prefix(static_cast<size_t>(written));
  }
}

void write_whole(const WriteFolders& folders, const std::string& name, std::string_view text, mode_t mode) {
  // No other has it: a lock or a process id would not tell hosts apart.
  const std::string temporary = "t." + random_name(32);
  const FileDescriptor file = open_file(folders.temporary, temporary, O_WRONLY | O_CREAT | O_EXCL, mode);
  if (!file.is_open()) throw cannot_write(name);
  try {
    write_all(file, text, name);
    if (renameat(folders.temporary.get(), temporary.c_str(), folders.place.get(), name.c_str()) != 0) {
      throw cannot_write(name);
    }
  } catch (...) {
    unlinkat(folders.temporary.get(), temporary.c_str(), 0);
    throw;
  }
}

}  // namespace banyan::run
