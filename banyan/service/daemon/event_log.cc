#include "banyan/service/daemon/event_log.h"

#include <algorithm>
#include <chrono>

#include "banyan/run/record/log.h"

namespace banyan::service {

void EventLog::note(std::string words) {
  // Programs name themselves, so the words may be anything.
  if (words.size() > kMostWords) words = words.substr(0, kMostWords) + "...";
  std::replace_if(
      words.begin(), words.end(), [](char letter) { return static_cast<unsigned char>(letter) < ' '; }, ' ');
  BANYAN_LOG(info) << words;
  if (events_.size() == kKept) {
    events_.pop_front();
    ++dropped_;
  }
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  events_.push_back({.at = now.count(), .host = host_, .words = std::move(words)});
}

}  // namespace banyan::service
