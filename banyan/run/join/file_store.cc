#include "banyan/run/join/file_store.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <string_view>
#include <thread>
#include <utility>

#include "banyan/base/check.h"
#include "banyan/run/join/meeting_folder.h"
#include "banyan/run/join/reminder.h"
#include "banyan/run/join/wire.h"
#include "banyan/run/seal/primitives.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr std::string_view kMeeting = "meeting-";
constexpr const char *kLock = "lock", *kCurrent = "current", *kHostFile = "host", *kVisitorsFile = "visitors";
// A visitor that waits looks for its host so often, and the host for the wills of those who have ended.
constexpr milliseconds kHostCheck{100};
constexpr std::string_view kWill = "w.";

// Pauses that grow, but not beyond the deadline.
class Pauses {
 public:
  explicit Pauses(Deadline deadline) : deadline_(deadline) {}
  // False, at once, when it is too late.
  bool pause() {
    if (deadline_.has_passed()) return false;
    std::this_thread::sleep_for(next_);
    next_ = std::min<microseconds>(next_ * 3 / 2, FileStore::kLongestPause);
    return true;
  }

 private:
  Deadline deadline_;
  microseconds next_{100};
};

// A key as the name of a file.
std::string escaped(const std::string& key) {
  std::string name;
  for (const char c : key) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '-';
    if (is_plain) {
      name += c;
      continue;
    }
    const auto byte = static_cast<unsigned char>(c);
    name += {'%', "0123456789abcdef"[byte >> 4], "0123456789abcdef"[byte & 15]};
  }
  return name;
}

FileDescriptor make_file(const FileDescriptor& folder, const std::string& name) {
  FileDescriptor file = open_file(folder, name, O_RDWR | O_CREAT);
  if (!file.is_open()) throw system_error("cannot make " + name);
  return file;
}

// Never waits. False when somebody else has it.
bool try_lock(const FileDescriptor& file, int kind, const std::string& path) {
  while (flock(file.get(), kind | LOCK_NB) != 0) {
    if (errno == EINTR) continue;
    if (errno == EWOULDBLOCK) return false;
    throw system_error("cannot lock " + path + " (its file system must have locks: see flock(2))");
  }
  return true;
}

// Not left to close(2): processes that were forked meanwhile hold the lock, too.
void unlock(const FileDescriptor& file) { flock(file.get(), LOCK_UN); }

// Nothing when there is none.
std::optional<std::string> read_if_there(const FileDescriptor& folder, const std::string& name) {
  const FileDescriptor file = open_file(folder, name, O_RDONLY);
  if (!file.is_open() && (errno == ENOENT || errno == ESTALE)) return {};
  if (!file.is_open()) throw system_error("cannot open " + name);
  return read_all(file, name, Store::kMaxValue);
}

// Over NFS, a name that was missed once is not looked for again until its folder is opened.
void look_anew(const FileDescriptor& folder) { open_folder(folder.get(), "."); }

// With all in it, where links are taken away and not followed. What cannot be removed stays: leftovers do no harm.
void remove_meeting(const FileDescriptor& folder, const std::string& name) {
  const FileDescriptor meeting = open_folder(folder.get(), name);
  if (!meeting.is_open()) return;
  for (const std::string& file : names_in(meeting)) unlinkat(meeting.get(), file.c_str(), 0);
  unlinkat(folder.get(), name.c_str(), AT_REMOVEDIR);
}

bool is_meeting_name(const std::string& name) {
  return name.starts_with(kMeeting) && name.size() == kMeeting.size() + 16 &&
         name.find_first_not_of("0123456789abcdef", kMeeting.size()) == std::string::npos;
}

// Who hosts there, if it lives.
std::optional<std::string> living_host(const FileDescriptor& meeting) {
  const FileDescriptor file = open_file(meeting, kHostFile, O_RDONLY);
  if (!file.is_open() && (errno == ENOENT || errno == ESTALE)) return {};
  if (!file.is_open()) throw system_error("cannot open the host's file");
  if (try_lock(file, LOCK_SH, kHostFile)) return {};  // shared, so that two that look do not see each other
  return read_all(file, kHostFile, Store::kMaxValue);
}

}  // namespace

FileStore::FileStore(std::string folder, FileDescriptor opened, std::string meeting)
    : folder_(std::move(folder)),
      place_("file://" + folder_),
      meeting_(std::move(meeting)),
      owner_(getpid()),
      folder_file_(std::move(opened)) {}

std::unique_ptr<FileStore> FileStore::host(const std::string& folder, const std::string& self) {
  while (true) {
    const bool made_folder = mkdir(folder.c_str(), 0700) == 0;
    if (!made_folder && errno != EEXIST) throw system_error("cannot make the folder " + folder);
    FileDescriptor opened = open_meeting_folder(folder, "a rank");
    if (!opened.is_open()) continue;  // the last host has taken it away
    std::unique_ptr<FileStore> store(new FileStore(folder, std::move(opened), std::string(kMeeting) + random_name(16)));
    store->made_folder_ = made_folder;
    if (store->move_in(self)) return store;
  }
}

