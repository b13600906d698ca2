#include "banyan/service/cluster/folder_directory.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/run/join/meeting_folder.h"
#include "banyan/run/system/system_error.h"
#include "banyan/service/protocol/capability.h"

namespace banyan::service {
namespace {

constexpr size_t kMostCard = 16 * 1024;
constexpr mode_t kCardMode = 0644;  // daemons of other hosts may have another user
constexpr std::string_view kPrefix = "host-";

std::string name_of(const std::string& host) { return std::string(kPrefix) + in_hexadecimal(host); }

}  // namespace

FolderDirectory::FolderDirectory(std::string folder, run::Secret secret)
    : folder_(std::move(folder)), secret_(std::move(secret)) {
  was_there_ = run::open_meeting_folder(folder_, "a host").is_open();
}

// What is wrong with it later is no fault of the command line, nor of any card.
run::FileDescriptor FolderDirectory::opened() {
  if (!was_there_ && mkdir(folder_.c_str(), 0700) != 0 && errno != EEXIST) {
    throw run::system_error("cannot make the folder " + in_quotes(folder_));
  }
  was_there_ = true;  // a folder that goes away comes back with its cards
  try {
    run::FileDescriptor folder = run::open_meeting_folder(folder_, "a host");
    if (folder.is_open()) return folder;
  } catch (const Error& error) {
    throw Error(ErrorCode::io, error.message());
  }
  throw run::system_error("cannot look into the folder " + in_quotes(folder_));
}

void FolderDirectory::publish(const HostCard& card) {
  const run::FileDescriptor folder = opened();
  try {
    run::write_whole({.temporary = folder, .place = folder}, name_of(card.host), signed_card(card, secret_), kCardMode);
  } catch (const Error& error) {
    throw Error(ErrorCode::io, error.message(), folder_);
  }
}

std::optional<HostCard> FolderDirectory::find(const std::string& host) {
  const run::FileDescriptor folder = opened();
  const Known* const known = look(folder, name_of(host), host);
  if (known == nullptr) return std::nullopt;
  if (!known->card) throw Error(ErrorCode::invalid_input, known->why);
  return known->card;
}

HostCards FolderDirectory::cards() {
  const run::FileDescriptor folder = opened();
  HostCards all;
  std::map<std::string, Known> gone = std::exchange(known_, {});
  for (const std::string& name : run::names_in(folder)) {
    if (!name.starts_with(kPrefix)) continue;
    const std::optional<std::string> host = from_hexadecimal(std::string_view(name).substr(kPrefix.size()));
    if (!host) continue;
    if (auto before = gone.extract(name)) known_.insert(std::move(before));
    const Known* const known = look(folder, name, *host);
    if (known == nullptr) continue;
    if (known->card) {
      all.cards.push_back(*known->card);
    } else {
      all.unread.emplace(*host, known->why);
    }
  }
  std::sort(all.cards.begin(), all.cards.end(), [](const HostCard& a, const HostCard& b) { return a.host < b.host; });
  return all;
}

const FolderDirectory::Known* FolderDirectory::look(const run::FileDescriptor& folder, const std::string& name,
                                                    const std::string& host) {
  struct stat seen {};
  if (fstatat(folder.get(), name.c_str(), &seen, AT_SYMLINK_NOFOLLOW) != 0) {
    if (errno != ENOENT && errno != ESTALE) throw run::system_error("cannot look at " + name + " in " + folder_);
    known_.erase(name);
    return nullptr;
  }
  const auto before = known_.find(name);
  if (before != known_.end() && before->second.version == FileVersion::of(seen)) return &before->second;
  Known known{.version = FileVersion::of(seen), .card = {}};
  try {
    // A pipe of that name would be waited for.
    const run::FileDescriptor file = run::open_file(folder, name, O_RDONLY | O_NONBLOCK);
    if (!file.is_open()) throw run::system_error("cannot open it");
    if (fstat(file.get(), &seen) != 0) throw run::system_error("cannot look at it");
    if (!S_ISREG(seen.st_mode)) throw invalid("it is no file");
    known.version = FileVersion::of(seen);
    known.card = checked_card(run::read_all(file, "it", kMostCard), host, secret_);
  } catch (const Error& error) {
    known.why = Error(error).within(folder_ + "/" + name).what();
  }
  return &known_.insert_or_assign(name, std::move(known)).first->second;
}

}  // namespace banyan::service
