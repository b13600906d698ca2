#include "banyan/service/daemon/sub_ids.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <map>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/base/text.h"

namespace banyan::service {
namespace {

constexpr uint64_t kLargestFile = uint64_t{64} << 20;

std::optional<uint32_t> whole_number(std::string_view text) {
  uint32_t number = 0;
  const auto [end, trouble] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (trouble != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

SubIds::SubIds(Options options) : options_(std::move(options)) { look(); }

uint32_t SubIds::owner_of(uint32_t user) {
  look();
  const Range* const range = range_of(user);
  return range == nullptr ? user : number_of(*range);
}

std::string SubIds::asks_for(uint32_t user) {
  look();
  const Range* const range = range_of(user);
  return range == nullptr || whole_number(range->owner) ? "" : range->owner;
}

const SubIds::Range* SubIds::range_of(uint32_t user) const {
  const auto behind = std::upper_bound(ranges_.begin(), ranges_.end(), user,
                                       [](uint32_t number, const Range& range) { return number < range.first; });
  return behind == ranges_.begin() || std::prev(behind)->last < user ? nullptr : &*std::prev(behind);
}

uint32_t SubIds::number_of(const Range& range) {
  std::optional<uint32_t> number = whole_number(range.owner);
  if (!number) number = options_.number_of(range.owner);
  if (!number && warned_of_.insert(range.owner).second) {
    options_.warn(options_.path + " gives numbers to user " + in_quotes(range.owner) +
                  ", who is unknown; to the service they are user " + std::to_string(range.first));
  }
  return number.value_or(range.first);
}

// What is read may be newer than what was looked at, and is then read once more the next time.
void SubIds::look() {
  struct stat file {};
  std::optional<FileVersion> version;
  if (stat(options_.path.c_str(), &file) == 0) {
    version = FileVersion::of(file);
  } else if (errno != ENOENT) {
    return;
  }
  if (version == version_) return;
  try {
    read(version ? read_file(options_.path, kLargestFile) : "");
    version_ = version;
    is_in_trouble_ = false;
  } catch (const Error& error) {  // such as that descriptors are short: it is tried again
    if (std::exchange(is_in_trouble_, true)) return;
    options_.warn("whose sub-ids are whose is taken to be as before: " + std::string(error.what()));
  }
}

void SubIds::read(std::string_view text) {
  std::map<uint32_t, Range> ranges;  // by their first numbers
  size_t number = 0, wrong = 0, first_wrong = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view trimmed = trim(line);
    if (trimmed.empty() || trimmed.starts_with('#')) continue;
    const std::vector<std::string_view> parts = split(trimmed, ':');
    const auto first = parts.size() == 3 ? whole_number(parts[1]) : std::nullopt;
    const auto count = parts.size() == 3 ? whole_number(parts[2]) : std::nullopt;
    bool is_right =
        first && count && !parts[0].empty() && *first > 0 && *count > 0 && *count - 1 <= UINT32_MAX - *first;
    if (is_right) {
      const uint32_t last = *first + (*count - 1);
      const auto behind = ranges.upper_bound(last);
      is_right = behind == ranges.begin() || std::prev(behind)->second.last < *first;
      if (is_right) ranges.emplace(*first, Range{.first = *first, .last = last, .owner = std::string(parts[0])});
    }
    if (!is_right && ++wrong == 1) first_wrong = number;
  }
  ranges_.clear();
  warned_of_.clear();
  ranges_.reserve(ranges.size());
  for (auto& [first, range] : ranges) ranges_.push_back(std::move(range));
  if (wrong == 0) return;
  options_.warn(options_.path + " line " + std::to_string(first_wrong) +
                (wrong == 1 ? "" : " and " + std::to_string(wrong - 1) + " more lines") +
                " are left out: each should be USER:FIRST:COUNT, of numbers that no line before has");
}

}  // namespace banyan::service
