// SubIds: the owners of the numbers in /etc/subuid.
//
// A user that may have rootless containers has ranges of numbers there (Debian's useradd gives each user 65,536), and a
// program of his may run as any of them. Were each a user to the service, one user could have 65,536 quotas and shares.
// So they all count for the owner of their range.
//
//   alice:100000:65536     the owner, by name or number; the first number; how many
//
// A line that cannot be read as such, or overlaps a line before it, is left out, with a warning for each time that the
// file is read. The file is read when a user is asked for and it is another one than before (or was written to); asking
// takes O(log lines) else. If the owner of a range has no number, the range's first number stands for all.
//
// One thread.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "banyan/service/cluster/file_version.h"

namespace banyan::service {

class SubIds {
 public:
  struct Options {
    std::string path = "/etc/subuid";
    std::function<void(const std::string& words)> warn;
    // The number of a user; nothing: there is none.
    std::function<std::optional<uint32_t>(const std::string& name)> number_of;
  };
  explicit SubIds(Options options);

  // The owner of the range that has this number; the number itself if none has it.
  uint32_t owner_of(uint32_t user);
  // The name of the user whose number owner_of() is going to ask for; empty: it asks for none.
  std::string asks_for(uint32_t user);

 private:
  struct Range {
    uint32_t first = 0, last = 0;
    std::string owner;
  };

  void look();
  const Range* range_of(uint32_t user) const;  // null: none
  void read(std::string_view text);
  uint32_t number_of(const Range& range);

  const Options options_;
  std::optional<FileVersion> version_;  // that was read
  bool is_in_trouble_ = false;          // it could not be read the last time
  std::vector<Range> ranges_;           // apart, ascending
  std::set<std::string> warned_of_;     // owners, since the file was read
};

}  // namespace banyan::service
