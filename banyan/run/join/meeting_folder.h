// Folders in which processes meet, and the files in them.
//
// Every process that may write to such a folder belongs to those that meet there. The folder must therefore belong to
// this user, or root, and not be writable to all. It is opened without following a link of its name, and everything in
// it is reached from there, so that nobody can put another folder in its place (or that of a link) after it was
// checked. No link in it is followed either.
//
// Any thread.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/run/system/file_descriptor.h"

namespace banyan::run {

// Checked. Not open when there is none. Throws Error{invalid_input} for one in which somebody else could "pretend to be
// `whom`", Error{io}.
FileDescriptor open_meeting_folder(const std::string& path, const std::string& whom);

// ---- In a folder. A descriptor of what is not there, or cannot be opened, is not open, and errno says why.

constexpr mode_t kFileOfOwner = 0600;
FileDescriptor open_folder(int parent, const std::string& name);
FileDescriptor open_file(const FileDescriptor& folder, const std::string& name, int flags, mode_t mode = kFileOfOwner);
// Throws Error{io}.
std::vector<std::string> names_in(const FileDescriptor& folder);

// `name`: for people. Throws Error{invalid_input} for more than `most` bytes, Error{io}.
std::string read_all(const FileDescriptor& file, const std::string& name, size_t most);
// Throws Error{io}.
void write_all(const FileDescriptor& file, std::string_view text, const std::string& name);

// The folder in which a file is made, and the one it is then moved to; both are of one file system, and may be one.
struct WriteFolders {
  const FileDescriptor& temporary;
  const FileDescriptor& place;
};
// A file of this name, whole or not at all. Waits for no disk. Throws Error{not_found} when a folder was taken away,
// Error{io}.
void write_whole(const WriteFolders& folders, const std::string& name, std::string_view text,
                 mode_t mode = kFileOfOwner);

}  // namespace banyan::run