// False when the last host has taken the folder away meanwhile.
bool FileStore::move_in(const std::string& self) {
  const std::string lock_path = folder_ + "/" + kLock;
  const FileDescriptor lock = open_file(folder_file_, kLock, O_RDWR | O_CREAT);
  if (!lock.is_open() && errno == ENOENT) return false;
  if (!lock.is_open()) throw system_error("cannot make " + lock_path);
  Pauses pauses(Deadline::after(std::chrono::seconds(10)));
  while (!try_lock(lock, LOCK_EX, lock_path)) {
    if (!pauses.pause()) throw Error(ErrorCode::timed_out, "somebody holds the lock on " + lock_path, place_);
  }
  struct stat status {};
  if (fstat(lock.get(), &status) != 0) throw system_error("cannot look at " + lock_path);
  if (status.st_nlink == 0) return false;
  for (const std::string& name : names_in(folder_file_)) {
    if (!is_meeting_name(name)) continue;
    const FileDescriptor meeting = open_folder(folder_file_.get(), name);
    if (!meeting.is_open()) continue;
    if (const auto other = living_host(meeting)) {
      throw Error(ErrorCode::mismatch, *other + " is meeting others here already; give every job a folder of its own",
                  place_);
    }
    remove_meeting(folder_file_, name);
  }
  if (mkdirat(folder_file_.get(), meeting_.c_str(), 0700) != 0) {
    throw system_error("cannot make the folder " + folder_ + "/" + meeting_);
  }
  is_host_ = true;
  meeting_file_ = open_folder(folder_file_.get(), meeting_);
  if (!meeting_file_.is_open()) throw system_error("cannot open the folder " + folder_ + "/" + meeting_);
  host_file_ = make_file(meeting_file_, kHostFile);
  write_all(host_file_, self, kHostFile);
  visitors_file_ = make_file(meeting_file_, kVisitorsFile);
  const bool is_ours = try_lock(host_file_, LOCK_EX, kHostFile);
  CHECK(is_ours) << meeting_ << " has a host before anybody knows of it";
  write_value(folder_file_, kCurrent, meeting_);
  unlock(lock);
  return true;
}

std::unique_ptr<FileStore> FileStore::visit(const std::string& folder, const Deadline& deadline) {
  Pauses pauses(deadline);
  Reminder reminder(deadline);
  do {
    if (reminder.is_due()) reminder.log("rank 0 at file://" + folder);
    FileDescriptor opened = open_meeting_folder(folder, "a rank");
    if (!opened.is_open()) continue;
    const std::optional<std::string> name = read_if_there(opened, kCurrent);
    if (!name) continue;
    if (!is_meeting_name(*name)) {
      throw Error(ErrorCode::invalid_input, folder + "/current was not written by banyan; name an empty folder");
    }
    std::unique_ptr<FileStore> store(new FileStore(folder, std::move(opened), *name));
    if (store->enter()) return store;
  } while (pauses.pause());
  throw Error(ErrorCode::timed_out, "rank 0 has not come to file://" + folder + " within " + deadline.text());
}

// False when the host has gone, or is about to.
bool FileStore::enter() {
  meeting_file_ = open_folder(folder_file_.get(), meeting_);
  if (!meeting_file_.is_open()) return false;
  host_file_ = open_file(meeting_file_, kHostFile, O_RDONLY);
  visitors_file_ = open_file(meeting_file_, kVisitorsFile, O_RDWR);
  if (!host_file_.is_open() || !visitors_file_.is_open()) return false;
  if (!try_lock(visitors_file_, LOCK_SH, kVisitorsFile)) return false;
  if (!try_lock(host_file_, LOCK_SH, kHostFile)) return true;
  unlock(host_file_);
  return false;
}

FileStore::~FileStore() {
  if (getpid() != owner_) return;  // locks and files are the owner's
  try {
    leave();
  } catch (...) {  // what is left is leftovers, which nobody believes; the locks go with their files
  }
}

void FileStore::leave() {
  if (!is_host_) {
    if (will_file_.is_open()) unlock(will_file_);
    if (visitors_file_.is_open()) unlock(visitors_file_);
    return;
  }
  unlinkat(folder_file_.get(), kCurrent, 0);  // now, since the next host may move in when the lock is free
  if (host_file_.is_open()) unlock(host_file_);
  remove_meeting(folder_file_, meeting_);
  if (!made_folder_) return;
  unlinkat(folder_file_.get(), kLock, 0);
  rmdir(folder_.c_str());  // unless somebody put something into it
}

