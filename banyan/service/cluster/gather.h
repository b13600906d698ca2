// Gather: one question to many, and their answers by a deadline.
//
//   gather_.ask({"a", "b"}, 2s, [&](const std::string& whom, uint64_t number) { ...send the question... },
//               [](Gather::Result result) { ...answers, and why others are missing... });
//   gather_.answer(number, "a", {.body = "{}"});   // as it comes
//
// A question has a number, by which answers find it. It is over when each of those that were asked has answered, could
// not be asked or has left, or when its time is over. An answer counts once, and from those that were asked; a later
// one finds nobody who waits. At the end of this object questions are dropped, and nobody is told.
//
// One thread, that of the timers. O(log n) for an answer, in the questions under way and those that were asked.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>

#include "banyan/run/system/timers.h"

namespace banyan::service {

class Gather {
 public:
  struct Answer {
    bool is_refusal = false;
    std::string body;  // or why not
  };
  struct Result {
    uint64_t number = 0;  // of the question, from 1 on
    std::map<std::string, Answer> answers;
    std::map<std::string, std::string> missing;  // why; empty: it has not answered in time
  };
  // Sends the question to one of them. Throws Error where that cannot be.
  using Ask = std::function<void(const std::string& whom, uint64_t number)>;
  using Done = std::function<void(Result)>;  // an Error of it goes to whoever has ended the question

  // `timers` outlives it.
  explicit Gather(run::Timers& timers) : timers_(timers) {}
  ~Gather();
  Gather(const Gather&) = delete;
  Gather& operator=(const Gather&) = delete;

  // `ask` is called for each before this returns; `done` once, perhaps before this returns, too.
  void ask(const std::set<std::string>& whom, std::chrono::milliseconds at_most, const Ask& ask, Done done);
  // An answer that nobody waits for is ignored.
  void answer(uint64_t number, const std::string& from, Answer answer);
  // No question waits for that one any more.
  void leave(const std::string& whom, const std::string& why);

 private:
  struct Question {
    std::set<std::string> awaited;
    Result result;
    Done done;
    run::Timers::Timer until;
  };
  void miss(uint64_t number, const std::string& whom, const std::string& why);
  void end_if_answered(uint64_t number);
  void end(uint64_t number);

  run::Timers& timers_;
  std::map<uint64_t, Question> questions_;
  uint64_t last_number_ = 0;
};

}  // namespace banyan::service
