#include "apps/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::app {
namespace {

constexpr int kTicksPerSecond = 5;

// All that the alarm's handler may touch. It runs on the thread it interrupts: atomics only keep the compiler honest.
struct Ticker {
  std::atomic<const char*> what = nullptr;
  std::atomic<int> percent = -1;
  std::atomic<int> ticks = 0;
};
Ticker ticker;
static_assert(std::atomic<const char*>::is_always_lock_free && std::atomic<int>::is_always_lock_free);

// Appends without allocating; returns the new end.
char* append(char* out, const char* end, const char* text) {
  while (*text != '\0' && out < end) *out++ = *text++;
  return out;
}

char* append(char* out, const char* end, int value) {
  char digits[12];
  char* first = digits + sizeof digits - 1;
  *first = '\0';
  do {
    *--first = static_cast<char>('0' + value % 10);
    value /= 10;
  } while (value > 0);
  return append(out, end, first);
}

void on_alarm(int) {
  const int saved = errno;
  const char* what = ticker.what;
  if (what != nullptr) {
    const int ticks = ticker.ticks.fetch_add(1);
    const int percent = ticker.percent;
    char line[160];
    const char* end = line + sizeof line;
    char* out = append(line, end, "\r\033[Kbanyan: ");
    out = append(out, end, what);
    if (percent >= 0) out = append(append(append(out, end, " "), end, percent), end, " %");
    out = append(append(append(out, end, " ("), end, 1 + ticks / kTicksPerSecond), end, " s)");
    [[maybe_unused]] const ssize_t put = ::write(STDERR_FILENO, line, static_cast<size_t>(out - line));
  }
  errno = saved;
}

void set_timer(bool on) {
  itimerval timer{};
  if (on) {
    timer.it_value.tv_sec = 1;
    timer.it_interval.tv_usec = 1'000'000 / kTicksPerSecond;
  }
  ::setitimer(ITIMER_REAL, &timer, nullptr);
}

// False when the reader has gone away or the descriptor refuses; errno then says why.
bool write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t put = ::write(descriptor, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put < 0) return false;
    text.remove_prefix(static_cast<size_t>(put));
  }
  return true;
}

}  // namespace

Terminal Terminal::detect() {
  const char* no_colour = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool plain =
      (no_colour != nullptr && *no_colour != '\0') || (term != nullptr && std::strcmp(term, "dumb") == 0);
  return Terminal({.colour = ::isatty(STDOUT_FILENO) == 1 && !plain, .progress = ::isatty(STDERR_FILENO) == 1});
}

size_t Terminal::width() {
  constexpr size_t kPlain = 80, kLeast = 40, kMost = 120;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kPlain;
  return std::clamp<size_t>(size.ws_col, kLeast, kMost);
}

std::string Terminal::styled(Style style, std::string_view text) const {
  if (!abilities_.colour) return std::string(text);
  const char* code = "";
  switch (style) {
    case Style::bold:
      code = "\033[1m";
      break;
    case Style::good:
      code = "\033[32m";
      break;
    case Style::bad:
      code = "\033[31m";
      break;
    case Style::dim:
      code = "\033[2m";
      break;
  }
  return code + std::string(text) + "\033[0m";
}

void Terminal::print(std::string_view text) const {
  if (!write_all(STDOUT_FILENO, text) && errno != EPIPE) {
    throw Error(ErrorCode::io, std::string("cannot write it: ") + std::strerror(errno), "standard output");
  }
}

void Terminal::note(std::string_view text) const { write_all(STDERR_FILENO, text); }

void Terminal::transient(std::string_view text) const {
  if (abilities_.progress) note("\r\033[K" + (text.empty() ? std::string() : "banyan: " + std::string(text)));
}

Progress::Progress(const Terminal& terminal, const char* what) : active_(terminal.shows_progress()) {
  if (!active_) return;
  CHECK(ticker.what == nullptr) << "two progress lines at once: " << ticker.what << " and " << what;
  ticker.percent = -1;
  ticker.ticks = 0;
  ticker.what = what;
  struct sigaction action {};
  action.sa_handler = on_alarm;
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGALRM, &action, nullptr);
  set_timer(true);
}

Progress::~Progress() {
  if (!active_) return;
  set_timer(false);
  ticker.what = nullptr;
  if (ticker.ticks > 0) write_all(STDERR_FILENO, "\r\033[K");
}

void Progress::say(const char* what) {
  if (!active_) return;
  ticker.percent = -1;
  ticker.what = what;
}

void Progress::fraction(double done) {
  if (active_ && done >= 0 && done <= 1) ticker.percent = static_cast<int>(done * 100);
}

}  // namespace banyan::app
