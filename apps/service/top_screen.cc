#include "apps/service/top_screen.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <array>
#include <clocale>
#include <condition_variable>
#include <cstdlib>
#include <map>
#include <mutex>
#include <stop_token>
#include <thread>

#include "apps/service/top_view.h"
#include "banyan/base/error.h"

// Its macros have names such as timeout and clear.
#define NCURSES_NOMACROS
#include <curses.h>

namespace banyan::app {
namespace {

// Asks the daemon again and again. The mutex protects what the thread has found, which the screen copies.
class Feed {
 public:
  Feed(const OperatorDoor& door, service::ClusterView first, std::chrono::milliseconds interval)
      : door_(door), interval_(interval) {
    contents_.daemon = door.url();
    contents_.view = std::move(first);
    sigset_t all, before;  // signals are for the thread with the screen
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    asker_ = std::jthread([this](const std::stop_token& stop) { ask_on(stop); });
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }

  // Whether there is something newer than `seen`, which it becomes.
  bool take(TopContents& contents, uint64_t& seen) {
    const std::lock_guard lock(mutex_);
    if (seen == count_) return false;
    seen = count_;
    contents = contents_;
    return true;
  }

 private:
  void ask_on(const std::stop_token& stop) {
    std::unique_lock lock(mutex_);
    while (!changed_.wait_for(lock, stop, interval_, [] { return false; }) && !stop.stop_requested()) {
      lock.unlock();
      std::optional<service::ClusterView> view;
      std::string trouble;
      try {
        view = door_.cluster();
      } catch (...) {
        trouble = current_error().what();
      }
      lock.lock();
      contents_.trouble = std::move(trouble);
      if (view) {
        contents_.rates = rates_between(*contents_.view, *view);
        contents_.view = std::move(view);
      }
      ++count_;
    }
  }

  const OperatorDoor& door_;
  const std::chrono::milliseconds interval_;
  std::mutex mutex_;
  std::condition_variable_any changed_;
  TopContents contents_;
  uint64_t count_ = 1;
  std::jthread asker_;
};

volatile sig_atomic_t is_interrupted = 0;

// Ctrl-C ends the screen as q does, so that the terminal comes back as it was.
class InterruptGuard {
 public:
  InterruptGuard() {
    is_interrupted = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { is_interrupted = 1; };
    sigaction(SIGINT, &action, &before_);
  }
  ~InterruptGuard() { sigaction(SIGINT, &before_, nullptr); }
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

 private:
  struct sigaction before_ {};
};

class Screen {
 public:
  Screen() {
    std::setlocale(LC_CTYPE, "");
    screen_ = newterm(nullptr, stdout, stdin);
    if (screen_ == nullptr) {
      const char* const name = std::getenv("TERM");
      throw Error(ErrorCode::invalid_usage, "no terminal is called " + in_quotes(name == nullptr ? "" : name) +
                                                "; set TERM, as to xterm, or take 'banyan service status'");
    }
    set_term(screen_);
    cbreak();
    noecho();
    keypad(stdscr, TRUE);
    curs_set(0);
    wtimeout(stdscr, kPatience);
    const char* const no_colour = std::getenv("NO_COLOR");
    if ((no_colour == nullptr || *no_colour == '\0') && has_colors()) {
      start_color();
      use_default_colors();
      has_red_ = init_pair(kRed, COLOR_RED, -1) == OK;
    }
  }
  ~Screen() {
    endwin();
    delscreen(screen_);
  }
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;

  void draw(const TopContents& contents, TopView& view) const {
    const int height = getmaxy(stdscr), width = getmaxx(stdscr);
    werase(stdscr);
    const std::vector<TopLine> lines = view.lines(contents, static_cast<size_t>(width), static_cast<size_t>(height));
    for (size_t i = 0; i < lines.size(); ++i) {
      wattrset(stdscr, attributes(lines[i].style));
      mvwaddnstr(stdscr, static_cast<int>(i), 0, lines[i].text.c_str(), static_cast<int>(lines[i].text.size()));
      wattrset(stdscr, A_NORMAL);
    }
    wrefresh(stdscr);
  }

  // ERR where no key was pressed for a while, or a signal came.
  static int key() { return wgetch(stdscr); }

 private:
  static constexpr int kPatience = 100;  // ms
  static constexpr short kRed = 1;

  int attributes(TopLine::Style style) const {
    const chtype red = has_red_ ? COLOR_PAIR(kRed) : 0;
    const std::array<chtype, 6> by_style = {A_NORMAL, A_BOLD, A_BOLD, A_BOLD | A_REVERSE, A_BOLD | red, A_DIM};
    return static_cast<int>(by_style[static_cast<size_t>(style)]);
  }

  SCREEN* screen_ = nullptr;
  bool has_red_ = false;
};

std::optional<TopView::Key> meaning_of(int key) {
  using Key = TopView::Key;
  static const std::map<int, Key> kMeanings = {
      {KEY_RIGHT, Key::next_panel}, {'\t', Key::next_panel}, {KEY_LEFT, Key::last_panel},
      {KEY_BTAB, Key::last_panel},  {KEY_UP, Key::up},       {'k', Key::up},
      {KEY_DOWN, Key::down},        {'j', Key::down},        {KEY_PPAGE, Key::page_up},
      {KEY_NPAGE, Key::page_down},  {KEY_HOME, Key::home},   {KEY_END, Key::end}};
  const auto found = kMeanings.find(key);
  return found == kMeanings.end() ? std::nullopt : std::optional(found->second);
}

}  // namespace

void expect_terminal() {
  if (isatty(STDOUT_FILENO) == 1 && isatty(STDIN_FILENO) == 1) return;
  throw Error(ErrorCode::invalid_usage,
              "'top' needs a terminal as its standard input and output; 'banyan service status' prints the same once");
}

TopEnd show_top(const OperatorDoor& door, service::ClusterView first, std::chrono::milliseconds interval) {
  expect_terminal();
  const InterruptGuard guard;
  Feed feed(door, std::move(first), interval);
  const Screen screen;
  TopContents contents;
  TopView view;
  uint64_t seen = 0;
  for (;;) {
    bool is_new = feed.take(contents, seen);
    const int key = Screen::key();
    if (is_interrupted != 0) return TopEnd::interrupted;
    if (key == 'q' || key == 'Q') return TopEnd::quit;
    if (const std::optional<TopView::Key> pressed = meaning_of(key)) {
      view.press(*pressed);
      is_new = true;
    }
    if (is_new || key == KEY_RESIZE) screen.draw(contents, view);
  }
}

}  // namespace banyan::app