bool FileStore::finish(const Deadline& deadline) {
  CHECK(is_host_) << "a visitor cannot end the meeting";
  if (getpid() != owner_) return true;
  unlinkat(folder_file_.get(), kCurrent, 0);  // visitors look whether we are there
  Pauses pauses(deadline);
  while (!try_lock(visitors_file_, LOCK_EX, kVisitorsFile)) {
    if (!pauses.pause()) return false;
  }
  return true;
}

Error FileStore::gone() const { return Error(ErrorCode::peer_lost, "rank 0 has gone", place_); }

void FileStore::check_host() const {
  if (is_host_ || !try_lock(host_file_, LOCK_SH, kHostFile)) return;
  unlock(host_file_);
  throw gone();
}

void FileStore::set(const std::string& key, const std::string& value, const Deadline& /*never waits*/) {
  CHECK(!key.empty() && key.size() <= kMaxKey) << "a key of " << key.size() << " bytes";
  CHECK(value.size() <= kMaxValue) << key << " has " << value.size() << " bytes";
  write_value(meeting_file_, "v." + escaped(key), value);
}

void FileStore::write_value(const FileDescriptor& folder, const std::string& name, const std::string& value) {
  try {
    write_whole({.temporary = meeting_file_, .place = folder}, name, value);
  } catch (const Error& error) {
    if (error.code() == ErrorCode::not_found) throw gone();
    throw error.within(folder_);
  }
}

std::optional<std::string> FileStore::read_value(const std::string& key) {
  CHECK(!key.empty() && key.size() <= kMaxKey) << "a key of " << key.size() << " bytes";
  return read_if_there(meeting_file_, "v." + escaped(key));
}

std::optional<std::string> FileStore::try_get(const std::string& key, const Deadline& /*never waits*/) {
  look_anew(meeting_file_);
  std::optional<std::string> value = read_value(key);
  if (!value) check_host();
  return value;
}

std::string FileStore::get(const std::string& key, const Deadline& deadline) {
  Pauses pauses(deadline);
  auto checked = Deadline::Clock::now();
  while (true) {
    look_anew(meeting_file_);
    if (std::optional<std::string> value = read_value(key)) return *std::move(value);
    if (Deadline::Clock::now() - checked > kHostCheck) {
      is_host_ ? carry_out_wills(deadline) : check_host();
      checked = Deadline::Clock::now();
    }
    if (!pauses.pause()) throw Error(ErrorCode::timed_out, "no answer within " + deadline.text(), place_);
  }
}

void FileStore::leave_will(const LastWill& will, const Deadline& /*never waits*/) {
  const std::string name = std::string(kWill) + random_name(16);
  const std::string hidden = name + ".new";  // until it is locked
  will_file_ = make_file(meeting_file_, hidden);
  write_all(will_file_, WireWriter().text(will.counter).text(will.key).text(will.value).take(), hidden);
  const bool is_ours = try_lock(will_file_, LOCK_EX, hidden);
  CHECK(is_ours) << hidden << " is known to nobody else";
  if (renameat(meeting_file_.get(), hidden.c_str(), meeting_file_.get(), name.c_str()) == 0) return;
  throw errno == ENOENT ? gone() : system_error("cannot make " + name);
}

// Whose lock is free has ended, or given up.
void FileStore::carry_out_wills(const Deadline& deadline) {
  for (const std::string& name : names_in(meeting_file_)) {
    if (!name.starts_with(kWill) || name.ends_with(".new")) continue;
    const FileDescriptor file = open_file(meeting_file_, name, O_RDWR);
    if (!file.is_open() || !try_lock(file, LOCK_EX, name)) continue;
    unlinkat(meeting_file_.get(), name.c_str(), 0);
    try {
      const std::string text = read_all(file, name, kMaxValue);
      WireReader reader(text);
      const std::string counter = reader.text(), key = reader.text(), value = reader.text();
      if (add(counter, 1, deadline) == 1) set(key, value, deadline);
    } catch (const Error& error) {  // whoever may write to the folder belongs to the job, but this is nonsense
      if (error.code() != ErrorCode::invalid_input) throw;
    }
    unlock(file);
  }
}

int64_t FileStore::add(const std::string& key, int64_t delta, const Deadline& deadline) {
  const std::string name = "l." + escaped(key);
  const FileDescriptor lock = open_file(meeting_file_, name, O_RDWR | O_CREAT);
  if (!lock.is_open()) throw errno == ENOENT ? gone() : system_error("cannot make " + name);
  Pauses pauses(deadline);
  while (!try_lock(lock, LOCK_EX, name)) {
    if (!pauses.pause()) throw Error(ErrorCode::timed_out, "no answer within " + deadline.text(), place_);
  }
  int64_t count = 0;
  try {
    const std::string text = add_to_counter(read_value(key), delta);
    write_value(meeting_file_, "v." + escaped(key), text);
    std::from_chars(text.data(), text.data() + text.size(), count);
  } catch (const Error& error) {
    unlock(lock);
    throw;
  }
  unlock(lock);
  return count;
}

}  // namespace banyan::run
