// Whole files in and out. A written file is there entirely or not at all: it is written beside its place under a
// temporary name, and renamed over it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace banyan {

// Throws Error{not_found} or Error{io} naming the path; Error{invalid_input} when it is larger than `limit` bytes.
std::string read_file(const std::string& path, uint64_t limit = uint64_t{1} << 31);

// Throws Error{io} naming the path; then nothing of the new contents is left behind, and an old file is untouched.
void write_file(const std::string& path, std::string_view contents);
// The same without a wait for the disk, which can take seconds. After a loss of power the file may be the old one, or
// empty, or not there. For what is of use only while its writer lives, such as the card of a daemon.
void write_file_unsynced(const std::string& path, std::string_view contents);

}  // namespace banyan
