#include "banyan/service/cluster/gather.h"

#include <optional>
#include <utility>
#include <vector>

#include "banyan/base/error.h"

namespace banyan::service {

Gather::~Gather() {
  for (const auto& [number, question] : questions_) timers_.cancel(question.until);
}

void Gather::ask(const std::set<std::string>& whom, std::chrono::milliseconds at_most, const Ask& ask, Done done) {
  const uint64_t number = ++last_number_;
  questions_[number] = {.awaited = whom,
                        .result = {.number = number, .answers = {}, .missing = {}},
                        .done = std::move(done),
                        .until = timers_.after(at_most, [this, number] { end(number); })};
  for (const std::string& each : whom) {
    std::optional<Error> failure;  // not of `done`, which answers may call meanwhile
    try {
      ask(each, number);
    } catch (const Error& error) {
      failure = error;
    }
    if (failure) miss(number, each, failure->what());
  }
  if (whom.empty()) end(number);
}

void Gather::answer(uint64_t number, const std::string& from, Answer answer) {
  const auto question = questions_.find(number);
  if (question == questions_.end() || question->second.awaited.erase(from) == 0) return;
  question->second.result.answers.emplace(from, std::move(answer));
  end_if_answered(number);
}

void Gather::leave(const std::string& whom, const std::string& why) {
  std::vector<uint64_t> numbers;
  for (const auto& [number, question] : questions_) numbers.push_back(number);
  for (const uint64_t number : numbers) miss(number, whom, why);
}

void Gather::miss(uint64_t number, const std::string& whom, const std::string& why) {
  const auto question = questions_.find(number);
  if (question == questions_.end() || question->second.awaited.erase(whom) == 0) return;
  question->second.result.missing.emplace(whom, why);
  end_if_answered(number);
}

void Gather::end_if_answered(uint64_t number) {
  if (questions_.at(number).awaited.empty()) end(number);
}

void Gather::end(uint64_t number) {
  const auto node = questions_.extract(number);
  Question& question = node.mapped();
  timers_.cancel(question.until);
  for (const std::string& each : question.awaited) question.result.missing.emplace(each, "");
  question.done(std::move(question.result));
}

}  // namespace banyan::service
