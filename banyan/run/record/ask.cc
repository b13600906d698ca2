#include "banyan/run/record/ask.h"

#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <thread>

#include "banyan/base/error.h"
#include "banyan/run/record/dump.h"
#include "banyan/run/record/dump_signal.h"
#include "banyan/run/system/file_descriptor.h"
#include "banyan/run/system/process_watch.h"
#include "banyan/run/system/system_error.h"

namespace banyan::run {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

std::string file_of(int32_t pid, const char* name) { return "/proc/" + std::to_string(pid) + "/" + name; }

// Nothing when it is not set there.
std::optional<std::string> variable_of(int32_t pid, const std::string& name) {
  const std::string path = file_of(pid, "environ");
  std::ifstream file(path);
  if (!file) {
    if (!fs::exists(file_of(pid, ""))) {
      throw Error(ErrorCode::not_found, "there is no process " + std::to_string(pid) + " on this host");
    }
    throw Error(ErrorCode::io, "process " + std::to_string(pid) + " belongs to another user");
  }
  for (std::string entry; std::getline(file, entry, '\0');) {
    if (entry.starts_with(name + "=") && entry.size() > name.size() + 1) return entry.substr(name.size() + 1);
  }
  return std::nullopt;
}

bool catches(int32_t pid, int signal) {
  const std::string caught = status_of(pid, "SigCgt");
  return !caught.empty() && (std::stoull(caught, nullptr, 16) >> (signal - 1) & 1) != 0;
}

std::map<std::string, fs::file_time_type> records_in(const std::string& folder) {
  std::map<std::string, fs::file_time_type> times;
  std::error_code failed;
  for (fs::directory_iterator entry(folder, failed), end; !failed && entry != end; entry.increment(failed)) {
    std::error_code gone;
    times.emplace(entry->path().string(), entry->last_write_time(gone));
  }
  return times;
}

}  // namespace

std::string recorder_directory_of(int32_t pid) {
  if (const auto given = variable_of(pid, "BANYAN_RECORDER_DIR")) {
    return given->starts_with('/') ? *given : fs::read_symlink(file_of(pid, "cwd")).string() + "/" + *given;
  }
  struct stat info {};
  if (stat(file_of(pid, "").c_str(), &info) != 0) throw system_error("cannot look at process " + std::to_string(pid));
  return variable_of(pid, "TMPDIR").value_or("/tmp") + "/banyan-recorder-" + std::to_string(info.st_uid);
}

void ask_for_records(int32_t pid, const std::string& folder) {
  constexpr std::chrono::milliseconds kPause{20}, kAtMost{10'000}, kQuiet{500};
  const std::string process = "process " + std::to_string(pid);
  const std::string name = variable_of(pid, "BANYAN_DUMP_SIGNAL").value_or("USR1");
  // By the time of the signal its number may be that of another one, which the signal would end.
  const FileDescriptor meant(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!meant.is_open()) throw system_error("cannot look at " + process);
  const std::optional<int> signal = dump_signal_of(name);
  if (!signal || !catches(pid, *signal)) {
    throw Error(ErrorCode::invalid_usage, process +
                                              " answers no dump signal: it has joined no communicator, or "
                                              "BANYAN_DUMP_SIGNAL is none there");
  }
  auto before = records_in(folder);
  if (syscall(SYS_pidfd_send_signal, meant.get(), *signal, nullptr, 0) != 0) {
    throw system_error("cannot signal " + process);
  }
  const Clock::time_point end = Clock::now() + kAtMost;
  bool has_written = false;
  Clock::time_point quiet_since = Clock::now();
  while (!has_written || Clock::now() - quiet_since < kQuiet) {
    std::this_thread::sleep_for(kPause);
    auto now = records_in(folder);
    if (now != before) {
      has_written = true;
      quiet_since = Clock::now();
      before = std::move(now);
    } else if (!has_written && Clock::now() >= end) {
      throw Error(ErrorCode::timed_out, process + " has written nothing to " + folder +
                                            " within 10 s; is it stopped, or "
                                            "has its communicator failed before?");
    }
  }
}

}  // namespace banyan::run
