// Written by hand, since a logging library brings its own threads, registries and formatting into the program of
// whoever loads us, and this is all that we need.
#include "banyan/run/record/log.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdlib>
#include <ctime>
#include <mutex>
#include <string_view>

#include "banyan/base/error.h"
#include "banyan/base/file_size_signal.h"
#include "banyan/base/nearest.h"
#include "banyan/base/utf8.h"
#include "banyan/run/call/operation.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/host_names.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace internal {

std::atomic<bool> log_info = false, log_debug = false;

}  // namespace internal

namespace {

constexpr std::array<std::string_view, 3> kLevelNames = {"warning", "info", "debug"};
constexpr std::array<JournalPriority, 3> kPriorities = {JournalPriority::warning, JournalPriority::info,
                                                        JournalPriority::debug};

std::atomic<int> g_output = STDERR_FILENO;
std::atomic<uint32_t> g_rank = kNoRank;

// Protects what follows. Lines do not take it.
std::mutex g_mutex;
LogConfig g_config;
// The log's own descriptor, once there was a file. It is never closed, since a thread may be about to write to it; a
// new file takes its number.
int g_file = -1;

std::string rank_name() {
  const uint32_t rank = g_rank.load(std::memory_order_relaxed);
  return rank == kNoRank ? "unknown" : std::to_string(rank);
}

std::string expand(const std::string& pattern) {
  std::string path;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%') {
      path += pattern[i];
      continue;
    }
    const char letter = ++i < pattern.size() ? pattern[i] : '\0';
    switch (letter) {
      case 'h':
        path += host_name_or("unknown");
        break;
      case 'p':
        path += std::to_string(getpid());
        break;
      case 'r':
        path += rank_name();
        break;
      case '%':
        path += '%';
        break;
      default:
        throw Error(ErrorCode::invalid_input,
                    "'" + pattern + "' has a '%' that is not followed by h (host), p (process), r (rank) or %",
                    "BANYAN_LOG_FILE");
    }
  }
  return path;
}

// Under the mutex.
void open_file(const std::string& pattern) {
  if (pattern.empty()) {
    g_output = STDERR_FILENO;
    return;
  }
  const std::string path = expand(pattern);
  FileDescriptor opened(open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600));
  if (!opened.is_open()) throw system_error("cannot write the log").within(path);
  if (g_file < 0) g_file = fcntl(opened.get(), F_DUPFD_CLOEXEC, 3);
  if (g_file < 0 || dup3(opened.get(), g_file, O_CLOEXEC) < 0) throw system_error("cannot write the log").within(path);
  g_output = g_file;
}

// "2026-11-21 02:07:40.123456Z"
std::string time_text() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm utc{};
  gmtime_r(&now.tv_sec, &utc);
  std::array<char, 40> text{};
  const size_t length = strftime(text.data(), text.size(), "%Y-%m-%d %H:%M:%S", &utc);
  const std::string micros = std::to_string(1'000'000 + now.tv_nsec / 1000);
  return std::string(text.data(), length) + "." + micros.substr(1) + "Z";
}

// "DEVICE:INODE" of this file is what systemd says of its journal, in a variable that programs inherit whose output
// goes elsewhere.
bool is_journal(int descriptor) {
  const char* const journal = std::getenv("JOURNAL_STREAM");
  struct stat file {};
  return journal != nullptr && fstat(descriptor, &file) == 0 &&
         journal == std::to_string(file.st_dev) + ":" + std::to_string(file.st_ino);
}

// "2026-11-21 02:07:40.123456Z node7:4711 rank 3 info: "
std::string line_begin(LogLevel level, int descriptor) {
  const auto place = static_cast<size_t>(level);
  const std::string mark = journal_mark(kPriorities[place], descriptor);
  const std::string rank = "rank " + rank_name();
  if (!mark.empty()) return g_rank.load(std::memory_order_relaxed) == kNoRank ? mark : mark + rank + ": ";
  return time_text() + " " + host_name_or("unknown") + ":" + std::to_string(getpid()) + " " + rank + " " +
         std::string(kLevelNames[place]) + ": ";
}

}  // namespace

std::string journal_mark(JournalPriority priority, int descriptor) {
  return is_journal(descriptor) ? "<" + std::to_string(static_cast<int>(priority)) + ">" : "";
}

LogConfig LogConfig::from_environment() {
  LogConfig config;
  if (const char* file = std::getenv("BANYAN_LOG_FILE")) config.file = file;
  const char* level = std::getenv("BANYAN_LOG");
  if (level == nullptr || *level == '\0') return config;
  std::string small = level;  // "INFO", as NCCL_DEBUG takes it, is the same
  for (char& c : small) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  const auto found = std::ranges::find(kLevelNames, small);
  if (found == kLevelNames.end()) {
    NearestName nearest(level);
    for (const std::string_view name : kLevelNames) nearest.offer(name);
    throw Error(ErrorCode::invalid_input,
                "unknown level '" + std::string(level).substr(0, 60) + "'" + nearest.hint() +
                    "; known are warning, info, debug",
                "BANYAN_LOG");
  }
  config.level = static_cast<LogLevel>(found - kLevelNames.begin());
  return config;
}

void start_log(const LogConfig& config) {
  const std::lock_guard lock(g_mutex);
  if (config.file != g_config.file) open_file(config.file);
  g_config = config;
  internal::log_info = config.level >= LogLevel::info;
  internal::log_debug = config.level >= LogLevel::debug;
}

void set_log_rank(uint32_t rank) {
  const std::lock_guard lock(g_mutex);
  if (g_rank.exchange(rank) != rank && !g_config.file.empty()) open_file(g_config.file);
}

internal::LogLine::~LogLine() {
  try {
    write_line();
  } catch (...) {  // lost for want of memory, as the header says
  }
}

void internal::LogLine::write_line() const {
  const int output = g_output.load(std::memory_order_relaxed);
  std::string line = line_begin(level_, output) + text_.str();
  std::ranges::replace(line, '\n', ' ');
  line = harmless(line) + '\n';
  std::string_view rest = line;
  const FileSizeSignalHeld held;
  while (!rest.empty()) {
    const ssize_t written = write(output, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return;  // lost, as the header says
    rest.remove_prefix(static_cast<size_t>(written));
  }
}

}  // namespace banyan::run
