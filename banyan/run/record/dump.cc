#include "banyan/run/record/dump.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <deque>
#include <filesystem>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "banyan/base/error.h"
#include "banyan/base/file.h"
#include "banyan/run/record/recorder.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/host_names.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;

constexpr uint64_t kMaxFileBytes = 16u << 20;  // a full record takes about 300 kB

std::string harmless(std::string_view text) {
  std::string name(text);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '_' && c != '-') c = '_';
  }
  return name.empty() ? "unnamed" : name;
}

// Whether a file is called as we call dumps.
bool is_dump_name(std::string_view name) {
  constexpr std::string_view kBefore = "-rank", kAfter = ".json";
  if (!name.ends_with(kAfter)) return false;
  name.remove_suffix(kAfter.size());
  const size_t digits = name.rfind(kBefore);
  if (digits == std::string_view::npos) return false;
  name.remove_prefix(digits + kBefore.size());
  return !name.empty() && std::ranges::all_of(name, [](unsigned char c) { return std::isdigit(c); });
}

void make_private_folder(const std::string& folder) {
  const fs::path parent = fs::path(folder).parent_path();
  std::error_code failed;
  if (!parent.empty()) fs::create_directories(parent, failed);
  if (failed) throw Error(ErrorCode::io, "cannot make folder '" + parent.string() + "': " + failed.message(), folder);
  if (mkdir(folder.c_str(), 0700) != 0 && errno != EEXIST) throw system_error("cannot make it").within(folder);
}

// By CLOCK_REALTIME; 0 where /proc does not tell.
int64_t start_of_process() {
  const std::optional<uint64_t> ticks = start_time_of(getpid());
  timespec wall{}, since_boot{};
  clock_gettime(CLOCK_REALTIME, &wall);
  clock_gettime(CLOCK_BOOTTIME, &since_boot);
  if (!ticks) return 0;
  constexpr int64_t kNanoseconds = 1'000'000'000;
  const int64_t begin = static_cast<int64_t>(*ticks) * (kNanoseconds / sysconf(_SC_CLK_TCK));
  const auto in_ns = [](const timespec& time) { return int64_t{time.tv_sec} * kNanoseconds + time.tv_nsec; };
  return in_ns(wall) - (in_ns(since_boot) - begin);
}

std::string default_folder() {
  const char* temporary = std::getenv("TMPDIR");
  const std::string parent = temporary != nullptr && *temporary != '\0' ? temporary : "/tmp";
  return parent + "/banyan-recorder-" + std::to_string(geteuid());
}

// The folder of temporary files is everybody's: somebody else may have put the name of ours there first, or a link. It
// is checked when it is open, since its name may lead elsewhere later. A folder that the user has named is his
// business.
FileDescriptor open_folder(const std::string& folder) {
  const bool is_named = folder != default_folder();
  FileDescriptor opened(open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC | (is_named ? 0 : O_NOFOLLOW)));
  if (!opened.is_open() && (is_named || errno != ENOTDIR)) throw system_error("cannot open it").within(folder);
  if (is_named) return opened;
  struct stat info {};
  if (opened.is_open() && fstat(opened.get(), &info) != 0) throw system_error("cannot look at it").within(folder);
  if (opened.is_open() && info.st_uid == geteuid() && (info.st_mode & 022) == 0) return opened;
  throw Error(ErrorCode::invalid_usage,
              "is no folder of this user that others cannot write to; remove it, or set BANYAN_RECORDER_DIR", folder);
}

bool write_all(const FileDescriptor& file, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = write(file.get(), text.data(), text.size());
    if (written < 0 && errno != EINTR) return false;
    if (written > 0) text.remove_prefix(static_cast<size_t>(written));
  }
  return true;
}

// Whole or not at all, but without waiting for the disk: the failed operation returns only afterwards, and its caller
// may be expected by the other ranks. A link that has one of the names already is replaced, and not followed.
void replace_file(const std::string& directory, const std::string& name, const std::string& contents) {
  const FileDescriptor folder = open_folder(directory);
  const std::string temporary = name + ".tmp." + std::to_string(getpid());
  unlinkat(folder.get(), temporary.c_str(), 0);  // of a process that had the same number
  constexpr int kFresh = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
  const FileDescriptor file(openat(folder.get(), temporary.c_str(), kFresh, 0600));
  if (file.is_open() && write_all(file, contents) &&
      renameat(folder.get(), temporary.c_str(), folder.get(), name.c_str()) == 0) {
    return;
  }
  Error error = system_error("cannot write it").within(directory + "/" + name);
  if (file.is_open()) unlinkat(folder.get(), temporary.c_str(), 0);
  throw error;
}

