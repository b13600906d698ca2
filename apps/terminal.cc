#include "apps/terminal.h"

#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>

#include "banyan/base/check.h"
#include "banyan/base/error.h"

namespace banyan::app {
namespace {

std::atomic<bool> is_shown_somewhere{false};

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
  constexpr size_t kPlain = 80, kNarrow = 40, kWide = 120;
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kPlain;
  return std::clamp<size_t>(size.ws_col, kNarrow, kWide);
}

std::string Terminal::styled(Style style, std::string_view text) const {
  if (!abilities_.colour) return std::string(text);
  constexpr std::array kCodes = {"\033[1m", "\033[32m", "\033[31m", "\033[2m"};  // by style
  return kCodes[static_cast<size_t>(style)] + std::string(text) + "\033[0m";
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

Progress::Progress(const Terminal& terminal, const char* what, Pace pace) : terminal_(terminal), what_(what) {
  if (!terminal.shows_progress()) return;
  CHECK(!is_shown_somewhere.exchange(true)) << "two progress lines at once";
  sigset_t all, before;  // signals are for the thread that works
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  ticker_ = std::jthread([this, pace](const std::stop_token& stop) { tick(stop, pace); });
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
}

Progress::~Progress() {
  if (!ticker_.joinable()) return;
  ticker_.request_stop();
  ticker_.join();
  if (has_shown_) terminal_.transient("");
  is_shown_somewhere = false;
}

void Progress::tick(const std::stop_token& stop, Pace pace) {
  std::mutex mutex;
  std::condition_variable_any wakes;
  std::unique_lock lock(mutex);
  const auto begin = std::chrono::steady_clock::now();
  for (auto next = begin + pace.first;; next += pace.each) {
    wakes.wait_until(lock, stop, next, [] { return false; });
    if (stop.stop_requested()) return;
    const char* const what = what_;
    const int percent = percent_;
    const auto time = std::chrono::duration_cast<std::chrono::seconds>(std::chrono::steady_clock::now() - begin);
    terminal_.transient(what + (percent < 0 ? "" : " " + std::to_string(percent) + " %") + " (" +
                        std::to_string(time.count()) + " s)");
    has_shown_ = true;
  }
}

void Progress::say(const char* what) {
  percent_ = -1;
  what_ = what;
}

void Progress::fraction(double done) {
  if (done >= 0 && done <= 1) percent_ = static_cast<int>(done * 100);
}

}  // namespace banyan::app
