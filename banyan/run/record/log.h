// The log: what the runtime does, for people who look for the reason of something.
//
//   BANYAN_LOG(info) << "joined as rank " << rank << " of " << size;
//   2026-11-21 02:07:40.123456Z node7:4711 rank 3 info: joined as rank 3 of 8
//
// The text is built only when somebody wants it: a level that is off costs a load and a predictable branch. A line is
// one write() and holds no line break; lines of several threads and processes do not mix. A line that cannot be written
// is lost, for there is nobody left to tell. Any thread, from the first instruction on; until start_log() only warnings
// are written, to standard error.
//
// If standard error is systemd's journal (JOURNAL_STREAM), which knows the time and the process, a line is "<4>rank 3:
// text": its priority in front, as sd-daemon(3) has it.
#pragma once

#include <atomic>
#include <cstdint>
#include <sstream>
#include <string>

namespace banyan::run {

enum class LogLevel : uint8_t { warning, info, debug };

struct LogConfig {
  LogLevel level = LogLevel::warning;
  // Appended to, made with mode 0600. %h is the host, %p the process's number, %r its rank ("unknown" until it is set),
  // %% a percent sign. Empty: standard error.
  std::string file;

  // BANYAN_LOG=warning|info|debug, the default being warning, and BANYAN_LOG_FILE. Throws Error{invalid_input} that
  // names the variable and the known values.
  static LogConfig from_environment();
  friend bool operator==(const LogConfig&, const LogConfig&) = default;
};

// From now on, for the whole process; may be called again. Throws Error{invalid_input} for another letter after '%' and
// Error{io} when the file cannot be opened; then everything stays as it was.
void start_log(const LogConfig& config);

// The rank that lines carry, and %r. Throws Error{io} when the file of that rank cannot be opened; lines go to the old
// one then.
void set_log_rank(uint32_t rank);

// As sd-daemon(3) has them.
enum class JournalPriority : uint8_t { error = 3, warning = 4, info = 6, debug = 7 };
// "<3>", to begin a line with that goes to this descriptor, where that is the journal; else nothing.
std::string journal_mark(JournalPriority priority, int descriptor);

namespace internal {

extern std::atomic<bool> log_info, log_debug;

inline bool is_logged(LogLevel level) {
  if (level == LogLevel::warning) return true;
  return (level == LogLevel::info ? log_info : log_debug).load(std::memory_order_relaxed);
}

// Writes the line when it goes.
class LogLine {
 public:
  explicit LogLine(LogLevel level) : level_(level) {}
  ~LogLine();
  LogLine(const LogLine&) = delete;
  LogLine& operator=(const LogLine&) = delete;
  std::ostream& stream() { return text_; }

 private:
  void write_line() const;

  LogLevel level_;
  std::ostringstream text_;
};

// Gives both branches of the macro one type.
struct LogEnd {
  void operator&(std::ostream&) const {}
};

}  // namespace internal
}  // namespace banyan::run

#define BANYAN_LOG(level)                                             \
  !::banyan::run::internal::is_logged(::banyan::run::LogLevel::level) \
      ? (void)0                                                       \
      : ::banyan::run::internal::LogEnd() & ::banyan::run::internal::LogLine(::banyan::run::LogLevel::level).stream()