// A program that shrinks again and again writes records of ever more communicators.
void forget_the_oldest(const std::string& newest) {
  static std::mutex mutex;
  static pid_t writer = 0;
  static std::deque<std::string> written;
  const std::lock_guard lock(mutex);
  if (writer != getpid()) written.clear();  // those are the files of the process that this one was forked from
  writer = getpid();
  std::erase(written, newest);
  written.push_back(newest);
  if (written.size() <= kMostDumps) return;
  std::error_code ignored;
  fs::remove(written.front(), ignored);
  written.pop_front();
}

// Nobody empties the default folder, to which all runs of a user write. Once for each process.
void forget_old_runs(const std::string& directory, const std::string& own) {
  static std::atomic<pid_t> done_by{0};
  if (directory != default_folder() || done_by.exchange(getpid()) == getpid()) return;
  constexpr std::chrono::hours kOld{24};
  std::vector<std::pair<fs::file_time_type, fs::path>> records;
  std::error_code failed;
  for (fs::directory_iterator entry(directory, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code gone;
    const fs::file_time_type time = entry->last_write_time(gone);
    if (!gone && is_dump_name(entry->path().filename().string())) records.emplace_back(time, entry->path());
  }
  std::ranges::sort(records, std::greater<>());
  const fs::file_time_type oldest = fs::file_time_type::clock::now() - kOld;
  for (size_t i = 0; i < records.size(); ++i) {
    const auto& [time, path] = records[i];
    if ((i >= kMostInFolder || time < oldest) && path != own) fs::remove(path, failed);
  }
}

}  // namespace

const OperationRecord* RankDump::newest() const {
  const auto found = std::find_if(operations.rbegin(), operations.rend(),
                                  [](const OperationRecord& record) { return is_collective(record.kind); });
  return found == operations.rend() ? nullptr : &*found;
}

RankDump begin_dump(std::span<const std::byte> recorder) {
  Snapshot known = snapshot(recorder);
  RankDump dump;
  dump.host = host_name();
  dump.program = program_invocation_short_name;
  dump.pid = getpid();
  dump.started = start_of_process();
  dump.thread = syscall(SYS_gettid);
  dump.time = RecorderClock::system().exact();
  dump.wall_offset = known.wall_offset;
  dump.operations = std::move(known.operations);
  dump.begun = known.begun;
  dump.torn = known.torn;
  if (const OperationRecord* newest = dump.newest()) dump.waits_for = newest->waits_for;
  return dump;
}

std::string recorder_directory() {
  const char* given = std::getenv("BANYAN_RECORDER_DIR");
  if (given != nullptr && *given != '\0') {
    make_private_folder(given);
    return given;
  }
  const std::string folder = default_folder();
  make_private_folder(folder);
  open_folder(folder);
  return folder;
}

std::string dump_file_name(const RankDump& dump) {
  const std::string id = dump.id.empty() ? "" : "." + harmless(dump.id);
  return harmless(dump.communicator) + id + "-rank" + std::to_string(dump.rank) + ".json";
}

std::string write_dump(const RankDump& dump, const std::string& directory) {
  const std::string path = directory + "/" + dump_file_name(dump);
  replace_file(directory, dump_file_name(dump), dump_to_json(dump));
  forget_the_oldest(path);
  forget_old_runs(directory, path);
  return path;
}

std::vector<RankDump> read_dumps(const std::string& directory) {
  std::vector<std::string> paths;
  std::error_code failed;
  for (fs::directory_iterator entry(directory, failed), end; !failed && entry != end; entry.increment(failed)) {
    if (is_dump_name(entry->path().filename().string())) paths.push_back(entry->path().string());
  }
  if (failed) {
    const bool is_missing = failed == std::errc::no_such_file_or_directory;
    throw Error(is_missing ? ErrorCode::not_found : ErrorCode::io, "cannot read this folder: " + failed.message(),
                directory);
  }
  if (paths.empty()) {
    throw Error(ErrorCode::not_found, "there is no flight record ('*-rank<N>.json') in this folder", directory);
  }
  std::ranges::sort(paths);
  std::vector<RankDump> dumps;
  for (const std::string& path : paths) {
    const std::string text = read_file(path, kMaxFileBytes);
    try {
      dumps.push_back(parse_dump(text));
    } catch (const Error& error) {
      throw error.within(path);
    }
  }
  return dumps;
}

}  // namespace banyan::run
