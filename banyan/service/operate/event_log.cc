#include "banyan/service/operate/event_log.h"

#include <algorithm>
#include <chrono>

#include "banyan/run/record/log.h"

namespace banyan::service {

namespace {

// Programs name themselves, so the words may be anything.
std::string tidied(std::string words) {
  if (words.size() > EventLog::kMostWords) words = words.substr(0, EventLog::kMostWords) + "...";
  std::replace_if(
      words.begin(), words.end(), [](char letter) { return static_cast<unsigned char>(letter) < ' '; }, ' ');
  return words;
}

}  // namespace

void EventLog::record(std::string words) {
  words = tidied(std::move(words));
  BANYAN_LOG(info) << words;
  keep(std::move(words));
}

void EventLog::warn(std::string words) {
  words = tidied(std::move(words));
  BANYAN_LOG(warning) << words;
  keep(std::move(words));
}

void EventLog::keep(std::string words) {
  if (events_.size() == kKept) {
    events_.pop_front();
    ++dropped_;
  }
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  events_.push_back({.at = now.count(), .host = host_, .words = std::move(words)});
}

}  // namespace banyan::service
