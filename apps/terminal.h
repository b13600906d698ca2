// The terminal, if there is one: colour, progress, and output that survives a closed pipe.
//
// Colour is used when standard output is a terminal, NO_COLOR is not set (no-color.org) and TERM is not "dumb".
// Progress is shown when standard error is a terminal. Piped, a command writes plain text and keeps silent while it
// works.
#pragma once

#include <atomic>
#include <chrono>
#include <string>
#include <string_view>
#include <thread>

namespace banyan::app {

class Terminal {
 public:
  struct Abilities {
    bool colour = false;
    bool progress = false;
  };
  explicit Terminal(Abilities abilities) : abilities_(abilities) {}
  static Terminal detect();
  // Columns of standard output: at most 120 of a terminal, 80 where there is none.
  static size_t width();

  enum class Style { bold, good, bad, dim };
  // The text itself where there is no colour.
  std::string styled(Style style, std::string_view text) const;

  // Writes all of it to standard output. A reader that went away (EPIPE) is no error: the rest is dropped.
  // Throws Error{io} on a full disk and the like.
  void print(std::string_view text) const;
  // Standard error; nobody is told when that fails, for there is no one left to tell.
  void note(std::string_view text) const;

  // A line on standard error that the next one replaces, where that is a terminal; an empty one wipes it.
  void transient(std::string_view text) const;

  bool shows_progress() const { return abilities_.progress; }

 private:
  Abilities abilities_;
};

// One transient line on standard error about work that takes long: "packing trees 34 % (3 s)".
//
// Appears after the first second and is wiped when this object dies. A thread of its own writes it, so it speaks also
// about work that reports nothing. At most one lives at a time.
class Progress {
 public:
  struct Pace {
    std::chrono::milliseconds first{1000}, each{200};
  };
  // `what` must be a literal: the thread reads it.
  Progress(const Terminal& terminal, const char* what, Pace pace);
  Progress(const Terminal& terminal, const char* what) : Progress(terminal, what, {}) {}
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void say(const char* what);
  void fraction(double done);  // in [0, 1]; cheap enough for inner loops
  bool has_shown() const { return has_shown_; }

 private:
  void tick(const std::stop_token& stop, Pace pace);

  const Terminal terminal_;
  std::atomic<const char*> what_;
  std::atomic<int> percent_{-1};
  std::atomic<bool> has_shown_{false};
  std::jthread ticker_;  // where a terminal shows it
};

}  // namespace banyan::app
